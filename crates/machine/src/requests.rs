//! Requests of other commands to a live run, taken in at a socket.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::control;

/// How many clients may be connected that have not said anything yet.
const WAITING: usize = 16;

/// A listener for requests to a run, until it is dropped: who comes then is refused.
pub struct Requests {
    /// Closed to end the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Something that somebody waits for.
pub struct Request<T> {
    /// The request.
    pub what: T,
    /// The connection to who waits.
    pub client: OwnedFd,
}

/// A kind of request.
pub trait Ask: DeserializeOwned {
    /// How it is answered, also if it cannot be read.
    type Reply: Serialize + From<site::Error>;
}

/// Answers a client; one that has gone need not be told.
pub fn reply(client: &OwnedFd, reply: &impl Serialize) {
    let _ = control::send_message(client, reply);
}

impl Requests {
    /// Listens at `path`, which must not exist, and gives each request to `tell`, from a thread of its own.
    pub fn listen<T: Ask + 'static>(path: &Path, tell: impl Fn(Request<T>) + Send + 'static) -> io::Result<Requests> {
        let mut callers = Callers::<T>::at(path)?;
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
struct Callers<T> {
    listener: OwnedFd,
    waiting: Vec<OwnedFd>,
    asks: PhantomData<fn() -> T>,
}

impl<T: Ask> Callers<T> {
    fn at(path: &Path) -> io::Result<Callers<T>> {
        Ok(Callers { listener: control::listen_at(path)?, waiting: Vec::new(), asks: PhantomData })
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
    fn asked(&mut self) -> Option<Request<T>> {
        while self.waiting.len() < WAITING && is_ready(&self.listener) {
            let Ok(client) = control::accept(self.listener.as_fd()) else { break };
            self.waiting.push(client);
        }
        while let Some(ready) = self.waiting.iter().position(is_ready) {
            let client = self.waiting.swap_remove(ready);
            match control::receive_message(&client) {
                Ok(Some(what)) => return Some(Request { what, client }),
                Ok(None) => {}
                Err(e) => {
                    let refused = site::Error::input(format_args!("the request cannot be read: {e}"));
                    reply(&client, &T::Reply::from(refused));
                }
            }
        }
        None
    }
}

/// Whether something can be read, or the other side has gone.
fn is_ready(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(n) if n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{EventReply, RunRequest};

    #[test]
    fn a_silent_client_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.sock");
        let mut requests = Callers::<RunRequest>::at(&path).unwrap();
        assert!(requests.asked().is_none());
        let silent = control::connect_to(&path).unwrap();
        let gone = control::connect_to(&path).unwrap();
        drop(gone);
        let asking = control::connect_to(&path).unwrap();
        control::send_message(&asking, &RunRequest::Event("node: a, do: kill".into())).unwrap();
        let request = requests.asked().unwrap();
        assert_eq!(request.what, RunRequest::Event("node: a, do: kill".into()));
        request.answer(Ok(2.5));
        let reply = control::receive_message::<EventReply>(&asking).unwrap().unwrap();
        assert_eq!(reply, EventReply::Happened(2.5));
        control::send_message(&silent, &7).unwrap();
        assert!(requests.asked().is_none());
        let reply = control::receive_message::<EventReply>(&silent).unwrap().unwrap();
        assert!(matches!(reply, EventReply::Refused(told) if told.kind == site::Kind::Input));
    }

    #[test]
    fn requests_come_until_nobody_listens_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.sock");
        let (send, receive) = crossbeam_channel::unbounded();
        let requests = Requests::listen::<RunRequest>(&path, move |request| drop(send.send(request))).unwrap();
        let asking = control::connect_to(&path).unwrap();
        control::send_message(&asking, &RunRequest::SwapOut).unwrap();
        assert_eq!(receive.recv().unwrap().what, RunRequest::SwapOut);
        drop(requests);
        assert_eq!(control::connect_to(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(receive.recv().is_err(), "its thread has ended");
    }
}
