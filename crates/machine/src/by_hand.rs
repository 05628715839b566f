//! `diorama event` and `diorama swap out`: what a live run is told by hand.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::control::{self, EventReply, RunRequest};
use crate::error::{Error, Result};
use crate::live::{LiveRun, event_socket_of};

/// How many clients may be connected that have not said anything yet.
const WAITING: usize = 16;

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

/// Puts a live run aside, and waits until it has been: its identity from then on, and the virtual time, in seconds.
///
/// # Errors
///
/// If the run cannot be put aside, and goes on; or cannot be reached.
pub fn swap_out(run: &LiveRun) -> Result<(String, f64)> {
    match ask(run, &RunRequest::SwapOut, "it was put aside")? {
        EventReply::Suspended { id, at } => Ok((id, at)),
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

/// A listener for requests to a run, until it is dropped: who comes then is refused.
pub struct Requests {
    /// Closed to end the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Something that somebody waits for.
pub struct Request {
    /// The request.
    pub what: RunRequest,
    client: OwnedFd,
}

impl Requests {
    /// Listens at `path`, which must not exist, and gives each request to `tell`, from a thread of its own.
    pub fn listen(path: &Path, tell: impl Fn(Request) + Send + 'static) -> io::Result<Requests> {
        let mut callers = Callers::at(path)?;
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let follow = move || {
            while callers.wait(&stopped) {
                while let Some(request) = callers.asked() {
                    tell(request);
                }
            }
        };
        let thread = thread::Builder::new().name("requests".into()).spawn(follow)?;
        Ok(Requests { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Who has connected, and has still to say what is to happen. It blocks for none of them.
struct Callers {
    listener: OwnedFd,
    waiting: Vec<OwnedFd>,
}

impl Callers {
    fn at(path: &Path) -> io::Result<Callers> {
        Ok(Callers { listener: control::listen_at(path)?, waiting: Vec::new() })
    }

    /// Waits until somebody comes or says something; false when it is to end.
    fn wait(&self, stopped: &OwnedFd) -> bool {
        let heard = [stopped, &self.listener].into_iter().chain(&self.waiting);
        // Who waits while all places are taken waits for one of those that have them.
        let full = self.waiting.len() >= WAITING;
        let heard = heard.enumerate().filter(|(place, _)| !full || *place != 1).map(|(_, fd)| fd);
        let mut fds: Vec<PollFd> = heard.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let polled = poll(&mut fds, None);
        let interrupted = matches!(polled, Err(rustix::io::Errno::INTR));
        interrupted || (polled.is_ok() && fds[0].revents().is_empty())
    }

    /// The next request, if there is one.
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
                    answer(&client, &EventReply::Refused(site::Error::input(what)));
                }
            }
        }
        None
    }
}

impl Request {
    /// Tells the client what became of it.
    pub fn answer(self, outcome: site::Result<f64>) {
        let reply = match outcome {
            Ok(at) => EventReply::Happened(at),
            Err(e) => EventReply::Refused(e),
        };
        answer(&self.client, &reply);
    }

    /// Tells the client under which identity, and at which virtual second, the run was suspended.
    pub fn answer_suspended(self, id: String, at: f64) {
        answer(&self.client, &EventReply::Suspended { id, at });
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
        let mut requests = Callers::at(&path).unwrap();
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
        assert!(matches!(reply, EventReply::Refused(told) if told.kind == site::Kind::Input));
    }

    #[test]
    fn requests_come_until_nobody_listens_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.sock");
        let (send, receive) = crossbeam_channel::unbounded();
        let requests = Requests::listen(&path, move |request| drop(send.send(request))).unwrap();
        let asking = control::connect_to(&path).unwrap();
        control::send_message(&asking, &RunRequest::SwapOut).unwrap();
        assert_eq!(receive.recv().unwrap().what, RunRequest::SwapOut);
        drop(requests);
        assert_eq!(control::connect_to(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(receive.recv().is_err(), "its thread has ended");
    }
}
