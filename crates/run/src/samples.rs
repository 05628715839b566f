//! Turning what the nodes wrote into samples, piece by piece: it may be anything, and of any length.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use model::OfFlow;
use net::{FlowCounters, FlowInterval};
use plan::carried;
use record::Sample;
use regex::bytes::{CaptureLocations, Regex, RegexBuilder};
use regex_automata::Input;
use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::backtrack::{BoundedBacktracker, Cache};
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::util::syntax;
use scale::{RealDuration, VirtualInstant};
use site::Timeline;

/// Where in a line of a log the start and the value of a sample stand; columns count from 1.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The column of the sample's start, if there is one.
    pub start: Option<usize>,
    /// The column of the value.
    pub value: usize,
    /// How many of the metric's units make a second, for the start column.
    pub per_second: f64,
}

/// The part of a run that counts, and where its t = 0 lies on the nodes' own calendar.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Samples that start before are warm-up.
    pub from: VirtualInstant,
    /// Samples that start at or after are cool-down.
    pub to: VirtualInstant,
    /// Virtual zero as a Unix time in seconds, as the nodes see it.
    pub zero_unix_s: f64,
}

impl Window {
    /// Whether a sample counts that starts so many virtual seconds after zero.
    pub fn holds(&self, s: f64) -> bool {
        s >= self.from.as_secs_f64() && s < self.to.as_secs_f64()
    }
}

/// A sample of a flow of the emulator's over an interval, in the units of [`OfFlow`]; none if that cannot be said.
pub fn flow_sample(interval: &FlowInterval, what: OfFlow, flow: &str, timeline: &Timeline) -> Option<Sample> {
    let (from, to) = (timeline.at(interval.from).as_secs_f64(), timeline.at(interval.to).as_secs_f64());
    let FlowCounters { sent, arrived, lost, delay } = interval.grew;
    // The last one is shorter than the others, and says as little as a second in which the flow began.
    let whole = (interval.whole && to - from > 0.999).then_some(());
    let value = match what {
        OfFlow::Sent => whole.map(|()| sent as f64 / (to - from)),
        OfFlow::Packets => whole.map(|()| arrived as f64 / (to - from)),
        OfFlow::Rate => whole.map(|()| (arrived * carried(interval.frame)) as f64 * 8.0 / (to - from)),
        OfFlow::Loss => whole.filter(|()| arrived + lost > 0).map(|()| 100.0 * lost as f64 / (arrived + lost) as f64),
        OfFlow::Delay => (arrived > 0).then(|| {
            let mean = RealDuration::from_nanos(delay / arrived);
            timeline.tdf.to_virtual(mean).as_secs_f64() * 1e3
        }),
    };
    value.map(|value| Sample { virtual_s: Some(from), value, node: flow.into() })
}

/// Why a metric cannot be had. The run has failed then, and its other results are kept.
#[derive(Debug, thiserror::Error)]
pub enum MetricError {
    /// Some nodes have nothing to read.
    #[error("{looked_for} on {}", nodes.join(", "))]
    Missing {
        /// A sentence on what was looked for and is not there.
        looked_for: String,
        /// On these nodes.
        nodes: Vec<String>,
    },
    /// A row is not what the experiment says.
    #[error("node {node}: {path}:{line}: {what}")]
    Row {
        /// The node.
        node: String,
        /// The file inside it.
        path: String,
        /// Counted from 1.
        line: usize,
        /// The fault.
        what: String,
    },
    /// The experiment's pattern is too large for the library that looks for it.
    #[error("its pattern: {0}")]
    Pattern(#[from] regex::Error),
    /// Looking for the pattern takes too long.
    #[error(
        "looking for its pattern in what node {node} printed takes longer than {} s: use one with smaller repetitions \
         (`{{…}}`), or have the node print less",
        LONGEST_SEARCH.as_secs()
    )]
    Slow {
        /// The node.
        node: String,
    },
    /// A node's output cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// A sample is no number that can be reckoned with.
    #[error("{0}")]
    NoMeasurement(String),
}

/// A line that does not hold a number where the experiment says there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct BadRow {
    /// Counted from 1.
    pub line: usize,
    /// The fault.
    pub what: String,
}

/// A start of 10^9 seconds or more is a Unix time; anything less counts from t = 0.
const UNIX_TIME_FROM_S: f64 = 1e9;

