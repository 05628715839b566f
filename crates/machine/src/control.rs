//! The sockets of a live run, for `diorama exec`, `image save`, `event` and `swap out`: requests and replies in CBOR,
//! one a packet.
//!
//! One connection of `exec` or `image save` is one visit (`site::Visits`): after the first [`VisitRequest`] the client
//! sends `site::Said`, and hears `site::Told`. A client that goes away takes its command with it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recv, send, socket_with,
};
use serde::{Deserialize, Serialize};
use site::Stdio;

use crate::error::{Error, Result};
use crate::live::{LiveRun, control_socket_of};

/// The longest message, which bounds the length of a command line; the kernel's own bound on one is 2 MiB, and that on
/// one of its words 128 KiB.
const LONGEST: usize = 192 * 1024;

/// A visit that is to begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitRequest {
    /// The node's name.
    pub node: String,
    /// Something to do in it.
    pub wish: VisitWish,
}

/// Something to do in a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VisitWish {
    /// To run a command.
    Run {
        /// The command and its arguments.
        argv: Vec<String>,
        /// Its standard input, output and error.
        stdio: [Stdio; 3],
        /// The client's terminal, if one of these is to be a terminal.
        terminal: Option<host::terminal::Look>,
    },
    /// To keep what it has written as an image of this name.
    Save {
        /// The name.
        image: String,
    },
}

/// A request to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunRequest {
    /// Have this event happen: what an experiment's file has after `at: …,`.
    Event(String),
    /// Be suspended.
    SwapOut,
}

/// The answer to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventReply {
    /// It has happened at this virtual time, in seconds.
    Happened(f64),
    /// The run has been suspended.
    Suspended {
        /// Under this identity.
        id: String,
        /// At this virtual time, in seconds.
        at: f64,
    },
    /// It has not.
    Refused(site::Error),
}

/// Connects to a live run, and begins a visit.
pub fn visit(run: &LiveRun, request: &VisitRequest) -> Result<OwnedFd> {
    let gone = |e: io::Error| Error::unreachable(run, e);
    let socket = connect_to(&control_socket_of(run)).map_err(gone)?;
    send_message(&socket, request).map_err(gone)?;
    Ok(socket)
}

/// Starts to listen at `path`, which must not exist.
pub fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, 16)?;
    Ok(socket)
}

/// Takes the next connection; blocks.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(accept_with(listener, SocketFlags::CLOEXEC)?)
}

/// Connects to the run that listens at `path`.
pub fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Sends a message.
pub fn send_message<T: Serialize>(socket: impl AsFd, message: &T) -> io::Result<()> {
    send(socket, &encode(message)?, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message; `None` when the other side has gone. Blocks.
pub fn receive_message<T: for<'de> Deserialize<'de>>(socket: impl AsFd) -> io::Result<Option<T>> {
    let mut bytes = vec![0u8; LONGEST];
    let received = loop {
        match recv(&socket, &mut bytes, RecvFlags::empty()) {
            Ok((_, received)) => break received,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    };
    if received == 0 {
        return Ok(None);
    }
    let read = |bytes: &[u8]| ciborium::from_reader(bytes);
    read(&bytes[..received]).map(Some).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))
}

fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ciborium::into_writer(message, &mut bytes).map_err(|e| io::Error::other(e.to_string()))?;
    if bytes.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("this is longer than {LONGEST} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use site::{Said, Told};

    #[test]
    fn messages_arrive_one_by_one_as_they_were_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let listener = listen_at(&path).unwrap();
        let client = connect_to(&path).unwrap();
        let server = accept(listener.as_fd()).unwrap();

        let argv = vec!["echo".into(), "a b".into()];
        let wish = VisitWish::Run { argv, stdio: [Stdio::Null, Stdio::Pipe, Stdio::Pipe], terminal: None };
        let request = VisitRequest { node: "web".into(), wish };
        let input = Said::Input(vec![0xff; site::PIECE]);
        send_message(&client, &request).unwrap();
        send_message(&client, &input).unwrap();
        assert_eq!(receive_message(&server).unwrap(), Some(request));
        assert_eq!(receive_message(&server).unwrap(), Some(input));
        let ended = Told::Ended(site::Exit::Code(3));
        send_message(&server, &ended).unwrap();
        assert_eq!(receive_message(&client).unwrap(), Some(ended));
        drop(client);
        assert_eq!(receive_message::<Said>(&server).unwrap(), None);
    }

    #[test]
    fn a_command_line_that_is_too_long_is_refused_before_it_is_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let _listener = listen_at(&path).unwrap();
        let client = connect_to(&path).unwrap();
        let wish = VisitWish::Save { image: "x".repeat(LONGEST) };
        let request = VisitRequest { node: "web".into(), wish };
        assert_eq!(send_message(&client, &request).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
