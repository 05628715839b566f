//! Files with holes: where their data is.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// A stretch of data: (start, length), in bytes.
pub(super) type Stretch = (u64, u64);

/// Where the data of a file is that is `size` bytes long; none if it has no holes.
pub(super) fn stretches(file: &File, size: u64) -> io::Result<Option<Vec<Stretch>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < size => start,
            // A hole up to the end.
            Ok(_) | Err(Errno::NXIO) => break,
            // Not every file system tells.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let end = seek(file, SeekFrom::Hole(start))?.min(size);
        found.push((start, end - start));
        // Whoever writes to it meanwhile must not keep us here.
        at = end.max(start + 1);
    }
    Ok(if size == 0 || found == [(0, size)] { None } else { Some(found) })
}

/// Reads stretches of a file, one after the other. Each is as long as it was said to be: what is no longer there is
/// read as zeros, for the headers before it cannot be taken back.
pub(super) struct Exactly<'a> {
    file: &'a File,
    left: Vec<Stretch>,
}

impl<'a> Exactly<'a> {
    pub(super) fn new(file: &'a File, stretches: &[Stretch]) -> Exactly<'a> {
        Exactly { file, left: stretches.iter().rev().copied().collect() }
    }
}

impl Read for Exactly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some((at, length)) = self.left.last_mut() else { return Ok(0) };
            if *length == 0 {
                self.left.pop();
                continue;
            }
            let wanted = usize::try_from(*length).unwrap_or(usize::MAX).min(buffer.len());
            let read = match self.file.read_at(&mut buffer[..wanted], *at)? {
                0 => {
                    buffer[..wanted].fill(0);
                    wanted
                }
                read => read,
            };
            (*at, *length) = (*at + read as u64, *length - read as u64);
            return Ok(read);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_found_between_holes_and_a_file_that_shrinks_is_filled_up() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"begin", 0).unwrap();
        file.write_all_at(b"end", 1 << 20).unwrap();
        file.set_len(4 << 20).unwrap();
        let found = stretches(&file, 4 << 20).unwrap().unwrap();
        assert!(found.len() == 2 && found[0].0 == 0 && found[1].0 <= 1 << 20, "{found:?}");
        assert!(found.iter().map(|s| s.1).sum::<u64>() < 100_000, "{found:?}");
        let mut text = Vec::new();
        Exactly::new(&file, &[(3, 2), ((4 << 20) - 1, 3)]).read_to_end(&mut text).unwrap();
        assert_eq!(text, b"in\0\0\0");
        let full = tempfile::tempfile().unwrap();
        full.write_all_at(b"full", 0).unwrap();
        assert_eq!(stretches(&full, 4).unwrap(), None);
        assert_eq!(stretches(&full, 0).unwrap(), None);
    }
}
