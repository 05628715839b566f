//! Attempts of nodes on the emulator with the rights that they have inside their namespaces. Needs root.

mod support;

use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use diorama_net::{Error, Network, PipeConfig};
use support::{Space, Testbed, star};

/// Sends raw frames out of `eth0` of the namespace that this runs in; how many the kernel took.
fn send_raw(frames: &[Vec<u8>]) -> usize {
    // SAFETY: socket takes no pointer, and the descriptor it returns is nobody else's.
    let socket: OwnedFd = unsafe {
        use std::os::fd::FromRawFd;
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(fd >= 0, "these tests need root");
        OwnedFd::from_raw_fd(fd)
    };
    let send = |frame: &Vec<u8>| {
        use std::os::fd::AsRawFd;
        // SAFETY: `to` is a valid sockaddr_ll of the length given and `frame` is readable for its length.
        unsafe {
            let mut to: libc::sockaddr_ll = std::mem::zeroed();
            to.sll_family = libc::AF_PACKET as u16;
            to.sll_ifindex = libc::if_nametoindex(c"eth0".as_ptr()) as i32;
            let (at, len) = (&raw const to, size_of_val(&to) as u32);
            libc::sendto(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, at.cast(), len) >= 0
        }
    };
    frames.iter().filter(|f| send(f)).count()
}

fn ip(args: &str) {
    let done = Command::new("ip").args(args.split(' ')).status().expect("`ip` of iproute2 is installed");
    assert!(done.success(), "ip {args}");
}

/// An IPv4 frame from anywhere to `to`.
fn frame(to: [u8; 4], len: usize) -> Vec<u8> {
    let mut f = vec![0; len];
    f[12..14].copy_from_slice(&[8, 0]);
    f[14] = 0x45;
    f[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    f[22] = 64;
    f[26..30].copy_from_slice(&[192, 0, 2, 1]);
    f[30..34].copy_from_slice(&to);
    f
}

/// Waits until `done` holds of the first port; fails after a while, saying what was last seen.
fn until(bed: &Testbed, what: &str, done: impl Fn(&diorama_net::PortObservation) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let seen = bed.emulator.observe().expect("the emulator lives");
        if done(&seen.ports[0]) {
            return;
        }
        assert!(Instant::now() < end, "{what}: {:?}", seen.ports);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn frames_of_any_kind_are_counted_and_harm_nothing() {
    let bed = Testbed::start(star(2, &PipeConfig::default()), 0);
    let mut frames = Vec::new();
    for kind in [[0x08, 0x06], [0x81, 0x00]] {
        let mut f = frame([10, 0, 0, 2], 100);
        f[12..14].copy_from_slice(&kind);
        frames.push(f);
    }
    for to in [[255; 4], [10, 255, 255, 255], [224, 0, 0, 1], [8, 8, 8, 8], [10, 0, 0, 1], [10, 0, 0, 9]] {
        frames.push(frame(to, 100));
    }
    let unroutable = frames.len() as u64;
    // Wrong lengths and versions, the last one because it says that it is of IPv6.
    for (at, byte) in [(14, 0x44), (14, 0x65), (16, 0x10), (17, 3), (12, 0x86)] {
        let mut f = frame([10, 0, 0, 2], 100);
        f[at] = byte;
        f[13] = if f[12] == 0x86 { 0xdd } else { 0 };
        frames.push(f);
    }
    // The node makes its own MTU larger: such a frame is longer than any link carries.
    bed.spaces["n1"].run(|| ip("link set eth0 mtu 9000"));
    frames.extend([frame([10, 0, 0, 2], 1515), frame([10, 0, 0, 2], 9000)]);
    let malformed = frames.len() as u64 - unroutable;
    // A spoofed source and a fragment are what a switch carries, too.
    let mut fragment = frame([10, 0, 0, 2], 100);
    fragment[20] = 0x20;
    frames.extend([frame([10, 0, 0, 2], 60), fragment]);
    let taken = bed.spaces["n1"].run(|| send_raw(&frames));
    assert_eq!(taken, frames.len(), "the kernel takes all of them");
    until(&bed, "every frame is counted", |port| {
        (port.refused.unroutable, port.refused.malformed) == (unroutable, malformed)
    });
    let carried = bed.counters("n1--core/ab");
    assert_eq!((carried.packets, carried.bytes), (2, 160));
}

#[test]
fn an_interface_that_is_down_refuses_frames_and_works_again() {
    let bed = Testbed::start(star(2, &PipeConfig::default()), 0);
    let probe = || bed.spaces["n2"].run(|| send_raw(&[frame([10, 0, 0, 1], 100)]));
    bed.spaces["n1"].run(|| ip("link set eth0 down"));
    assert_eq!(probe(), 1);
    until(&bed, "the refused delivery is counted", |port| port.write_errors == 1);
    bed.spaces["n1"].run(|| ip("link set eth0 up"));
    assert_eq!(probe(), 1);
    until(&bed, "the next one arrives", |_| bed.counters("n1--core/ba").packets == 2);
    assert_eq!(bed.emulator.stop().expect("it lives").ports[0].write_errors, 1);
}

#[test]
fn an_interface_that_the_node_removes_is_missed_by_itself_only() {
    let bed = Testbed::start(star(3, &PipeConfig::default()), 0);
    bed.spaces["n1"].run(|| ip("link del eth0"));
    until(&bed, "the interface is reported gone", |port| port.ring_drops.is_none());
    bed.spaces["n2"].run(|| send_raw(&[frame([10, 0, 0, 3], 100), frame([10, 0, 0, 1], 100)]));
    until(&bed, "the delivery to the removed interface fails", |port| port.write_errors == 1);
    assert_eq!(bed.counters("n3--core/ba").packets, 1, "the others are served");
    // A thread that is told for ever that a dead interface is readable would use all of its core.
    let busy = |bed: &Testbed| bed.emulator.observe().expect("it lives").cpu.as_secs_f64();
    let before = busy(&bed);
    std::thread::sleep(Duration::from_millis(300));
    assert!(busy(&bed) - before < 0.1, "the emulator spins");
}

#[test]
fn frames_that_the_emulator_had_no_time_to_read_are_counted() {
    // No emulator reads here: the ring of the interface holds 1000 frames, and the rest is lost.
    let network = Network::new(star(2, &PipeConfig::default()), 0).expect("a star is a tree");
    let space = Space::new();
    let port = &network.ports()[0];
    let tap = diorama_net::Tap::create(std::os::fd::AsFd::as_fd(&space.0), port, &Default::default())
        .expect("an interface is made");
    space.run(|| send_raw(&vec![frame([10, 0, 0, 2], 100); 1500]));
    assert_eq!(tap.ring_drops(), Some(500));
}

#[test]
fn an_emulator_that_dies_says_so() {
    let bed = Testbed::start(star(2, &PipeConfig::default()), 0);
    let other = Network::new(star(50, &PipeConfig::default()), 0).expect("a star is a tree");
    let foreign = other.pipe("n50--core/ab").expect("it has fifty links");
    let set = bed.emulator.set(vec![(foreign, diorama_net::PipeChange::default())]);
    assert!(matches!(set, Err(Error::Died(_))), "{set:?}");
    let message = bed.emulator.observe().expect_err("nobody is there to observe").to_string();
    assert!(message.contains("has died") && message.contains("index out of bounds"), "{message}");
    assert!(bed.emulator.stop().is_err());
}
