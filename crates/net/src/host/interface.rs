//! An interface of the network namespace that the calling thread is in, set by ioctl(2), as netdevice(7) and arp(7)
//! say.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use scale::link::LARGEST_OF_INTERFACES;

use crate::links::address;
use crate::links::prefix::netmask;

/// A socket for operations on interfaces, in the network namespace in which it was made.
pub(super) struct Control(OwnedFd);

impl Control {
    pub fn open() -> io::Result<Control> {
        Ok(Control(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?))
    }
}

/// `/dev/net/tun`, of which TAP devices are made.
pub(super) struct Tun(OwnedFd);

impl Tun {
    pub fn open() -> io::Result<Tun> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(Tun(rustix::fs::open("/dev/net/tun", flags, Mode::empty())?))
    }

    /// Becomes a TAP device called `name`, in the calling thread's network namespace.
    pub fn attach(&self, name: &str) -> io::Result<()> {
        let mut request = request(name);
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
        operate(self.0.as_fd(), Operation::Attach, &mut request)
    }

    /// Has the TAP device stay when its descriptor is closed.
    pub fn persist(&self) -> io::Result<()> {
        // SAFETY: this operation takes a number and no pointer.
        checked(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TUNSETPERSIST as _, 1) })
    }
}

impl From<Tun> for OwnedFd {
    fn from(tun: Tun) -> OwnedFd {
        tun.0
    }
}

/// The operations of netdevice(7) and linux/if_tun.h that are used here. Each takes a struct ifreq, of whose union it
/// uses a member without a pointer.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Operation {
    SetHardwareAddress = libc::SIOCSIFHWADDR,
    SetMtu = libc::SIOCSIFMTU,
    SetAddress = libc::SIOCSIFADDR,
    SetNetmask = libc::SIOCSIFNETMASK,
    GetFlags = libc::SIOCGIFFLAGS,
    SetFlags = libc::SIOCSIFFLAGS,
    Attach = libc::TUNSETIFF,
}

/// `fd` is that of a [`Control`] or a [`Tun`].
fn operate(fd: BorrowedFd, operation: Operation, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: every `Operation` reads and writes one ifreq, which `request` is for the whole call, and follows no
    // pointer in it; a socket and /dev/net/tun refuse each other's operations or take an ifreq for them, too.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), operation as libc::Ioctl, std::ptr::from_mut(request)) })
}

fn checked(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An interface, by its name in the namespace of the socket.
#[derive(Clone, Copy)]
pub(super) struct Interface<'a> {
    pub name: &'a str,
    pub control: &'a Control,
}

impl Interface<'_> {
    /// Sets the longest IP packet, as far as a TAP interface goes.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        let mut request = request(self.name);
        request.ifr_ifru.ifru_mtu = mtu.min(LARGEST_OF_INTERFACES).into();
        operate(self.control.0.as_fd(), Operation::SetMtu, &mut request)
    }

    /// Sets the address, of which the first `prefix` bits are the network's.
    pub fn set_address(&self, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut request = request(self.name);
        request.ifr_ifru.ifru_addr = sockaddr(address);
        operate(self.control.0.as_fd(), Operation::SetAddress, &mut request)?;
        request.ifr_ifru.ifru_addr = sockaddr(netmask(prefix));
        operate(self.control.0.as_fd(), Operation::SetNetmask, &mut request)
    }

    pub fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        let mut request = request(self.name);
        request.ifr_ifru.ifru_hwaddr = hardware(mac);
        operate(self.control.0.as_fd(), Operation::SetHardwareAddress, &mut request)
    }

    /// Brings the interface up with `flags` besides those that it has.
    pub fn raise(&self, flags: i32) -> io::Result<()> {
        let mut request = request(self.name);
        operate(self.control.0.as_fd(), Operation::GetFlags, &mut request)?;
        // SAFETY: `GetFlags` has just filled this member of the union.
        let present = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = present | (flags | libc::IFF_UP) as i16;
        operate(self.control.0.as_fd(), Operation::SetFlags, &mut request)
    }

    /// Says once and for all which hardware address `address` has.
    pub fn set_neighbour(&self, address: Ipv4Addr) -> io::Result<()> {
        // SAFETY: an arpreq is plain data, for which all bytes zero are a value.
        let mut request: libc::arpreq = unsafe { std::mem::zeroed() };
        request.arp_pa = sockaddr(address);
        request.arp_ha = hardware(address::mac(address));
        request.arp_flags = ATF_COM | ATF_PERM;
        copy_name(&mut request.arp_dev, self.name);
        // SAFETY: arp(7): SIOCSARP on a socket reads an arpreq, which `request` is for the whole call, and in which
        // there is no pointer.
        checked(unsafe { libc::ioctl(self.control.0.as_raw_fd(), libc::SIOCSARP as _, &raw const request) })
    }

    /// Has packets for a block of addresses leave by this interface, to `gateway` if there is one.
    pub fn add_route(&self, to: Ipv4Addr, prefix: u8, gateway: Option<Ipv4Addr>) -> io::Result<()> {
        let mut name = [0; libc::IFNAMSIZ];
        copy_name(&mut name, self.name);
        // SAFETY: an rtentry is plain data and pointers, for which all bytes zero are a value.
        let mut request: libc::rtentry = unsafe { std::mem::zeroed() };
        request.rt_dst = sockaddr(to);
        request.rt_genmask = sockaddr(netmask(prefix));
        request.rt_flags = libc::RTF_UP | if prefix == 32 { libc::RTF_HOST } else { 0 };
        if let Some(gateway) = gateway {
            request.rt_gateway = sockaddr(gateway);
            request.rt_flags |= libc::RTF_GATEWAY;
        }
        request.rt_dev = name.as_mut_ptr();
        // SAFETY: SIOCADDRT reads an rtentry, which `request` is, and the name that `rt_dev` points to: `name`, whose
        // last byte is zero. Both live until the call returns, and it keeps neither.
        checked(unsafe { libc::ioctl(self.control.0.as_raw_fd(), libc::SIOCADDRT as _, &raw const request) })
    }
}

// From <net/if_arp.h>: the entry is complete, and permanent.
const ATF_COM: i32 = 2;
const ATF_PERM: i32 = 4;

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
