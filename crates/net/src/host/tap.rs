//! A node's interface: a TAP device in the node's namespace, whose other end the emulator holds.
//!
//! Every route goes through a gateway that does not exist, with a permanent neighbour entry for it. Without that the
//! kernel would keep a neighbour per destination in a table that all namespaces share and that overflows at 1024
//! entries (`gc_thresh3`): 33 nodes that all talk to one another would fill it. Nothing resolves an address: the
//! emulator forwards by IP address and writes the hardware address on delivery. Only on a LAN whose members are few do
//! they ask for one another's addresses.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use crate::Error;
use crate::host::clocks::{self, Clocks};
use crate::host::interface::{Control, Interface, Tun};
use crate::host::ipv6::Ipv6;
use crate::host::netlink::Netlink;
use crate::host::queues::QueueWatch;
use crate::host::rules;
use crate::host::wire::Wire;
use crate::links::ids::PortId;
use crate::links::port::Port;

/// A TAP device. It vanishes with its namespace.
///
/// It is persistent, that is, it stays in its namespace when this value is dropped or the process dies, without anybody
/// at its other end. That makes its end a quick one: the kernel takes some 30 ms to remove one device, most of it
/// waiting for grace periods, and closing the descriptors of a killed process would do that for one device after the
/// other. Namespaces that die together are cleaned up together, with all their devices in one go: a thousand of them
/// in less than a second. The namespace has no name, so nothing outlives the run's processes and descriptors.
#[derive(Debug)]
pub struct Tap {
    port: PortId,
    /// `NODE eth0`, for messages.
    label: String,
    end: End,
}

/// Whose an interface is.
#[derive(Debug)]
enum End {
    /// The kernel's: a TAP device.
    Kernel {
        name: String,
        device: OwnedFd,
        /// Listens for queues, if its node has a clock.
        queues: Option<QueueWatch>,
        /// /proc/net/dev of the namespace: it can be read again and again without entering.
        statistics: File,
    },
    /// A program's, which the kernel has no part in.
    Program(Wire),
}

/// Counters of an interface's kernel: frames that it dropped, and what passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Bytes in both directions.
    pub bytes: u64,
    /// On the way from the node to the emulator: the TAP's ring (1000 frames) was full.
    pub ring: u64,
    /// On the way from the emulator into the node.
    pub receive: u64,
}

/// Brings up the `lo` of a node that has no other interface: programs speak to themselves over it on any machine.
pub fn raise_loopback(netns: BorrowedFd, node: &str) -> Result<(), Error> {
    inside(netns, node, || {
        let control = control(node)?;
        raise_lo(&control, node)
    })
}

fn control(label: &str) -> Result<Control, Error> {
    Control::open().map_err(Error::system(format!("{label}: cannot open a socket")))
}

/// Runs `work` in `netns`; `label` is for messages.
fn inside<T: Send>(netns: BorrowedFd, label: &str, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    host::in_netns(netns, work).map_err(|e| Error::of_host(label, e))?
}

fn raise_lo(control: &Control, label: &str) -> Result<(), Error> {
    Interface { name: "lo", control }.raise(0).map_err(Error::system(format!("{label}: cannot bring `lo` up")))
}