/// The longest row or field that is read, in bytes.
const LONGEST_ROW: usize = 64 << 10;
const LONGEST_FIELD: usize = 4 << 10;
/// The longest number that is read the short way: more digits might not be exact.
const MOST_DIGITS: usize = 15;
/// The powers of ten that such a number is divided by, which are exact.
const POWERS: [f64; MOST_DIGITS] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14];
/// The most memory for a pattern, and for what is made of it while it is looked for, in bytes. That it is not larger
/// is known since the experiment was read.
const LARGEST_PATTERN: usize = 4 << 20;
/// How much of a line is looked at for a pattern, in bytes.
const LONGEST_LINE: usize = 64 << 10;
/// How long a pattern may be looked for in what one node printed.
const LONGEST_SEARCH: Duration = Duration::from_secs(4);
/// How often whoever waits for that is asked whether to go on.
const GLANCE: Duration = Duration::from_millis(50);

/// The samples of a metric of which there may be very many: of more than `most`, every second, fourth, … is kept, which
/// tells as much.
#[derive(Debug)]
pub struct Thinned {
    kept: Vec<Sample>,
    most: usize,
    every: u64,
    seen: u64,
}

impl Thinned {
    /// None yet, and at most so many.
    pub fn new(most: usize) -> Thinned {
        Thinned { kept: Vec::new(), most: most.max(2), every: 1, seen: 0 }
    }

    /// Adds one, which is made only if it is kept.
    pub fn add(&mut self, sample: impl FnOnce() -> Sample) {
        // It is a power of two.
        let counts = self.seen & (self.every - 1) == 0;
        self.seen += 1;
        if !counts {
            return;
        }
        if self.kept.len() == self.most {
            let mut kept = false;
            self.kept.retain(|_| {
                kept = !kept;
                kept
            });
            self.every *= 2;
            if !(self.seen - 1).is_multiple_of(self.every) {
                return;
            }
        }
        self.kept.push(sample());
    }

    /// How many there were for each that is kept.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// Those that are kept, in their order.
    pub fn kept(self) -> Vec<Sample> {
        self.kept
    }
}

/// Reads one sample per row. Rows are split at white space, or at commas where a row has any. A last row without its
/// newline was cut off when its writer was stopped, and is left out.
pub struct Rows<'a> {
    node: Arc<str>,
    columns: Columns,
    window: Window,
    samples: &'a mut Thinned,
    line: usize,
    /// The beginning of a row whose end is yet to come.
    begun: Vec<u8>,
}

