//! Real sockets through real interfaces. Needs root.
//!
//! Nothing here depends on how soon the machine lets a program run: times are bounded from below, by what a pipe does,
//! and from above only against a reference of the same run. `diorama bench net` measures how exact delays and
//! rates are.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use diorama_net::{Loss, NetworkSpec, PipeChange, PipeConfig, PipeInterval};
use support::{PATIENCE, Testbed, link, mbit, ms, star, wait_until};

const PORT: u16 = 7000;

/// Sends `count` datagrams from `from` to `to`, which echoes them; gives the round-trip times of those that returned
/// within `timeout`, in seconds.
fn ping(bed: &Testbed, from: &str, to: &str, count: usize, timeout: Duration) -> Vec<f64> {
    let server = bed.spaces[to].run(|| UdpSocket::bind(("0.0.0.0", PORT)).expect("the port is free"));
    server.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out can be set");
    let address = bed.address(from, to);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2000];
            loop {
                match server.recv_from(&mut buffer) {
                    // The way back may be gone: that is what some tests are about.
                    Ok((len, peer)) => drop(server.send_to(&buffer[..len], peer)),
                    // Only when nothing waits any more.
                    Err(_) if done.load(Relaxed) => return,
                    Err(_) => {}
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
        done.store(true, Relaxed);
        times
    })
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().min_by(f64::total_cmp).expect("something came back")
}

/// Sends by TCP until `enough`, which is asked while data arrive, or `PATIENCE` is over; how many bytes arrived, all of
/// those that were sent.
fn transfer(bed: &Testbed, from: &str, to: &str, mut enough: impl FnMut(u64) -> bool) -> u64 {
    let listener = bed.spaces[to].run(|| TcpListener::bind(("0.0.0.0", PORT)).expect("the port is free"));
    let address = bed.address(from, to);
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = bed.spaces[from].spawn(scope, || {
            let mut stream = TcpStream::connect((address, PORT)).expect("the server is reached");
            stream.set_write_timeout(Some(PATIENCE)).expect("a time-out can be set");
            let (block, mut sent) = ([0; 16384], 0);
            while !end.load(Relaxed) {
                stream.write_all(&block).expect("the stream flows");
                sent += block.len() as u64;
            }
            sent
        });
        let (mut stream, _) = listener.accept().expect("the client comes");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        let (start, mut block, mut arrived) = (Instant::now(), vec![0; 1 << 16], 0);
        loop {
            match stream.read(&mut block).expect("the stream flows") {
                0 => break,
                n => arrived += n as u64,
            }
            if !end.load(Relaxed) && (enough(arrived) || start.elapsed() > PATIENCE) {
                end.store(true, Relaxed);
            }
        }
        assert_eq!(sender.join().expect("the sender ends"), arrived);
        arrived
    })
}

#[test]
fn delay_is_what_the_pipes_say_and_never_less() {
    let bed = Testbed::start(star(2, &PipeConfig::default()), 0);
    let reference = least(&ping(&bed, "n1", "n2", 40, PATIENCE));
    for pipe in ["n1--core/ab", "n2--core/ba", "n2--core/ab", "n1--core/ba"] {
        bed.set(pipe, PipeChange { delay: Some(ms(10)), ..Default::default() });
    }
    let times = ping(&bed, "n1", "n2", 40, PATIENCE);
    assert_eq!(times.len(), 40, "nothing may be lost");
    assert!(times.iter().all(|t| *t >= 0.040), "a frame was early: {times:?}");
    // The least of each: what the machine's other work adds now and then is not the pipes'.
    let adjusted = least(&times) - reference;
    assert!(adjusted < 0.043, "40 ms became {adjusted} s beyond the reference of {reference} s");
    let seen = bed.emulator.stop().expect("it lives");
    assert_eq!(seen.lateness.all.len(), 160, "each echo is delivered twice");
    assert_eq!((seen.ring_drops(), seen.unroutable()), (0, 0), "{:?}", seen.ports);
}

