//! `diorama event` and `diorama swap out`: what a live run is told by hand.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::{self, EventReply, RunRequest};
use crate::error::{Error, ErrorReport, Kind, Result};
use crate::registry::{LiveRun, event_socket_of};

/// How many clients may be connected that have not said anything yet.
const WAITING: usize = 16;

/// Has an event happen in a live run, as an experiment's file writes it after `at: …,`; when it happened, in virtual
/// seconds.
///
/// # Errors
///
/// What is wrong with the event, or that the run cannot be reached.
pub fn event(run: &LiveRun, event: &str) -> Result<f64> {
    match ask(run, &RunRequest::Event(event.to_owned()), "the event happened")? {
        EventReply::Happened(at) | EventReply::Aside { at, .. } => Ok(at),
        EventReply::Refused(told) => Err(Error::Reported(told)),
    }
}

/// Puts a live run aside, and waits until it has been: its identity from then on, and the virtual time, in seconds.
///
/// # Errors
///
/// If the run cannot be put aside, and goes on; or cannot be reached.
pub fn swap_out(run: &LiveRun) -> Result<(String, f64)> {
    match ask(run, &RunRequest::SwapOut, "it was put aside")? {
        EventReply::Aside { id, at } => Ok((id, at)),
        EventReply::Happened(at) => Ok((run.id.clone(), at)),
        EventReply::Refused(told) => Err(Error::Reported(told)),
    }
}

fn ask(run: &LiveRun, request: &RunRequest, what: &str) -> Result<EventReply> {
    let path = event_socket_of(run);
    let gone = |source: io::Error| {
        let what = format!("run {}: cannot reach it at {}", run.name, path.display());
        Error::Io { what, source }
    };
    let socket = control::connect_to(&path).map_err(|e| match e.kind() {
        io::ErrorKind::ConnectionRefused => {
            Error::Usage(format!("nothing can happen in the run {} any more: its virtual time is over", run.name))
        }
        _ => gone(e),
    })?;
    control::send_message(&socket, request).map_err(gone)?;
    match control::receive_message::<EventReply>(&socket).map_err(gone)? {
        Some((reply, _)) => Ok(reply),
        None => Err(Error::SiteLost(format!("run {} ended before {what}", run.name))),
    }
}

/// The run's half: who has connected, and has still to say what is to happen. It never blocks.
pub struct Requests {
    listener: OwnedFd,
    waiting: Vec<OwnedFd>,
}

/// Something that somebody waits for.
pub struct Request {
    /// What is to happen.
    pub what: RunRequest,
    client: OwnedFd,
}

impl Requests {
    /// Listens at `path`, which must not exist.
    pub fn at(path: &Path) -> io::Result<Requests> {
        Ok(Requests { listener: control::listen_at(path)?, waiting: Vec::new() })
    }

    /// What is asked for now, if anything is.
    pub fn asked(&mut self) -> Option<Request> {
        while self.waiting.len() < WAITING && is_ready(&self.listener) {
            let Ok(client) = control::accept(self.listener.as_fd()) else { break };
            self.waiting.push(client);
        }
        while let Some(ready) = self.waiting.iter().position(is_ready) {
            let client = self.waiting.swap_remove(ready);
            match control::receive_message::<RunRequest>(&client) {
                Ok(Some((what, _))) => return Some(Request { what, client }),
                Ok(None) => {}
                Err(e) => {
                    let what = format!("the request cannot be read: {e}");
                    answer(&client, &EventReply::Refused(ErrorReport { kind: Kind::Input, what, help: None }));
                }
            }
        }
        None
    }
}

impl Request {
    /// Tells the client what became of it.
    pub fn answer(self, outcome: Result<f64>) {
        let reply = match outcome {
            Ok(at) => EventReply::Happened(at),
            Err(e) => EventReply::Refused(e.report()),
        };
        answer(&self.client, &reply);
    }

    /// Tells the client under which identity, and at which virtual second, the run was put aside.
    pub fn answer_aside(self, outcome: Result<(String, f64)>) {
        let reply = match outcome {
            Ok((id, at)) => EventReply::Aside { id, at },
            Err(e) => EventReply::Refused(e.report()),
        };
        answer(&self.client, &reply);
    }
}

/// A client that has gone need not be told.
fn answer(client: &OwnedFd, reply: &EventReply) {
    let _ = control::send_message(client, reply);
}

/// Whether something can be read, or the other side has gone.
fn is_ready(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(n) if n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_client_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.sock");
        let mut requests = Requests::at(&path).unwrap();
        assert!(requests.asked().is_none());
        let silent = control::connect_to(&path).unwrap();
        let gone = control::connect_to(&path).unwrap();
        drop(gone);
        let asking = control::connect_to(&path).unwrap();
        control::send_message(&asking, &RunRequest::Event("node: a, do: kill".into())).unwrap();
        let request = requests.asked().unwrap();
        assert_eq!(request.what, RunRequest::Event("node: a, do: kill".into()));
        request.answer(Ok(2.5));
        let reply = control::receive_message::<EventReply>(&asking).unwrap().unwrap().0;
        assert_eq!(reply, EventReply::Happened(2.5));
        control::send_message(&silent, &7).unwrap();
        assert!(requests.asked().is_none());
        let reply = control::receive_message::<EventReply>(&silent).unwrap().unwrap().0;
        assert!(matches!(reply, EventReply::Refused(told) if told.kind == Kind::Input));
    }
}
