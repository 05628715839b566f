//! Frames between nodes that have clocks of their own. Needs root, and clang for the program that stamps frames.

mod support;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::thread;

use diorama_net::{Clocks, Crossings, LanSpec, NetworkSpec, PipeConfig, twin};
use host::node_clock::NodeClock;
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use scale::{RealDuration, RealInstant};
use support::{PATIENCE, Testbed, link, ms, wait_until};

const PORT: u16 = 7000;
/// Units of what is written into frames.
const UNIT: u64 = 16;

/// The program of `stamp.bpf.c`, whose clock is off by `offset` ns.
fn stamper(offset: i64) -> Object {
    let directory = tempfile::tempdir().expect("there is a place for files");
    let compiled = directory.path().join("stamp.bpf.o");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stamp.bpf.c");
    let flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-c", "-o"];
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let done = Command::new(clang).args(flags).arg(&compiled).arg(source).status().expect("clang is installed");
    assert!(done.success());
    let elf = std::fs::read(compiled).expect("clang has written it");
    let mut open = ObjectBuilder::default().open_memory(&elf).expect("it is a BPF program");
    let mut data = open.maps_mut().find(|m| m.name().to_string_lossy().ends_with(".data")).expect("it has its offset");
    data.initial_value_mut().expect("it has a value").copy_from_slice(&offset.to_ne_bytes());
    open.load().expect("these tests need root")
}

/// How many buffers the program has stamped.
fn passed(stamper: &Object) -> u64 {
    let bss = stamper.maps().find(|m| m.name().to_string_lossy().ends_with(".bss")).expect("it counts");
    let value = bss.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).expect("it can be read").expect("it is there");
    u64::from_ne_bytes(value[..8].try_into().expect("it is a word"))
}

/// A clock that shows `shows` to a node that is in `state`, until it is raised.
fn clock(state: u32, shows: RealInstant) -> NodeClock {
    let page = memfd_create("clock", MemfdFlags::CLOEXEC).expect("there is memory");
    ftruncate(&page, 4096).expect("it can grow");
    // struct node_clock: sequence, state, base_real, base, rate, floor.
    let words = [u64::from(state) << 32, 0, shows.as_nanos(), 0, 0];
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    rustix::io::pwrite(&page, &bytes, 0).expect("it can be written");
    let guest = page.try_clone().expect("it can be shared");
    NodeClock::new(page.as_fd(), guest).expect("it is a page")
}

const IDLE: u32 = 0;
const WAITS: u32 = 1;

fn clocks(stamper: &Object, of_ports: &[&NodeClock]) -> Clocks {
    let program = stamper.progs().find(|p| p.name() == OsStr::new("stamp")).expect("it has one");
    let stamper = Some(program.as_fd().try_clone_to_owned().expect("it can be shared"));
    Clocks { stamper, of_ports: of_ports.iter().map(|c| Some((*c).clone())).collect(), ..Clocks::default() }
}

fn pair(delay: RealDuration) -> NetworkSpec {
    let config = PipeConfig { delay, ..Default::default() };
    NetworkSpec { nodes: vec!["n1".into(), "n2".into()], links: vec![link("n1", "n2", &config)], ..Default::default() }
}

fn crossings(bed: &Testbed) -> Crossings {
    bed.emulator.observe().expect("the emulator lives").clocks.expect("nodes have clocks")
}

fn socket(bed: &Testbed, node: &str) -> UdpSocket {
    let socket = bed.spaces[node].run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).expect("the port is free"));
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
    socket
}

