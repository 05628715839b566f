//! Real sockets through real interfaces. Needs root. Bounds are generous: other work may share the cores; precise
//! figures are the business of `diorama bench net`.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use diorama_net::{Loss, NetworkSpec, PipeChange, PipeConfig};
use support::{Testbed, link, mbit, ms, star};

const PORT: u16 = 7000;
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends `count` datagrams from `from` to `to`, which echoes them; gives the round-trip times of those that returned
/// within `timeout`, in seconds.
fn ping(bed: &Testbed, from: &str, to: &str, count: usize, timeout: Duration) -> Vec<f64> {
    let server = bed.spaces[to].run(|| UdpSocket::bind(("0.0.0.0", PORT)).expect("the port is free"));
    server.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out can be set");
    let address = bed.address(from, to);
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2000];
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                if let Ok((len, peer)) = server.recv_from(&mut buffer) {
                    // The way back may be gone: that is what some tests are about.
                    let _ = server.send_to(&buffer[..len], peer);
                }
            }
        });
        let client = bed.spaces[from].run(|| UdpSocket::bind(("0.0.0.0", 0)).expect("a socket"));
        client.set_read_timeout(Some(timeout)).expect("a time-out can be set");
        let mut times = Vec::new();
        for i in 0..count as u64 {
            let sent = Instant::now();
            client.send_to(&i.to_le_bytes(), (address, PORT)).expect("the kernel takes the datagram");
            let mut answer = [0; 2000];
            while sent.elapsed() < timeout {
                match client.recv(&mut answer) {
                    Ok(8) if answer[..8] == i.to_le_bytes() => {
                        times.push(sent.elapsed().as_secs_f64());
                        break;
                    }
                    Ok(_) => {}
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                    Err(e) => panic!("{e}"),
                }
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        times
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "nothing came back");
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Sends bytes by TCP for `time`; what arrived per second between the first quarter and the end.
fn bulk(bed: &Testbed, from: &str, to: &str, time: Duration) -> f64 {
    let listener = bed.spaces[to].run(|| TcpListener::bind(("0.0.0.0", PORT)).expect("the port is free"));
    let address = bed.address(from, to);
    thread::scope(|scope| {
        bed.spaces[from].spawn(scope, move || {
            let mut stream = TcpStream::connect((address, PORT)).expect("the server is reached");
            stream.set_write_timeout(Some(PATIENCE)).expect("a time-out can be set");
            let (start, block) = (Instant::now(), [0; 16384]);
            while start.elapsed() < time {
                stream.write_all(&block).expect("the stream flows");
            }
        });
        let (mut stream, _) = listener.accept().expect("the client comes");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        let (start, mut block) = (Instant::now(), vec![0; 1 << 16]);
        let mut counted: Option<(Instant, u64)> = None;
        let mut bytes = 0;
        let mut rate = 0.0;
        loop {
            let n = stream.read(&mut block).expect("the stream flows");
            if n == 0 {
                return rate;
            }
            bytes += n as u64;
            match counted {
                None if start.elapsed() > time / 4 => counted = Some((Instant::now(), bytes)),
                Some((since, before)) if start.elapsed() < time => {
                    rate = (bytes - before) as f64 / since.elapsed().as_secs_f64();
                }
                _ => {}
            }
        }
    })
}

#[test]
fn delay_is_what_the_pipes_say_and_never_less() {
    let bed = Testbed::start(star(2, &PipeConfig::default()), 0);
    let reference = median(ping(&bed, "n1", "n2", 40, PATIENCE));
    for pipe in ["n1--core/ab", "n2--core/ba", "n2--core/ab", "n1--core/ba"] {
        bed.set(pipe, PipeChange { delay: Some(ms(10)), ..Default::default() });
    }
    let times = ping(&bed, "n1", "n2", 40, PATIENCE);
    assert_eq!(times.len(), 40, "nothing may be lost");
    assert!(times.iter().all(|t| *t >= 0.040), "a frame was early: {times:?}");
    let adjusted = median(times) - reference;
    assert!(adjusted < 0.043, "40 ms became {adjusted} s beyond the reference of {reference} s");
    let seen = bed.emulator.stop().expect("it lives");
    assert_eq!(seen.lateness.all.len(), 160, "each echo is delivered twice");
    assert_eq!((seen.ring_drops(), seen.unroutable()), (0, 0), "{:?}", seen.ports);
}

#[test]
fn a_bulk_transfer_gets_the_bandwidth_of_the_narrowest_link() {
    let mut spec = star(2, &PipeConfig { delay: ms(1), ..Default::default() });
    spec.links[0].ab.rate = mbit(100.0);
    spec.links[1].ba.rate = mbit(20.0);
    let bed = Testbed::start(spec, 0);
    let rate = bulk(&bed, "n1", "n2", Duration::from_secs(2)) * 8.0;
    // 1448 bytes of data (with time stamps) travel in a frame of 1514.
    let ideal = 20e6 * 1448.0 / 1514.0;
    assert!((0.90..1.02).contains(&(rate / ideal)), "{rate:.0} bit/s of an ideal {ideal:.0}");
}

#[test]
fn the_same_seed_loses_the_same_packets_of_a_real_flow() {
    let received = |seed| {
        let mut spec = star(2, &PipeConfig::default());
        spec.links[0].ab.loss = Loss::Random(0.1);
        let bed = Testbed::start(spec, seed);
        let server = bed.spaces["n2"].run(|| UdpSocket::bind(("0.0.0.0", PORT)).expect("the port is free"));
        server.set_read_timeout(Some(Duration::from_millis(500))).expect("a time-out can be set");
        let client = bed.spaces["n1"].run(|| UdpSocket::bind(("0.0.0.0", 0)).expect("a socket"));
        let address = bed.address("n1", "n2");
        let mut got = Vec::new();
        for block in 0..20u32 {
            for i in block * 100..block * 100 + 100 {
                client.send_to(&i.to_le_bytes(), (address, PORT)).expect("the kernel takes it");
            }
            // No more at once than any buffer holds: what is missing was lost by the pipe.
            let passed = |bed: &Testbed| bed.counters("n1--core/ab").packets as usize;
            let (end, mut buffer) = (Instant::now() + PATIENCE, [0; 4]);
            let offered = |c: diorama_net::PipeCounters| c.packets + c.lost;
            while offered(bed.counters("n1--core/ab")) < u64::from(block + 1) * 100 && Instant::now() < end {}
            while got.len() < passed(&bed) {
                server.recv(&mut buffer).expect("what the pipe let through arrives");
                got.push(u32::from_le_bytes(buffer));
            }
        }
        let counters = bed.counters("n1--core/ab");
        assert_eq!(counters.packets + counters.lost, 2000);
        got
    };
    let first = received(5);
    assert_eq!(first, received(5));
    assert_ne!(first, received(6));
    // 200 expected; 5 standard deviations are 67.
    assert!((1733..1867).contains(&first.len()), "{} of 2000 at 10 % loss", first.len());
}

#[test]
fn an_interior_node_forwards_with_its_own_kernel() {
    // a - S - r - b, and c on the switch: r has two interfaces, behind one of them all but one address.
    let wire = PipeConfig { delay: ms(2), ..Default::default() };
    let nodes = ["a", "r", "b", "c"].map(String::from).to_vec();
    let links = vec![link("a", "S", &wire), link("S", "r", &wire), link("r", "b", &wire), link("c", "S", &wire)];
    let bed = Testbed::start(NetworkSpec { nodes, switches: vec!["S".into()], links, routes: vec![] }, 0);
    for (from, to, hops) in [("a", "b", 3), ("b", "c", 3), ("a", "r", 2), ("b", "r", 1), ("r", "b", 1), ("a", "c", 2)] {
        let times = ping(&bed, from, to, 3, PATIENCE);
        assert_eq!(times.len(), 3, "{from} reaches {to}");
        let least = f64::from(hops) * 2.0 * 0.002;
        assert!(times.iter().all(|t| *t >= least), "{from} to {to} passes {hops} links both ways: {times:?}");
    }
    assert!(bulk(&bed, "a", "b", Duration::from_millis(500)) > 1e5, "TCP crosses the forwarding node");
    assert_ne!(bed.address("a", "r"), bed.address("b", "r"), "each side knows the interface that faces it");
}

#[test]
fn five_nodes_reach_one_another_and_themselves() {
    let bed = Testbed::start(star(5, &PipeConfig::default()), 0);
    for from in 1..=5 {
        for to in 1..=5 {
            let (from, to) = (format!("n{from}"), format!("n{to}"));
            assert_eq!(ping(&bed, &from, &to, 1, PATIENCE).len(), 1, "{from} reaches {to}");
        }
    }
    // Itself through `lo`: 20 pairs crossed the network, both ways.
    assert_eq!(bed.emulator.stop().expect("it lives").lateness.all.len(), 40);
}

#[test]
fn a_link_goes_down_and_comes_up_again() {
    let bed = Testbed::start(star(2, &PipeConfig::default()), 0);
    let pings = |timeout| ping(&bed, "n1", "n2", 3, timeout).len();
    assert_eq!(pings(PATIENCE), 3);
    bed.set("n2--core/ba", PipeChange { up: Some(false), ..Default::default() });
    assert_eq!(pings(Duration::from_millis(300)), 0);
    assert_eq!(bed.counters("n2--core/ba").down_drops, 3);
    bed.set("n2--core/ba", PipeChange { up: Some(true), ..Default::default() });
    assert_eq!(pings(PATIENCE), 3);
}

#[test]
fn tcp_outlives_a_link_that_is_down_for_a_while() {
    let bed = Testbed::start(star(2, &PipeConfig { rate: mbit(10.0), ..Default::default() }), 0);
    let mut received = 0.0;
    thread::scope(|scope| {
        let transfer = scope.spawn(|| bulk(&bed, "n1", "n2", Duration::from_secs(3)));
        thread::sleep(Duration::from_millis(500));
        bed.set("n1--core/ab", PipeChange { up: Some(false), ..Default::default() });
        thread::sleep(Duration::from_millis(500));
        bed.set("n1--core/ab", PipeChange { up: Some(true), ..Default::default() });
        received = transfer.join().expect("the transfer ends");
    });
    assert!(received > 0.0);
    assert!(bed.counters("n1--core/ab").down_drops > 0);
}

/// The thread's CPU time, and what of it was spent awake for nothing, after 50 bursts of 90 frames.
fn bursts(link: PipeConfig) -> (f64, f64) {
    let mut spec = star(2, &PipeConfig::default());
    spec.links[0].ab = link;
    let bed = Testbed::start(spec, 0);
    let _server = bed.spaces["n2"].run(|| UdpSocket::bind(("0.0.0.0", PORT)).expect("the port is free"));
    let client = bed.spaces["n1"].run(|| UdpSocket::bind(("0.0.0.0", 0)).expect("a socket"));
    let to = (bed.address("n1", "n2"), PORT);
    for _ in 0..50 {
        for _ in 0..90 {
            client.send_to(&[0; 270], to).expect("the kernel takes it");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let seen = bed.emulator.stop().expect("it lives");
    assert!(seen.pipes[0].counters.packets > 4_000, "{:?}", seen.pipes[0]);
    (seen.cpu.as_secs_f64(), seen.spun.as_secs_f64())
}

#[test]
fn what_the_thread_spins_away_is_told_from_what_it_works() {
    // A frame each 25 us: the thread is awake until the next is due, and needs a few of them for the frame.
    let (cpu, spun) = bursts(PipeConfig { rate: mbit(100.0), ..Default::default() });
    assert!(spun < cpu && spun > 0.013, "{spun} of {cpu} s");
    // Nothing is ever due later.
    assert_eq!(bursts(PipeConfig::default()).1, 0.0);
}
