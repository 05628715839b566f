//! Relay between a command in a node and the terminal or files of who gave it: a pseudo-terminal for a terminal, and
//! pipes for files.
//!
//! A node that had the terminal itself could type into it, and read what is typed there later; one that had a file of
//! the host's could make a setuid program of it. Pipes, sockets and `/dev/null` are no more than what goes through
//! them, and are handed on.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use host::terminal::{PassedOn, Pty, is_in_front, is_terminal, pty_size};
use rustix::fs::{FileType, fstat};
use rustix::pipe::{PipeFlags, pipe_with};

/// How long nothing may have come, once the command has ended, until what it has left behind is not waited for.
const SILENCE: Duration = Duration::from_millis(200);
/// The device `/dev/null`.
const NULL: (u32, u32) = (1, 3);
/// The character that ends the input of a terminal.
const END_OF_INPUT: u8 = 4;

/// A relay between the caller and a command, until it is dropped.
pub struct Relay {
    /// The harness's end, and whose terminal it stands for.
    pty: Option<(File, OwnedFd)>,
    /// Puts the caller's terminal back.
    passed_on: Option<PassedOn>,
    /// Bytes that the command has printed, and which of its outputs have ended.
    came: Arc<AtomicU64>,
    printing: usize,
    ended: Receiver<()>,
}

impl Relay {
    /// Begins to pass on; with what the command is to have as its standard input, output and error.
    pub fn begin() -> io::Result<(Relay, [OwnedFd; 3])> {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
        let own = [copy(stdin.as_fd())?, copy(stdout.as_fd())?, copy(stderr.as_fd())?];
        let (end, ended) = channel();
        let mut relay = Relay { pty: None, passed_on: None, came: Arc::default(), printing: 0, ended };
        let pty = own.iter().find(|fd| is_terminal(fd.as_fd())).map(|fd| Pty::like(fd.as_fd())).transpose()?;
        let mut shown = false;
        let mut stdio = Vec::new();
        for (number, own) in own.into_iter().enumerate() {
            let fd = match (kind(own.as_fd())?, &pty) {
                (Kind::HandedOn, _) => own,
                (Kind::Terminal, Some(Pty { ours, theirs })) => {
                    if relay.pty.is_none() {
                        relay.pty = Some((ours.try_clone()?, own.try_clone()?));
                    }
                    if number == 0 && is_in_front(own.as_fd()) {
                        relay.passed_on = Some(PassedOn::begin(own.as_fd())?);
                        input(own, ours.try_clone()?, Some(END_OF_INPUT))?;
                    } else if number > 0 && !shown {
                        shown = true;
                        relay.print(ours.try_clone()?, own, end.clone())?;
                    }
                    theirs.try_clone()?
                }
                _ => {
                    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                    if number == 0 {
                        input(own, write.into(), None)?;
                        read
                    } else {
                        relay.print(read.into(), own, end.clone())?;
                        write
                    }
                }
            };
            stdio.push(fd);
        }
        let stdio = <[OwnedFd; 3]>::try_from(stdio).map_err(|_| io::Error::other("there are three descriptors"))?;
        Ok((relay, stdio))
    }

    /// The caller's terminal has another size.
    pub fn resize(&self) {
        if let Some((pty, terminal)) = &self.pty {
            let _ = pty_size(terminal.as_fd(), pty.as_fd());
        }
    }

    /// The command has ended: what it has printed is passed on to its end. What it has left behind is not waited for.
    pub fn end(&mut self) {
        let mut before = self.came.load(Ordering::Relaxed);
        while self.printing > 0 {
            match self.ended.recv_timeout(SILENCE) {
                Ok(()) => self.printing -= 1,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.came.load(Ordering::Relaxed);
                    if now == before {
                        break;
                    }
                    before = now;
                }
            }
        }
        self.passed_on = None;
    }

    /// Passes on what the command prints.
    fn print(&mut self, from: File, to: OwnedFd, end: std::sync::mpsc::Sender<()>) -> io::Result<()> {
        self.printing += 1;
        let came = Arc::clone(&self.came);
        thread::Builder::new().name("output".into()).spawn(move || {
            pass(&from, &to.into(), |read| {
                came.fetch_add(read as u64, Ordering::Relaxed);
            });
            let _ = end.send(());
        })?;
        Ok(())
    }
}

/// How a descriptor of the caller's is passed on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    HandedOn,
    Terminal,
    Copied,
}

fn kind(fd: BorrowedFd<'_>) -> io::Result<Kind> {
    let found = fstat(fd)?;
    let device = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
    Ok(match FileType::from_raw_mode(found.st_mode) {
        FileType::Fifo | FileType::Socket => Kind::HandedOn,
        FileType::CharacterDevice if device == NULL => Kind::HandedOn,
        _ if is_terminal(fd) => Kind::Terminal,
        _ => Kind::Copied,
    })
}

/// Passes on what the caller types, or has in a file; `end` is what says that there is no more.
fn input(from: OwnedFd, to: File, end: Option<u8>) -> io::Result<()> {
    thread::Builder::new().name("input".into()).spawn(move || {
        pass(&from.into(), &to, |_| ());
        if let Some(end) = end {
            let _ = (&to).write_all(&[end]);
        }
    })?;
    Ok(())
}

/// Copies until one side has come to its end.
fn pass(mut from: &File, mut to: &File, mut each: impl FnMut(usize)) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // A terminal whose other end is gone says EIO.
            Ok(0) | Err(_) => return,
            Ok(read) => {
                each(read);
                if to.write_all(&buffer[..read]).is_err() {
                    return;
                }
            }
        }
    }
}
