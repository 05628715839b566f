//! The logs of a node, which stay within a size: where there is more, their beginnings and their ends are kept.
//!
//! As long as both logs have room together, they grow. Then each keeps its first part, and what follows that becomes a
//! ring, in which the newest overwrites the oldest. [Settling](NodeLogs::settle) puts a ring in order, beginning with a
//! whole line, and says in its place how much was cut out.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::dir::{LogStream, RunDir};
use crate::error::{Error, Result};

/// The length of a node's logs if nobody says otherwise, in bytes.
pub const USUAL_LOGS: u64 = 64 << 20;
/// The least that may be kept, in bytes: less would hold no message.
pub const LEAST_LOGS: u64 = 16 << 10;
/// How the line begins that says what was cut out of a log.
pub const CUT_MARK: &str = "[diorama: bytes cut out here: ";
/// How far a line is looked for that is whole, in bytes.
const LINE: usize = 64 << 10;

/// Both logs of one node.
#[derive(Debug)]
pub struct NodeLogs {
    dir: RunDir,
    node: String,
    /// The most bytes that both have together.
    limit: u64,
    logs: [Log; 2],
}

/// One of them.
#[derive(Debug)]
struct Log {
    stream: LogStream,
    file: File,
    /// How long the file is.
    length: u64,
    /// The bytes written in all.
    written: u64,
    ring: Option<Ring>,
}

/// The part of a file in which the newest takes the place of the oldest.
#[derive(Debug)]
struct Ring {
    /// How much of the log lies before it, for good.
    head: u64,
    /// Where it begins: behind that, and behind what says how much was cut.
    from: u64,
    /// How much it holds.
    room: u64,
    /// Where the next byte goes.
    at: u64,
}

impl NodeLogs {
    /// Makes the logs of a node, of which `limit` bytes are kept.
    pub fn make(dir: &RunDir, node: &str, limit: u64) -> Result<NodeLogs> {
        let log = |stream| -> Result<Log> {
            Ok(Log { stream, file: dir.make_log(node, stream)?, length: 0, written: 0, ring: None })
        };
        let logs = [log(LogStream::Stdout)?, log(LogStream::Stderr)?];
        Ok(NodeLogs { dir: dir.clone(), node: node.to_owned(), limit: limit.max(LEAST_LOGS), logs })
    }

    /// Adds to a log.
    pub fn write(&mut self, stream: LogStream, bytes: &[u8]) -> Result<()> {
        let failed = |e| Error::io(&self.dir.log(&self.node, stream), "write", e);
        let which = stream as usize;
        let mut rest = bytes;
        if self.logs[which].ring.is_none() {
            let all: u64 = self.logs.iter().map(|log| log.length).sum();
            // Each gets some room more when the logs become rings: one may have been silent until then.
            let left = (self.limit - self.limit / 8).saturating_sub(all);
            let (fits, more) = bytes.split_at(bytes.len().min(left as usize));
            self.logs[which].write(fits).map_err(failed)?;
            rest = more;
            if !rest.is_empty() {
                self.logs.iter_mut().for_each(|log| log.become_ring(self.limit));
            }
        }
        self.logs[which].write(rest).map_err(failed)
    }

    /// Puts the logs in order; how many bytes were cut out of each.
    pub fn settle(&mut self) -> Result<[u64; 2]> {
        let NodeLogs { dir, node, limit, logs } = self;
        let mut cut = [0; 2];
        for (log, cut) in logs.iter_mut().zip(&mut cut) {
            *cut = log.settle(dir, node, *limit).map_err(|e| Error::io(&dir.log(node, log.stream), "write", e))?;
        }
        Ok(cut)
    }

