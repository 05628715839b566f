//! How much a layer may hold: what is unpacked grows by what was compressed, and by what headers claim.
//!
//! Of a layer only what was fetched has been paid for. A few KiB of it can become any size: zeros compress a thousand
//! times, a sparse file is as long as its header says, and names and records are read into memory whole.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use tar::{Entry, EntryType};

/// The most that all layers of an image hold, in bytes.
const CONTENT: u64 = 64 << 30;
/// So many times its own length a layer may hold, beyond the first [`FREE`] bytes.
const RATIO: u64 = 200;
/// So much any layer may hold.
const FREE: u64 = 512 << 20;
/// The most files that all layers of an image hold.
const FILES: u64 = 2_000_000;
/// The most that stands between the contents of two files: their names, attributes and padding, in bytes.
const HEADERS: u64 = 1 << 20;

/// Bounds that an image may still use up.
#[derive(Debug)]
pub(crate) struct Budget {
    content: u64,
    files: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { content: CONTENT, files: FILES }
    }
}

/// Bounds that one layer may still use up.
pub(crate) struct Bounds<'a> {
    image: &'a mut Budget,
    content: u64,
    headers: Headers,
    /// How many files there were, and how many bytes since it was looked whether there is room for them.
    unlooked: (u64, u64),
}

/// It is looked for room after so many files or bytes.
const LOOK: (u64, u64) = (200, 64 << 20);

/// How much may be read before the next file of a layer begins.
pub(crate) type Headers = Rc<Cell<u64>>;

/// No bound.
const CONTENT_OF_A_FILE: u64 = u64::MAX;

impl<'a> Bounds<'a> {
    /// Those of a layer of so many bytes.
    pub(crate) fn of(image: &'a mut Budget, length: u64, headers: &Headers) -> Bounds<'a> {
        headers.set(HEADERS);
        Bounds { image, content: length.saturating_mul(RATIO).max(FREE), headers: headers.clone(), unlooked: (0, 0) }
    }

    /// A file begins, whose content may now be read.
    pub(crate) fn begin<R: Read>(&mut self, entry: &Entry<'_, R>) -> io::Result<()> {
        // A sparse file is longer than what is stored of it; what is not takes no room anywhere.
        let length = stored(entry)?;
        let too_much = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
        if self.image.files == 0 {
            return too_much("it has more than 2,000,000 files");
        }
        self.image.files -= 1;
        if self.image.content < length {
            return too_much("it holds more than 64 GiB");
        }
        self.image.content -= length;
        if self.content < length {
            return too_much("a layer holds 200 times more than its own length, and more than 512 MiB");
        }
        self.content -= length;
        self.headers.set(CONTENT_OF_A_FILE);
        Ok(())
    }

    /// That there is room on the disk of this thread's root for a file that begins.
    pub(crate) fn check_room<R: Read>(&mut self, entry: &Entry<'_, R>) -> io::Result<()> {
        let stored = stored(entry)?;
        self.unlooked = (self.unlooked.0 + 1, self.unlooked.1.saturating_add(stored));
        if self.unlooked.0 >= LOOK.0 || self.unlooked.1 >= LOOK.1 {
            self.unlooked = (0, 0);
            host::room::check(Path::new("/"), stored).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// A file ends whose content has been read.
    pub(crate) fn end(&mut self) {
        self.headers.set(HEADERS);
    }

    /// A file ends whose content is passed over.
    pub(crate) fn pass<R: Read>(&mut self, entry: &Entry<'_, R>) -> io::Result<()> {
        // It is read before anything else.
        self.headers.set(HEADERS.saturating_add(stored(entry)?));
        Ok(())
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.from.seek(to)
    }
}

/// How many bytes of a layer the content of a file takes.
fn stored<R: Read>(entry: &Entry<'_, R>) -> io::Result<u64> {
    match entry.header().entry_type() {
        EntryType::GNUSparse => entry.header().entry_size(),
        // Records may say another one than the header.
        _ => Ok(entry.size()),
    }
}

/// A reader that goes so far and no further before the next file begins.
pub(crate) struct Counted<R> {
    pub(crate) from: R,
    pub(crate) left: Headers,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == CONTENT_OF_A_FILE {
            return self.from.read(buffer);
        }
        if left == 0 && !buffer.is_empty() {
            let why = "the name or the attributes of a file are too long";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.from.read(&mut buffer[..most])?;
        self.left.set(left - read as u64);
        Ok(read)
    }
}
