//! Effects of damaged, doubled and shuffled packets on real kernels. Needs root.

mod support;

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use diorama_net::{Distribution, Jitter, PipeConfig};
use support::{PATIENCE, Space, Testbed, enlarge, ms, star};

const PORT: u16 = 7000;
/// The pipe that is rough in these tests.
const ROUGH: &str = "n1--core/ab";

/// A star of two nodes, rough on the way from the first.
fn rough(config: PipeConfig) -> Testbed {
    let mut spec = star(2, &PipeConfig::default());
    spec.links[0].ab = config;
    Testbed::start(spec, 1)
}

/// The kernel's counters of a protocol inside a namespace, by their names in /proc/net/snmp.
fn counters(space: &Space, protocol: &str) -> HashMap<String, u64> {
    let text = space.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").expect("the kernel counts"));
    let mut lines = text.lines().filter_map(|l| l.strip_prefix(protocol)?.strip_prefix(": "));
    let (names, values) = (lines.next().expect("names come first"), lines.next().expect("then values"));
    names.split(' ').map(str::to_owned).zip(values.split(' ').map(|v| v.parse().unwrap_or(0))).collect()
}

/// Sends `count` datagrams, each of `len` bytes made from its number, `pause` apart; gives those that arrive.
fn datagrams(bed: &Testbed, count: u32, len: usize, pause: Duration) -> Vec<Vec<u8>> {
    let server = bed.spaces["n2"].run(|| UdpSocket::bind(("0.0.0.0", PORT)).expect("the port is free"));
    server.set_read_timeout(Some(Duration::from_millis(500))).expect("a time-out can be set");
    enlarge(&server);
    let client = bed.spaces["n1"].run(|| UdpSocket::bind(("0.0.0.0", 0)).expect("a socket"));
    let address = bed.address("n1", "n2");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let (mut all, mut buffer) = (Vec::new(), [0; 2000]);
            loop {
                match server.recv(&mut buffer) {
                    Ok(len) => all.push(buffer[..len].to_vec()),
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        if done.load(Relaxed) {
                            return all;
                        }
                    }
                    Err(e) => panic!("{e}"),
                }
            }
        });
        for n in 0..count {
            client.send_to(&content(n, len), (address, PORT)).expect("the kernel takes it");
            thread::sleep(pause);
        }
        done.store(true, Relaxed);
        receiver.join().expect("the receiver ends")
    })
}

fn content(n: u32, len: usize) -> Vec<u8> {
    n.to_be_bytes().into_iter().chain((0..).map(|i: u32| (i.wrapping_mul(n + 7) >> 3) as u8)).take(len).collect()
}

fn number(datagram: &[u8]) -> u32 {
    u32::from_be_bytes([datagram[0], datagram[1], datagram[2], datagram[3]])
}

/// Frames on a TAP carry complete checksums, and the kernel behind the other one looks at them.
#[test]
fn a_damaged_datagram_is_discarded_and_counted_by_the_kernel_that_receives_it() {
    // The kernel checks short datagrams on arrival and long ones when they are read.
    for len in [20, 1000] {
        let bed = rough(PipeConfig { corrupt: 0.3, ..Default::default() });
        let received = datagrams(&bed, 600, len, Duration::from_micros(200));
        assert!(received.iter().all(|d| *d == content(number(d), len)), "what is handed on is whole");
        let (pipe, kernel) = (bed.counters(ROUGH), counters(&bed.spaces["n2"], "Udp"));
        assert_eq!(pipe.packets, 600);
        assert!((110..250).contains(&pipe.corrupted), "{pipe:?}");
        assert_eq!(received.len() as u64, 600 - pipe.corrupted, "no damaged one, and no other, is missing");
        assert_eq!(kernel["InErrors"], pipe.corrupted, "{kernel:?}");
        // A flipped bit in the field of the length shows before the sum is made.
        let by_sum = kernel["InCsumErrors"];
        assert!(by_sum <= pipe.corrupted && by_sum > pipe.corrupted * 3 / 4, "{by_sum} of {}", pipe.corrupted);
    }
}

#[test]
fn tcp_delivers_whole_data_over_a_pipe_that_damages() {
    let bed = rough(PipeConfig { corrupt: 0.02, delay: ms(1), ..Default::default() });
    let listener = bed.spaces["n2"].run(|| TcpListener::bind(("0.0.0.0", PORT)).expect("the port is free"));
    let address = bed.address("n1", "n2");
    let sent = content(1, 1 << 20);
    let received = thread::scope(|scope| {
        bed.spaces["n1"].spawn(scope, || {
            let mut stream = TcpStream::connect((address, PORT)).expect("the server is reached");
            stream.set_write_timeout(Some(PATIENCE)).expect("a time-out can be set");
            stream.write_all(&sent).expect("the stream flows");
        });
        let (mut stream, _) = listener.accept().expect("the client comes");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("the stream flows");
        received
    });
    assert!(received == sent, "{} of {} bytes, or others", received.len(), sent.len());
    let (pipe, kernel) = (bed.counters(ROUGH), counters(&bed.spaces["n2"], "Tcp"));
    let by_sum = kernel["InCsumErrors"];
    assert!(by_sum > 0 && by_sum <= pipe.corrupted, "{by_sum} of {pipe:?}");
}

#[test]
fn a_copy_arrives_as_a_second_datagram() {
    let bed = rough(PipeConfig { duplicate: 0.5, ..Default::default() });
    let received: Vec<u32> = datagrams(&bed, 200, 100, Duration::from_micros(200)).iter().map(|d| number(d)).collect();
    let pipe = bed.counters(ROUGH);
    assert_eq!((received.len() as u64, pipe.packets), (200 + pipe.duplicated, 200 + pipe.duplicated));
    assert!(received.is_sorted(), "a copy comes right behind its original");
    let twice = received.windows(2).filter(|w| w[0] == w[1]).count();
    assert_eq!(twice as u64, pipe.duplicated);
    assert!((60..140).contains(&twice));
}

#[test]
fn packets_overtake_one_another_where_the_jitter_lets_them() {
    for reorder in [false, true] {
        let jitter = Jitter { distribution: Distribution::Uniform, spread: ms(15), reorder };
        let bed = rough(PipeConfig { delay: ms(20), jitter, ..Default::default() });
        // All at once: how far they are apart must not depend on when the sender is let run.
        let received: Vec<u32> = datagrams(&bed, 200, 100, Duration::ZERO).iter().map(|d| number(d)).collect();
        assert_eq!(received.len(), 200, "none is lost");
        let late = (1..received.len()).filter(|i| received[..*i].iter().max() > Some(&received[*i])).count();
        assert_eq!(bed.counters(ROUGH).reordered, late as u64);
        assert_eq!(late > 20, reorder, "{late} of 200 were late");
    }
}
