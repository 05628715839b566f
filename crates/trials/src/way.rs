//! The ways in which the same program is run to be compared: as it is, under `diorama dilate`, and under libfaketime.

use std::io::{BufRead, BufReader, Read};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::driver::Driver;

/// The factor of the dilated runs, and of libfaketime's.
pub const TDF: u32 = 10;
/// From now on, at a tenth of the pace: the same factor as libfaketime is told of it.
const PACE: &str = "+0 x0.1";

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Native,
    Dilated,
    Faketime,
}

impl Way {
    /// A command that runs `program` in this way.
    pub fn command(self, driver: &Driver, program: &str) -> Command {
        let mut command = match self {
            Way::Native => Command::new(program),
            Way::Dilated => Command::new(driver.program()),
            Way::Faketime => Command::new("faketime"),
        };
        match self {
            Way::Native => {}
            Way::Dilated => drop(command.args(["dilate", "--tdf", &TDF.to_string(), "--", program])),
            Way::Faketime => drop(command.args(["-f", PACE, program])),
        }
        command
    }

    /// How many real seconds a second of the program lasts.
    pub fn pace(self) -> f64 {
        if self == Way::Native { 1.0 } else { f64::from(TDF) }
    }
}

/// The words of a program, and how long the part took that it says it in, in real time.
#[derive(Debug, Default)]
pub struct Said {
    pub text: String,
    pub real: Duration,
}

/// Listens until a program ends. What it does before a line `-` does not count.
pub fn listen(out: impl Read) -> Said {
    let mut start = Instant::now();
    let mut text = String::new();
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        match line.as_str() {
            "-" => start = Instant::now(),
            _ => text += &(line + "\n"),
        }
    }
    Said { text, real: start.elapsed() }
}

/// The tolerance of a wait on a busy machine: a part of it, and ms.
const LATE: (f64, f64) = (0.25, 60.0);

/// Why a wait was not as long as it should be, in ms of the program's own clock, if it was not. A clock of some grain
/// may show so much too little.
pub fn amiss(nominal: f64, grain: f64, took: f64) -> Option<&'static str> {
    match took {
        _ if took < nominal - grain => Some("early"),
        _ if took > nominal * (1.0 + LATE.0) + LATE.1 => Some("late"),
        _ => None,
    }
}
