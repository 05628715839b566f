//! A node's interface: a TAP device in the node's namespace, whose other end the emulator holds.
//!
//! Every route goes through a gateway that does not exist, with a permanent neighbour entry for it. Without that the
//! kernel would keep a neighbour per destination in a table that all namespaces share and that overflows at 1024
//! entries (`gc_thresh3`): 33 nodes that all talk to one another would fill it. Nothing ever resolves an address: the
//! emulator forwards by IP address and writes the hardware address on delivery.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::Error;
use crate::host::netlink::Netlink;
use crate::host::{namespace, policy};
use crate::links::address;
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
    name: String,
    device: OwnedFd,
    /// /proc/net/dev of the namespace: it can be read again and again without entering.
    statistics: File,
}

/// Frames that an interface's kernel dropped, by its own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drops {
    /// On the way from the node to the emulator: the TAP's ring (1000 frames) was full.
    pub ring: u64,
    /// On the way from the emulator into the node.
    pub receive: u64,
}

/// Brings up the `lo` of a node that has no other interface: programs speak to themselves over it on any machine.
pub fn raise_loopback(netns: BorrowedFd, node: &str) -> Result<(), Error> {
    namespace::inside(netns, node, || {
        let control = control(node)?;
        raise_lo(control.as_fd(), node)
    })
}

/// A socket for the operations on interfaces, in the calling thread's network namespace.
fn control(label: &str) -> Result<OwnedFd, Error> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    socket.map_err(|e| Error::system(format!("{label}: cannot open a socket"))(e.into()))
}

fn raise_lo(control: BorrowedFd, label: &str) -> Result<(), Error> {
    Interface { name: "lo", control }.raise(0).map_err(Error::system(format!("{label}: cannot bring `lo` up")))
}

impl Tap {
    /// Creates the interface of `port` inside `netns`: MTU, address and routes set, no ARP, no IPv6, up; `lo` is
    /// brought up too, and forwarding is turned on if the node joins several links.
    ///
    /// Needs CAP_NET_ADMIN in the namespace and CAP_SYS_ADMIN to enter it.
    pub fn create(netns: BorrowedFd, port: &Port) -> Result<Tap, Error> {
        let label = format!("{} {}", port.node, port.name);
        namespace::inside(netns, &label, || {
            let step = |what: &str| Error::system(format!("{label}: {what}"));
            let device = attach(&port.name, &label)?;
            let control = control(&label)?;
            let interface = Interface { name: &port.name, control: control.as_fd() };
            interface.set_mac(port.mac).map_err(step("cannot set the hardware address"))?;
            interface.set_int(libc::SIOCSIFMTU as _, i32::from(port.mtu)).map_err(step("cannot set the MTU"))?;
            if !port.tso {
                let forbidden = Netlink::open().and_then(|netlink| netlink.forbid_bursts(&port.name));
                forbidden.map_err(step("cannot turn segmentation offload off"))?;
            }
            without_ipv6(&port.name).map_err(step("cannot turn IPv6 off"))?;
            interface.set_address(libc::SIOCSIFADDR as _, port.address).map_err(step("cannot set the address"))?;
            let mask = Ipv4Addr::from_bits(u32::MAX << (32 - port.prefix));
            interface.set_address(libc::SIOCSIFNETMASK as _, mask).map_err(step("cannot set the netmask"))?;
            interface.raise(libc::IFF_NOARP).map_err(step("cannot bring the interface up"))?;
            raise_lo(control.as_fd(), &label)?;
            if port.forwards {
                let on = std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
                on.map_err(step("cannot turn forwarding on (/proc/sys/net/ipv4/ip_forward)"))?;
                without_reverse_path_filter(&port.name).map_err(step("cannot turn rp_filter off"))?;
            }
            add_routes(&interface, port).map_err(step("cannot set the routes"))?;
            if !port.rules.is_empty() {
                policy::install(port).map_err(step("cannot set the routes that were given"))?;
            }
            let statistics = File::open("/proc/thread-self/net/dev").map_err(step("cannot read /proc/net/dev"))?;
            Ok(Tap { port: port.id, label: label.clone(), name: port.name.clone(), device, statistics })
        })
    }

