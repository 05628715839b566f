//! `diorama events`: what has happened in a run, and what happens.

use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;

use record::{Event, RunDir};

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
    let mut shown = 0;
    loop {
        // Asked before reading, so that what a run wrote last is still read after it ended.
        let live = args.follow && engine::live_runs().iter().any(|run| run.out == dir);
        let events = run.events().map_err(Failure::failed)?;
        for event in events.iter().skip(shown) {
            let line = if args.json { serde_json::to_string(event).map_err(Failure::failed)? } else { told(event) };
            // At once: whoever follows wants it now.
            match terminal::write(format!("{line}\n")) {
                Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
                other => other.map_err(terminal::cannot_write)?,
            }
        }
        shown = events.len();
        if !live {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK);
    }
}

/// An event as a person reads it: when, what, to whom, and the details.
fn told(event: &Event) -> String {
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
