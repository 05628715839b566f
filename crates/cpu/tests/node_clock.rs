//! Clocks of nodes follow their work, whenever they have the core.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::common::{CORE, alone, engage, engaged_on, named};
use diorama_cpu::{CpuGroups, NodeClocks, NodeShare, Terms};
use scale::RealDuration;

/// One thread's burst of work: their CPU time over the node's share, and how long they took by the
/// node's clock and by the run's.
#[derive(Clone, Copy, Debug)]
struct Burst {
    work: f64,
    own: f64,
    run: f64,
}

/// Threads, each in a node of which a CPU has such a share, sleep and compute in turn, for `seconds`.
fn bursts(
    groups: &CpuGroups,
    threads: &[(usize, f64)],
    work: Duration,
    use_of_share: f64,
    seconds: f64,
) -> Vec<Vec<Burst>> {
    let in_nodes = threads;
    let clocks = groups.clocks().expect("clocks of nodes");
    let stop = &AtomicBool::new(false);
    scope(|threads| {
        let nodes: Vec<_> = in_nodes
            .iter()
            .enumerate()
            .map(|(i, &(node, share))| {
                let joiner = groups.joiner(&named(node)).expect("a joiner");
                let clock = clocks.clocks()[node].clone();
                threads.spawn(move || {
                    joiner.join().expect("joined");
                    let mut seen = Vec::new();
                    let mut random = 12_345 + i as u64;
                    while !stop.load(Ordering::Relaxed) {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let part = (random >> 33) as f64 / (1u64 << 31) as f64;
                        let idle = work.as_secs_f64() / share * (1.0 - use_of_share) / use_of_share * 2.0 * part;
                        sleep(Duration::from_secs_f64(idle));
                        let now = || (clock.at(host::now()).as_nanos(), host::now().as_nanos());
                        let (cpu, (own, run)) = (host::time::of_this_thread(), now());
                        let mut n = 0u64;
                        while host::time::of_this_thread().saturating_sub(cpu) < work.into() {
                            for _ in 0..2_000 {
                                n = std::hint::black_box(n + 1);
                            }
                        }
                        let (own_after, run_after) = now();
                        let used = host::time::of_this_thread().saturating_sub(cpu);
                        let work = used.as_nanos() as f64 / share;
                        let [own, run] = [own_after - own, run_after - run].map(|ns| ns as f64);
                        seen.push(Burst { work, own, run });
                    }
                    seen
                })
            })
            .collect();
        sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        nodes.into_iter().map(|node| node.join().expect("a node's thread")).collect()
    })
}

fn quantile(mut all: Vec<f64>, q: f64) -> f64 {
    all.sort_by(f64::total_cmp);
    all[((all.len() - 1) as f64 * q) as usize]
}

fn terms(slice_us: u64) -> Terms {
    Terms { slice: RealDuration::from_nanos(slice_us * 1000), pace: None }
}

#[test]
fn bursts_take_by_a_nodes_clock_what_their_work_takes() {
    let _alone = alone();
    let shares = [0.08; 8];
    let (_, groups) = engaged_on(&shares, terms(3_000));
    let threads: Vec<_> = shares.into_iter().enumerate().collect();
    let seen = bursts(&groups, &threads, Duration::from_millis(1), 0.5, 4.0);
    let of = |f: fn(&Burst) -> f64| seen.iter().flat_map(|node| node[1..].iter().map(f)).collect::<Vec<f64>>();
    let [own, run] = [of(|b| b.own / b.work), of(|b| b.run / b.work)];
    println!("{} bursts: {}", own.len(), own.iter().sum::<f64>() / own.len() as f64);
    for q in [0.01, 0.1, 0.5, 0.9, 0.99] {
        println!("p{:02.0}: own {:.3} run {:.3}", q * 100.0, quantile(own.clone(), q), quantile(run.clone(), q));
    }
    for i in 0..shares.len() {
        println!("{}", of_node(groups.clocks().unwrap(), i));
    }
    let [p10, p50, p90] = [0.1, 0.5, 0.9].map(|q| quantile(own.clone(), q));
    assert!(p10 > 0.97 && (p50 - 1.0).abs() < 0.01 && p90 < 1.03, "{p10} {p50} {p90}");
}

