//! Faults of an experiment, and their places.

use std::cell::OnceCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, LabeledSpan, NamedSource, SourceCode};

use crate::tree::Span;

/// How many problems of one file are worth reading at once.
const SHOWN: usize = 20;
/// How many are looked into; a file with more is not an experiment with slips, and must not take long.
const NOTED: usize = 200;

/// The longest line that is shown with a pointer into it, in bytes. (miette's own end is a column of 65,535.)
const SHOWN_LINE: usize = 1000;

/// How many nodes, links and flows all patterns of a file name together, and nodes wait for: each is kept for each that
/// names it.
const NAMED: usize = 5_000_000;
/// How much text becomes of what is written once and meant for many, in bytes.
const COPIED: usize = 16 << 20;

/// Why an experiment cannot be loaded. Always the user's input (exit code 2).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no file to read, or it is not one that can be an experiment.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// The file that was to be read.
        path: PathBuf,
        /// The fault, and what would be right.
        why: String,
    },
    /// The file was read and is wrong in at least one place.
    #[error("{}", lines(.0))]
    Wrong(Vec<Problem>),
}

impl Error {
    /// The places that are wrong, in the order of the file; empty if the file could not be read at all.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Error::Unreadable { .. } => &[],
            Error::Wrong(problems) => problems,
        }
    }

    /// The error with the lines concerned and a pointer into each, for a person at a terminal.
    pub fn render(&self) -> String {
        if self.problems().is_empty() {
            return self.to_string();
        }
        let handler = GraphicalReportHandler::new().with_context_lines(1);
        let what = self.problems()[0].kind;
        let mut text = format!("{what} cannot be used:\n");
        for problem in self.problems().iter().take(SHOWN) {
            if problem.is_in_a_long_line() {
                text.push_str(&format!("  {}: {problem}\n", problem.place()));
            } else if handler.render_report(&mut text, problem).is_err() {
                return self.to_string();
            }
        }
        text.push_str(&more(self.problems()));
        text
    }
}

fn lines(problems: &[Problem]) -> String {
    let shown: Vec<String> = problems.iter().take(SHOWN).map(|p| format!("{}: {p}", p.place())).collect();
    shown.join("\n") + &more(problems)
}

fn more(problems: &[Problem]) -> String {
    match problems.len().saturating_sub(SHOWN) {
        0 => String::new(),
        _ if problems.len() >= NOTED => "\nand many more".into(),
        n => format!("\nand {n} more"),
    }
}

/// One place that is wrong.
#[derive(Clone, Debug)]
pub struct Problem {
    source: Arc<NamedSource<String>>,
    /// In bytes.
    start: usize,
    length: usize,
    line: usize,
    column: usize,
    /// The file's kind, such as `the experiment`.
    kind: &'static str,
    what: String,
}

impl Problem {
    /// The line, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column, counted from 1, in characters.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Whether its line, or one beside it, is too long to be shown.
    fn is_in_a_long_line(&self) -> bool {
        let (before, after) = self.source.inner().split_at(self.start);
        let begins = before.rsplit('\n').take(2).map(str::len);
        begins.chain(after.split('\n').take(2).map(str::len)).any(|length| length > SHOWN_LINE)
    }

    /// `FILE:LINE:COLUMN`, or the `--set` that is wrong.
    pub fn place(&self) -> String {
        if self.source.name().starts_with("--set") {
            self.source.name().to_owned()
        } else {
            format!("{}:{}:{}", self.source.name(), self.line, self.column)
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&*self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(std::iter::once(LabeledSpan::new(None, self.start, self.length))))
    }
}

/// The texts that a file's contents came from, and what is wrong with them so far.
#[derive(Debug)]
pub struct Problems {
    kind: &'static str,
    sources: Vec<Arc<NamedSource<String>>>,
    /// Where the lines of the first of them begin, in characters; when that was asked for.
    lines: OnceCell<Vec<usize>>,
    found: Vec<(Span, String)>,
    /// How many were named so far, and how much was copied.
    named: usize,
    copied: usize,
}

impl Problems {
    /// No problems yet in the file `path` with these contents; `kind` is what it is, such as `the catalog`.
    pub fn new(kind: &'static str, path: &Path, text: &str) -> Problems {
        let name = path.display().to_string();
        Problems {
            kind,
            sources: vec![Arc::new(NamedSource::new(name, text.to_owned()))],
            lines: OnceCell::new(),
            found: Vec::new(),
            named: 0,
            copied: 0,
        }
    }

    /// Makes another text known; its number is for [`Span::source`].
    pub fn source(&mut self, name: String, text: String) -> usize {
        self.sources.push(Arc::new(NamedSource::new(name, text)));
        self.sources.len() - 1
    }

    /// Notes what is wrong, and what would be right, at a place; unless so much is wrong that nobody will read it.
    pub fn add(&mut self, at: Span, what: impl Into<String>) {
        if !self.full() {
            self.found.push((at, what.into()));
        }
    }

    /// Counts so many more that are named. False, with a note, if those are too many: none of them is to be kept.
    pub(crate) fn may_name(&mut self, more: usize, at: Span) -> bool {
        let named = self.named.saturating_add(more);
        if named > NAMED {
            self.add(
                at,
                format!("with this, more than {NAMED} nodes, links and flows are named, one by one: name fewer"),
            );
            return false;
        }
        self.named = named;
        true
    }

    /// Counts so much text that is copied so many times. False, with a note, if that is too much: it is not to be.
    pub(crate) fn may_copy(&mut self, bytes: usize, times: usize, at: Span) -> bool {
        let copied = self.copied.saturating_add(bytes.saturating_mul(times));
        if copied > COPIED {
            let what =
                format!("with this, written out for each of {times}, the file is more than {} MiB", COPIED >> 20);
            self.add(at, what + ": write less, or for fewer; `files` take what is long");
            return false;
        }
        self.copied = copied;
        true
    }

    /// Whether further notes are dropped, so that looking for what would be right is in vain.
    pub fn full(&self) -> bool {
        self.found.len() >= NOTED
    }

    /// The file and the line, counted from 1, of a place; none for one that a `--set` has made.
    pub(crate) fn line(&self, at: Span) -> Option<(String, usize)> {
        let source = self.sources.first().filter(|_| at.source == 0)?;
        let lines = self.lines.get_or_init(|| {
            let newlines = source.inner().chars().enumerate().filter(|(_, c)| *c == '\n');
            std::iter::once(0).chain(newlines.map(|(index, _)| index + 1)).collect()
        });
        Some((source.name().to_owned(), lines.partition_point(|start| *start <= at.start)))
    }

    /// How many problems there are so far.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// Whether nothing is wrong so far.
    pub fn none(&self) -> bool {
        self.found.is_empty()
    }

    /// All that was noted, in the order of the file.
    pub fn into_error(mut self) -> Error {
        self.found.sort_by_key(|(span, _)| (span.source, span.start));
        self.found.dedup();
        let problems = self.found.iter().map(|(span, what)| self.problem(*span, what)).collect();
        Error::Wrong(problems)
    }

    fn problem(&self, span: Span, what: &str) -> Problem {
        let source = &self.sources[span.source];
        let text = source.inner();
        let byte = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
        let start = byte(span.start);
        // A pointer to one line is easier to read than a bracket around a whole section.
        let end = byte(span.end.max(span.start));
        let end = text[start..end].find('\n').map_or(end, |n| start + n);
        let before = &text[..start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Problem {
            source: source.clone(),
            start,
            length: end.saturating_sub(start),
            line,
            column,
            kind: self.kind,
            what: what.to_owned(),
        }
    }
}
