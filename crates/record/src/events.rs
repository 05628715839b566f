//! `events.jsonl`: what happened during a run, one JSON object a line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
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

/// The longest line that is read, in bytes.
const LONGEST_LINE: u64 = 1 << 20;

/// Reads events one after the other, in bounded memory, also while a run writes them.
#[derive(Debug)]
pub struct EventReader {
    path: PathBuf,
    text: BufReader<File>,
    /// Counted from 1.
    line: usize,
    /// The beginning of a line whose end is yet to be written.
    begun: Vec<u8>,
}

impl EventReader {
    pub(crate) fn new(path: PathBuf, file: File) -> EventReader {
        EventReader { path, text: BufReader::new(file), line: 1, begun: Vec::new() }
    }

    /// The next event; none if there is none yet. A last line without its end counts only if nobody writes any more.
    pub fn read_next(&mut self, is_over: bool) -> Result<Option<Event>> {
        loop {
            let room = LONGEST_LINE - self.begun.len() as u64;
            let read = self.text.by_ref().take(room).read_until(b'\n', &mut self.begun);
            read.map_err(|e| Error::io(&self.path, "read", e))?;
            let is_whole = self.begun.ends_with(b"\n");
            if !is_whole && self.begun.len() as u64 == LONGEST_LINE {
                let (line, most) = (self.line, LONGEST_LINE >> 20);
                let what = format!("line {line}: not an event: it is longer than {most} MiB");
                return Err(Error::input(&self.path, what));
            }
            if !is_whole && (!is_over || self.begun.is_empty()) {
                return Ok(None);
            }
            let parsed = match self.begun.trim_ascii() {
                b"" => None,
                text => Some(event(&self.path, self.line, text)?),
            };
            self.begun.clear();
            self.line += 1;
            if parsed.is_some() {
                return Ok(parsed);
            }
        }
    }
}

/// From the text of the line with this number, counted from 1.
fn event(path: &Path, line: usize, text: &[u8]) -> Result<Event> {
    serde_json::from_slice(text).map_err(|e| Error::input(path, format!("line {line}: not an event: {e}")))
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
    fn events_are_read_as_they_come_and_a_line_has_an_end() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::at(temp.path());
        let write = |text: &str| {
            let file = File::options().create(true).append(true).open(temp.path().join("events.jsonl"));
            file.unwrap().write_all(text.as_bytes()).unwrap();
        };
        assert!(dir.event_reader().unwrap().is_none(), "there is no file");
        write("{\"real_s\":1,\"event\":\"a\"}\n\n{\"real_s\":2,");
        let mut reader = dir.event_reader().unwrap().unwrap();
        let mut next = |is_over| reader.read_next(is_over).map(|event| event.map(|event| event.event));
        assert_eq!(next(false).unwrap().as_deref(), Some("a"));
        assert_eq!(next(false).unwrap(), None, "its end is yet to come");
        write("\"event\":\"b\"}\n{\"real_s\":3,\"event\":\"c\"}");
        assert_eq!(next(false).unwrap().as_deref(), Some("b"));
        assert_eq!((next(false).unwrap(), next(true).unwrap().as_deref()), (None, Some("c")));
        assert_eq!(next(true).unwrap(), None);
        write(&"x".repeat(3 << 20));
        let error = next(true).unwrap_err().to_string();
        assert!(error.contains("line 5: not an event: it is longer than 1 MiB"), "{error}");
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
