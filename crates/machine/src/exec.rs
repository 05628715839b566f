//! `diorama exec`, the client's half: asks a live run to run a command in one of its nodes.

mod relay;

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};

use self::relay::Relay;
use crate::control::{self, ExecReply, ExecRequest, NodeRequest, SignalRequest};
use crate::error::{Error, Result};
use crate::live::{LiveRun, control_socket_of};

/// Runs `argv` inside `node` of a live run, with what stands for the caller's standard input, output and error, and
/// gives its exit code. INT, QUIT, TERM and HUP are passed on to the command.
pub fn exec(run: &LiveRun, node: &str, argv: Vec<String>) -> Result<u8> {
    let path = control_socket_of(run);
    let gone = |source: io::Error| {
        let what = format!("run {}: cannot reach it at {}", run.name, path.display());
        Error::Io { what, source }
    };
    let socket = control::connect_to(&path).map_err(gone)?;
    // A pipe that the handler writes to, so that one poll waits for both.
    let (signals, handler) = std::os::unix::net::UnixStream::pair().map_err(gone)?;
    signals.set_nonblocking(true).map_err(gone)?;
    let mut registered = Vec::new();
    for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH] {
        let seen = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        signal_hook::flag::register(signal, seen.clone()).map_err(gone)?;
        signal_hook::low_level::pipe::register(signal, handler.try_clone().map_err(gone)?).map_err(gone)?;
        registered.push((signal, seen));
    }
    let request = NodeRequest::Exec(ExecRequest { node: node.to_string(), argv });
    let (mut relay, stdio) = Relay::begin().map_err(Error::io("the terminal"))?;
    control::send_with_fds(&socket, &request, &stdio.each_ref().map(|fd| fd.as_fd())).map_err(gone)?;
    // Once the command has them, this process must not: it could not tell when all others have let go of them.
    drop(stdio);
    loop {
        let mut fds = [PollFd::new(&socket, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(gone(e.into())),
        }
        let answered = !fds[0].revents().is_empty();
        let mut drain = [0u8; 64];
        while io::Read::read(&mut &signals, &mut drain).is_ok_and(|n| n > 0) {}
        for (signal, seen) in &registered {
            if !seen.swap(false, std::sync::atomic::Ordering::Relaxed) {
                continue;
            }
            match *signal {
                SIGWINCH => relay.resize(),
                signal => control::send_message(&socket, &SignalRequest { signal }).map_err(gone)?,
            }
        }
        if answered {
            let reply = control::receive_message::<ExecReply>(&socket).map_err(gone)?;
            relay.end();
            return match reply {
                Some((ExecReply::Exit(code), _)) => Ok(code as u8),
                Some((ExecReply::Refused(told), _)) => Err(Error::Reported(told)),
                Some((ExecReply::Written(_), _)) | None => {
                    Err(Error::SiteLost(format!("run {} ended while the command ran in {node}", run.name)))
                }
            };
        }
    }
}
