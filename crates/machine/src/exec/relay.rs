//! Relay between the caller's terminal, pipes or files and a visit: what is typed goes there in messages, and what
//! comes is written.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use host::terminal::{Look, PassedOn, is_in_front, is_terminal, size_of};
use record::LogStream;
use rustix::fs::{FileType, fstat};
use site::{AHEAD, PIECE, Said, Stdio};

use crate::control;

/// The device `/dev/null`.
const NULL: (u32, u32) = (1, 3);
/// How often the caller's signals are looked at while it has still to take output.
const LOOK: Duration = Duration::from_millis(50);

/// A relay between the caller and a command, until it is dropped.
pub struct Relay {
    socket: Arc<OwnedFd>,
    /// The caller's terminal, if the command has one.
    terminal: Option<OwnedFd>,
    /// Puts the caller's terminal back.
    passed_on: Option<PassedOn>,
    /// Where the outputs are written, each by a thread of its own, and where it says that it has come to the end.
    printing: [Option<Sender<Vec<u8>>>; 2],
    ended: Receiver<()>,
    threads: usize,
    /// Tells the thread that reads the caller's input how much of it the command has taken.
    taken: Sender<u64>,
}

/// Kinds of the caller's standard input, output and error, and its terminal if one of them is.
pub fn caller() -> io::Result<([Stdio; 3], Option<Look>)> {
    let own = own()?;
    let stdio = [kind(own[0].as_fd())?, kind(own[1].as_fd())?, kind(own[2].as_fd())?];
    Ok((stdio, terminal_of(&own, &stdio).map(|fd| Look::of(fd.as_fd())).transpose()?))
}

fn own() -> io::Result<[OwnedFd; 3]> {
    let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    Ok([copy(io::stdin().as_fd())?, copy(io::stdout().as_fd())?, copy(io::stderr().as_fd())?])
}

fn terminal_of<'a>(own: &'a [OwnedFd; 3], stdio: &[Stdio; 3]) -> Option<&'a OwnedFd> {
    own.iter().zip(stdio).find(|(_, kind)| **kind == Stdio::Terminal).map(|(fd, _)| fd)
}

fn kind(fd: BorrowedFd<'_>) -> io::Result<Stdio> {
    let found = fstat(fd)?;
    let device = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
    Ok(match FileType::from_raw_mode(found.st_mode) {
        FileType::CharacterDevice if device == NULL => Stdio::Null,
        _ if is_terminal(fd) => Stdio::Terminal,
        _ => Stdio::Pipe,
    })
}

impl Relay {
    /// Begins to pass on to a visit with these descriptors.
    pub fn begin(stdio: &[Stdio; 3], socket: &Arc<OwnedFd>) -> io::Result<Relay> {
        let own = own()?;
        let terminal = terminal_of(&own, stdio).map(OwnedFd::try_clone).transpose()?;
        let (end, ended) = channel();
        let (taken, has_taken) = channel();
        let printing = [None, None];
        let mut relay = Relay { socket: socket.clone(), terminal, passed_on: None, printing, ended, threads: 0, taken };
        let [stdin, stdout, stderr] = own;
        match stdio[0] {
            Stdio::Null => {}
            // Others would be stopped that read what is typed there.
            Stdio::Terminal if !is_in_front(stdin.as_fd()) => {}
            kind => {
                if kind == Stdio::Terminal {
                    relay.passed_on = Some(PassedOn::begin(stdin.as_fd())?);
                }
                let socket = socket.clone();
                let read = move || drop(input(&stdin.into(), &socket, &has_taken));
                thread::Builder::new().name("input".into()).spawn(read)?;
            }
        }
        for (stream, to) in [(LogStream::Stdout, stdout), (LogStream::Stderr, stderr)] {
            let (send, come) = channel();
            let (socket, end) = (socket.clone(), end.clone());
            let write = move || {
                print(stream, to.into(), &come, &socket);
                let _ = end.send(());
            };
            thread::Builder::new().name("output".into()).spawn(write)?;
            relay.threads += 1;
            relay.printing[place(stream)] = Some(send);
        }
        Ok(relay)
    }

    /// The caller's terminal has another size.
    pub fn resize(&self) {
        if let Some(size) = self.terminal.as_ref().and_then(|terminal| size_of(terminal.as_fd()).ok()) {
            let _ = control::send_message(&self.socket, &Said::Resized(size));
        }
    }

    /// Writes an output of the command.
    pub fn print(&self, stream: LogStream, bytes: Vec<u8>) {
        // A caller that has closed it has been told of.
        let _ = self.printing[place(stream)].as_ref().map(|printing| printing.send(bytes));
    }

    /// The command has taken so much of its input.
    pub fn taken(&self, bytes: u64) {
        let _ = self.taken.send(bytes);
    }

    /// Waits until the caller has taken all that the command has printed; unless `signal` says that it will not wait,
    /// whose signal is given then.
    pub fn end(&mut self, signal: impl Fn() -> Option<i32>) -> Option<i32> {
        self.printing = [None, None];
        while self.threads > 0 {
            match self.ended.recv_timeout(LOOK) {
                Ok(()) => self.threads -= 1,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(signal) = signal() {
                        return Some(signal);
                    }
                }
            }
        }
        self.passed_on = None;
        None
    }
}

fn place(stream: LogStream) -> usize {
    match stream {
        LogStream::Stdout => 0,
        LogStream::Stderr => 1,
    }
}

/// Passes on what the caller types, or has in a pipe or a file, to its end.
fn input(mut from: &File, socket: &OwnedFd, taken: &Receiver<u64>) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut ahead = 0;
    loop {
        let read = match from.read(&mut buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            // A terminal whose other end is gone says EIO.
            Ok(0) | Err(_) => return control::send_message(socket, &Said::InputEnds),
            Ok(read) => read,
        };
        control::send_message(socket, &Said::Input(buffer[..read].to_vec()))?;
        ahead += read as u64;
        ahead -= taken.try_iter().sum::<u64>().min(ahead);
        while ahead + PIECE as u64 > AHEAD {
            // The command is over where nothing comes any more.
            let Ok(bytes) = taken.recv() else { return Ok(()) };
            ahead -= bytes.min(ahead);
        }
    }
}

/// Writes an output until there is no more, or the caller takes no more.
fn print(stream: LogStream, mut to: File, come: &Receiver<Vec<u8>>, socket: &OwnedFd) {
    for bytes in come {
        let said = match to.write_all(&bytes) {
            Ok(()) => Said::Taken(stream, bytes.len() as u64),
            Err(_) => Said::Closed(stream),
        };
        // The command may have ended meanwhile.
        let _ = control::send_message(socket, &said);
        if said == Said::Closed(stream) {
            return;
        }
    }
}