impl Tap {
    /// Creates the interface of `port` inside `netns`: MTU, addresses and routes set, ARP only on a LAN, up;
    /// `lo` is brought up too, and forwarding is turned on if the node joins several links. If the port's node has one
    /// of `clocks`, what leaves by the interface is stamped with it.
    ///
    /// Needs CAP_NET_ADMIN in the namespace and CAP_SYS_ADMIN to enter it.
    pub fn create(netns: BorrowedFd, port: &Port, clocks: &Clocks) -> Result<Tap, Error> {
        let label = format!("{} {}", port.node, port.name);
        if port.bare {
            return Tap::bare(netns, port, label);
        }
        inside(netns, &label, || {
            let step = |what: &str| Error::system(format!("{label}: {what}"));
            let device = attach(&port.name, &label)?;
            let control = control(&label)?;
            let interface = Interface { name: &port.name, control: &control };
            interface.set_mac(port.mac).map_err(step("cannot set the hardware address"))?;
            interface.set_mtu(port.mtu).map_err(step("cannot set the MTU"))?;
            let netlink = Netlink::open().map_err(step("cannot open a socket to set routes"))?;
            if !port.tso {
                netlink.forbid_bursts(&port.name).map_err(step("cannot turn segmentation offload off"))?;
            }
            let mut queues = None;
            if clocks.programs(port.id).next().is_some() {
                let index = netlink.index(&port.name).map_err(step("cannot be found"))?;
                clocks::attach(&netlink, index, clocks.programs(port.id))
                    .map_err(step("cannot have frames stamped with the node's clock (clsact and a BPF filter)"))?;
                queues = Some(QueueWatch::new(index).map_err(step("cannot listen for queues of its own"))?);
            }
            let ipv6 = Ipv6::of(port);
            ipv6.iter().try_for_each(Ipv6::prepare).map_err(step("cannot prepare IPv6 (net.ipv6.conf)"))?;
            interface.set_address(port.address, port.prefix).map_err(step("cannot set the address"))?;
            interface
                .raise(if port.lan.is_some() { 0 } else { libc::IFF_NOARP })
                .map_err(step("cannot bring the interface up"))?;
            raise_lo(&control, &label)?;
            if port.forwards {
                let on = std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
                on.map_err(step("cannot turn forwarding on (/proc/sys/net/ipv4/ip_forward)"))?;
                without_reverse_path_filter(&port.name).map_err(step("cannot turn rp_filter off"))?;
            }
            add_routes(&interface, port).map_err(step("cannot set the routes"))?;
            if !port.rules.is_empty() {
                rules::install(&netlink, port).map_err(step("cannot set the routes that were given"))?;
            }
            let installed = ipv6.map_or(Ok(()), |ipv6| ipv6.install(&netlink, rules::table(port)));
            installed.map_err(step("cannot set its IPv6 address and routes"))?;
            let statistics = File::open("/proc/thread-self/net/dev").map_err(step("cannot read /proc/net/dev"))?;
            let end = End::Kernel { name: port.name.clone(), device, queues, statistics };
            Ok(Tap { port: port.id, label: label.clone(), end })
        })
    }

    /// The interface of a port that a program has for itself.
    fn bare(netns: BorrowedFd, port: &Port, label: String) -> Result<Tap, Error> {
        let wire = inside(netns, &label, || {
            raise_lo(&control(&label)?, &label)?;
            Wire::new().map_err(Error::system(format!("{label}: cannot make a cable for a program's frames")))
        })?;
        Ok(Tap { port: port.id, label, end: End::Program(wire) })
    }

    /// A descriptor by which a program sends and receives the frames of a [bare](Port::bare) interface, one a message.
    pub fn program(&self) -> Option<io::Result<OwnedFd>> {
        match &self.end {
            End::Kernel { .. } => None,
            End::Program(wire) => Some(wire.program()),
        }
    }

    /// Gives away who listens for queues, once.
    pub(crate) fn queues(&mut self) -> Option<QueueWatch> {
        match &mut self.end {
            End::Kernel { queues, .. } => queues.take(),
            End::Program(_) => None,
        }
    }

    /// Notes why a frame could not be handed over; whether the interface counts that by itself.
    pub(crate) fn note(&self, why: Errno) -> bool {
        match &self.end {
            End::Kernel { .. } => false,
            End::Program(wire) => wire.note(why),
        }
    }

    /// The port that this is the interface of.
    pub fn port(&self) -> PortId {
        self.port
    }

