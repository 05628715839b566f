//! Frames of real sockets, found again in the capture. Needs root.

mod support;

use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use diorama_net::{CaptureFile, Captured, Loss, PipeConfig, PipeId};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::{Block, PcapNgReader};
use scale::RealInstant;
use support::{Testbed, enlarge, ms, star, wait_until};

/// Ethernet, IP and UDP headers.
const HEADERS: usize = 42;
/// The date that the tests give to the beginning of the harness's clock: an odd one, to see every digit survive.
const DATE: u64 = 1_700_000_000_000_000_001;

fn pipes(bed: &Testbed, names: &[&str]) -> Vec<PipeId> {
    names.iter().map(|name| bed.pipe(name)).collect()
}

fn packets(path: &std::path::Path) -> Vec<EnhancedPacketBlock<'static>> {
    let mut reader = PcapNgReader::new(File::open(path).expect("the file is there")).expect("it is pcapng");
    let mut found = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("the file is whole").into_owned() {
            found.push(packet);
        }
    }
    found
}

fn stamp() -> diorama_net::Stamp {
    Box::new(|at: RealInstant| DATE + at.as_nanos())
}

fn to(path: PathBuf, pipes: Vec<PipeId>, snap: usize) -> CaptureFile {
    let file = fs::File::create(&path).expect("the file can be made");
    CaptureFile { path, file, pipes, snap }
}

fn now() -> u64 {
    DATE + host::now().as_nanos()
}

#[test]
fn every_frame_is_there_once_a_pipe_in_order_with_its_time_and_its_fate() {
    let mut spec = star(2, &PipeConfig { delay: ms(5), ..Default::default() });
    spec.links[0].ab.loss = Loss::Random(0.3);
    let bed = Testbed::start(spec, 3);
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let file = |name: &str, names: &[&str], snap| to(path(name), pipes(&bed, names), snap);
    let files = vec![
        file("n1.pcapng", &["n1--core/ab", "n1--core/ba"], usize::MAX),
        file("n2.pcapng", &["n2--core/ab", "n2--core/ba"], 60),
    ];
    let capture = bed.emulator.capture(files, stamp()).expect("the files can be made");
    let server = bed.spaces["n2"].run(|| UdpSocket::bind(("0.0.0.0", 12345)).expect("the port is free"));
    enlarge(&server);
    let client = bed.spaces["n1"].run(|| UdpSocket::bind(("0.0.0.0", 0)).expect("a socket"));
    let mut sent = Vec::new();
    for i in 0..200u32 {
        let payload = [i.to_le_bytes().as_slice(), &[0; 96]].concat();
        sent.push(now());
        client.send_to(&payload, (bed.address("n1", "n2"), 12345)).expect("the kernel takes it");
        std::thread::sleep(Duration::from_micros(200));
    }
    server.set_read_timeout(Some(Duration::from_millis(300))).expect("a time-out can be set");
    let mut received = Vec::new();
    while let Ok(n) = server.recv(&mut [0; 200]) {
        received.push(n);
    }
    let end = now();
    let captured = capture.finish(&bed.emulator).expect("everything is written");

    let of_n1 = packets(&path("n1.pcapng"));
    let of_n2 = packets(&path("n2.pcapng"));
    let report = |name: &str, frames: usize| Captured { path: path(name), frames: frames as u64, missed: 0 };
    assert_eq!(captured, [report("n1.pcapng", 200), report("n2.pcapng", received.len())]);
    assert_eq!((of_n1.len(), of_n2.len()), (200, received.len()));
    let number = |p: &EnhancedPacketBlock| u32::from_le_bytes(p.data[HEADERS..][..4].try_into().expect("four bytes"));
    assert_eq!(of_n1.iter().map(number).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
    for (packet, sent) in of_n1.iter().zip(&sent) {
        assert_eq!((packet.interface_id, packet.original_len, packet.data.len()), (0, 142, 142));
        let date = packet.timestamp.as_nanos() as u64;
        assert!((*sent..end).contains(&date), "sent at {sent}, seen at {date}");
    }
    // Frames that the capture calls lost are those that did not arrive, and what arrived came to the second link 5 ms
    // later to the ns.
    let lost = EnhancedPacketOption::Comment("dropped: lost, as the link's loss says".into());
    let passed: Vec<_> = of_n1.iter().filter(|p| !p.options.contains(&lost)).collect();
    assert_eq!(passed.len(), received.len());
    for (first, second) in passed.iter().zip(&of_n2) {
        assert_eq!((number(second), second.timestamp), (number(first), first.timestamp + Duration::from_millis(5)));
        assert_eq!((second.interface_id, second.original_len, second.data.len()), (1, 142, 60));
    }
    read_by_tcpdump(&path("n1.pcapng"), of_n1[0].timestamp);
}

/// Others must be able to read it, too.
fn read_by_tcpdump(path: &std::path::Path, first: Duration) {
    let output = Command::new("tcpdump").args(["-n", "-e", "-tt", "--nano", "-r"]).arg(path).output();
    let output = output.expect("these tests need tcpdump: scripts/setup --tests");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), 200, "{}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().next().unwrap_or_default();
    let stamp = format!("{}.{:09} ", first.as_secs(), first.subsec_nanos());
    assert!(line.starts_with(&stamp), "{line} does not begin with {stamp}");
    assert!(line.contains("length 142: 10.0.0.1.") && line.contains("10.0.0.2.12345: UDP, length 100"), "{line}");
}

