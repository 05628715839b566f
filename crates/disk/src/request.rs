//! Requests to a disk, and its answers.

use scale::VirtualInstant;
use serde::{Deserialize, Serialize};

/// A request, as a block device gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its name, which nothing else has that is outstanding or not durable yet.
    pub id: u64,
    /// The request.
    pub op: Op,
    /// Where it begins, in bytes; a multiple of [`SECTOR`]. A flush has none: 0.
    pub offset: u64,
    /// How long it is, in bytes; a multiple of [`SECTOR`], 0 for a flush only, and up to [`LONGEST`] unless it trims.
    pub length: u64,
}

/// The unit of offsets and lengths, in bytes.
pub const SECTOR: u64 = 512;

/// The longest read or write, in bytes: 64 MiB. Drivers of block devices split what is longer, at 32 MiB or less.
pub const LONGEST: u64 = 64 << 20;

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Read a range.
    Read,
    /// Write a range; where it has a write cache, the disk may keep the data there.
    Write,
    /// Write a range, and say so when it would survive a power cut (FUA, force unit access).
    WriteThrough,
    /// Make all data survive a power cut whose writing has been completed before.
    Flush,
    /// Say that a range is no longer needed.
    Trim,
}

/// Something that a disk has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: VirtualInstant,
    /// For which request.
    pub id: u64,
    /// Its kind.
    pub kind: EventKind,
}

/// The answer of a disk to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// It is complete: the program that waits for it goes on. Every request has one, unless the power is cut.
    Completed,
    /// Its data survives a power cut from now on. Every write has one, unless the power is cut; from a write cache
    /// it comes after the completion, otherwise just before.
    Durable,
}

/// The fate of one write in a power cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The write.
    pub id: u64,
    /// Whether it had been completed.
    pub completed: bool,
    /// Which parts of it are on the medium nonetheless, in bytes: a write can be torn.
    pub kept: Vec<Span>,
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// Its first byte.
    pub begin: u64,
    /// The first byte behind it.
    pub end: u64,
}

impl Span {
    /// The bytes that a request is about.
    pub fn of(request: &Request) -> Span {
        Span { begin: request.offset, end: request.offset + request.length }
    }

    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.end - self.begin
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.end <= self.begin
    }

    /// The thing it has in common with another, if anything.
    pub fn common(&self, other: &Span) -> Option<Span> {
        let both = Span { begin: self.begin.max(other.begin), end: self.end.min(other.end) };
        (!both.is_empty()).then_some(both)
    }

    /// Whether all of another is in it.
    pub fn holds(&self, other: &Span) -> bool {
        self.begin <= other.begin && other.end <= self.end
    }
}

/// Why a disk does not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Some of it is behind the end.
    #[error("bytes {begin} to {end} are asked for, and the disk has {capacity}: ask for what lies below its capacity")]
    BehindTheEnd {
        /// Its first byte.
        begin: u64,
        /// The first byte behind it.
        end: u64,
        /// The bytes that the disk has.
        capacity: u64,
    },
    /// It does not begin or end with a sector, or is empty.
    #[error("{length} bytes at {offset} are asked for: both must be multiples of {SECTOR}, and the length not 0")]
    NoSectors {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        length: u64,
    },
    /// It reads or writes more than any driver asks for at a time.
    #[error("{length} bytes are asked for at a time: split what is longer than {LONGEST}")]
    TooLong {
        /// How long it is.
        length: u64,
    },
    /// Another request of this name is not done with.
    #[error("request {0} is outstanding or not durable yet: give each its own number")]
    SameName(u64),
}
