//! One run that is to be made, and what has become of it.

use std::fmt;
use std::path::PathBuf;

/// The request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The directory in which it is made, absolute: what it names is named from there.
    pub dir: PathBuf,
    /// The words after `diorama run`.
    pub words: Vec<String>,
    /// A job of higher priority goes first; of equal ones that which was added first.
    pub priority: i64,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not begun, or is to be tried again.
    Waiting,
    /// Somebody makes it.
    Running,
    /// It ended with exit code 0.
    Done,
    /// It ended badly, or was cut too often.
    Failed,
    /// Somebody did not want it any more.
    Cancelled,
}

impl State {
    /// All of them.
    pub const ALL: [State; 5] = [State::Waiting, State::Running, State::Done, State::Failed, State::Cancelled];

    /// The word that stands for it.
    pub fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Running => "running",
            State::Done => "done",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }

    pub(crate) fn of(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether nothing will change any more.
    pub fn is_over(self) -> bool {
        matches!(self, State::Done | State::Failed | State::Cancelled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A job of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number in the queue, from 1 on.
    pub id: i64,
    /// The request that it was made for.
    pub wanted: Wanted,
    /// Where the results of its first try go, absolute; those of the second to the same with `.2` behind it, and so on.
    pub place: PathBuf,
    /// Its state.
    pub state: State,
    /// How often it was begun.
    pub tries: u32,
    /// How often it was cut.
    pub cuts: u32,
    /// Its exit code, once it has ended by itself.
    pub code: Option<u8>,
    /// Why it is as it is, where that is not plain.
    pub why: Option<String>,
    /// Seconds since 1970: when it was added, begun last, and over.
    pub times: Times,
    /// Whether somebody wants it to end.
    pub to_cancel: bool,
}

/// When what happened to a job, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Added to the queue.
    pub added: i64,
    /// Begun, the last time.
    pub begun: Option<i64>,
    /// Over.
    pub over: Option<i64>,
}

impl Job {
    /// Where the results of the try that is made now, or was made last, are.
    pub fn out(&self) -> PathBuf {
        match self.tries {
            0 | 1 => self.place.clone(),
            n => {
                let mut out = self.place.clone().into_os_string();
                out.push(format!(".{n}"));
                out.into()
            }
        }
    }
}
