//! `diorama event` and `diorama swap out`: what a live run is told by hand.

use std::io;

use crate::control::{self, EventReply, RunRequest};
use crate::error::{Error, Result};
use crate::live::{LiveRun, event_socket_of};
use crate::requests::{Ask, Request, reply};

/// Has an event happen in a live run, as an experiment's file writes it after `at: …,`; when it happened, in virtual
/// seconds.
///
/// # Errors
///
/// If the event is wrong, or the run cannot be reached.
pub fn event(run: &LiveRun, event: &str) -> Result<f64> {
    match ask(run, &RunRequest::Event(event.to_owned()), "the event happened")? {
        EventReply::Happened(at) | EventReply::Suspended { at, .. } => Ok(at),
        EventReply::Refused(told) => Err(Error::Reported(told)),
    }
}

/// Suspends a live run, and waits until it has been: its identity from then on, and the virtual time, in seconds.
///
/// # Errors
///
/// If the run cannot be suspended, and goes on; or cannot be reached.
pub fn swap_out(run: &LiveRun) -> Result<(String, f64)> {
    match ask(run, &RunRequest::SwapOut, "it was suspended")? {
        EventReply::Suspended { id, at } => Ok((id, at)),
        EventReply::Happened(at) => Ok((run.id.clone(), at)),
        EventReply::Refused(told) => Err(Error::Reported(told)),
    }
}

fn ask(run: &LiveRun, request: &RunRequest, what: &str) -> Result<EventReply> {
    let path = event_socket_of(run);
    let gone = |source: io::Error| Error::unreachable(run, source);
    let socket = control::connect_to(&path).map_err(|e| match e.kind() {
        io::ErrorKind::ConnectionRefused => {
            Error::Usage(format!("nothing can happen in the run {} any more: its virtual time is over", run.name))
        }
        _ => gone(e),
    })?;
    control::send_message(&socket, request).map_err(gone)?;
    match control::receive_message::<EventReply>(&socket).map_err(gone)? {
        Some(reply) => Ok(reply),
        None => Err(Error::SiteLost(format!("run {} ended before {what}", run.name))),
    }
}

impl Ask for RunRequest {
    type Reply = EventReply;
}

impl From<site::Error> for EventReply {
    fn from(e: site::Error) -> EventReply {
        EventReply::Refused(e)
    }
}

impl Request<RunRequest> {
    /// Tells the client what became of it.
    pub fn answer(self, outcome: site::Result<f64>) {
        let outcome = match outcome {
            Ok(at) => EventReply::Happened(at),
            Err(e) => EventReply::Refused(e),
        };
        reply(&self.client, &outcome);
    }

    /// Tells the client under which identity, and at which virtual second, the run was suspended.
    pub fn answer_suspended(self, id: String, at: f64) {
        reply(&self.client, &EventReply::Suspended { id, at });
    }
}
