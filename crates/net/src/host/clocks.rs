//! Clocks of the nodes' own, by which frames are sent and received.
//!
//! A program in the kernel writes what the node's clock shows into each frame that the node sends, where the hardware
//! address of its interface stands (`links/stamp.rs`), and the emulator reads it there. Another writes when a frame
//! arrives that the node is handed, where the kernel keeps that: whoever takes data out of it sees no earlier clock.

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
    /// The program that dates frames that arrive: another for clsact.
    pub dater: Option<OwnedFd>,
    /// Both for the loopback of a node, once it has a queue that holds back what programs send there.
    pub of_loopback: Option<[OwnedFd; 2]>,
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

    /// The programs for the interface of a port, if its node has a clock, and where they see frames.
    pub(crate) fn programs(&self, port: PortId) -> impl Iterator<Item = (Way, BorrowedFd<'_>)> {
        let has_clock = self.of(port).is_some();
        let both = [(Way::Out, &self.stamper), (Way::In, &self.dater)];
        both.into_iter().filter_map(move |(way, program)| Some((way, program.as_ref().filter(|_| has_clock)?.as_fd())))
    }

    /// The programs for the loopback of a node, and where they see frames.
    pub(crate) fn programs_of_loopback(&self) -> impl Iterator<Item = (Way, BorrowedFd<'_>)> {
        let both = self.of_loopback.iter().flatten();
        [Way::Out, Way::In].into_iter().zip(both.map(AsFd::as_fd))
    }
}

/// A direction of an interface, as its node has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Out,
    In,
}

// From <linux/pkt_sched.h>: the place of clsact, and in it those of filters for what leaves and what enters.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = CLSACT & 0xffff_0000;
const EGRESS: u32 = CLSACT_HANDLE | 0xfff3;
const INGRESS: u32 = CLSACT_HANDLE | 0xfff2;
// From <linux/rtnetlink.h> and <linux/pkt_cls.h>.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
/// The first of the filters, which sees frames of every protocol.
const PRIORITY: u32 = 1;

/// Has each of `programs` see all that leaves or enters by the interface `index` of the socket's network namespace.
/// They stay for as long as the interface does.
pub(super) fn attach<'a>(
    netlink: &Netlink,
    index: u32,
    programs: impl Iterator<Item = (Way, BorrowedFd<'a>)>,
) -> io::Result<()> {
    netlink.ask(place(index))?;
    programs.into_iter().try_for_each(|(way, program)| netlink.ask(filter(index, way, program)))
}

/// Attaches `programs` without waiting for the answers: the place may be there already, for filters of the node's own.
pub(super) fn attach_unheard<'a>(netlink: &Netlink, index: u32, programs: impl Iterator<Item = (Way, BorrowedFd<'a>)>) {
    let filters = programs.map(|(way, program)| filter(index, way, program));
    // A request that cannot be sent attaches nothing: frames are then dated by the run's clock, as before.
    std::iter::once(place(index)).chain(filters).for_each(|request| drop(netlink.tell(request)));
}

/// A request for the place of filters.
fn place(index: u32) -> Request {
    traffic_control(libc::RTM_NEWQDISC, index, CLSACT_HANDLE, CLSACT, 0).with(TCA_KIND, b"clsact\0")
}

/// A request for the first filter of all frames that go this way.
fn filter(index: u32, way: Way, program: BorrowedFd) -> Request {
    let protocols = u32::from((libc::ETH_P_ALL as u16).to_be());
    let mut options = Request::nested();
    options.attribute(TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes());
    options.attribute(TCA_BPF_NAME, b"node_clock\0");
    options.attribute(TCA_BPF_FLAGS, &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes());
    let parent = if way == Way::Out { EGRESS } else { INGRESS };
    let filter = traffic_control(libc::RTM_NEWTFILTER, index, 0, parent, PRIORITY << 16 | protocols);
    filter.with(TCA_KIND, b"bpf\0").with(TCA_OPTIONS, options.bytes())
}

/// A request with its struct tcmsg.
fn traffic_control(kind: u16, index: u32, handle: u32, parent: u32, info: u32) -> Request {
    let mut m = Request::adding(kind);
    m.head(&[libc::AF_UNSPEC as u8, 0, 0, 0]);
    [index, handle, parent, info].iter().for_each(|word| m.head(&word.to_ne_bytes()));
    m
}