impl<'a> Rows<'a> {
    /// Before the first row of a node.
    pub fn new(node: &str, columns: Columns, window: Window, samples: &'a mut Thinned) -> Rows<'a> {
        Rows { node: node.into(), columns, window, samples, line: 1, begun: Vec::new() }
    }

    /// Reads on.
    pub fn read(&mut self, mut piece: &[u8]) -> Result<(), BadRow> {
        let alone = self.columns.start.is_none() && self.columns.value == 1;
        loop {
            // Most short rows are one short number, and there may be fifty million of them.
            while alone && self.begun.is_empty() {
                let Some((value, length)) = short_row(piece) else { break };
                self.add(None, value);
                self.line += 1;
                piece = &piece[length..];
            }
            // So may there be of rows with nothing in them.
            if self.begun.is_empty() {
                let empty = piece.iter().take_while(|byte| **byte == b'\n').count();
                self.line += empty;
                piece = &piece[empty..];
            }
            let Some(end) = memchr::memchr(b'\n', piece) else { break };
            if self.begun.is_empty() {
                self.row(&piece[..end])?;
            } else {
                self.hold(&piece[..end])?;
                let row = std::mem::take(&mut self.begun);
                self.row(&row)?;
            }
            self.line += 1;
            piece = &piece[end + 1..];
        }
        self.hold(piece)
    }

    fn hold(&mut self, part: &[u8]) -> Result<(), BadRow> {
        if self.begun.len() + part.len() > LONGEST_ROW {
            return Err(BadRow { line: self.line, what: format!("the row is longer than {} KiB", LONGEST_ROW >> 10) });
        }
        self.begun.extend_from_slice(part);
        Ok(())
    }

    fn row(&mut self, row: &[u8]) -> Result<(), BadRow> {
        let row = row.trim_ascii();
        if row.is_empty() || row[0] == b'#' {
            return Ok(());
        }
        let bad = |what| BadRow { line: self.line, what };
        let Columns { start, value, .. } = self.columns;
        let start = start.map(|column| number(row, column)).transpose().map_err(bad)?;
        let value = number(row, value).map_err(bad)?;
        let virtual_s = start.map(|start| {
            let s = start / self.columns.per_second;
            if s >= UNIX_TIME_FROM_S { s - self.window.zero_unix_s } else { s }
        });
        if virtual_s.is_none_or(|s| self.window.holds(s)) {
            self.add(virtual_s, value);
        }
        Ok(())
    }

    fn add(&mut self, virtual_s: Option<f64>, value: f64) {
        self.samples.add(|| Sample { virtual_s, value, node: Arc::clone(&self.node) });
    }
}

/// The number that is all of the first row, if it is a [short](plain) one, and how long the row is with its end.
fn short_row(piece: &[u8]) -> Option<(f64, usize)> {
    let end = piece.iter().take(MOST_DIGITS + 1).position(|byte| *byte == b'\n')?;
    Some((plain(&piece[..end])?, end + 1))
}

/// The number in a column of a row.
fn number(row: &[u8], column: usize) -> Result<f64, String> {
    let of_commas = || row.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    let of_blanks = || row.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let has_commas = memchr::memchr(b',', row).is_some();
    let field = if has_commas { of_commas().nth(column - 1) } else { between_blanks(row, column) };
    let columns = || if has_commas { of_commas().count() } else { of_blanks().count() };
    let field = field.ok_or_else(|| format!("there is no column {column}, the row has {}", columns()))?;
    if field.len() > LONGEST_FIELD {
        return Err(format!("column {column} is longer than {} KiB", LONGEST_FIELD >> 10));
    }
    match plain(field).or_else(|| std::str::from_utf8(field).ok()?.parse::<f64>().ok()) {
        Some(v) if v.is_finite() => Ok(v),
        _ => {
            let shown: String = String::from_utf8_lossy(field).chars().take(60).collect();
            let more = if field.len() > shown.len() { "…" } else { "" };
            Err(format!("column {column} is `{shown}{more}`, not a number"))
        }
    }
}

/// The field of a row without commas, by its number from 1.
fn between_blanks(row: &[u8], column: usize) -> Option<&[u8]> {
    let mut rest = row;
    for number in 1.. {
        let begins = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let field = &rest[begins..];
        let length = field.iter().position(u8::is_ascii_whitespace).unwrap_or(field.len());
        if number == column {
            return Some(&field[..length]);
        }
        rest = &field[length..];
    }
    None
}

/// A short number of digits, with a point at most, which most are: read several times as fast, to the same bit, for
/// both sides of the one division are exact. Nothing of all others.
fn plain(field: &[u8]) -> Option<f64> {
    let (mut digits, mut behind) = (0u64, None);
    if field.len() > MOST_DIGITS || field.is_empty() || field == b"." {
        return None;
    }
    for byte in field {
        match byte {
            b'0'..=b'9' => {
                digits = digits * 10 + u64::from(byte - b'0');
                behind = behind.map(|n| n + 1);
            }
            b'.' if behind.is_none() => behind = Some(0usize),
            _ => return None,
        }
    }
    Some(behind.map_or(digits as f64, |behind| digits as f64 / POWERS[behind]))
}

/// The finite number that a text is, but for blanks around it.
fn finite(text: &[u8]) -> Option<f64> {
    // That a text is no number is seen sooner by its letters than by reading it.
    let may_be = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E' | 0..=b' ' | 128..);
    if !text.iter().all(may_be) {
        return None;
    }
    plain(text).or_else(|| std::str::from_utf8(text).ok()?.trim().parse().ok().filter(|v: &f64| v.is_finite()))
}

/// A pattern to be looked for, in bounded memory.
pub fn pattern(written: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(written).size_limit(LARGEST_PATTERN).dfa_size_limit(LARGEST_PATTERN).build()
}

/// Finds the number in the first group of the last line that matches: programs print progress first and the result
/// last. Of a long line, its beginning is looked at.
pub struct Lines {
    pattern: Regex,
    /// Where the groups of a line are that matches.
    groups: CaptureLocations,
    /// Looks at short lines, if the pattern is a small one.
    short: Option<ShortLines>,
    /// Lines of three bytes and fewer that are known to have no number.
    without: Tiny,
    /// Whether the line before matched: then this one may, too.
    matched: bool,
    found: Option<f64>,
    begun: Vec<u8>,
}

/// Finds a pattern's groups in short lines, of which there may be very many: in one pass over each, where the library's
/// own choice takes three, whose beginnings alone take twice as long as all of this.
struct ShortLines {
    search: BoundedBacktracker,
    cache: Cache,
    slots: Vec<Option<NonMaxUsize>>,
}

/// The longest line that is a short one.
const SHORT: usize = 32;
/// The most states of a pattern for these: what has been tried of a line is cleared for the next one, a bit for each
/// state and byte.
const FEW_STATES: usize = 1 << 11;

impl ShortLines {
    /// None for patterns of many states.
    fn new(pattern: &Regex) -> Option<ShortLines> {
        let config = thompson::Config::new().utf8(false).nfa_size_limit(Some(FEW_STATES << 7));
        let syntax = syntax::Config::new().utf8(false);
        let nfa = thompson::Compiler::new().configure(config).syntax(syntax).build(pattern.as_str()).ok()?;
        if nfa.states().len() > FEW_STATES {
            return None;
        }
        let slots = vec![None; nfa.group_info().slot_len().min(4)];
        let search = BoundedBacktracker::new_from_nfa(nfa).ok()?;
        let cache = search.create_cache();
        (search.max_haystack_len() >= SHORT).then_some(ShortLines { search, cache, slots })
    }

