//! `diorama events`: what has happened in a run, and what happens.

use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;

use record::{Event, EventReader, RunDir};

use crate::failure::Failure;
use crate::terminal;

/// How often a live run's events are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Arguments of `diorama events`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The run: its directory, or the name of a live run
    run: String,
    /// Go on printing until the run ends
    #[arg(long, short)]
    follow: bool,
    /// Print each as the run's record has it: one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let dir = engine::find_run(&args.run)?;
    let run = RunDir::at(&dir);
    let mut reader = None;
    loop {
        // Asked before reading, so that what a run wrote last is still read after it ended.
        let live = args.follow && engine::live_runs().iter().any(|run| run.out == dir);
        if reader.is_none() {
            reader = run.event_reader().map_err(Failure::failed)?;
        }
        let taken = match &mut reader {
            Some(reader) => print_all(reader, live, args.json)?,
            None => true,
        };
        if !live || !taken {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK);
    }
}

/// How much text is written at once, where there are many events.
const AT_ONCE: usize = 1 << 16;

/// Prints what there is, a line an event; whoever follows has all of it when this returns. Whether somebody still takes
/// it.
fn print_all(reader: &mut EventReader, live: bool, as_json: bool) -> Result<bool, Failure> {
    let mut text = String::new();
    loop {
        let event = reader.read_next(!live);
        if let Ok(Some(event)) = &event {
            // A line is one event: names may not make others of it.
            let line = if as_json { serde_json::to_string(event).map_err(Failure::failed)? } else { told(event) };
            text.push_str(&engine::one_line(&line));
            text.push('\n');
            if text.len() < AT_ONCE {
                continue;
            }
        }
        match terminal::write(&text) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(false),
            other => other.map_err(terminal::cannot_write)?,
        }
        text.clear();
        if event.map_err(Failure::failed)?.is_none() {
            return Ok(true);
        }
    }
}

/// An event as a person reads it: when, what, to whom, and the details.
pub fn told(event: &Event) -> String {
    let when = event.virtual_s.map_or_else(|| "-".into(), |at| format!("{at:.3} s"));
    let details = match &event.detail {
        serde_json::Value::Object(all) => all.iter().map(|(key, value)| format!("{key}: {value}")).collect(),
        serde_json::Value::Null => Vec::new(),
        other => vec![other.to_string()],
    };
    let target = event.target.as_deref().unwrap_or_default();
    format!("{when:>12}  {:<12}  {target:<12}  {}", event.event, details.join(", ")).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_told_in_a_line() {
        let event = Event {
            virtual_s: Some(1.5),
            real_s: 15.0,
            event: "ready".into(),
            target: Some("web".into()),
            detail: serde_json::json!({ "port": 80 }),
        };
        assert_eq!(told(&event), "     1.500 s  ready         web           port: 80");
    }
}
