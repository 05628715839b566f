//! Bounds on what is read of a run directory: it may be another's, damaged, or of any length.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// The longest result, in bytes: one of 5,000 metrics has 7 MB. Read, it takes some 5 times as much memory.
pub(crate) const RESULT: u64 = 8 << 20;
/// The longest plan: one of 10,000 nodes with a link each has 20 MB, and one of the most links 53.
pub(crate) const PLAN: u64 = 64 << 20;
/// The longest table of what links or interfaces did in all, and the most rows of it: those of 50,000 links.
pub(crate) const TOTALS: u64 = 12 << 20;
pub(crate) const MOST_TOTALS: usize = 100_000;
/// The longest system calls of all nodes of a run together.
pub(crate) const CALLS: u64 = 10 << 20;
/// The longest packets of a run: where every counter of all ways and intervals counted something, they have 16 MiB.
pub(crate) const PACKETS: u64 = 20 << 20;
/// The most samples of all metrics of a run together; one keeps a quarter of that, but for those of older versions.
pub(crate) const SAMPLES: u64 = 1 << 20;
/// The longest row of a table, in bytes.
const ROW: usize = 64 << 10;

/// Reads all of a file, of at most so many bytes.
pub(crate) fn whole(path: &Path, file: File, most: u64) -> Result<Vec<u8>> {
    let text = up_to(path, file, most)?;
    text.ok_or_else(|| Error::input(path, format!("longer than {} MiB: a run of diorama writes less", most >> 20)))
}

/// Reads all of a file; nothing, if it has more bytes than that.
pub(crate) fn up_to(path: &Path, file: File, most: u64) -> Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    file.take(most + 1).read_to_end(&mut text).map_err(|e| Error::io(path, "read", e))?;
    Ok(Some(text).filter(|text| text.len() as u64 <= most))
}

/// A reader of the rows of a table, of which none may be long. No cell is taken to be quoted: names need no quotes, and
/// within some a row could have any length.
pub(crate) fn table(from: impl Read) -> csv::Reader<Rows<impl Read>> {
    csv::ReaderBuilder::new().quoting(false).from_reader(Rows { from, long: 0 })
}

/// Passes on lines, and refuses one that is too long.
pub(crate) struct Rows<R> {
    from: R,
    /// How long the line is that has begun.
    long: usize,
}

impl<R: Read> Read for Rows<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(ROW);
        let read = self.from.read(&mut buffer[..most])?;
        self.long = match buffer[..read].iter().rposition(|byte| *byte == b'\n') {
            Some(last) => read - last - 1,
            None => self.long + read,
        };
        if self.long > ROW {
            let what = format!("a line is longer than {} KiB", ROW >> 10);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_an_end() {
        let read = |text: String| -> Result<usize, csv::Error> {
            let text = io::Cursor::new(text);
            table(text).into_records().try_fold(0, |count, row| row.map(|_| count + 1))
        };
        assert_eq!(read(format!("a,b\n{}", "1,2\n".repeat(100_000))).unwrap(), 100_000);
        for endless in
            ["x".repeat(200_000), format!("a,b\n\"{}", "1\n".repeat(100_000)), format!("a\n{}", "y,".repeat(100_000))]
        {
            let refused = read(endless).unwrap_err().to_string();
            assert!(refused.contains("longer than 64 KiB") || refused.contains("fields"), "{refused}");
        }
    }
}