    /// Where the first group of a short line is, or all that matches if that has no place in it.
    fn group(&mut self, line: &[u8]) -> Option<(usize, usize)> {
        self.search.try_search_slots(&mut self.cache, &Input::new(line), &mut self.slots).ok()??;
        let place =
            |n: usize| Some((self.slots.get(2 * n)?.as_ref()?.get(), self.slots.get(2 * n + 1)?.as_ref()?.get()));
        place(1).or_else(|| place(0))
    }
}

/// A set of lines of at most three bytes: of 100 MB of such lines there are 25 to 100 million. Its 2 MiB are the
/// kernel's zeros until they are used.
struct Tiny(Vec<u64>);

impl Tiny {
    fn new() -> Tiny {
        Tiny(vec![0; (Tiny::FIRST[3] + (1 << 24)).div_ceil(64)])
    }

    /// The number of the first line of each length.
    const FIRST: [usize; 4] = [0, 1, 1 + (1 << 8), 1 + (1 << 8) + (1 << 16)];

    /// The place of a line, if it is so short: its word, and its bit there.
    fn place(line: &[u8]) -> Option<(usize, u64)> {
        let first = Tiny::FIRST.get(line.len())?;
        let number = first + line.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
        Some((number / 64, 1 << (number % 64)))
    }

    fn holds(&self, line: &[u8]) -> bool {
        Tiny::place(line).is_some_and(|(word, bit)| self.0[word] & bit != 0)
    }

    fn add(&mut self, line: &[u8]) {
        if let Some((word, bit)) = Tiny::place(line) {
            self.0[word] |= bit;
        }
    }
}

impl Lines {
    /// Before the first line.
    pub fn new(pattern: Regex) -> Lines {
        let (groups, short) = (pattern.capture_locations(), ShortLines::new(&pattern));
        Lines { pattern, groups, short, without: Tiny::new(), matched: false, found: None, begun: Vec::new() }
    }

    /// Reads on, unless `stop` is set.
    pub fn read(&mut self, piece: &[u8], stop: &AtomicBool) {
        let Some(last) = memchr::memrchr(b'\n', piece) else { return self.hold(piece) };
        let (mut whole, begun) = (&piece[..last], &piece[last + 1..]);
        let mut found = None;
        // Of all that match the last counts: those before it need not be looked at.
        while found.is_none() && !stop.load(Ordering::Relaxed) {
            let Some(before) = memchr::memrchr(b'\n', whole) else {
                self.hold(whole);
                let line = std::mem::take(&mut self.begun);
                found = self.number(&line);
                break;
            };
            found = self.number(&whole[before + 1..]);
            whole = &whole[..before];
        }
        self.found = found.or(self.found);
        self.begun.clear();
        self.hold(begun);
    }

    /// The number that was found, with a last line that has no end.
    pub fn finish(mut self) -> Option<f64> {
        let line = std::mem::take(&mut self.begun);
        let last = if line.is_empty() { None } else { self.number(&line) };
        last.or(self.found)
    }

    fn hold(&mut self, part: &[u8]) {
        let room = LONGEST_LINE.saturating_sub(self.begun.len());
        self.begun.extend_from_slice(&part[..part.len().min(room)]);
    }

    /// The number in a line, if that matches.
    fn number(&mut self, line: &[u8]) -> Option<f64> {
        if self.without.holds(line) {
            return None;
        }
        let line = &line[..line.len().min(LONGEST_LINE)];
        let number = self.group(line).and_then(|(from, to)| finite(&line[from..to]));
        if number.is_none() {
            self.without.add(line);
        }
        number
    }

