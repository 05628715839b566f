//! Requests to the kernel's routing socket (rtnetlink(7)), for what ioctl(2) cannot set.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Room for the answer to one request.
const ANSWER: usize = 4096;
/// Room for what is heard at once; the kernel sends no more in one piece.
const HEARD: usize = 32_768;
/// From <linux/rtnetlink.h>, of a route: its gateway is on the link, whatever other routes say.
pub(super) const ONLINK: u32 = 4;
/// From the same: who hears of changes of queues and filters.
const RTMGRP_TC: u32 = 8;
/// From <linux/if_link.h>.
const IFLA_GSO_MAX_SEGS: u16 = 40;

/// A socket in the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    pub fn open() -> io::Result<Netlink> {
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Ok(Netlink(socket))
    }

    /// Hears of the queues that interfaces get from now on, and waits for nothing.
    pub fn listening_to_queues() -> io::Result<Netlink> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, RTMGRP_TC))?;
        Ok(Netlink(socket))
    }

    /// Some messages that have come.
    pub fn heard(&self) -> Result<Vec<u8>, Errno> {
        let mut messages = vec![0; HEARD];
        let (got, _) = rustix::net::recv(&self.0, &mut messages, RecvFlags::empty())?;
        messages.truncate(got);
        Ok(messages)
    }

    /// The number of the interface `name`.
    pub fn index(&self, name: &str) -> io::Result<u32> {
        Ok(rustix::net::netdevice::name_to_index(&self.0, name)?)
    }

    /// Sends a request and waits for the kernel's verdict.
    pub fn ask(&self, request: Request) -> io::Result<()> {
        self.tell(request)?;
        self.acknowledged()
    }

    /// Sends a request, whose answer comes later.
    pub fn tell(&self, request: Request) -> io::Result<()> {
        let Request(mut message) = request;
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        rustix::net::sendto(&self.0, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(())
    }

    /// An error message, whose number is 0 if all is well.
    fn acknowledged(&self) -> io::Result<()> {
        let mut answer = [0u8; ANSWER];
        let (got, _) = rustix::net::recv(&self.0, &mut answer, RecvFlags::empty())?;
        let kind = answer[..got].get(4..6).and_then(|b| Some(u16::from_ne_bytes(*b.first_chunk()?)));
        let code = answer[..got].get(16..20).and_then(|b| Some(i32::from_ne_bytes(*b.first_chunk()?)));
        match (kind.map(i32::from), code) {
            (Some(libc::NLMSG_ERROR), Some(0)) => Ok(()),
            (Some(libc::NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
            _ => Err(Errno::PROTO.into()),
        }
    }

    /// No TCP segment that leaves by the interface `name` is longer than the MTU, not even inside the kernel: it makes
    /// none of the bursts that it otherwise leaves to the card to cut up.
    pub fn forbid_bursts(&self, name: &str) -> io::Result<()> {
        let mut m = Request::new(libc::RTM_SETLINK, 0);
        // struct ifinfomsg: family, type, index, flags, and which flags are meant.
        m.head(&[0; 4]);
        m.head(&self.index(name)?.to_ne_bytes());
        m.head(&[0; 8]);
        m.attribute(IFLA_GSO_MAX_SEGS, &1u32.to_ne_bytes());
        self.ask(m)
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A message with its attributes.
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A request to add something that is not there yet.
    pub fn adding(kind: u16) -> Request {
        Request::new(kind, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
    }

    fn new(kind: u16, flags: i32) -> Request {
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags;
        let mut m = vec![0; size_of::<libc::nlmsghdr>()];
        m[4..6].copy_from_slice(&kind.to_ne_bytes());
        m[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
        Request(m)
    }

    /// Attributes for the inside of another one.
    pub fn nested() -> Request {
        Request(Vec::new())
    }

    /// As it has been written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// More of the head of its kind.
    pub fn head(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// It with one attribute more.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Request {
        self.attribute(kind, value);
        self
    }

    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.head(&(4 + value.len() as u16).to_ne_bytes());
        self.head(&kind.to_ne_bytes());
        self.head(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}
