//! Regular expressions of metrics and conditions.

use std::collections::HashMap;

use crate::error::Problems;
use crate::tree::Span;

/// The most regular expressions of a file, and how large they are when they are compiled, in bytes; but for a few large
/// ones.
const PATTERNS: usize = 256;
const SMALL_PATTERN: usize = 1 << 17;
const LARGE_PATTERNS: usize = 32;
const LARGEST_PATTERN: usize = 1 << 20;
/// How long a regular expression is at most as it is written, in bytes: to read one takes a hundred times as much.
const LONGEST_PATTERN: usize = 64 << 10;

/// The regular expressions of a file, in bounded memory: only those are kept that are looked for while a run goes on.
#[derive(Default)]
pub(super) struct Patterns {
    /// How many groups each has; none if it is wrong.
    known: HashMap<String, Option<usize>>,
    kept: HashMap<String, regex::Regex>,
    /// How many of them are large.
    large: usize,
}

impl Patterns {
    /// How many groups a regular expression has; nothing, with a note, if it is wrong.
    pub fn groups(&mut self, written: &str, at: Span, problems: &mut Problems) -> Option<usize> {
        if let Some(known) = self.known.get(written) {
            return *known;
        }
        let groups = self.compile(written, at, problems).map(|regex| regex.captures_len() - 1);
        self.known.insert(written.to_owned(), groups);
        groups
    }

    /// A regular expression that is looked for while a run goes on; none, with a note, if it is wrong.
    pub fn kept(&mut self, written: &str, at: Span, problems: &mut Problems) -> Option<regex::Regex> {
        if let Some(kept) = self.kept.get(written) {
            return Some(kept.clone());
        }
        if self.known.get(written) == Some(&None) {
            return None;
        }
        let regex = self.compile(written, at, problems);
        self.known.insert(written.to_owned(), regex.as_ref().map(|regex| regex.captures_len() - 1));
        self.kept.extend(regex.clone().map(|regex| (written.to_owned(), regex)));
        regex
    }

    fn compile(&mut self, written: &str, at: Span, problems: &mut Problems) -> Option<regex::Regex> {
        if self.known.len() >= PATTERNS && !self.known.contains_key(written) {
            problems.add(at, format!("these are more than {PATTERNS} different regular expressions: write fewer"));
            return None;
        }
        if written.len() > LONGEST_PATTERN {
            problems.add(at, format!("a regular expression has at most {} KiB", LONGEST_PATTERN >> 10));
            return None;
        }
        let build = |limit| regex::RegexBuilder::new(written).size_limit(limit).build();
        let mut built = build(SMALL_PATTERN);
        if matches!(built, Err(regex::Error::CompiledTooBig(_))) {
            self.large += 1;
            if self.large > LARGE_PATTERNS {
                let what = format!("these are more than {LARGE_PATTERNS} large regular expressions");
                problems.add(at, what + ": write `[0-9]` for `\\d`, and `[a-z]` for `\\w`, which has all alphabets");
                return None;
            }
            built = build(LARGEST_PATTERN);
        }
        let note = |e: regex::Error| {
            let reason = e.to_string();
            let reason = reason.lines().last().unwrap_or("").trim_start_matches("error: ");
            problems.add(at, format!("this is not a regular expression: {reason}; test it with `grep -P`"));
        };
        built.map_err(note).ok()
    }
}