    /// Where that number is to be. Whether a line matches is known sooner than where; after one that matched, the next
    /// one is taken to match.
    fn group(&mut self, line: &[u8]) -> Option<(usize, usize)> {
        let group = match &mut self.short {
            Some(short) if line.len() <= SHORT => {
                if self.matched || self.pattern.is_match(line) {
                    short.group(line)
                } else {
                    None
                }
            }
            _ => {
                let matched = self.pattern.captures_read(&mut self.groups, line);
                matched.and_then(|whole| self.groups.get(1).or(Some((whole.start(), whole.end()))))
            }
        };
        self.matched = group.is_some();
        group
    }
}

/// A search for a pattern in a thread of its own, so that nobody waits longer for it than he wants to.
pub struct Search {
    pieces: Option<SyncSender<Vec<u8>>>,
    found: Receiver<Option<f64>>,
    stop: Arc<AtomicBool>,
    since: Instant,
}

/// Why there is no end to a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// It takes too long.
    Slow,
    /// Nobody waits for it any more.
    Unwanted,
}

impl Search {
    /// Begins one.
    pub fn begin(pattern: Regex) -> std::io::Result<Search> {
        let (pieces, to_read) = sync_channel::<Vec<u8>>(1);
        let (tell, found) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::Builder::new().name("search".into()).spawn(move || {
            let mut lines = Lines::new(pattern);
            for piece in to_read {
                lines.read(&piece, &stopped);
            }
            let _ = tell.send(if stopped.load(Ordering::Relaxed) { None } else { lines.finish() });
        })?;
        Ok(Search { pieces: Some(pieces), found, stop, since: Instant::now() })
    }

    /// Searches on, as long as it is `wanted`.
    pub fn read(&self, mut piece: Vec<u8>, wanted: &dyn Fn() -> bool) -> Result<(), Unfinished> {
        let Some(pieces) = &self.pieces else { return Ok(()) };
        loop {
            piece = match pieces.try_send(piece) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(piece) | TrySendError::Disconnected(piece)) => piece,
            };
            self.patience(wanted)?;
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The number that was found when all has been read.
    pub fn finish(mut self, wanted: &dyn Fn() -> bool) -> Result<Option<f64>, Unfinished> {
        self.pieces = None;
        loop {
            match self.found.recv_timeout(GLANCE) {
                Ok(found) => return Ok(found),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => self.patience(wanted)?,
            }
        }
    }