    /// Frames that the node sent and nobody read in time; `None` if the node has removed or renamed the interface.
    pub fn ring_drops(&self) -> Option<u64> {
        self.counted().map(|c| c.ring)
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Counts since it was created; `None` if the node has removed or renamed it. A system call or two, on
    /// any thread: the emulator does not notice.
    pub(crate) fn counted(&self) -> Option<Counted> {
        let (statistics, name) = match &self.end {
            End::Kernel { statistics, name, .. } => (statistics, name),
            // Who sends there waits for room.
            End::Program(wire) => return Some(Counted { receive: wire.lost(), ..Counted::default() }),
        };
        let mut text = Vec::new();
        // The kernel gives a page at a time.
        let mut page = [0; 4096];
        loop {
            match statistics.read_at(&mut page, text.len() as u64).ok()? {
                0 => return counted_in(std::str::from_utf8(&text).ok()?, name),
                n => text.extend_from_slice(&page[..n]),
            }
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.end {
            End::Kernel { device, .. } => device.as_fd(),
            End::Program(wire) => wire.as_fd(),
        }
    }
}

/// Reads the counters of `interface` from the text of /proc/net/dev.
fn counted_in(text: &str, interface: &str) -> Option<Counted> {
    let line = text.lines().find_map(|l| l.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let fields: Vec<u64> = line.split_ascii_whitespace().map_while(|f| f.parse().ok()).collect();
    let bytes = fields.first()?.wrapping_add(*fields.get(8)?);
    Some(Counted { bytes, receive: *fields.get(3)?, ring: *fields.get(11)? })
}

fn attach(name: &str, label: &str) -> Result<OwnedFd, Error> {
    let tun = Tun::open().map_err(|e| Error::Machine {
        what: format!("{label}: no TAP device can be made (/dev/net/tun: {e})"),
        help: "as root, `modprobe tun`; in a container, pass the device /dev/net/tun".into(),
    })?;
    tun.attach(name).map_err(|e| match e.raw_os_error() {
        Some(libc::EPERM) => Error::Machine {
            what: format!("{label}: not allowed to make a TAP device"),
            help: "run as root (CAP_NET_ADMIN in the node's network namespace)".into(),
        },
        _ => Error::system(format!("{label}: cannot make a TAP device"))(e),
    })?;
    tun.persist().map_err(Error::system(format!("{label}: cannot leave a TAP device to its namespace")))?;
    Ok(tun.into())
}

/// A packet may come by another interface than the one by which its source is reached: routes may be given for one
/// direction. A new namespace takes the setting over from the host.
fn without_reverse_path_filter(interface: &str) -> io::Result<()> {
    let off = |which: &str| std::fs::write(format!("/proc/sys/net/ipv4/conf/{which}/rp_filter"), "0");
    off("all").and_then(|()| off(interface))
}

fn add_routes(interface: &Interface, port: &Port) -> io::Result<()> {
    let gateway = port.gateway;
    interface.set_neighbour(gateway)?;
    if port.lan.is_some() || port.prefix != 8 {
        interface.add_route(gateway, 32, None)?;
    }
    if let Some(all) = port.main {
        interface.add_route(all.address, all.length, Some(gateway))?;
    }
    if let Some(lan) = port.lan {
        if !lan.asks {
            // The kernel has made a route for the whole block.
            for half in lan.subnet.halves() {
                interface.add_route(half.address, half.length, Some(gateway))?;
            }
        }
        if lan.first {
            interface.add_route(Ipv4Addr::BROADCAST, 32, None)?;
            interface.add_route(Ipv4Addr::new(224, 0, 0, 0), 4, None)?;
        }
    }
    port.routes.iter().try_for_each(|to| interface.add_route(to.address, to.length, Some(gateway)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_their_own_columns() {
        // Two lines of heads, whose columns are: bytes, packets, errs, drop, fifo, frame (or colls), and two more.
        let text = "Inter-|   Receive  |  Transmit\n face |bytes  …\n    \
                    lo:      84       1    0    9    0     0     0    0       84       1    0    8    0     0\n  \
                    eth0: 1000 10 1 2 3 4 5 6 2000 20 7 42 9 10 11 12\n eth01: 0 0 0 5 0 0 0 0 0 0 0 5 0 0 0 0\n";
        assert_eq!(counted_in(text, "eth0"), Some(Counted { bytes: 3000, receive: 2, ring: 42 }));
        assert_eq!(counted_in(text, "eth1"), None);
    }
}
