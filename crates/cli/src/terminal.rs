//! Writing to a reader who may have gone: a closed pipe, or a full disk behind it, must not end a command in its
//! middle. And hearing the signals by which somebody ends it.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

use crate::failure::Failure;

/// Writes a line to standard error, if that can be.
pub fn say(line: impl Display) {
    let line = line.to_string();
    let _ = writeln!(io::stderr(), "{}", engine::visible(&line));
}

/// Writes to standard output what a command was asked for. A reader who has seen enough is no failure.
pub fn print(text: impl Display) -> Result<(), Failure> {
    match write(text) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(cannot_write(e)),
        _ => Ok(()),
    }
}

/// Writes to standard output, at once: into a file or a pipe goes what it is, to a terminal what can be seen.
pub fn write(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let text = text.to_string();
    let text = if out.is_terminal() { engine::visible(&text) } else { text.as_str().into() };
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Begins to listen to signals.
pub fn interrupts() -> Result<engine::Interrupts, Failure> {
    engine::interrupts().map_err(|e| Failure::failed(format!("cannot listen to signals: {e}")))
}

/// The failure of a command whose output cannot be written.
pub fn cannot_write(e: io::Error) -> Failure {
    Failure::failed(format!("cannot write the output: {e}"))
}
