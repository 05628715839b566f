//! `diorama exec`, the client's half: asks a live run to run a command in one of its nodes.

mod relay;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use site::{Said, Told};

use self::relay::Relay;
use crate::control::{self, VisitRequest, VisitWish};
use crate::error::{Error, Result};
use crate::live::LiveRun;

/// Runs `argv` inside `node` of a live run, with what stands for the caller's standard input, output and error, and
/// gives its exit code. INT, QUIT, TERM and HUP are passed on to the command.
pub fn exec(run: &LiveRun, node: &str, argv: Vec<String>) -> Result<u8> {
    let gone = |source: io::Error| Error::unreachable(run, source);
    let signals = Signals::listen().map_err(Error::io("signals"))?;
    let (stdio, terminal) = relay::caller().map_err(Error::io("the terminal"))?;
    let wish = VisitWish::Run { argv, stdio, terminal };
    let socket = Arc::new(control::visit(run, &VisitRequest { node: node.into(), wish })?);
    let mut relay = Relay::begin(&stdio, &socket).map_err(Error::io("the terminal"))?;
    loop {
        let heard = signals.wait_for(&socket).map_err(gone)?;
        for signal in signals.seen() {
            match signal {
                SIGWINCH => relay.resize(),
                signal => control::send_message(&socket, &Said::Signal(signal)).map_err(gone)?,
            }
        }
        if !heard {
            continue;
        }
        match control::receive_message::<Told>(&socket).map_err(gone)? {
            Some(Told::Output(stream, bytes)) => relay.print(stream, bytes),
            Some(Told::Taken(bytes)) => relay.taken(bytes),
            Some(Told::Ended(exit)) => {
                let code = exit.shell_code() as u8;
                return Ok(relay
                    .end(|| signals.seen().find(|signal| *signal != SIGWINCH))
                    .map_or(code, |s| 128 + s as u8));
            }
            Some(Told::Refused(told)) => return Err(Error::Reported(told)),
            Some(Told::Saved(_)) | None => {
                return Err(Error::SiteLost(format!("run {} ended while the command ran in {node}", run.name)));
            }
        }
    }
}

/// Signals that the caller is sent, and a pipe that becomes readable with each, so that one wait is for both.
struct Signals {
    pipe: std::os::unix::net::UnixStream,
    registered: Vec<(i32, Arc<AtomicBool>)>,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        let (pipe, handler) = std::os::unix::net::UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let mut registered = Vec::new();
        for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH] {
            let seen = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, seen.clone())?;
            signal_hook::low_level::pipe::register(signal, handler.try_clone()?)?;
            registered.push((signal, seen));
        }
        Ok(Signals { pipe, registered })
    }

    /// Waits for a signal or for something at the socket; whether the latter came.
    fn wait_for(&self, socket: &OwnedFd) -> io::Result<bool> {
        let mut fds = [PollFd::new(socket, PollFlags::IN), PollFd::new(&self.pipe, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let heard = !fds[0].revents().is_empty();
        let mut drain = [0u8; 64];
        while io::Read::read(&mut &self.pipe, &mut drain).is_ok_and(|n| n > 0) {}
        Ok(heard)
    }

    /// Those that have come since this was last asked.
    fn seen(&self) -> impl Iterator<Item = i32> {
        let came = self.registered.iter().filter(|(_, seen)| seen.swap(false, Ordering::Relaxed));
        came.map(|(signal, _)| *signal)
    }
}
