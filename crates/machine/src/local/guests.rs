//! Nodes that are whole machines: the command line of their QEMU, and the files that it finds.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use guest::{DISK, FILES, Guest, INITRD, KERNEL, Wire};
use rustix::net::{RecvFlags, recv};
use site::{Boot, GuestSetup, NodeSetup, Source};

/// An interface of a guest.
pub struct GuestPort {
    /// Facts of it.
    pub port: net::Port,
    /// Where its frames come and go.
    pub wire: OwnedFd,
}

/// The command line of a guest's QEMU, whose interfaces are the descriptors from `first` on.
pub fn arguments(node: &NodeSetup, guest: &GuestSetup, ports: &[GuestPort], first: usize) -> Vec<String> {
    let wire = |(n, GuestPort { port, .. }): (usize, &GuestPort)| Wire {
        descriptor: first + n,
        mac: port.mac,
        mtu: port.mtu,
        address: port.address,
        mask: port.believed_mask(),
        router: port.believed_router(),
    };
    guest::arguments(&Guest {
        hostname: node.hostname.clone().unwrap_or_else(|| node.name.clone()),
        arch: guest.arch,
        cpus: node.cpus,
        memory_bytes: node.memory_bytes,
        boot: match &guest.boot {
            Boot::Kernel { initrd, cmdline, .. } => {
                guest::Boot::Kernel { initrd: initrd.is_some(), cmdline: cmdline.clone() }
            }
            Boot::Firmware(firmware) => guest::Boot::Firmware(*firmware),
        },
        disk: guest.disk.as_ref().map(|(_, format)| *format),
        wires: ports.iter().enumerate().map(wire).collect(),
    })
}

/// The files that a guest's QEMU opens, and those that the guest is shown: (path in the node, where it is).
pub fn files(node: &NodeSetup, guest: &GuestSetup) -> Vec<(PathBuf, Source)> {
    let mut files: Vec<(PathBuf, Source)> = Vec::new();
    if let Boot::Kernel { kernel, initrd, .. } = &guest.boot {
        files.push((KERNEL.into(), kernel.clone()));
        files.extend(initrd.iter().map(|initrd| (INITRD.into(), initrd.clone())));
    }
    files.extend(guest.disk.iter().map(|(image, _)| (DISK.into(), image.clone())));
    let shown = node.files.iter().map(|(to, from)| (shown_at(to), from.clone()));
    files.into_iter().chain(shown).collect()
}

/// Where in the node a file is that its guest is to find at this path below its files.
fn shown_at(path: &str) -> PathBuf {
    Path::new(FILES).join(path.trim_start_matches('/'))
}

/// The text of the names of all nodes, as `/etc/hosts` has it, and where a guest is shown it.
pub fn hosts(hosts: &[(String, std::net::IpAddr)]) -> (PathBuf, String) {
    // Nothing answers for addresses of IPv6 on a guest's links.
    let lines =
        hosts.iter().filter(|(_, address)| address.is_ipv4()).map(|(name, address)| format!("{address}\t{name}\n"));
    (shown_at("hosts"), lines.collect())
}

/// Another descriptor of each interface, on which nothing waits: what has arrived while the guest was off is lost.
pub fn wires(ports: &[GuestPort]) -> std::io::Result<Vec<OwnedFd>> {
    let fresh = |GuestPort { wire, .. }: &GuestPort| {
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        while recv(wire, &mut [0u8; 1], flags).is_ok() {}
        wire.try_clone()
    };
    ports.iter().map(fresh).collect()
}
