//! Visits: commands that somebody outside gives in a node of a live run, and copies of its files, beside the calls of
//! the run.
//!
//! A visit is a conversation. The visitor says first what it wants, and the site answers until it says how that ended;
//! neither waits for the run. Bytes of inputs and outputs go in messages of at most [`PIECE`] bytes, and each side
//! sends at most [`AHEAD`] bytes of one of them that the other has not taken yet, so nothing piles up on the way.

use crossbeam_channel::{Receiver, Sender};
use host::terminal::{Look, Size};
use record::LogStream;
use serde::{Deserialize, Serialize};

use crate::NodeIndex;
use crate::calls::Exit;
use crate::error::Error;
use crate::image::{KeptAbout, SaveImage};

/// The most bytes of an input or output in one message.
pub const PIECE: usize = 32 * 1024;
/// The most bytes of one of them that are on the way, or wait to be taken.
pub const AHEAD: u64 = 128 * 1024;

/// A visit, by the order in which they began.
pub type VisitId = u64;

/// The two directions of all visits of a site, until either end is dropped.
#[derive(Clone, Debug)]
pub struct Visits {
    /// For what visitors say.
    pub said: Sender<(VisitId, Said)>,
    /// Where the site's answers arrive.
    pub told: Receiver<(VisitId, Told)>,
}

/// A visitor's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// It begins, with this.
    Wish(NodeIndex, Wish),
    /// The command has this as its next input.
    Input(#[serde(with = "serde_bytes")] Vec<u8>),
    /// There is no more input.
    InputEnds,
    /// So many bytes of an output have been taken.
    Taken(LogStream, u64),
    /// Nobody takes an output any more: who writes to it is to find it closed.
    Closed(LogStream),
    /// The command gets this signal.
    Signal(i32),
    /// The visitor's terminal has another size.
    Resized(Size),
    /// The visitor has gone: so does the command, with what it started.
    Gone,
}

/// Something to do in a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// To run a command.
    Run {
        /// The command and its arguments.
        argv: Vec<String>,
        /// Its standard input, output and error.
        stdio: [Stdio; 3],
        /// The visitor's terminal, if one of these is to be a terminal.
        terminal: Option<Look>,
    },
    /// To keep what it has written as an image of the machine's.
    Save(SaveImage),
}

/// A standard input or output of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdio {
    /// `/dev/null`.
    Null,
    /// A pipe.
    Pipe,
    /// A pseudo-terminal, one for all that are.
    Terminal,
}

/// A site's word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Told {
    /// A command's next output.
    Output(LogStream, #[serde(with = "serde_bytes")] Vec<u8>),
    /// So many bytes of the input have been taken.
    Taken(u64),
    /// The command has ended, and all that it has written has been told.
    Ended(Exit),
    /// The image has been made.
    Saved(Box<KeptAbout>),
    /// It could not be done, or not brought to its end.
    Refused(Error),
}

impl Told {
    /// Whether this is the last word of a visit.
    pub fn is_last(&self) -> bool {
        matches!(self, Told::Ended(_) | Told::Saved(_) | Told::Refused(_))
    }
}

impl From<Error> for Told {
    fn from(e: Error) -> Told {
        Told::Refused(e)
    }
}
