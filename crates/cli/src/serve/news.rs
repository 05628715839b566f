//! News for somebody who watches, as server-sent events.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Value, json};

use super::live::Seen;

/// The state of one who watches: how much he has been told.
#[derive(Default)]
pub struct Told {
    heads: String,
    details: Option<Arc<str>>,
    events: u64,
}

impl Told {
    /// The news: of all live runs where they are, and of the one that is watched its details and events.
    pub fn news(&mut self, seen: &Seen, watched: Option<&str>) -> String {
        let mut text = String::new();
        let heads = Value::from_iter(seen.runs.iter().map(|run| run.head.clone())).to_string();
        if heads != self.heads {
            add(&mut text, "runs", &heads);
            self.heads = heads;
        }
        let Some(run) = seen.runs.iter().find(|run| watched == Some(run.id.as_str())) else { return text };
        if self.details.as_ref() != Some(&run.details) {
            add(&mut text, "details", &run.details);
            self.details = Some(run.details.clone());
        }
        let new = usize::try_from(run.events_seen.saturating_sub(self.events)).unwrap_or(usize::MAX);
        if new > 0 {
            let first = run.events.len().saturating_sub(new);
            add(&mut text, "events", &json!({ "all": run.events_seen, "new": run.events[first..] }).to_string());
            self.events = run.events_seen;
        }
        text
    }
}

/// JSON is one line, as `data` has to be.
fn add(text: &mut String, event: &str, data: &str) {
    let _ = write!(text, "event: {event}\ndata: {data}\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::live::SeenRun;

    fn seen(virtual_s: f64, details: &str, events: &[&str], events_seen: u64) -> Seen {
        let run = |id: &str| SeenRun {
            id: id.into(),
            head: json!({ "id": id, "virtual_s": virtual_s }),
            details: details.into(),
            events: Arc::new(events.iter().map(|event| event.to_string()).collect()),
            events_seen,
        };
        Seen { runs: vec![run("1-a"), run("2-b")] }
    }

    #[test]
    fn only_what_is_new_is_told() {
        let mut told = Told::default();
        let first = told.news(&seen(1.0, "{\"nodes\":[]}", &["a", "b"], 2), Some("2-b"));
        let wanted = "event: runs\ndata: [{\"id\":\"1-a\",\"virtual_s\":1.0},{\"id\":\"2-b\",\"virtual_s\":1.0}]\n\n\
                      event: details\ndata: {\"nodes\":[]}\n\n\
                      event: events\ndata: {\"all\":2,\"new\":[\"a\",\"b\"]}\n\n";
        assert_eq!(first, wanted);
        assert_eq!(told.news(&seen(1.0, "{\"nodes\":[]}", &["a", "b"], 2), Some("2-b")), "");
        let later = told.news(&seen(1.0, "{\"nodes\":[]}", &["b", "c\n"], 3), Some("2-b"));
        assert_eq!(later, "event: events\ndata: {\"all\":3,\"new\":[\"c\\n\"]}\n\n");
        // More have come than are kept.
        assert!(told.news(&seen(1.0, "{}", &["x", "y"], 90), Some("2-b")).ends_with("\"new\":[\"x\",\"y\"]}\n\n"));
        assert!(told.news(&seen(2.0, "{}", &["x", "y"], 90), None).starts_with("event: runs\n"));
    }

    #[test]
    fn who_watches_no_run_or_one_that_is_gone_hears_where_all_are() {
        for watched in [None, Some("9-z")] {
            let text = Told::default().news(&seen(1.0, "{}", &["a"], 1), watched);
            assert_eq!(text.matches("event: ").count(), 1, "{text}");
        }
    }
}