/// A frame arrives at the computed instant by the sender's clock, and the receiver's clock shows no less from then on.
/// With it comes how late the least late frame was, ns.
fn arrives(offset: i64, delay: RealDuration) -> (Crossings, u64) {
    let (stamper, none) = (stamper(offset), RealInstant::ZERO);
    let (sender, receiver) = (clock(IDLE, none), clock(IDLE, none));
    let bed = Testbed::with_clocks(pair(delay), 0, clocks(&stamper, &[&sender, &receiver]));
    let (from, to) = (socket(&bed, "n1"), socket(&bed, "n2"));
    let later = |at: RealInstant| RealInstant::from_nanos(at.as_nanos().saturating_add_signed(offset)) + delay;
    for _ in 0..5 {
        let before = host::now();
        from.send_to(b"word", (bed.address("n1", "n2"), PORT)).expect("the kernel takes it");
        let after = host::now();
        to.recv(&mut [0; 9]).expect("it arrives");
        let (read, shows) = (host::now(), receiver.last());
        let earliest = RealInstant::from_nanos(later(before).as_nanos() - UNIT);
        assert!(earliest <= shows && shows <= later(after), "{earliest:?}, {shows:?}, {:?}", later(after));
        assert!(shows <= read, "it has not arrived before");
    }
    assert_eq!(sender.last(), none, "nothing came to it");
    let seen = crossings(&bed);
    assert_eq!((seen.stamped(), seen.unstamped, seen.to_idle), (5, 0, 5));
    (seen, bed.emulator.observe().expect("the emulator lives").lateness.all.min())
}

#[test]
fn a_frame_of_a_node_that_is_ahead_enters_its_link_later() {
    let (seen, _) = arrives(30_000_000, ms(10));
    // Some of it may have passed when the frame was read.
    assert!(seen.ahead.max() <= 30_500_000, "{}", seen.ahead.max());
    assert_eq!(seen.behind.len(), 5);
}

#[test]
fn a_frame_of_a_node_that_is_behind_enters_its_link_earlier() {
    let (seen, _) = arrives(-30_000_000, ms(500));
    assert!(seen.behind.min() >= 29_500_000 && seen.ahead.max() == 0, "{}", seen.behind.min());
    assert_eq!((seen.pushed.len(), seen.pushed.max()), (5, 0));
}

#[test]
fn what_the_delay_does_not_make_up_for_is_recorded() {
    let (seen, late) = arrives(-30_000_000, ms(10));
    assert!(late >= 19_500_000 && seen.pushed.max() == 0, "{late}, {}", seen.pushed.max());
}

#[test]
fn how_far_the_clock_of_a_busy_node_is_off_is_recorded_and_raising_it_does_not_set_it_back() {
    let stamper = stamper(0);
    let begun = host::now();
    let (ahead, behind) = (clock(WAITS, begun + ms(3_600_000)), clock(WAITS, RealInstant::from_nanos(1)));
    let bed = Testbed::with_clocks(pair(ms(1)), 0, clocks(&stamper, &[&ahead, &behind]));
    let (one, two) = (socket(&bed, "n1"), socket(&bed, "n2"));
    one.send_to(b"word", (bed.address("n1", "n2"), PORT)).expect("the kernel takes it");
    two.recv(&mut [0; 9]).expect("it arrives");
    assert!(begun < behind.at(host::now()), "it is told when it is");
    two.send_to(b"word", (bed.address("n2", "n1"), PORT)).expect("the kernel takes it");
    one.recv(&mut [0; 9]).expect("it arrives");
    assert_eq!(ahead.at(host::now()), begun + ms(3_600_000));
    let seen = crossings(&bed);
    assert_eq!((seen.lead.len(), seen.lag.len(), seen.to_idle), (2, 2, 0));
    // Both are more than the histograms hold.
    assert_eq!([&seen.lead, &seen.lag].map(|h| (h.min(), h.max() >= 10_000_000_000)), [(0, true), (0, true)]);
}

#[test]
fn every_frame_of_a_burst_of_tcp_is_stamped() {
    const BYTES: usize = 8 << 20;
    let (stamper, idle) = (stamper(0), clock(IDLE, RealInstant::ZERO));
    let bed = Testbed::with_clocks(pair(ms(1)), 0, clocks(&stamper, &[&idle, &idle]));
    let to = (bed.address("n1", "n2"), PORT);
    let listener = bed.spaces["n2"].run(|| TcpListener::bind(to).expect("the port is free"));
    let got = thread::scope(|scope| {
        bed.spaces["n1"].spawn(scope, || {
            let mut stream = TcpStream::connect(to).expect("the server listens");
            stream.write_all(&vec![7; BYTES]).expect("the server reads");
        });
        let (mut stream, mut got) = (listener.accept().expect("the client comes").0, Vec::new());
        stream.read_to_end(&mut got).expect("the client sends");
        got
    });
    assert!(got.len() == BYTES && got.iter().all(|b| *b == 7));
    wait_until("all that was stamped is read", || crossings(&bed).stamped() >= passed(&stamper));
    let (seen, passed) = (crossings(&bed), passed(&stamper));
    assert_eq!(seen.unstamped, 0);
    assert!(seen.stamped() > BYTES as u64 / 1460, "{}", seen.stamped());
    assert!(passed < seen.stamped(), "no burst was cut into frames: {passed} for {} frames", seen.stamped());
    assert_eq!(bed.emulator.observe().expect("it lives").ring_drops(), 0);
}

