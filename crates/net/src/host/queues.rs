//! Queues that a node's programs give their interfaces (tc): heard of, since they hold back frames by real time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use crate::host::clocks::{self, Clocks};
use crate::host::netlink::Netlink;

/// From <linux/rtnetlink.h> and <linux/pkt_sched.h>: the root of an interface, where one queue is.
const ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
/// Of struct nlmsghdr, and of struct tcmsg behind it.
const HEADER: usize = 16;
const TCMSG: usize = 20;
/// The number of `lo` in every namespace.
const LOOPBACK: u32 = 1;
/// The kernel's own, which hold back nothing.
const PASSING: [&[u8]; 2] = [b"noqueue", b"pfifo_fast"];

/// Listens for queues that an interface gets, and its node's loopback.
#[derive(Debug)]
pub(crate) struct QueueWatch {
    socket: Netlink,
    interface: u32,
    loopback_done: bool,
}

impl QueueWatch {
    /// Of `interface` in the calling thread's network namespace, from now on.
    pub fn new(interface: u32) -> io::Result<QueueWatch> {
        Ok(QueueWatch { socket: Netlink::listening_to_queues()?, interface, loopback_done: false })
    }

    /// Reads what there is; whether the interface or the loopback has a queue now that may hold frames back. The
    /// loopback then has its programs attached, for which the kernel's lock of interfaces is waited for.
    pub fn heard(&mut self, clocks: &Clocks) -> bool {
        let mut queued = false;
        loop {
            let messages = match self.socket.heard() {
                Ok(messages) => messages,
                Err(Errno::INTR) => continue,
                // More has happened than it could keep. To take it that there is a queue is right in any case.
                Err(Errno::NOBUFS) => {
                    queued = true;
                    continue;
                }
                Err(_) => return queued,
            };
            for interface in roots(&messages) {
                queued |= interface == self.interface || interface == LOOPBACK;
                if interface == LOOPBACK && !self.loopback_done {
                    self.loopback_done = true;
                    clocks::attach_unheard(&self.socket, LOOPBACK, clocks.programs_of_loopback());
                }
            }
        }
    }
}

impl AsFd for QueueWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The interfaces that some messages give a queue that may hold frames back.
fn roots(mut messages: &[u8]) -> impl Iterator<Item = u32> + '_ {
    std::iter::from_fn(move || {
        loop {
            let length = word(messages, 0)? as usize;
            let message = messages.get(..length).filter(|_| length >= HEADER)?;
            messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
            if let Some(interface) = root(message) {
                return Some(interface);
            }
        }
    })
}

/// The interface that a message gives such a queue.
fn root(message: &[u8]) -> Option<u32> {
    let is_new = message.get(4..6)? == libc::RTM_NEWQDISC.to_ne_bytes();
    let (interface, parent) = (word(message, HEADER + 4)?, word(message, HEADER + 12)?);
    let kind = kind(message.get(HEADER + TCMSG..)?)?;
    (is_new && parent == ROOT && !PASSING.contains(&kind)).then_some(interface)
}

/// The attribute that names a kind of queue.
fn kind(mut attributes: &[u8]) -> Option<&[u8]> {
    loop {
        let head = attributes.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([head[2], head[3]]) == TCA_KIND {
            return value.split(|byte| *byte == 0).next();
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message about a queue of this kind.
    fn message(number: u16, interface: u32, parent: u32, kind: &[u8]) -> Vec<u8> {
        let attribute = 4 + kind.len();
        let length = HEADER + TCMSG + 8 + attribute;
        let mut m = (length as u32).to_ne_bytes().to_vec();
        m.extend(number.to_ne_bytes());
        m.resize(HEADER + 4, 0);
        for word in [interface, 0x8005_0000, parent, 0] {
            m.extend(word.to_ne_bytes());
        }
        // Another attribute first, of one byte.
        m.extend([5, 0, 12, 0, 1, 0, 0, 0, attribute as u8, 0, 1, 0]);
        m.extend(kind);
        m.resize(length.next_multiple_of(4), 0);
        m
    }

    #[test]
    fn queues_at_the_root_are_heard_of_and_none_else() {
        let (new, gone) = (libc::RTM_NEWQDISC, libc::RTM_DELQDISC);
        let all = [
            message(gone, 2, ROOT, b"netem\0"),
            message(new, 3, 0x10001, b"netem\0"),
            message(new, 4, ROOT, b"pfifo_fast\0"),
            message(new, 5, 0xffff_fff1, b"clsact\0"),
            message(new, 6, ROOT, b"tbf\0"),
            message(new, 1, ROOT, b"netem\0"),
        ];
        assert_eq!(roots(&all.concat()).collect::<Vec<_>>(), [6, 1]);
        let cut = message(new, 6, ROOT, b"tbf\0");
        (0..cut.len()).for_each(|length| assert_eq!(roots(&cut[..length]).count(), 0, "{length}"));
        assert_eq!(roots(&[0; 64]).count(), 0);
    }
}