    /// The part of a log from `offset` on, at most `limit` bytes; of one that is settled.
    pub fn read(&self, stream: LogStream, offset: u64, limit: u64) -> io::Result<Vec<u8>> {
        let log = &self.logs[stream as usize];
        let mut bytes = vec![0; log.length.saturating_sub(offset).min(limit) as usize];
        log.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// How long a log is.
    pub fn length(&self, stream: LogStream) -> u64 {
        self.logs[stream as usize].length
    }
}

impl Log {
    fn become_ring(&mut self, limit: u64) {
        let head = self.length.min(limit / 4);
        let room = self.length - head + limit / 16;
        self.ring = Some(Ring { head, from: head, room, at: self.length });
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        let Some(ring) = &mut self.ring else {
            self.file.write_all_at(bytes, self.length)?;
            self.length += bytes.len() as u64;
            return Ok(());
        };
        // Of what is longer than the ring, its end.
        bytes = &bytes[bytes.len().saturating_sub(ring.room as usize)..];
        while !bytes.is_empty() {
            let left = ring.from + ring.room - ring.at;
            let (now, rest) = bytes.split_at(bytes.len().min(left as usize));
            self.file.write_all_at(now, ring.at)?;
            ring.at += now.len() as u64;
            self.length = self.length.max(ring.at);
            if ring.at == ring.from + ring.room {
                ring.at = ring.from;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn settle(&mut self, dir: &RunDir, node: &str, limit: u64) -> io::Result<u64> {
        let Some(Ring { head, from, room, at }) = self.ring else { return Ok(0) };
        let behind = self.length - from;
        if self.written == head + behind {
            // Nothing was overwritten.
            return Ok(0);
        }
        // From the oldest on: the ring's end, then its beginning. One that is not full is in order.
        let (oldest, turn) = if behind < room { (from, self.length) } else { (at, from + room) };
        let parts = [(oldest, turn), (from, oldest)];
        let begun = self.end_of_line(parts[0])?;
        let kept = behind - begun;
        let cut = self.written - head - kept;
        let fresh_line = head == 0 || self.byte(head - 1)? == b'\n';
        let says = format!(
            "{}{CUT_MARK}{cut}; `logs` says how much is kept of a node, {limit} bytes]\n",
            if fresh_line { "" } else { "\n" }
        );
        let part = dir.part_of_log(node, self.stream)?;
        copy(&self.file, (0, head), &part, 0)?;
        part.write_all_at(says.as_bytes(), head)?;
        let from = head + says.len() as u64;
        let mut to = copy(&self.file, (parts[0].0 + begun, parts[0].1), &part, from)?;
        to = copy(&self.file, parts[1], &part, to)?;
        dir.place_log(node, self.stream)?;
        self.file = part;
        self.length = to;
        let at = if to == from + room { from } else { to };
        self.ring = Some(Ring { head, from, room, at });
        Ok(cut)
    }

    /// How many bytes of a part of the file belong to a line that began before it; none if that is a long one.
    fn end_of_line(&self, (from, to): (u64, u64)) -> io::Result<u64> {
        let mut bytes = vec![0; LINE.min((to - from) as usize)];
        self.file.read_exact_at(&mut bytes, from)?;
        Ok(bytes.iter().position(|b| *b == b'\n').map_or(0, |at| at as u64 + 1))
    }

    fn byte(&self, at: u64) -> io::Result<u8> {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, at)?;
        Ok(byte[0])
    }
}

/// Copies a part of a file to a place in another; gives the place behind it.
fn copy(from: &File, (mut at, end): (u64, u64), to: &File, mut place: u64) -> io::Result<u64> {
    let mut bytes = vec![0; 1 << 18];
    while at < end {
        let now = bytes.len().min((end - at) as usize);
        from.read_exact_at(&mut bytes[..now], at)?;
        to.write_all_at(&bytes[..now], place)?;
        (at, place) = (at + now as u64, place + now as u64);
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = LEAST_LOGS;

    fn logs() -> (tempfile::TempDir, RunDir, NodeLogs) {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), ["n"]).unwrap();
        let logs = NodeLogs::make(&dir, "n", LIMIT).unwrap();
        (temp, dir, logs)
    }

    fn text(dir: &RunDir, stream: LogStream) -> String {
        io::read_to_string(dir.read_log("n", stream).unwrap()).unwrap()
    }

    #[test]
    fn what_fits_is_kept_as_it_was_written() {
        let (_temp, dir, mut logs) = logs();
        logs.write(LogStream::Stdout, b"one\ntwo").unwrap();
        logs.write(LogStream::Stderr, &[b'x'; 10_000]).unwrap();
        assert_eq!(logs.settle().unwrap(), [0, 0]);
        logs.write(LogStream::Stdout, b"\nthree\n").unwrap();
        assert_eq!(text(&dir, LogStream::Stdout), "one\ntwo\nthree\n");
        assert_eq!(logs.read(LogStream::Stdout, 4, 3).unwrap(), b"two");
        assert_eq!(logs.length(LogStream::Stderr), 10_000);
    }

    #[test]
    fn beginning_and_end_of_a_long_log_are_kept_in_whole_lines_and_the_cut_is_said() {
        let (temp, dir, mut logs) = logs();
        let mut all = 0;
        let mut line = |logs: &mut NodeLogs, n: usize| {
            let line = format!("line {n}\n");
            all += line.len() as u64;
            logs.write(LogStream::Stdout, line.as_bytes()).unwrap();
        };
        (0..20_000).for_each(|n| line(&mut logs, n));
        logs.write(LogStream::Stderr, b"an error\n").unwrap();
        let mut next = 20_000;
        for more in [0, 1, 700, 20_000] {
            (next..next + more).for_each(|n| line(&mut logs, n));
            next += more;
            let [cut, none] = logs.settle().unwrap();
            let text = text(&dir, LogStream::Stdout);
            assert!(text.len() as u64 <= LIMIT && none == 0);
            let lines: Vec<&str> = text.lines().collect();
            let at = lines.iter().position(|l| l.starts_with(CUT_MARK)).unwrap();
            assert!(lines[at].starts_with(&format!("{CUT_MARK}{cut};")), "{}", lines[at]);
            assert!(lines[..at - 1].iter().enumerate().all(|(n, line)| *line == format!("line {n}")), "the beginning");
            let end: Vec<usize> = lines[at + 1..].iter().map(|l| l[5..].parse().unwrap()).collect();
            assert!(end.windows(2).all(|two| two[1] == two[0] + 1), "the end, in order");
            assert_eq!(*end.last().unwrap(), next - 1);
            assert!(end.len() > 500);
        }
        assert_eq!(text(&dir, LogStream::Stderr), "an error\n");
        let names = std::fs::read_dir(temp.path().join("nodes/n")).unwrap().count();
        assert_eq!(names, 2, "no part is left");
    }

    #[test]
    fn one_line_without_an_end_is_cut_like_others() {
        let (_temp, dir, mut logs) = logs();
        for _ in 0..100 {
            logs.write(LogStream::Stderr, &[b'x'; 1000]).unwrap();
        }
        logs.write(LogStream::Stderr, &[b'y'; 100_000]).unwrap();
        let [_, cut] = logs.settle().unwrap();
        let text = text(&dir, LogStream::Stderr);
        assert!(text.starts_with("xxx") && text.ends_with("yyy") && (text.len() as u64) < LIMIT + 200);
        let kept = text.bytes().filter(|b| *b == b'x' || *b == b'y').count() as u64;
        // The sentence has a few of these letters.
        assert!((200_000 - cut..200_010 - cut).contains(&kept), "{kept} of 200000 without {cut}");
    }
}