#[test]
fn a_full_disk_ends_the_capture_with_the_name_of_the_file_and_not_the_network() {
    let bed = Testbed::start(star(2, &PipeConfig::default()), 0);
    let path = std::path::PathBuf::from("/dev/full");
    let file = to(path.clone(), pipes(&bed, &["n1--core/ab"]), usize::MAX);
    let capture = bed.emulator.capture(vec![file], stamp()).expect("the file can be opened");
    let server = bed.spaces["n2"].run(|| UdpSocket::bind(("0.0.0.0", 12345)).expect("the port is free"));
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out can be set");
    let client = bed.spaces["n1"].run(|| UdpSocket::bind(("0.0.0.0", 0)).expect("a socket"));
    let end = Instant::now() + Duration::from_secs(10);
    while capture.failure().is_none() {
        assert!(Instant::now() < end, "the failure is noticed");
        client.send_to(&[0; 1000], (bed.address("n1", "n2"), 12345)).expect("the kernel takes it");
        server.recv(&mut [0; 2000]).expect("the network works");
    }
    let said = capture.finish(&bed.emulator).expect_err("nothing could be written").to_string();
    assert!(said.contains("/dev/full: cannot write") && said.contains("No space left"), "{said}");
    client.send_to(&[0; 1000], (bed.address("n1", "n2"), 12345)).expect("the kernel takes it");
    server.recv(&mut [0; 2000]).expect("the network still works");
}

#[test]
fn a_jumbo_frame_is_recorded_whole_and_what_happened_to_it_is_said() {
    let mut spec = star(2, &PipeConfig::default());
    spec.links[0].mtu = 9000;
    spec.links[0].ab.duplicate = 1.0;
    spec.links[0].ab.corrupt = 1.0;
    let bed = Testbed::start(spec, 0);
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let file = |name: &str, pipe| to(path(name), pipes(&bed, &[pipe]), usize::MAX);
    let files = vec![file("n1.pcapng", "n1--core/ab"), file("n2.pcapng", "n2--core/ba")];
    let capture = bed.emulator.capture(files, stamp()).expect("the files can be made");
    let client = bed.spaces["n1"].run(|| UdpSocket::bind(("0.0.0.0", 0)).expect("a socket"));
    client.send_to(&[7; 8000], (bed.address("n1", "n2"), 12345)).expect("the kernel takes it");
    wait_until("both copies have come to the second link", || bed.counters("n2--core/ba").too_long == 2);
    capture.finish(&bed.emulator).expect("everything is written");

    let said = |p: &EnhancedPacketBlock| -> Vec<String> {
        let comments = p.options.iter().filter_map(|o| match o {
            EnhancedPacketOption::Comment(said) => Some(said.to_string()),
            _ => None,
        });
        comments.collect()
    };
    let (of_n1, of_n2) = (packets(&path("n1.pcapng")), packets(&path("n2.pcapng")));
    let [sent] = &of_n1[..] else { panic!("{of_n1:?}") };
    assert_eq!((sent.original_len, sent.data.len()), (8042, 8042));
    assert!(sent.data[HEADERS..].iter().all(|b| *b == 7), "it is recorded as it came");
    assert_eq!(said(sent), ["duplicated", "corrupted: a bit was flipped after this"]);
    let [first, second] = &of_n2[..] else { panic!("{of_n2:?}") };
    for copy in [first, second] {
        assert_eq!((copy.original_len, copy.data.len(), copy.timestamp), (8042, 8042, sent.timestamp));
        let flipped: u32 = copy.data.iter().zip(&sent.data[..]).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!((said(copy), flipped), (vec!["dropped: longer than the link's MTU allows".to_owned()], 1));
    }
}
