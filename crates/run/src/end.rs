//! How a run came to its end, and what broke on the way there.

use std::time::Duration;

use scale::{RealInstant, Tdf, VirtualDuration};

use crate::error::{Error, Result};
use crate::schedule::Ending;

/// How long nodes may take to heed the end of the run; then they are killed.
const GRACE: VirtualDuration = VirtualDuration::from_nanos(1_500_000_000);
/// The most of it, in real time.
const LONGEST_GRACE: Duration = Duration::from_secs(60);
/// Their grace in real time if the user wants an end, or the harness has failed.
const SHORT_GRACE: Duration = Duration::from_millis(1500);

/// The end of a run.
pub struct End {
    /// How it came.
    pub ending: Ending,
    /// When.
    pub at: RealInstant,
    /// The first failure, if there was one.
    pub broken: Option<Error>,
}

impl End {
    /// The end that is now, by what became of following the schedule.
    pub fn of(followed: Result<Ending>) -> End {
        let at = host::now();
        match followed {
            Ok(ending) => End { ending, at, broken: None },
            Err(e) => End { ending: Ending::Broken(e.to_string()), at, broken: Some(e) },
        }
    }

    /// Notes that something broke.
    pub fn breaks(&mut self, e: impl Into<Error>) {
        self.broken.get_or_insert(e.into());
    }

    /// A run that came to its end as it should, and in which something broke then, has failed for that.
    pub fn conclude(&mut self) {
        if let (Some(e), Ending::Exited | Ending::Limit | Ending::Late(_)) = (&self.broken, &self.ending) {
            self.ending = Ending::Broken(e.to_string());
        }
    }

    /// Whether somebody waits for it to be over: the user wants an end, or the harness has failed.
    pub fn is_hasty(&self) -> bool {
        matches!(self.ending, Ending::Interrupted | Ending::Broken(_))
    }

    /// Whether the run went as the experiment says, so that its nodes may be looked at.
    pub fn is_regular(&self) -> bool {
        !self.is_hasty() && !matches!(self.ending, Ending::Failed(_))
    }

    /// How long nodes may take to end.
    pub fn grace(&self, tdf: Tdf) -> Duration {
        match self.is_hasty() {
            true => SHORT_GRACE,
            false => LONGEST_GRACE.min(tdf.to_real(GRACE).into()),
        }
    }

    /// The result of the whole run; `unread` says that the user did not wait for its results.
    pub fn result(self, unread: bool) -> Result<()> {
        match self.broken {
            _ if unread || self.ending == Ending::Interrupted => Err(Error::Interrupted),
            Some(e) => Err(e),
            None => Ok(()),
        }
    }
}
