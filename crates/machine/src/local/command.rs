//! Commands of visitors: one runs in a node with descriptors of its own, and its bytes go to and from the visitor in
//! messages.
//!
//! A node never gets a descriptor of the visitor's: one that had the terminal itself could type into it, and one that
//! had a file of a host's could make a setuid program of it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use host::terminal::{Look, Pty, resize};
use record::LogStream;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use site::{AHEAD, Exit, NodeIndex, PIECE, Said, Stdio, Told};

use super::nodes::Nodes;
use super::visits::{Teller, ended};
use crate::error::{Error, Result};

/// How often a command is looked after: it bounds how late its end is reported.
const LOOK: Duration = Duration::from_millis(5);
/// How long nothing may have come, once the command has ended, until what it has left behind is not waited for.
const SILENCE: Duration = Duration::from_millis(200);
/// The character that ends the input of a terminal.
const END_OF_INPUT: u8 = 4;

/// Runs a command in a node until it has ended, or its visitor has gone.
///
/// The nodes are held only while it is started: the run must be able to end while it runs.
pub fn run(
    told: &Teller,
    nodes: &Weak<Nodes>,
    node: NodeIndex,
    argv: &[String],
    stdio: &[Stdio; 3],
    terminal: Option<&Look>,
    said: &Receiver<Said>,
) -> Result<Exit> {
    let (theirs, ours) = descriptors(stdio, terminal).map_err(Error::io("the descriptors of a command"))?;
    let (command, name, _session) = {
        let nodes = nodes.upgrade().ok_or_else(ended)?;
        // Once the command has its descriptors, this process must not: it could not tell when all others have let go.
        (nodes.exec(node, argv, theirs)?, nodes.with(node, |n| n.name().to_owned()), nodes.session())
    };
    let input = Input::begin(ours.input, told);
    let outputs = ours.outputs.into_iter().map(|(stream, from)| Output::begin(stream, from, told));
    let outputs = outputs.collect::<io::Result<Vec<Output>>>().map_err(Error::io("the output of a command"));
    let outputs = outputs.inspect_err(|_| drop(command.kill()))?;
    loop {
        match said.recv_timeout(LOOK) {
            Ok(Said::Input(bytes)) => input.send(bytes),
            Ok(Said::InputEnds) => input.send(Vec::new()),
            Ok(word @ (Said::Taken(..) | Said::Closed(_))) => pass_on(&outputs, &word),
            Ok(Said::Signal(signal)) => drop(command.signal(signal)),
            Ok(Said::Resized(size)) => {
                if let Some(pty) = &ours.pty {
                    let _ = resize(pty.as_fd(), size);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The visitor has gone: so does its command, with what it started.
            Ok(Said::Gone | Said::Wish(..)) | Err(RecvTimeoutError::Disconnected) => {
                let _ = command.kill();
                command.wait(Some(Duration::from_secs(1)));
                return Ok(Exit::Signal(libc::SIGKILL));
            }
        }
        if let Some(status) = command.try_wait() {
            drain(&outputs, said);
            return Ok(status.into());
        }
        if command.is_lost() {
            return Err(Error::SiteLost(format!("the run ended while the command ran in {name}")));
        }
    }
}

/// Passes on what the visitor says of an output; other words are not for outputs.
fn pass_on(outputs: &[Output], word: &Said) {
    let (Said::Taken(stream, _) | Said::Closed(stream)) = word else { return };
    for output in outputs.iter().filter(|output| output.stream == Some(*stream)) {
        match word {
            Said::Taken(_, bytes) => output.taken(*bytes),
            _ => output.close(),
        }
    }
}

/// Passes on the output of a command that has ended, to its end. What it has left behind is not waited for.
fn drain(outputs: &[Output], said: &Receiver<Said>) {
    let state = || outputs.iter().map(Output::progress).collect::<Vec<_>>();
    let (mut before, mut since) = (state(), Instant::now());
    while before.iter().any(|(_, stands)| *stands != Stands::Ended) {
        match said.recv_timeout(LOOK) {
            Ok(word) => pass_on(outputs, &word),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let now = state();
        // Who waits for the visitor is not silent.
        if now != before || now.iter().any(|(_, stands)| *stands == Stands::AwaitsVisitor) {
            since = Instant::now();
        } else if since.elapsed() >= SILENCE {
            break;
        }
        before = now;
    }
}

/// The harness's ends of a command's descriptors.
struct Ours {
    /// Where its input goes, and what says that there is no more.
    input: Option<(File, Option<u8>)>,
    /// Where its output comes from; one that nobody shows is read all the same.
    outputs: Vec<(Option<LogStream>, File)>,
    pty: Option<File>,
}

/// The descriptors of a command, and the other ends.
fn descriptors(stdio: &[Stdio; 3], terminal: Option<&Look>) -> io::Result<([OwnedFd; 3], Ours)> {
    let mut ours = Ours { input: None, outputs: Vec::new(), pty: None };
    let pty = terminal.map(Pty::new).transpose()?;
    let mut theirs = Vec::new();
    for (number, kind) in stdio.iter().enumerate() {
        let stream = [None, Some(LogStream::Stdout), Some(LogStream::Stderr)][number];
        theirs.push(match (kind, &pty) {
            (Stdio::Null, _) => host::descriptors::null()?,
            (Stdio::Terminal, Some(pty)) => {
                if number == 0 {
                    ours.input = Some((pty.ours.try_clone()?, Some(END_OF_INPUT)));
                } else if ours.pty.is_none() {
                    ours.pty = Some(pty.ours.try_clone()?);
                    ours.outputs.push((stream, pty.ours.try_clone()?));
                }
                pty.theirs.try_clone()?
            }
            (Stdio::Terminal, None) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "which terminal?")),
            (Stdio::Pipe, _) => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                if number == 0 {
                    ours.input = Some((write.into(), None));
                    read
                } else {
                    ours.outputs.push((stream, read.into()));
                    write
                }
            }
        });
    }
    if let (None, Some(pty)) = (&ours.pty, pty) {
        // Only its input is a terminal: nobody is shown what it echoes.
        ours.pty = Some(pty.ours.try_clone()?);
        ours.outputs.push((None, pty.ours));
    }
    let theirs = <[OwnedFd; 3]>::try_from(theirs).map_err(|_| io::Error::other("there are three descriptors"))?;
    Ok((theirs, ours))
}