fn of_node(clocks: &NodeClocks, node: usize) -> String {
    let times = clocks.times(node);
    let counts = |counts: &[u32]| counts[..16].iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    format!(
        "ran {:.3} waited {:.3} worked {:.3} slices {} behind {} ahead {}",
        times.ran.as_secs_f64(),
        times.waited.as_secs_f64(),
        times.worked.as_secs_f64(),
        times.slices,
        counts(&times.behind),
        counts(&times.ahead)
    )
}

/// How far threads of a node with `cpus` CPUs came that compute without a pause, over what a CPU of its own would have
/// let each do in the same time by the node's clock; and that time over the run's.
fn side_by_side(groups: &CpuGroups, cpu_share: f64, threads: usize, lasts: Duration) -> (Vec<f64>, f64) {
    let clock = groups.clocks().expect("clocks of nodes").clocks()[0].clone();
    let stop = &AtomicBool::new(false);
    let counted = &Barrier::new(threads + 1);
    scope(|scope| {
        let busy: Vec<_> = (0..threads)
            .map(|_| {
                let joiner = groups.joiner(&named(0)).expect("a joiner");
                scope.spawn(move || {
                    joiner.join().expect("joined");
                    let spin = |until: &dyn Fn() -> bool| {
                        let mut n = 0u64;
                        while !until() {
                            for _ in 0..2_000 {
                                n = std::hint::black_box(n + 1);
                            }
                        }
                    };
                    let begun = host::time::of_this_thread();
                    spin(&|| host::time::of_this_thread().saturating_sub(begun) > Duration::from_millis(20).into());
                    counted.wait();
                    let begun = host::time::of_this_thread();
                    spin(&|| stop.load(Ordering::Relaxed));
                    host::time::of_this_thread().saturating_sub(begun)
                })
            })
            .collect();
        counted.wait();
        let (own, run) = (clock.at(host::now()), host::now());
        sleep(lasts);
        stop.store(true, Ordering::Relaxed);
        let (own, run) = (clock.at(host::now()).since(own), host::now().since(run));
        let of = |used: RealDuration| used.as_secs_f64() / (cpu_share * own.as_secs_f64());
        let each = busy.into_iter().map(|thread| of(thread.join().expect("a thread"))).collect();
        (each, own.as_secs_f64() / run.as_secs_f64())
    })
}

/// The smallest, the mean and the largest.
fn summary(of: &[f64]) -> [f64; 3] {
    let (least, most) = of.iter().fold((f64::MAX, f64::MIN), |(l, m), one| (l.min(*one), m.max(*one)));
    [least, of.iter().sum::<f64>() / of.len() as f64, most]
}

/// Of a core, what each CPU of a node with several has in these tests.
const OF_CPU: f64 = 0.06;

/// A node with several CPUs beside one that is idle.
fn with_several_cpus(cpus: u32, slice_us: u64) -> CpuGroups {
    let several = NodeShare::new(named(0), CORE, OF_CPU * f64::from(cpus)).with_cpus(cpus);
    engage(&crate::common::run_id(), &[several, NodeShare::new(named(1), CORE, 0.2)], terms(slice_us))
}

