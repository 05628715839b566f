//! Clocks of the nodes' own, by which frames are sent and received.
//!
//! A program in the kernel writes what the node's clock shows into each frame that the node sends, where the hardware
//! address of its interface stands (`links/stamp.rs`), and the emulator reads it there. Before a frame is handed to a
//! node, the node's clock is raised to the instant at which the frame arrives.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use host::node_clock::NodeClock;

use crate::host::netlink::{Netlink, Request};
use crate::links::ids::PortId;

/// The nodes' clocks; by default there are none, and all frames are sent and received by the run's.
#[derive(Debug, Default)]
pub struct Clocks {
    /// The program that writes them into frames: one for clsact that gives a verdict by itself.
    pub stamper: Option<OwnedFd>,
    /// The clock of each port's node, in the order of the ports' numbers. Ports beyond its end have none.
    pub of_ports: Vec<Option<NodeClock>>,
}

impl Clocks {
    /// Whether no node has one.
    pub(crate) fn none(&self) -> bool {
        self.of_ports.iter().all(Option::is_none)
    }

    /// The clock of a port's node.
    pub(crate) fn of(&self, port: PortId) -> Option<&NodeClock> {
        self.of_ports.get(port.index())?.as_ref()
    }

    /// The program for the interface of a port, if its node has a clock.
    pub(crate) fn stamper(&self, port: PortId) -> Option<BorrowedFd<'_>> {
        self.of(port).and(self.stamper.as_ref()).map(AsFd::as_fd)
    }
}

// From <linux/pkt_sched.h>: the place of clsact, and in it that of filters for what leaves.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = CLSACT & 0xffff_0000;
const EGRESS: u32 = CLSACT_HANDLE | 0xfff3;
// From <linux/rtnetlink.h> and <linux/pkt_cls.h>.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
/// The first of the filters, which sees frames of every protocol.
const PRIORITY: u32 = 1;

/// Has `program` see all that leaves by the interface `name` of the calling thread's network namespace. It stays for
/// as long as the interface does.
pub(super) fn attach(netlink: &Netlink, name: &str, program: BorrowedFd) -> io::Result<()> {
    let index = netlink.index(name)?;
    netlink.ask(traffic_control(libc::RTM_NEWQDISC, index, CLSACT_HANDLE, CLSACT, 0).with(TCA_KIND, b"clsact\0"))?;
    let protocols = u32::from((libc::ETH_P_ALL as u16).to_be());
    let mut options = Request::nested();
    options.attribute(TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes());
    options.attribute(TCA_BPF_NAME, b"node_clock\0");
    options.attribute(TCA_BPF_FLAGS, &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes());
    let filter = traffic_control(libc::RTM_NEWTFILTER, index, 0, EGRESS, PRIORITY << 16 | protocols);
    netlink.ask(filter.with(TCA_KIND, b"bpf\0").with(TCA_OPTIONS, options.bytes()))
}

/// A request with its struct tcmsg.
fn traffic_control(kind: u16, index: u32, handle: u32, parent: u32, info: u32) -> Request {
    let mut m = Request::adding(kind);
    m.head(&[libc::AF_UNSPEC as u8, 0, 0, 0]);
    [index, handle, parent, info].iter().for_each(|word| m.head(&word.to_ne_bytes()));
    m
}
