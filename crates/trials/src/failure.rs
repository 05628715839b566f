//! How a trial fails, with the exit codes of `diorama` itself.

use std::fmt::Display;
use std::process::ExitCode;

/// A failure that ends the command early.
#[derive(Debug)]
pub struct Failure {
    /// As `diorama` exits: 1 failed, 2 bad input, 3 the machine lacks something, 130 interrupted.
    pub code: u8,
    /// For the person who reads it.
    pub message: String,
}

impl Failure {
    /// A trial did not end as it should.
    pub fn failed(message: impl Display) -> Failure {
        Failure { code: 1, message: message.to_string() }
    }

    /// The command was used wrongly.
    pub fn input(message: impl Display) -> Failure {
        Failure { code: 2, message: message.to_string() }
    }

    /// Prints the message and gives the exit code.
    pub fn report(self) -> ExitCode {
        eprintln!("diorama-trials: {}", self.message);
        ExitCode::from(self.code)
    }
}
