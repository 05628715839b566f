//! The sockets of a live run, for `diorama exec` and `diorama event`: requests, replies, and the descriptors that go
//! with them.
//!
//! One connection of `exec` is one command. The client sends a [`NodeRequest`] together with its standard input,
//! output and error; after that it may send signals, and the engine answers with one [`ExecReply`] when the command has
//! ended. A client that goes away takes its command with it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use host::descriptors;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, send,
    socket_with,
};
use serde::{Deserialize, Serialize};
use site::Base;

/// The longest message, which bounds the length of a command line; the kernel's own bound on one is 2 MiB, and that on
/// one of its words 128 KiB.
const LONGEST: usize = 192 * 1024;

/// A request about a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeRequest {
    /// To run a command in it.
    Exec(ExecRequest),
    /// For the directory with what it has written.
    Written {
        /// The node's name.
        node: String,
    },
}

/// A command to run in a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecRequest {
    /// The node's name.
    pub node: String,
    /// The command and its arguments.
    pub argv: Vec<String>,
}

/// A signal for the command, sent after the request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalRequest {
    /// Its number.
    pub signal: i32,
}

/// How a command ended, or what else was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecReply {
    /// With this exit code; 128 + signal if a signal ended it.
    Exit(i32),
    /// The directory comes with this: what lies below it.
    Written(Base),
    /// It could not be done.
    Refused(site::Error),
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

/// Sends a message together with descriptors, at most three.
pub fn send_with_fds<T: Serialize>(socket: impl AsFd, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = encode(message)?;
    descriptors::send(socket, &bytes, fds)
}

/// Receives a message and the descriptors that came with it; `None` when the other side has gone. Blocks.
pub fn receive_message<T: for<'de> Deserialize<'de>>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0u8; LONGEST];
    let (received, fds) = descriptors::receive(socket, &mut bytes)?;
    if received == 0 {
        return Ok(None);
    }
    let message = serde_json::from_slice(&bytes[..received])?;
    Ok(Some((message, fds)))
}

fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("this is longer than {LONGEST} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn a_request_arrives_with_its_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let listener = listen_at(&path).unwrap();
        let client = connect_to(&path).unwrap();
        let server = accept(listener.as_fd()).unwrap();

        let request = ExecRequest { node: "web".into(), argv: vec!["echo".into(), "a b".into()] };
        let (read, write) = rustix::pipe::pipe().unwrap();
        send_with_fds(&client, &request, &[write.as_fd()]).unwrap();
        drop(write);
        let (heard, fds) = receive_message::<ExecRequest>(&server).unwrap().unwrap();
        assert_eq!(heard, request);
        let [fd] = <[OwnedFd; 1]>::try_from(fds).unwrap();
        File::from(fd).write_all(b"through").unwrap();
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");

        send_message(&server, &ExecReply::Exit(3)).unwrap();
        assert_eq!(receive_message::<ExecReply>(&client).unwrap().unwrap().0, ExecReply::Exit(3));
        drop(client);
        assert!(receive_message::<SignalRequest>(&server).unwrap().is_none());
    }

    #[test]
    fn a_command_line_that_is_too_long_is_refused_before_it_is_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let _listener = listen_at(&path).unwrap();
        let client = connect_to(&path).unwrap();
        let request = ExecRequest { node: "web".into(), argv: vec!["x".repeat(LONGEST)] };
        assert_eq!(send_message(&client, &request).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
