//! `events.jsonl`: what happened during a run, one JSON object a line.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::dir::Made;
use crate::error::{Error, Result};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Virtual seconds since t = 0; negative or absent before it.
    pub virtual_s: Option<f64>,
    /// Real seconds since t = 0; negative before it.
    pub real_s: f64,
    /// The event: `start`, `ready`, `exit`, `link`, `kill`, …
    pub event: String,
    /// The node or link that it happened to; `None` for the whole run.
    pub target: Option<String>,
    /// Details worth knowing: a sentence or an object.
    #[serde(default)]
    pub detail: serde_json::Value,
}

/// The log of a run in progress. Every line reaches the file at once, so that a killed run has its log too.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
}

impl EventLog {
    pub(crate) fn of(made: Made) -> EventLog {
        let Made { path, file } = made;
        EventLog { path, file }
    }

    /// Appends one line.
    pub fn write(&mut self, event: &Event) -> Result<()> {
        let mut line = serde_json::to_vec(event).expect("an event has only string keys");
        line.push(b'\n');
        self.file.write_all(&line).map_err(|e| Error::io(&self.path, "write", e))
    }
}

/// From the text of the file `path`.
pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Vec<Event>> {
    let text = std::str::from_utf8(text).map_err(|e| Error::input(path, e))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| {
            serde_json::from_str(line).map_err(|e| Error::input(path, format!("line {}: not an event: {e}", i + 1)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::RunDir;

    #[test]
    fn events_are_appended_and_read_back() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::at(temp.path());
        let down = Event {
            virtual_s: Some(5.0),
            real_s: 50.0,
            event: "link".into(),
            target: Some("server--core".into()),
            detail: serde_json::json!({"up": false}),
        };
        let up = Event { virtual_s: None, target: None, detail: "line\nbreak".into(), ..down.clone() };
        dir.event_log().unwrap().write(&down).unwrap();
        dir.event_log().unwrap().write(&up).unwrap();
        assert_eq!(fs::read_to_string(temp.path().join("events.jsonl")).unwrap().lines().count(), 2);
        assert_eq!(dir.events().unwrap(), [down, up]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::at(temp.path());
        assert_eq!(dir.events().unwrap(), [], "no file, no events");
        fs::write(temp.path().join("events.jsonl"), "{\"real_s\":1,\"event\":\"a\"}\n\n{}\n").unwrap();
        let error = dir.events().unwrap_err().to_string();
        assert!(error.contains("events.jsonl: line 3: not an event"), "{error}");
    }
}