#[test]
fn threads_of_a_node_with_several_cpus_have_one_each() {
    let _alone = alone();
    for (cpus, slice_us) in [(4, 3_000), (8, 1_000)] {
        let groups = with_several_cpus(cpus, slice_us);
        for threads in [1, 2, cpus as usize, 2 * cpus as usize] {
            // A slice of 3 ms is 50 ms of the clock, which shows the furthest thread: one more or less, of several,
            // at either end.
            let lasts = Duration::from_millis(if threads > 1 { 4_000 } else { 1_500 });
            let (each, pace) = side_by_side(&groups, OF_CPU, threads, lasts);
            let ideal = (f64::from(cpus) / threads as f64).min(1.0);
            let [least, mean, most] = summary(&each).map(|of| of / ideal);
            println!("{cpus} CPUs, {threads} threads: {mean:.3} ({least:.3} to {most:.3}), clock {pace:.3}");
            assert!((mean - 1.0).abs() < 0.05, "{threads} threads on {cpus} CPUs did {mean} of what they should");
            assert!(least > 0.75 && most < 1.3, "{threads} threads on {cpus} CPUs: {least} to {most}");
            // Others that want the core have a part of it in this test, which no weight gives back.
            assert!((pace - 1.0).abs() < 0.25, "the clock of a node with {threads} threads went at {pace}");
        }
    }
}

/// Threads of a node that are woken together and work for `work` each, again and again: for how long after that the
/// last of them had done, by the node's clock over what one alone takes.
fn forks_and_joins(groups: &CpuGroups, threads: usize, work: Duration, times: usize) -> Vec<f64> {
    let clock = &groups.clocks().expect("clocks of nodes").clocks()[0];
    let barrier = &Barrier::new(threads);
    let now = || clock.at(host::now());
    scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|i| {
                let joiner = groups.joiner(&named(0)).expect("a joiner");
                scope.spawn(move || {
                    joiner.join().expect("joined");
                    let mut took = Vec::new();
                    for _ in 0..times {
                        if i == 0 {
                            sleep(Duration::from_millis(5));
                        }
                        let begun = now();
                        barrier.wait();
                        let cpu = host::time::of_this_thread();
                        let mut n = 0u64;
                        while host::time::of_this_thread().saturating_sub(cpu) < work.into() {
                            n = std::hint::black_box(n + 1);
                        }
                        barrier.wait();
                        took.push(now().since(begun).as_secs_f64() / (work.as_secs_f64() / OF_CPU));
                    }
                    took
                })
            })
            .collect();
        all.into_iter().map(|thread| thread.join().expect("a thread")).next().expect("a thread")
    })
}

#[test]
fn threads_that_wait_for_one_another_work_at_the_same_time() {
    let _alone = alone();
    let groups = with_several_cpus(4, 3_000);
    for (threads, work_us) in [(1, 1_000), (2, 1_000), (4, 1_000), (4, 10_000), (8, 1_000)] {
        let took = forks_and_joins(&groups, threads, Duration::from_micros(work_us), 60);
        let ideal = (threads as f64 / 4.0).max(1.0);
        let of = |q| quantile(took.clone(), q) / ideal;
        println!("{threads} threads, {work_us} us each: p10 {:.3} p50 {:.3} p90 {:.3}", of(0.1), of(0.5), of(0.9));
        // Going through the barrier is work, too. One after the other they would take as many times as long.
        assert!((0.95..1.25).contains(&of(0.5)), "{threads} threads took {} of what they should", of(0.5));
    }
}

/// Has arrivals of what comes to this machine dated by its kernel for as long as it lives.
fn dated(socket: &UdpSocket) {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the kernel reads an int, which lives during the call, through the pointer.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, (&raw const on).cast(), length)
    };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
}

/// Readings of a node's clock before and after a receive, and when the last of its data had been sent, ns.
#[derive(Clone, Copy, Debug)]
struct Taken {
    before: u64,
    after: u64,
    sent: u64,
}

