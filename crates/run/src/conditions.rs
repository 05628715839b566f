//! Conditions: lines that nodes print, and for which events wait.

use model::{Condition, Experiment};
use record::LogStream;
use scale::VirtualInstant;
use serde_json::json;
use site::{NodeIndex, Written};

use crate::Run;
use crate::error::Result;

/// How much of a log is looked at in one go.
const PIECE: u64 = 1 << 16;
/// A line is looked at as far as that.
const LONGEST_LINE: usize = 1 << 14;

/// Conditions that have not come true yet.
pub struct Conditions<'a> {
    waiting: Vec<Waiting<'a>>,
}

struct Waiting<'a> {
    /// Its number among steps.
    step: usize,
    condition: &'a Condition,
    logs: Vec<Log>,
}

/// How far a log has been read.
struct Log {
    node: NodeIndex,
    stream: LogStream,
    offset: u64,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Log {
    /// Takes in a piece; the first line that fits, if one does.
    fn find(&mut self, piece: &[u8], wanted: &regex::Regex) -> Option<String> {
        self.offset += piece.len() as u64;
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.keep(&rest[..end]);
            rest = &rest[end + 1..];
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
            if wanted.is_match(&line) {
                return Some(line);
            }
        }
        self.keep(rest);
        None
    }

    /// Adds to the line that has begun, as far as lines are looked at.
    fn keep(&mut self, bytes: &[u8]) {
        let room = LONGEST_LINE - self.begun.len();
        self.begun.extend(&bytes[..bytes.len().min(room)]);
    }
}

impl<'a> Conditions<'a> {
    /// Nothing has come yet.
    pub fn new(experiment: &'a Experiment) -> Conditions<'a> {
        let log = |node: NodeIndex, stream| Log { node, stream, offset: 0, begun: Vec::new() };
        let both = |node: &NodeIndex| [LogStream::Stdout, LogStream::Stderr].map(|stream| log(*node, stream));
        let of = |(number, condition): (usize, &'a Condition)| Waiting {
            step: experiment.steps.len() + number,
            condition,
            logs: condition.nodes.iter().flat_map(both).collect(),
        };
        Conditions { waiting: experiment.conditions.iter().enumerate().map(of).collect() }
    }

    /// Whether there is something to watch for.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Run<'_> {
    /// Whether something has come that was watched for.
    pub(super) fn look_for_conditions(&mut self, all: &mut Conditions<'_>, now: VirtualInstant) -> Result<bool> {
        let mut met = Vec::new();
        for waiting in &mut all.waiting {
            for log in &mut waiting.logs {
                let piece = self.site.read(log.node, &Written::Log(log.stream), log.offset, PIECE)?;
                let Some(line) = log.find(&piece.unwrap_or_default(), &waiting.condition.log) else { continue };
                met.push((waiting.step, log.node, line));
                break;
            }
        }
        for (step, node, line) in &met {
            all.waiting.retain(|waiting| waiting.step != *step);
            self.event("when", Some(*node), json!({ "log": line }));
            self.schedule.step_over(*step, now);
        }
        Ok(!met.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_when_it_is_whole_and_once() {
        let wanted = regex::Regex::new("became leader").unwrap();
        let mut log = Log { node: 0, stream: LogStream::Stderr, offset: 0, begun: Vec::new() };
        assert_eq!(log.find(b"raft: a became follower\nraft: b became le", &wanted), None);
        assert_eq!(log.find(b"", &wanted), None);
        assert_eq!(log.find(b"ader at term 2\nmore\n", &wanted).as_deref(), Some("raft: b became leader at term 2"));
        assert_eq!((log.find(b"x\n", &wanted), log.offset), (None, 63));
        assert_eq!(log.find(&vec![b'y'; 3 * LONGEST_LINE], &wanted), None);
        assert_eq!(log.begun.len(), LONGEST_LINE);
    }
}
