//! The engine's half of `diorama exec` and `diorama image save`: a thread that runs commands in the nodes of a live
//! run, and shows what they have written.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use site::{Exit, Kind};

use super::nodes::Nodes;
use crate::control::{self, ExecReply, ExecRequest, NodeRequest, SignalRequest};

/// How often a command is looked after: it bounds how late its end is reported.
const LOOK: Duration = Duration::from_millis(5);

/// Serves `path` for as long as `nodes` has another owner than the threads made here.
pub fn serve(path: &Path, nodes: &Arc<Nodes>) -> io::Result<()> {
    let listener = control::listen_at(path)?;
    let nodes = Arc::downgrade(nodes);
    thread::Builder::new().name("control".into()).spawn(move || {
        while let Ok(connection) = control::accept(listener.as_fd()) {
            if nodes.strong_count() == 0 {
                return;
            }
            let nodes = nodes.clone();
            let attend = move || {
                let (reply, fd) = attend(&connection, &nodes);
                let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
                let _ = control::send_with_fds(&connection, &reply, &fds);
            };
            if thread::Builder::new().name("exec".into()).spawn(attend).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// Answers a request, with the descriptor that goes with the answer.
fn attend(connection: &OwnedFd, nodes: &Weak<Nodes>) -> (ExecReply, Option<OwnedFd>) {
    let (request, fds) = match control::receive_message::<NodeRequest>(connection) {
        Ok(Some(heard)) => heard,
        Ok(None) => return (refused(Kind::Failed, "no request came"), None),
        Err(e) => return (refused(Kind::Input, &format!("the request cannot be read: {e}")), None),
    };
    match request {
        NodeRequest::Exec(request) => (exec(connection, nodes, &request, fds), None),
        NodeRequest::Written { node } => match nodes.upgrade().map(|nodes| nodes.written(nodes.named(&node)?)) {
            Some(Ok((directory, base))) => (ExecReply::Written(base), Some(directory)),
            Some(Err(e)) => (ExecReply::Refused(e.into()), None),
            None => (refused(Kind::Failed, "the run has ended"), None),
        },
    }
}

fn refused(kind: Kind, what: &str) -> ExecReply {
    ExecReply::Refused(site::Error { kind, what: what.into(), help: None })
}

/// The nodes are held only while a command is started in one: the run must be able to end while a client is silent, or
/// its command runs.
fn exec(connection: &OwnedFd, nodes: &Weak<Nodes>, request: &ExecRequest, fds: Vec<OwnedFd>) -> ExecReply {
    let Ok(stdio) = <[OwnedFd; 3]>::try_from(fds) else {
        return refused(Kind::Input, "a request comes with three descriptors");
    };
    let started = nodes.upgrade().map(|nodes| nodes.exec(nodes.named(&request.node)?, &request.argv, stdio));
    let command = match started {
        Some(Ok(command)) => command,
        Some(Err(e)) => return ExecReply::Refused(e.into()),
        None => return refused(Kind::Failed, "the run has ended"),
    };
    let Some(_session) = nodes.upgrade().map(|nodes| nodes.session()) else {
        return refused(Kind::Failed, "the run has ended");
    };
    let pause = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    loop {
        if let Some(status) = command.try_wait() {
            return ExecReply::Exit(Exit::from(status).shell_code());
        }
        if command.is_lost() {
            return refused(Kind::Failed, &format!("the run ended while the command ran in {}", request.node));
        }
        let mut fds = [PollFd::new(connection, PollFlags::IN)];
        if matches!(poll(&mut fds, Some(&pause)), Ok(n) if n > 0) {
            match control::receive_message::<SignalRequest>(connection) {
                Ok(Some((SignalRequest { signal }, _))) => drop(command.signal(signal)),
                // The client has gone: so does its command, with what it started.
                _ => {
                    let _ = command.kill();
                    command.wait(Some(Duration::from_secs(1)));
                    return ExecReply::Exit(137);
                }
            }
        }
    }
}
