//! Writing to a reader who may have gone: a closed pipe, or a full disk behind it, must not end a command in its
//! middle.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};

use crate::failure::Failure;

/// Writes a line to standard error, if that can be.
pub fn say(line: impl Display) {
    let line = line.to_string();
    let _ = writeln!(std::io::stderr(), "{}", engine::visible(&line));
}

/// Writes to standard output what a command was asked for. A reader who has seen enough is no failure.
pub fn print(text: impl Display) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let text = text.to_string();
    // Into a file goes what it is.
    let text = if out.is_terminal() { engine::visible(&text) } else { text.as_str().into() };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(format!("cannot write the output: {e}"))),
        _ => Ok(()),
    }
}
