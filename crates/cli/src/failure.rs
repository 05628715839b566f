//! How a verb fails: a sentence for the person who reads it, and the exit code that scripts rely on.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// A failure that ends the command.
#[derive(Debug)]
pub struct Failure {
    /// 1: the experiment failed or the comparison is outside; 2: bad input or usage; 3: the machine lacks or already
    /// uses something; 130: interrupted. `dilate` has codes of its own.
    pub code: u8,
    /// Says what happened, to which node or line, and what would be right.
    pub message: String,
}

impl Failure {
    /// The experiment failed, or a comparison is outside its bounds.
    pub fn failed(message: impl Display) -> Self {
        Self { code: 1, message: message.to_string() }
    }

    /// The user's input or usage is wrong.
    pub fn input(message: impl Display) -> Self {
        Self { code: 2, message: message.to_string() }
    }

    /// A file that was asked for cannot be written.
    pub fn cannot_write(file: &Path) -> impl FnOnce(io::Error) -> Failure {
        move |e| Failure::failed(format!("{}: cannot write: {e}", file.display()))
    }

    /// Prints the message and gives the exit code.
    pub fn report(self) -> ExitCode {
        engine::warn(&self.message);
        ExitCode::from(self.code)
    }
}

impl From<engine::Error> for Failure {
    fn from(e: engine::Error) -> Self {
        Self { code: e.code(), message: e.to_string() }
    }
}

impl From<engine::MachineError> for Failure {
    fn from(e: engine::MachineError) -> Self {
        engine::Error::from(e).into()
    }
}

impl From<engine::RunError> for Failure {
    fn from(e: engine::RunError) -> Self {
        engine::Error::from(e).into()
    }
}

impl From<queue::Error> for Failure {
    fn from(e: queue::Error) -> Self {
        Self { code: e.code(), message: e.to_string() }
    }
}

impl From<bench::Error> for Failure {
    fn from(e: bench::Error) -> Self {
        Self { code: e.code(), message: e.to_string() }
    }
}