    fn patience(&self, wanted: &dyn Fn() -> bool) -> Result<(), Unfinished> {
        match (wanted(), self.since.elapsed() > LONGEST_SEARCH) {
            (false, _) => Err(Unfinished::Unwanted),
            (true, true) => Err(Unfinished::Slow),
            (true, false) => Ok(()),
        }
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        // It ends with the line at which it is.
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scale::VirtualDuration;

    const ZERO: f64 = 1_700_000_000.0;

    fn whole_run(zero_unix_s: f64) -> Window {
        Window { from: VirtualInstant::ZERO, to: VirtualInstant::ZERO + VirtualDuration::MAX, zero_unix_s }
    }

    fn window(from: f64, to: f64) -> Window {
        let instant = |s| VirtualInstant::ZERO + VirtualDuration::from_secs_f64(s);
        Window { from: instant(from), to: instant(to), zero_unix_s: ZERO }
    }

    /// The samples of a text that comes in pieces of any length.
    fn rows(text: &[u8], node: &str, columns: Columns, window: Window) -> Result<Vec<Sample>, BadRow> {
        let read = |length: usize| {
            let mut samples = Thinned::new(1000);
            let mut rows = Rows::new(node, columns, window, &mut samples);
            text.chunks(length).try_for_each(|piece| rows.read(piece))?;
            Ok(samples.kept())
        };
        let whole = read(text.len().max(1));
        assert!((1..8).all(|length| read(length) == whole), "it does not matter how the text comes");
        whole
    }

    fn line(text: &[u8], pattern: &Regex) -> Option<f64> {
        let read = |length: usize| {
            let search = Search::begin(pattern.clone()).unwrap();
            text.chunks(length).for_each(|piece| search.read(piece.to_vec(), &|| true).unwrap());
            search.finish(&|| true).unwrap()
        };
        let whole = read(text.len().max(1));
        assert!((1..8).all(|length| read(length) == whole), "it does not matter how the text comes");
        whole
    }

    const H2LOAD: Columns = Columns { start: Some(1), value: 3, per_second: 1e6 };

    #[test]
    fn an_h2load_log_is_cut_to_the_window() {
        let log = b"1700000000500000\t200\t900\n\
            1700000002000000\t200\t1500\n1700000011999999\t200\t1600\n1700000012000000\t200\t7\n";
        let samples = rows(log, "c", H2LOAD, window(2.0, 12.0)).unwrap();
        assert_eq!(samples.iter().map(|s| s.value).collect::<Vec<_>>(), [1500.0, 1600.0]);
        assert!((samples[0].virtual_s.unwrap() - 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_start_that_is_no_unix_time_counts_from_zero() {
        let columns = Columns { start: Some(1), value: 2, per_second: 1e3 };
        let samples = rows(b"1000, 5\n3000, 6\n", "c", columns, window(2.0, 12.0)).unwrap();
        assert_eq!(samples, [Sample { virtual_s: Some(3.0), value: 6.0, node: "c".into() }]);
    }

    #[test]
    fn a_row_cut_off_in_the_middle_is_left_out() {
        let samples =
            rows(b"1 2 3\n1 2 34", "c", Columns { start: None, value: 3, per_second: 1.0 }, whole_run(ZERO)).unwrap();
        assert_eq!(samples.len(), 1);
        assert_eq!(rows(b"", "c", H2LOAD, whole_run(ZERO)).unwrap(), []);
    }

    #[test]
    fn a_bad_row_is_named() {
        let error = rows(b"1 2 3\n1 2\n", "c", H2LOAD, whole_run(ZERO)).unwrap_err();
        assert_eq!(error.line, 2);
        assert!(error.what.contains("no column 3"), "{}", error.what);
        let error = rows(b"1 2 x\n", "c", H2LOAD, whole_run(ZERO)).unwrap_err();
        assert!(error.what.contains("`x`"), "{}", error.what);
    }

    #[test]
    fn the_last_match_counts() {
        let pattern = Regex::new(r"finished in .*, ([\d.]+) req/s").unwrap();
        let text = b"progress: 10%\nfinished in 1s, 3.5 req/s\nfinished in 10.00s, 123.45 req/s, 1MB/s\n";
        assert_eq!(line(text, &pattern), Some(123.45));
        assert_eq!(line(b"nothing\n\xff\xfe", &pattern), None);
        let value = Regex::new(r"v=(\w+)").unwrap();
        assert_eq!(line(b"v=1\nv=2\nv=x\nnothing\n\nv=y", &value), Some(2.0), "the last that is a number");
        assert_eq!(line(b"v=1\nv=2\nv=3", &value), Some(3.0), "a line without its end");
        assert_eq!(line(b"v=12\n", &Regex::new(r"v=\d+").unwrap()), None);
    }

    #[test]
    fn short_lines_are_searched_as_long_ones_are() {
        let mut seed = 1u32;
        let mut next = |most: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % most
        };
        let letters = "a1. v=-x\u{e4}\r\u{1}".chars().map(String::from).collect::<Vec<_>>();
        let mut lines: Vec<String> = (0..4000)
            .map(|_| (0..next(12)).map(|_| letters[next(letters.len() as u32) as usize].as_str()).collect())
            .collect();
        lines.extend([String::new(), "1".repeat(SHORT), "1".repeat(SHORT + 1)]);
        for pattern in [
            "v=([0-9.x]+)",
            r"(\w+)",
            r"^\s*(-?\d*)$",
            r"(?:a(1)|v)",
            r"\d+",
            "(?i)A(.*)",
            r"\b(1)|x",
            "a()",
            "(?:v|(1))*=",
            "$",
        ] {
            let pattern = Regex::new(pattern).unwrap();
            let mut all = Lines::new(pattern.clone());
            assert!(all.short.is_some(), "{pattern}");
            for _ in 0..2 {
                for line in &lines {
                    let captures = pattern.captures(line.as_bytes());
                    let group = captures.and_then(|c| c.get(1).or(c.get(0)));
                    let text = group.and_then(|group| std::str::from_utf8(group.as_bytes()).ok());
                    let number = text.and_then(|text| text.trim().parse::<f64>().ok()).filter(|v| v.is_finite());
                    assert_eq!(all.number(line.as_bytes()), number, "`{pattern}` in `{line}`");
                }
            }
        }
        assert!(Lines::new(Regex::new("[ab]{900}").unwrap()).short.is_some_and(|s| s.slots.len() == 2));
        assert!(Lines::new(Regex::new("[ab]{9000}").unwrap()).short.is_none());
    }

    #[test]
    fn short_rows_are_read_as_all_others() {
        let columns = Columns { start: None, value: 1, per_second: 1.0 };
        let text = b"1\n22.5\n\n# x\n 3\n4\r\n123456789012345\n1234567890123456\n-5\n6 7\n8,9\n.5\n10";
        let values: Vec<f64> = rows(text, "c", columns, whole_run(ZERO)).unwrap().iter().map(|s| s.value).collect();
        let expected = [1.0, 22.5, 3.0, 4.0, 123456789012345.0, 1234567890123456.0, -5.0, 6.0, 8.0, 0.5];
        assert_eq!(values, expected);
        assert_eq!(rows(b"1\n\n2\n.\n", "c", columns, whole_run(ZERO)).unwrap_err().line, 4);
    }

    #[test]
    fn of_very_many_samples_those_are_kept_that_lie_evenly_between_all() {
        let mut thinned = Thinned::new(100);
        for n in 0..100_000 {
            thinned.add(|| Sample { virtual_s: None, value: f64::from(n), node: "c".into() });
        }
        let every = thinned.every() as f64;
        let kept: Vec<f64> = thinned.kept().iter().map(|sample| sample.value).collect();
        assert!((50..=100).contains(&kept.len()), "{}", kept.len());
        assert!(kept.windows(2).all(|two| two[1] - two[0] == every) && kept[0] == 0.0);
    }

    #[test]
    fn rows_and_fields_without_an_end_are_refused_with_few_words() {
        let columns = Columns { start: None, value: 1, per_second: 1.0 };
        let error = rows(&[b'x'; 100_000], "c", columns, whole_run(ZERO)).unwrap_err();
        assert_eq!((error.line, error.what.as_str()), (1, "the row is longer than 64 KiB"));
        let text = [b"1\n".as_slice(), &[b'x'; 1000], b"\n"].concat();
        let error = rows(&text, "c", columns, whole_run(ZERO)).unwrap_err();
        assert!(error.line == 2 && error.what.len() < 120 && error.what.contains("xxx…`"), "{}", error.what);
        let error = rows(&[&[b'1'; 5000], b"\n".as_slice()].concat(), "c", columns, whole_run(ZERO)).unwrap_err();
        assert!(error.what.contains("longer than 4 KiB"), "{}", error.what);
    }

    /// CPU time of this thread, in seconds: what others do meanwhile does not count.
    fn cpu_s(work: impl FnOnce()) -> f64 {
        let before = host::time::of_this_thread();
        work();
        host::time::of_this_thread().saturating_sub(before).as_secs_f64()
    }

    /// No piece of a node's output is looked at again and again. Lines that all match, and are no
    /// number, take longest: 150 times as long as the reference, and 40 times where both are optimised.
    #[test]
    fn reading_takes_no_more_than_some_hundred_times_as_long_as_looking_at_each_byte() {
        const BYTES: usize = 1 << 20;
        let text = |line: &str| format!("{line}\n").repeat(BYTES / (line.len() + 1)).into_bytes();
        let look = |text: &[u8]| {
            let mut ends = 0u32;
            for byte in text {
                ends = ends.wrapping_mul(3) ^ u32::from(*byte == b'\n');
            }
            std::hint::black_box(ends);
        };
        let check = |line: &str, ours: f64, text: &[u8]| {
            let reference = cpu_s(|| look(text));
            let shown: String = line.chars().take(20).collect();
            assert!(ours < 600.0 * reference, "`{shown}…`: {ours:.3} s, and {reference:.3} s to look at each byte");
        };
        let long = [" ", ",", "7 "].map(|part| part.repeat((50 << 10) / part.len()) + "1");
        let several = ["1", "-1.25e3", "1700000002000000\t200\t1500", "1,2,3,4,5,6,7,8,9", "1 2", "", " ", "#"];
        for line in several.into_iter().chain(long.iter().map(String::as_str)) {
            let text = text(line);
            let columns = line.split([' ', '\t', ',']).filter(|word| !word.is_empty()).count().max(1);
            let value = if line.contains(',') { line.split(',').count() } else { columns };
            let start = (value > 1).then_some(value - 1).filter(|_| !line.starts_with(','));
            let ours = cpu_s(|| {
                let mut samples = Thinned::new(1000);
                let columns = Columns { start, value, per_second: 1.0 };
                Rows::new("a", columns, whole_run(ZERO), &mut samples).read(&text).unwrap();
            });
            check(line, ours, &text);
        }
        let pattern = Regex::new("v=([0-9.x]+)").unwrap();
        for line in ["INFO a request was handled in 12 ms", "1", "", "v=1.x", &long[0]] {
            let text = text(line);
            let ours = cpu_s(|| Lines::new(pattern.clone()).read(&text, &AtomicBool::new(false)));
            check(line, ours, &text);
        }
    }

    /// Reads a text again and again, until it was so many bytes, piece by piece as a run does.
    fn pieces(text: &[u8], bytes: usize) -> impl Iterator<Item = Vec<u8>> {
        let piece = text.repeat((1 << 20) / text.len() + 1);
        std::iter::repeat_n(piece.clone(), bytes / piece.len() + 1)
    }

    /// Each case is read by a process of its own, which is this test again.
    #[test]
    fn whatever_nodes_leave_is_read_in_bounded_memory() {
        const CASE: &str = "DIORAMA_CASE";
        const MOST_KIB: u64 = 64 << 10;
        let rows = |text: &[u8], column: usize, bytes: usize| {
            let mut samples = Thinned::new(1 << 17);
            let columns = Columns { start: None, value: column, per_second: 1.0 };
            let mut rows = Rows::new("a", columns, whole_run(ZERO), &mut samples);
            let read = pieces(text, bytes).try_for_each(|piece| rows.read(&piece));
            (read.map_err(|bad| bad.what), samples.kept().len())
        };
        let lines = |text: &[u8], written: &str, bytes: usize| {
            let mut lines = Lines::new(pattern(written).unwrap());
            pieces(text, bytes).for_each(|piece| lines.read(&piece, &AtomicBool::new(false)));
            lines.finish()
        };
        let cases: [(&str, &dyn Fn()); 8] = [
            ("short rows", &|| assert!(matches!(rows(b"1\n", 1, 16 << 20), (Ok(()), 65_537..=131_072)))),
            ("a row of 100 MB", &|| {
                assert_eq!(rows(b"1", 1, 100 << 20).0.unwrap_err(), "the row is longer than 64 KiB")
            }),
            ("a row of 10,000 fields", &|| {
                assert!(matches!(rows(&[&b"7,".repeat(9_999)[..], b"8\n"].concat(), 10_000, 8 << 20), (Ok(()), 300..)));
            }),
            ("a field of 60 KB", &|| {
                let read = rows(&[&b"7".repeat(60_000)[..], b"\n"].concat(), 1, 1 << 20);
                assert_eq!(read.0.unwrap_err(), "column 1 is longer than 4 KiB");
            }),
            ("lines of a log", &|| {
                let line = b"INFO a request was handled in v=12 ms, as were all others before it\n";
                assert_eq!(lines(line, "v=([0-9]+)", 16 << 20), Some(12.0));
            }),
            ("a line of 100 MB", &|| assert_eq!(lines(b"v=1", "v=([0-9]+)$", 100 << 20), None)),
            ("a large pattern", &|| assert_eq!(lines(b"abaabbab7", "[ab]*a[ab]{900}[cd]([0-9]+)", 1 << 20), None)),
            ("a pattern of all alphabets", &|| {
                assert_eq!(lines("äßμ 7ж\n".as_bytes(), r"(?:\w{1,20} ){1,3}(\d+)\w", 1 << 20), Some(7.0));
            }),
        ];
        if let Ok(wanted) = std::env::var(CASE) {
            let (_, read) = cases.iter().find(|(name, _)| *name == wanted).unwrap();
            read();
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
            println!("{wanted}: {kib} KiB");
            assert!(kib <= MOST_KIB, "{wanted}: {kib} KiB");
            return;
        }
        for (name, _) in cases {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            let this = "samples::tests::whatever_nodes_leave_is_read_in_bounded_memory";
            let ended = again.args([this, "--exact", "--nocapture"]).env(CASE, name).output().unwrap();
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && said.contains(&format!("{name}: ")), "{name}: {said}");
            println!("{}", said.lines().find(|line| line.starts_with(name)).unwrap_or_default());
        }
    }

    #[test]
    fn short_numbers_are_read_to_the_same_bit() {
        for text in ["0", "7", "1234.5678", "0.1", "999999999999999", "5.", ".5", "00012.30", "3.14159265358979"] {
            let expected: f64 = text.parse().unwrap();
            assert_eq!(
                plain(text.as_bytes()).map(f64::to_bits),
                (text.len() < 16).then(|| expected.to_bits()),
                "{text}"
            );
            assert_eq!(number(text.as_bytes(), 1), Ok(expected));
        }
        for text in ["", ".", "..", "1.2.3", "-1", "1e3", "x"] {
            assert_eq!(plain(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_search_ends_when_nobody_waits_for_it_any_more() {
        // Some tenths of a second a line, and so many lines that it takes minutes.
        let slow = Regex::new("[ab]*a[ab]{900}[cd]([0-9]+)").unwrap();
        let mut seed = 1u32;
        let mut letter = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if seed >> 31 == 0 { b'a' } else { b'b' }
        };
        let text: Vec<u8> = (0..60_000).map(|_| letter()).chain([b'\n']).collect();
        let search = Search::begin(slow).unwrap();
        for _ in 0..2 {
            search.read(text.clone(), &|| true).unwrap();
        }
        assert_eq!(search.read(text.repeat(1000), &|| false), Err(Unfinished::Unwanted));
        assert_eq!(search.finish(&|| false), Err(Unfinished::Unwanted));
    }
}