/// The input of a command, written by a thread of its own: it may be long until the command takes it.
struct Input(Option<Sender<Vec<u8>>>);

impl Input {
    fn begin(to: Option<(File, Option<u8>)>, told: &Teller) -> Input {
        let Some((mut to, end)) = to else { return Input(None) };
        let (send, come) = unbounded::<Vec<u8>>();
        let told = told.clone();
        let write = move || {
            for bytes in come {
                if bytes.is_empty() {
                    if let Some(end) = end {
                        let _ = to.write_all(&[end]);
                    }
                    return;
                }
                if to.write_all(&bytes).is_err() {
                    return;
                }
                told.tell(Told::Taken(bytes.len() as u64));
            }
        };
        let begun = thread::Builder::new().name("input".into()).spawn(write);
        Input(begun.is_ok().then_some(send))
    }

    /// Passes on what comes; none is the end of it.
    fn send(&self, bytes: Vec<u8>) {
        // A command that has closed its input is not told more.
        let _ = self.0.as_ref().map(|input| input.send(bytes));
    }
}

/// An output of a command, read by a thread of its own; one of no stream is read, and told nobody.
struct Output {
    stream: Option<LogStream>,
    flow: Arc<(Mutex<Flow>, Condvar)>,
    /// The thread ends when this is dropped.
    stop: Mutex<Option<OwnedFd>>,
}

/// How far an output is.
#[derive(Debug, Default)]
struct Flow {
    read: u64,
    taken: u64,
    is_closed: bool,
    stands: Stands,
}

/// Where an output's thread is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stands {
    #[default]
    AwaitsCommand,
    AwaitsVisitor,
    Ended,
}

impl Drop for Output {
    fn drop(&mut self) {
        self.close();
    }
}

impl Output {
    /// Begins to tell what comes.
    fn begin(stream: Option<LogStream>, from: File, told: &Teller) -> io::Result<Output> {
        let flow = Arc::<(Mutex<Flow>, Condvar)>::default();
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let (told, of) = (told.clone(), flow.clone());
        let follow = move || {
            read(from, &stopped, &of, stream.map(|stream| (stream, told)));
            lock(&of).stands = Stands::Ended;
        };
        thread::Builder::new().name("output".into()).spawn(follow)?;
        Ok(Output { stream, flow, stop: Mutex::new(Some(stop)) })
    }

    fn taken(&self, bytes: u64) {
        let mut flow = lock(&self.flow);
        flow.taken = flow.taken.saturating_add(bytes);
        self.flow.1.notify_all();
    }

    fn close(&self) {
        lock(&self.flow).is_closed = true;
        self.flow.1.notify_all();
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn progress(&self) -> (u64, Stands) {
        let flow = lock(&self.flow);
        (flow.read, flow.stands)
    }
}

fn lock(flow: &(Mutex<Flow>, Condvar)) -> MutexGuard<'_, Flow> {
    flow.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads an output to its end, or until it is stopped, never further ahead of who takes it than it may be.
fn read(mut from: File, stopped: &OwnedFd, flow: &(Mutex<Flow>, Condvar), told: Option<(LogStream, Teller)>) {
    let mut buffer = vec![0; PIECE];
    loop {
        // Nothing is read that may not be told at once.
        let room = if told.is_some() { await_room(flow) } else { Some(PIECE) };
        let Some(room) = room else { return };
        let mut fds = [PollFd::new(&from, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        let polled = poll(&mut fds, None);
        if matches!(polled, Err(rustix::io::Errno::INTR)) {
            continue;
        }
        if polled.is_err() || !fds[1].revents().is_empty() {
            return;
        }
        let read = match from.read(&mut buffer[..room]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            // A terminal whose other end is gone says EIO.
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        let Some((stream, told)) = &told else { continue };
        lock(flow).read += read as u64;
        told.tell(Told::Output(*stream, buffer[..read].to_vec()));
    }
}

/// Waits until more may be told; how much at once, and none when nobody takes any more.
fn await_room(flow: &(Mutex<Flow>, Condvar)) -> Option<usize> {
    let mut now = lock(flow);
    now.stands = Stands::AwaitsVisitor;
    loop {
        let room = now.taken.saturating_add(AHEAD).saturating_sub(now.read).min(PIECE as u64);
        if now.is_closed {
            return None;
        }
        if room > 0 {
            now.stands = Stands::AwaitsCommand;
            return Some(room as usize);
        }
        now = flow.1.wait(now).unwrap_or_else(PoisonError::into_inner);
    }
}
