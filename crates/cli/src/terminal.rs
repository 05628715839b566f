//! Writing to a reader who may have gone: a closed pipe, or a full disk behind it, must not end a command in its
//! middle.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Writes a line to standard error, if that can be.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes to standard output what a command was asked for. A reader who has seen enough is no failure.
pub fn print(text: impl Display) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(format!("cannot write the output: {e}"))),
        _ => Ok(()),
    }
}
