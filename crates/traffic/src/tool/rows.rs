//! Rows that both ends write down: one for each second.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

const SECOND: u64 = 1_000_000_000;

/// The seconds since something began, which need not be those of a clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seconds {
    /// When the present one began, in ns since 1970; none before the beginning.
    start: Option<u64>,
}

impl Seconds {
    /// Begins the first one, unless that has happened.
    pub fn begin(&mut self, now: u64) {
        self.start.get_or_insert(now);
    }

    pub fn begun(&self) -> bool {
        self.start.is_some()
    }

    /// The start of the present one, if that is over; the next one is the present one then.
    pub fn over(&mut self, now: u64) -> Option<u64> {
        let start = self.start.filter(|start| now >= start + SECOND)?;
        self.start = Some(start + SECOND);
        Some(start)
    }

    /// The start of the present one and how much of it has passed, from 0 to 1; there is none from then on.
    pub fn end(&mut self, now: u64) -> Option<(u64, f64)> {
        let start = self.start.take()?;
        Some((start, now.saturating_sub(start) as f64 / SECOND as f64))
    }
}

/// A date as rows have it: in seconds.
pub(super) fn seconds(date: u64) -> String {
    format!("{}.{:09}", date / SECOND, date % SECOND)
}

/// A new file for rows, and the folder that it is in.
pub(super) fn file(path: &str) -> Result<File, String> {
    let made = Path::new(path).parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| File::options().create(true).append(true).open(path)).map_err(|e| format!("{path}: {e}"))
}

/// Writes rows at once: whoever reads them may come at any time.
pub(super) fn write(mut file: &File, rows: &str) -> Result<(), String> {
    let full = |e: io::Error| format!("cannot write down what was seen: {e}");
    if rows.is_empty() { Ok(()) } else { file.write_all(rows.as_bytes()).map_err(full) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_follow_one_another_from_the_first() {
        let mut of = Seconds::default();
        assert_eq!((of.begun(), of.over(9 * SECOND), of.end(3)), (false, None, None));
        of.begin(500);
        of.begin(900);
        assert_eq!(of.over(SECOND + 499), None);
        assert_eq!(of.over(2 * SECOND + 500), Some(500));
        assert_eq!(of.over(2 * SECOND + 500), Some(SECOND + 500));
        assert_eq!(of.over(2 * SECOND + 500), None);
        assert_eq!(of.end(2 * SECOND + SECOND / 2 + 500), Some((2 * SECOND + 500, 0.5)));
        assert!(!of.begun());
        assert_eq!(seconds(SECOND * 1_700_000_000 + 5), "1700000000.000000005");
    }
}