    /// The port that this is the interface of.
    pub fn port(&self) -> PortId {
        self.port
    }

    /// Frames that the node sent and nobody read in time; `None` if the node has removed or renamed the interface.
    pub fn ring_drops(&self) -> Option<u64> {
        self.drops().map(|d| d.ring)
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// What the interface dropped since it was created; `None` if the node has removed or renamed it.
    pub(crate) fn drops(&self) -> Option<Drops> {
        let mut text = Vec::new();
        // The kernel gives a page at a time.
        let mut page = [0; 4096];
        loop {
            match self.statistics.read_at(&mut page, text.len() as u64).ok()? {
                0 => return drops_in(std::str::from_utf8(&text).ok()?, &self.name),
                n => text.extend_from_slice(&page[..n]),
            }
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// Reads receive and transmit drops of `interface` from the text of /proc/net/dev.
fn drops_in(text: &str, interface: &str) -> Option<Drops> {
    let line = text.lines().find_map(|l| l.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let fields: Vec<u64> = line.split_ascii_whitespace().map_while(|f| f.parse().ok()).collect();
    Some(Drops { receive: *fields.get(3)?, ring: *fields.get(11)? })
}

fn attach(name: &str, label: &str) -> Result<OwnedFd, Error> {
    let tun = rustix::fs::open(
        "/dev/net/tun",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    let tun = tun.map_err(|e| Error::Machine {
        what: format!("{label}: no TAP device can be made (/dev/net/tun: {})", io::Error::from(e)),
        help: "as root, `modprobe tun`; in a container, pass the device /dev/net/tun".into(),
    })?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    ioctl(tun.as_fd(), libc::TUNSETIFF as _, &mut request).map_err(|e| match e.raw_os_error() {
        Some(libc::EPERM) => Error::Machine {
            what: format!("{label}: not allowed to make a TAP device"),
            help: "run as root (CAP_NET_ADMIN in the node's network namespace)".into(),
        },
        _ => Error::system(format!("{label}: cannot make a TAP device"))(e),
    })?;
    // SAFETY: this operation takes a number and no pointer.
    if unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETPERSIST as _, 1) } != 0 {
        let e = io::Error::last_os_error();
        return Err(Error::system(format!("{label}: cannot leave a TAP device to its namespace"))(e));
    }
    Ok(tun)
}

fn without_ipv6(interface: &str) -> io::Result<()> {
    match std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "1") {
        // A kernel without IPv6 has nothing to turn off.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A packet may come by another interface than the one by which its source is reached: routes may be given for one
/// direction. A new namespace takes the setting over from the host.
fn without_reverse_path_filter(interface: &str) -> io::Result<()> {
    let off = |which: &str| std::fs::write(format!("/proc/sys/net/ipv4/conf/{which}/rp_filter"), "0");
    off("all").and_then(|()| off(interface))
}

fn add_routes(interface: &Interface, port: &Port) -> io::Result<()> {
    let gateway = address::gateway(port.address);
    interface.set_neighbour(gateway)?;
    match port.prefix {
        8 => interface.add_route(Ipv4Addr::new(10, 0, 0, 0), 9, Some(gateway))?,
        _ => interface.add_route(gateway, 32, None)?,
    }
    port.routes.iter().try_for_each(|to| interface.add_route(to.address, to.length, Some(gateway)))
}

#[derive(Clone, Copy)]
struct Interface<'a> {
    name: &'a str,
    control: BorrowedFd<'a>,
}

impl Interface<'_> {
    fn set_int(&self, operation: libc::Ioctl, value: i32) -> io::Result<()> {
        let mut request = request(self.name);
        request.ifr_ifru.ifru_mtu = value;
        ioctl(self.control, operation, &mut request)
    }

    fn set_address(&self, operation: libc::Ioctl, address: Ipv4Addr) -> io::Result<()> {
        let mut request = request(self.name);
        request.ifr_ifru.ifru_addr = sockaddr(address);
        ioctl(self.control, operation, &mut request)
    }

    fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        let mut request = request(self.name);
        request.ifr_ifru.ifru_hwaddr = hardware(mac);
        ioctl(self.control, libc::SIOCSIFHWADDR as _, &mut request)
    }

    /// Brings the interface up with `flags` besides those that it has.
    fn raise(&self, flags: i32) -> io::Result<()> {
        let mut request = request(self.name);
        ioctl(self.control, libc::SIOCGIFFLAGS as _, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has just filled this member of the union.
        let present = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = present | (flags | libc::IFF_UP) as i16;
        ioctl(self.control, libc::SIOCSIFFLAGS as _, &mut request)
    }

    fn set_neighbour(&self, address: Ipv4Addr) -> io::Result<()> {
        // SAFETY: an arpreq is plain data, for which all bytes zero are a value.
        let mut request: libc::arpreq = unsafe { std::mem::zeroed() };
        request.arp_pa = sockaddr(address);
        request.arp_ha = hardware(address::mac(address));
        request.arp_flags = ATF_COM | ATF_PERM;
        copy_name(&mut request.arp_dev, self.name);
        ioctl(self.control, libc::SIOCSARP as _, &mut request)
    }

    fn add_route(&self, to: Ipv4Addr, prefix: u8, gateway: Option<Ipv4Addr>) -> io::Result<()> {
        let mut name = [0; libc::IFNAMSIZ];
        copy_name(&mut name, self.name);
        // SAFETY: an rtentry is plain data and pointers, for which all bytes zero are a value.
        let mut request: libc::rtentry = unsafe { std::mem::zeroed() };
        request.rt_dst = sockaddr(to);
        request.rt_genmask = sockaddr(Ipv4Addr::from_bits(u32::MAX << (32 - prefix)));
        request.rt_flags = libc::RTF_UP | if prefix == 32 { libc::RTF_HOST } else { 0 };
        if let Some(gateway) = gateway {
            request.rt_gateway = sockaddr(gateway);
            request.rt_flags |= libc::RTF_GATEWAY;
        }
        request.rt_dev = name.as_mut_ptr();
        ioctl(self.control, libc::SIOCADDRT as _, &mut request)
    }
}

// From <net/if_arp.h>: the entry is complete, and permanent.
const ATF_COM: i32 = 2;
const ATF_PERM: i32 = 4;

fn ioctl<T>(fd: BorrowedFd, operation: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: every caller passes the structure that its operation reads and writes; any pointer inside it lives as
    // long as the caller's frame.
    match unsafe { libc::ioctl(fd.as_raw_fd(), operation, argument as *mut T) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: an ifreq is plain data, for which all bytes zero are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    copy_name(&mut request.ifr_name, name);
    request
}

/// Copies an interface name, leaving the last byte zero.
fn copy_name(to: &mut [libc::c_char; libc::IFNAMSIZ], name: &str) {
    to.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()).for_each(|(t, b)| *t = b as libc::c_char);
}

fn sockaddr(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    data[2..6].iter_mut().zip(address.octets()).for_each(|(d, o)| *d = o as libc::c_char);
    libc::sockaddr { sa_family: libc::AF_INET as _, sa_data: data }
}

fn hardware(mac: [u8; 6]) -> libc::sockaddr {
    let mut data = [0; 14];
    data.iter_mut().zip(mac).for_each(|(d, o)| *d = o as libc::c_char);
    libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_their_own_columns() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
                    lo:      84       1    0    9    0     0          0         0       84       1    0    8    0     0       0          0\n  \
                    eth0: 1000 10 1 2 3 4 5 6 2000 20 7 42 9 10 11 12\n eth01: 0 0 0 5 0 0 0 0 0 0 0 5 0 0 0 0\n";
        assert_eq!(drops_in(text, "eth0"), Some(Drops { receive: 2, ring: 42 }));
        assert_eq!(drops_in(text, "eth1"), None);
    }
}