/// A node that computes, and then takes what has come meanwhile; what is sent are instants.
fn takes_after_work(groups: &CpuGroups, mut take: impl FnMut() -> Option<u64> + Send) -> Vec<Taken> {
    let clock = groups.clocks().expect("clocks of nodes").clocks()[0].clone();
    let joiner = groups.joiner(&named(0)).expect("a joiner");
    let node = move || {
        joiner.join().expect("joined");
        let work = |ns: u64| {
            let (begun, mut n) = (host::time::of_this_thread(), 0u64);
            while host::time::of_this_thread().saturating_sub(begun).as_nanos() < ns {
                n = std::hint::black_box(n + 1);
            }
        };
        let shows = || clock.at(host::now()).as_nanos();
        let mut seen = Vec::new();
        for _ in 0..40 {
            // It waits for the core, and so is behind, when it has slept.
            sleep(Duration::from_millis(20));
            work(50_000);
            let before = shows();
            if let Some(sent) = take() {
                seen.push(Taken { before, after: shows(), sent });
            }
        }
        seen
    };
    scope(|threads| threads.spawn(node).join().expect("a node's thread"))
}

#[test]
fn what_is_taken_has_come_by_the_clock_of_who_takes_it() {
    let _alone = alone();
    let (_, groups) = engaged_on(&[0.08; 4], terms(3_000));
    // The kernel's own dates stand in for those that frames of a run bear.
    let date = host::time::unix_ns().wrapping_sub(host::now().as_nanos());
    let clock = &groups.clocks().expect("clocks of nodes").clocks()[0];
    let (socket, stop) = (UdpSocket::bind("127.0.0.1:0").unwrap(), AtomicBool::new(false));
    let handed = AtomicU64::new(0);
    dated(&socket);
    socket.set_nonblocking(true).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut stream = listener.accept().unwrap().0;
    stream.set_nonblocking(true).unwrap();
    let (datagrams, connection, ahead) = scope(|threads| {
        for node in 1..4 {
            let (joiner, stop) = (groups.joiner(&named(node)).expect("a joiner"), &stop);
            threads.spawn(move || {
                joiner.join().expect("joined");
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        threads.spawn(|| {
            let (from, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), socket.local_addr().unwrap());
            while !stop.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(1));
                let now = host::now();
                clock.hand(now, date);
                handed.store(now.as_nanos(), Ordering::Relaxed);
                from.send_to(&now.as_nanos().to_ne_bytes(), to).unwrap();
                sender.write_all(&now.as_nanos().to_ne_bytes()).unwrap();
            }
        });
        let mut word = [0; 8];
        // All that has come; of it the last.
        let datagrams = takes_after_work(&groups, || {
            let all = std::iter::from_fn(|| socket.recv(&mut word).ok().map(|_| u64::from_ne_bytes(word)));
            all.last()
        });
        let connection = takes_after_work(&groups, || {
            let all = std::iter::from_fn(|| stream.read_exact(&mut word).ok().map(|()| u64::from_ne_bytes(word)));
            all.last()
        });
        // The first that has come by no clock of its node, while others come after it.
        let mut ahead = Vec::new();
        for _ in 0..5 {
            takes_after_work(&groups, || {
                loop {
                    let sent = socket.recv(&mut word).ok().map(|_| u64::from_ne_bytes(word))?;
                    let after = clock.at(host::now()).as_nanos();
                    let latest = handed.load(Ordering::Relaxed);
                    if latest > sent + 2_000_000 && after.abs_diff(sent) < 500_000 {
                        ahead.push((sent, after, latest));
                        return Some(sent);
                    }
                }
            });
            // How many there are depends on how often others have the core just then.
            if ahead.len() >= 5 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        (datagrams, connection, ahead)
    });
    println!("{} datagrams were taken before those that had come after them", ahead.len());
    assert!(ahead.len() >= 5, "{ahead:?}");
    for (kind, seen) in [("datagrams", datagrams), ("a connection", connection)] {
        let behind = seen.iter().filter(|taken| taken.before < taken.sent).count();
        println!("{kind}: {behind} of {} had come by no clock of their node", seen.len());
        assert!(seen.len() >= 30, "{kind}: {}", seen.len());
        for taken in seen {
            assert!(taken.after >= taken.sent, "{kind}: {taken:?}");
        }
    }
}
