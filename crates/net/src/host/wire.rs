//! The frames of an interface for a program in the node, such as a machine's emulator, in the place of the kernel.
//!
//! A pair of sockets is its cable: the program has one end and the emulator the other, and a frame is a message.
//! Nothing else is between them, no device, bridge or hop, and the node's kernel has no part in it. Where the emulator
//! does not read for a while, the program waits, as a card whose ring is full has it wait; where the program does not,
//! frames are lost, as in a card whose ring is full, and counted.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

/// How many frames wait for the program at most: as many as for who reads a TAP device.
const FRAMES: &str = "1000";
/// Room for them, and as much again for what the kernel needs for each: otherwise fewer would fit.
const ROOM: usize = 4 << 20;
/// How many messages wait for who reads a socket of this network namespace.
const LIMIT: &str = "/proc/sys/net/unix/max_dgram_qlen";

/// A cable between the emulator and a program.
#[derive(Debug)]
pub(super) struct Wire {
    emulator: OwnedFd,
    program: OwnedFd,
    /// Frames for which there was no room.
    lost: AtomicU64,
}

impl Wire {
    /// Makes one, in the network namespace of the calling thread.
    pub fn new() -> io::Result<Wire> {
        fs::write(LIMIT, FRAMES)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (emulator, program) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        for end in [&emulator, &program] {
            sockopt::set_socket_send_buffer_size_force(end, ROOM)?;
        }
        Ok(Wire { emulator, program, lost: AtomicU64::new(0) })
    }

    /// Another descriptor of the program's end.
    pub fn program(&self) -> io::Result<OwnedFd> {
        self.program.try_clone()
    }

    /// Notes why a frame could not be handed over; false if that is not for want of room.
    pub fn note(&self, why: Errno) -> bool {
        let is_full = matches!(why, Errno::AGAIN | Errno::NOBUFS);
        self.lost.fetch_add(is_full.into(), Ordering::Relaxed);
        is_full
    }

    /// Frames for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.emulator.as_fd()
    }
}
