//! Where a live run is told from outside what is to happen: events by hand, that it is to be suspended, and commands in
//! its nodes.

use std::any::Any;
use std::path::PathBuf;

use crossbeam_channel::{Receiver, never};
use scale::{VirtualDuration, VirtualInstant};
use site::Visits;

/// Something that somebody waits for.
pub struct Asked {
    /// It.
    pub wish: Wish,
    /// Tells the asker what became of it.
    pub answer: Teller,
}

/// Tells an asker what became of a wish.
pub type Teller = Box<dyn FnOnce(site::Result<Answer>) + Send>;

/// Something that a run is to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Have this event happen: what an experiment's file has after `at: …,`.
    Event(String),
    /// Be suspended.
    Suspend,
}

/// The answer to a wish.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It has happened at this virtual time, in seconds.
    Happened(f64),
    /// The run has been suspended.
    Suspended(Suspension),
}

/// How a suspended run is found again.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspension {
    /// Its identity.
    pub id: String,
    /// The virtual second at which its nodes had ended.
    pub at: f64,
}

/// Receives visitors from now on, until what it gives is dropped.
pub type Reception = Box<dyn FnOnce(Visits) -> site::Result<Box<dyn Any>>>;

/// The run's side of all that.
pub struct Desk {
    /// Its identity if it is suspended.
    id: String,
    /// Where it is written for how long nobody has done anything.
    idle: PathBuf,
    asked: Receiver<Asked>,
    /// The listener for those who ask, until nothing can happen any more.
    listener: Option<Box<dyn Any>>,
    reception: Option<Reception>,
    /// The visitors, as long as there is a desk.
    visitors: Option<Box<dyn Any>>,
    /// When the run's nodes had ended, if it is suspended.
    pub(crate) at: Option<VirtualInstant>,
    /// Who waits for that.
    pub(crate) waiting: Option<Teller>,
}

impl Desk {
    /// A desk for a run that gets the identity `id` if it is suspended, and notes in the file `idle` for how long
    /// nobody has done anything in it. Wishes come from `asked` as long as `listener` is there, and visitors once
    /// `reception` has been given their site.
    pub fn new(id: String, idle: PathBuf, asked: Receiver<Asked>, listener: impl Any, reception: Reception) -> Desk {
        let (listener, reception) = (Some(Box::new(listener) as Box<dyn Any>), Some(reception));
        Desk { id, idle, asked, listener, reception, visitors: None, at: None, waiting: None }
    }

    /// Lets visitors in, who stay until nothing of the run lives any more.
    pub(crate) fn receive(&mut self, visits: Visits) -> site::Result<()> {
        if let Some(reception) = self.reception.take() {
            self.visitors = Some(reception(visits)?);
        }
        Ok(())
    }

    /// The identity of the run if it is suspended.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Where wishes arrive.
    pub(crate) fn asked(&self) -> &Receiver<Asked> {
        &self.asked
    }

    /// Writes down for how long nobody has done anything. What cannot be written is only missed by who lists runs.
    pub(crate) fn note_idle(&self, lasts: VirtualDuration) {
        let _ = std::fs::write(&self.idle, lasts.as_secs_f64().to_string());
    }

    /// Nothing happens any more, and who asks is told so.
    pub(crate) fn close(&mut self) {
        self.listener = None;
        self.asked = never();
    }

    /// Tells who waits for it what has become of a suspension, now that nothing of the run lives any more; where it is
    /// found again if it was suspended.
    pub fn settle(self, failure: Option<&site::Error>) -> Option<Suspension> {
        let suspended = self.at.map(|at| Suspension { id: self.id, at: at.as_secs_f64() });
        let outcome = match (failure, suspended) {
            (Some(e), _) => Err(e.clone()),
            (None, Some(suspension)) => Ok(suspension),
            (None, None) => Err(site::Error::failed("the run ended before it was suspended")),
        };
        let suspended = outcome.clone().ok();
        if let Some(answer) = self.waiting {
            answer(outcome.map(Answer::Suspended));
        }
        suspended
    }
}
