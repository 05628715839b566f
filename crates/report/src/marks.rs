//! Events that are drawn on everything that is shown over virtual time.

use std::fmt::Write;

use record::Event;

use crate::page::Text;

/// More would hide what they are drawn on.
const MOST: usize = 60;
/// The most that are kept, and of how many bytes each: a page may show a part of the run.
const KEPT: usize = 1000;
const LONGEST: usize = 1000;
/// Faults and other events that somebody wanted, by their names in `events.jsonl`.
const FAULTS: [&str; 16] = [
    "kill",
    "stop",
    "link",
    "slow-disk",
    "fail-disk",
    "full-disk",
    "power-off",
    "power-on",
    "clock",
    "speed",
    "memory",
    "pause",
    "resume",
    "partition",
    "heal",
    "by-hand",
];

/// The instants at which something was done to nodes or links, in order, and what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks(Vec<(f64, String)>);

impl Marks {
    /// Those among the events of a run.
    pub fn of(events: &[Event]) -> Marks {
        let mut marks = Marks::default();
        events.iter().for_each(|event| marks.add(event));
        marks
    }

    /// Adds an event, if it is one of those.
    pub fn add(&mut self, event: &Event) {
        let Some(at) = event.virtual_s.filter(|at| *at > 0.0) else { return };
        if !FAULTS.contains(&event.event.as_str()) {
            return;
        }
        let what = format!("{} {}", event.event, event.target.as_deref().unwrap_or(""));
        let what: String = what.trim().chars().take(LONGEST).collect();
        let is_full = self.0.len() >= KEPT;
        match self.0.last_mut() {
            // Those of one instant are one line.
            Some((last, said)) if at - *last < 1e-3 => {
                if said.len() < LONGEST {
                    *said += &format!("; {what}");
                }
            }
            _ if is_full => {}
            _ => self.0.push((at, what)),
        }
    }

    /// Lines from top to bottom at these instants, as far as they are shown, each with what it was.
    pub fn drawn(&self, x: impl Fn(f64) -> f64, [from, to]: [f64; 2], [top, bottom]: [f64; 2]) -> String {
        let mut html = String::new();
        for (at, what) in self.0.iter().filter(|(at, _)| (from..=to).contains(at)).take(MOST) {
            let (x, what) = (x(*at), format!("{at:.3} s: {what}"));
            let _ = write!(
                html,
                "<path class=\"event\" d=\"M{x:.1} {top}V{bottom}\"><title>{}</title></path>",
                Text(&what)
            );
        }
        html
    }

    /// A sentence below a drawing that has them; nothing if there are none.
    pub fn says(&self) -> &'static str {
        if self.0.is_empty() { "" } else { "Upright lines are events: what was done to nodes, links and disks." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(virtual_s: Option<f64>, event: &str) -> Event {
        Event {
            virtual_s,
            real_s: 0.0,
            event: event.into(),
            target: Some("a<b".into()),
            detail: serde_json::Value::Null,
        }
    }

    #[test]
    fn what_was_done_is_a_line_and_what_happened_by_itself_is_none() {
        let marks = Marks::of(&[
            event(Some(-1.0), "clock"),
            event(Some(0.5), "start"),
            event(Some(1.0), "kill"),
            event(Some(1.0), "pause"),
            event(None, "kill"),
            event(Some(9.0), "heal"),
        ]);
        let drawn = marks.drawn(|at| 10.0 * at, [0.0, 5.0], [0.0, 32.0]);
        assert_eq!(drawn.matches("<path").count(), 1, "{drawn}");
        assert!(drawn.contains("d=\"M10.0 0V32\"><title>1.000 s: kill a&lt;b; pause a&lt;b</title>"), "{drawn}");
        assert!(Marks::default().says().is_empty() && !marks.says().is_empty());
    }
}
