//! Descriptors: opened below a directory, paired, and passed from one process to another.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};

/// How many descriptors one message carries at most.
pub const MOST: usize = 3;

/// As many as anybody needs: some programs go through all that they may have.
const ENOUGH: u64 = 1 << 20;

/// The fewest for programs in nodes: their runtime mounts under the same limit, with a descriptor for each of some
/// hundred mounts and masks.
const LEAST_OF_PROGRAMS: u64 = 256;

/// The limit of this process when it began to need more.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Lets this process, and whatever it starts from here on, have as many files open as it may have without asking
/// anybody (the *hard* limit). Shells and systemd give 1,024, which is too few for a hundred nodes.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(ENOUGH);
    if limit.current.is_some_and(|current| current < most) {
        BEFORE.get_or_init(|| limit);
        // Who may have no more says so when there are too few.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
}

/// How many files programs may have open that are not the harness's, and how many they may ask for: what this process
/// was started with, but 256 at least.
pub fn limit_of_programs() -> [u64; 2] {
    let limit = BEFORE.get().copied().unwrap_or_else(|| getrlimit(Resource::Nofile));
    [limit.current, limit.maximum].map(|limit| limit.unwrap_or(u64::MAX).max(LEAST_OF_PROGRAMS))
}

/// `/dev/null` for reading and writing.
pub fn null() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

/// Standard input and output for one purpose: whatever else in this process, or in its children, reads or prints from
/// now on gets nothing, or prints to standard error.
pub fn take_standard_streams() -> io::Result<(File, File)> {
    // Above those that programs take for standard ones.
    let (from, to) = (fcntl_dupfd_cloexec(stdin(), 3)?, fcntl_dupfd_cloexec(stdout(), 3)?);
    dup2_stdin(null()?)?;
    dup2_stdout(stderr())?;
    Ok((from.into(), to.into()))
}

/// A socket pair that keeps messages apart: a record written at one end arrives whole at the other.
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// The text of the file `path` below the directory `dir`.
pub fn read_at(dir: impl AsFd, path: &str) -> io::Result<String> {
    let file = openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    io::read_to_string(File::from(file))
}

/// Sends a message of at least one byte together with descriptors, at most [`MOST`]. A receiver that has gone is an
/// error (EPIPE) and no signal.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    // Because of its alignment the space may hold more than the receiver's does.
    let fits = fds.len() <= MOST && (fds.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    if !fits {
        return Err(io::Error::other(format!("more than {MOST} descriptors")));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message and the descriptors that came with it, which are closed on exec. The length is 0 when the other
/// side has gone. Blocks.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    receive_with(socket, bytes, RecvFlags::empty())
}

/// Receives, but if no message is there now that is an error (EAGAIN).
pub fn receive_now(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    receive_with(socket, bytes, RecvFlags::DONTWAIT)
}

fn receive_with(socket: impl AsFd, bytes: &mut [u8], flags: RecvFlags) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags)?.bytes;
    let of = |message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    };
    Ok((received, ancillary.drain().flat_map(of).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_message_arrives_whole_with_its_descriptors() {
        let (here, there) = socket_pair().unwrap();
        let mut bytes = [0; 16];
        assert_eq!(receive_now(&there, &mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let null = null().unwrap();
        send(&here, b"first", &[null.as_fd(), here.as_fd()]).unwrap();
        send(&here, b"second", &[]).unwrap();
        let (length, mut fds) = receive(&there, &mut bytes).unwrap();
        assert_eq!((&bytes[..length], fds.len()), (&b"first"[..], 2));
        assert_eq!(File::from(fds.remove(0)).read(&mut [0]).unwrap(), 0, "it is /dev/null");
        assert_eq!(receive(&there, &mut bytes).unwrap().0, 6);
        let four = [null.as_fd(); MOST + 1];
        assert!(send(&here, b"x", &four).is_err());
        drop((here, fds));
        assert_eq!(receive(&there, &mut bytes).unwrap().0, 0, "the other side has gone");
    }
}