/// A socket for whole frames of every kind at the interface of the namespace that this runs in.
fn tap() -> OwnedFd {
    // SAFETY: socket takes no pointer, and the descriptor it returns is nobody else's.
    let fd = unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from((libc::ETH_P_ALL as u16).to_be()));
        assert!(fd >= 0, "these tests need root");
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: `to` is a valid sockaddr_ll of the length given.
    let bound = unsafe {
        let mut to: libc::sockaddr_ll = std::mem::zeroed();
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        to.sll_ifindex = libc::if_nametoindex(c"eth0".as_ptr()) as i32;
        libc::bind(fd.as_raw_fd(), (&raw const to).cast(), size_of_val(&to) as u32)
    };
    assert_eq!(bound, 0);
    rustix::net::sockopt::set_socket_timeout(&fd, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE))
        .expect("a time-out can be set");
    fd
}

#[test]
fn frames_of_every_kind_have_the_hardware_address_of_their_sender_again() {
    let nodes = vec!["n1".to_owned(), "n2".to_owned()];
    let config = PipeConfig { delay: ms(1), ..Default::default() };
    let links = nodes.iter().map(|n| link(n, "office", &config)).collect();
    let lans = vec![LanSpec { name: "office".into(), subnet: None }];
    let (stamper, idle) = (stamper(0), clock(IDLE, RealInstant::ZERO));
    let spec = NetworkSpec { nodes, links, lans, ..Default::default() };
    let bed = Testbed::with_clocks(spec, 0, clocks(&stamper, &[&idle, &idle]));
    let mac = |node: &str| {
        let [a, b, c, d] = bed.address("n1", node).octets();
        [2, 0, a, b, c, d]
    };
    let hears = bed.spaces["n2"].run(tap);
    // It has ARP ask first, and IPv6 by multicast.
    let to = bed.address("n1", "n2");
    socket(&bed, "n1").send_to(b"four", (to, PORT)).expect("the kernel takes it");
    bed.spaces["n1"].run(|| {
        let six = UdpSocket::bind("[::]:0").expect("there is IPv6");
        six.send_to(b"six", (twin(to), PORT)).expect("the kernel takes it");
        // With a tag of a VLAN, with another tag, of a protocol of its own, and from somebody else.
        let raw = tap();
        for (source, kind) in [(mac("n1"), [0x81, 0x00]), (mac("n1"), [0x88, 0xb5]), ([6; 6], [0x88, 0xb6])] {
            let frame = [&mac("n2")[..], &source, &kind, &[0, 42, 0x88, 0xb7], &[0; 50]].concat();
            assert_eq!(rustix::io::write(&raw, &frame), Ok(frame.len()));
        }
    });
    let mut wanted = vec![[0x08, 0x06], [0x08, 0x00], [0x86, 0xdd], [0x88, 0xb7], [0x88, 0xb5], [0x88, 0xb6]];
    let mut frame = [0; 2000];
    while !wanted.is_empty() {
        let length = rustix::io::read(&hears, &mut frame).unwrap_or_else(|e| panic!("{e}; no {wanted:x?}"));
        let (source, mut kind) = (&frame[6..12], [frame[12], frame[13]]);
        if kind == [0x81, 0x00] {
            kind = [frame[16], frame[17]];
        }
        // Frames that n2 itself sends are seen here after they have been stamped.
        if source[0] & 1 == 1 && frame[..6] != mac("n2") {
            continue;
        }
        let expected = if kind == [0x88, 0xb6] { [6; 6] } else { mac("n1") };
        assert_eq!(source, expected, "{:x?}", &frame[..length]);
        wanted.retain(|k| *k != kind);
    }
    let seen = crossings(&bed);
    assert_eq!(seen.unstamped, 1, "the one from somebody else");
    assert!(seen.stamped() >= 5);
}