#[test]
fn a_bulk_transfer_fills_the_narrowest_link_and_never_more() {
    let mut spec = star(2, &PipeConfig { delay: ms(1), ..Default::default() });
    spec.links[0].ab.rate = mbit(100.0);
    spec.links[1].ba.rate = mbit(20.0);
    let bed = Testbed::start(spec, 0);
    let (wide, narrow) = (bed.pipe("n1--core/ab"), bed.pipe("n2--core/ba"));
    let interval = ms(100);
    bed.emulator.start_series(host::now(), interval);
    // 20 Mbit/s for 100 ms are 250,000 bytes.
    let (full, frame) = (250_000, 1514);
    let mut seen = Vec::new();
    let filled = |of: &[PipeInterval]| of.iter().any(|i| i.pipe == narrow && i.grew.bytes + frame >= full);
    let mut looked = Instant::now();
    // A busy machine starves the programs now and then, but not in every tenth of a second.
    transfer(&bed, "n1", "n2", |_| {
        if looked.elapsed() < Duration::from_millis(50) {
            return false;
        }
        looked = Instant::now();
        seen.extend(bed.emulator.observe().expect("it lives").intervals);
        filled(&seen)
    });
    assert!(filled(&seen), "the narrow link was never full: {seen:?}");
    for i in &seen {
        let most = if i.pipe == wide { 5 * full } else { full };
        let bounded = i.pipe == wide || i.pipe == narrow;
        assert!(!bounded || i.grew.bytes <= most + frame, "more than the link can carry: {i:?}");
    }
    // The link before it carried no more than came through, the queue and what was dropped there.
    let carried = |pipe| bed.counters(pipe).packets;
    let dropped = bed.counters("n2--core/ba").queue_drops;
    assert!(carried("n1--core/ab") <= carried("n2--core/ba") + dropped + 100);
}

#[test]
fn the_same_seed_loses_the_same_packets_of_a_real_flow() {
    let received = |seed| {
        let mut spec = star(2, &PipeConfig::default());
        spec.links[0].ab.loss = Loss::Random(0.1);
        let bed = Testbed::start(spec, seed);
        let server = bed.spaces["n2"].run(|| UdpSocket::bind(("0.0.0.0", PORT)).expect("the port is free"));
        server.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        let client = bed.spaces["n1"].run(|| UdpSocket::bind(("0.0.0.0", 0)).expect("a socket"));
        let address = bed.address("n1", "n2");
        let mut got = Vec::new();
        for block in 0..20u32 {
            for i in block * 100..block * 100 + 100 {
                client.send_to(&i.to_le_bytes(), (address, PORT)).expect("the kernel takes it");
            }
            // No more at once than any buffer holds: what is missing was lost by the pipe.
            let passed = |bed: &Testbed| bed.counters("n1--core/ab").packets as usize;
            let offered = |c: diorama_net::PipeCounters| c.packets + c.lost;
            let all = u64::from(block + 1) * 100;
            wait_until("all have come to the pipe", || offered(bed.counters("n1--core/ab")) >= all);
            let mut buffer = [0; 4];
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
    let bed = Testbed::start(NetworkSpec { nodes, switches: vec!["S".into()], links, ..Default::default() }, 0);
    for (from, to, hops) in [("a", "b", 3), ("b", "c", 3), ("a", "r", 2), ("b", "r", 1), ("r", "b", 1), ("a", "c", 2)] {
        let times = ping(&bed, from, to, 3, PATIENCE);
        assert_eq!(times.len(), 3, "{from} reaches {to}");
        let least = f64::from(hops) * 2.0 * 0.002;
        assert!(times.iter().all(|t| *t >= least), "{from} to {to} passes {hops} links both ways: {times:?}");
    }
    assert!(transfer(&bed, "a", "b", |n| n > 1 << 18) > 1 << 18, "TCP crosses the forwarding node");
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
    wait_until("three are lost", || bed.counters("n2--core/ba").down_drops == 3);
    bed.set("n2--core/ba", PipeChange { up: Some(true), ..Default::default() });
    assert_eq!(pings(PATIENCE), 3);
}

#[test]
fn tcp_outlives_a_link_that_is_down_for_a_while() {
    let bed = Testbed::start(star(2, &PipeConfig { rate: mbit(10.0), ..Default::default() }), 0);
    let counters = || bed.counters("n1--core/ab");
    let set = |up| bed.set("n1--core/ab", PipeChange { up: Some(up), ..Default::default() });
    let (mut down, mut after) = (false, 0);
    let arrived = transfer(&bed, "n1", "n2", |arrived| {
        if !down && arrived > 100_000 {
            (down, after) = (true, arrived);
            set(false);
            wait_until("something is lost", || counters().down_drops > 0);
            set(true);
        }
        down && arrived > after + 1_000_000
    });
    assert!(down && arrived > 1_000_000, "{arrived} bytes arrived");
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
