//! Clocks of nodes follow their work, whenever they have the core.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use common::{alone, engaged_on, named};
use diorama_cpu::{CpuGroups, NodeClocks, Terms};
use scale::RealDuration;

/// What one thread saw of its bursts of work: their CPU time over the node's share, and how long they took by the
/// node's clock and by the run's.
#[derive(Clone, Copy, Debug)]
struct Burst {
    work: f64,
    own: f64,
    run: f64,
}

/// Each node sleeps and computes in turn, for `seconds`.
fn bursts(groups: &CpuGroups, shares: &[f64], work: Duration, use_of_share: f64, seconds: f64) -> Vec<Vec<Burst>> {
    let clocks = groups.clocks().expect("clocks of nodes");
    let stop = &AtomicBool::new(false);
    scope(|threads| {
        let nodes: Vec<_> = (0..shares.len())
            .map(|i| {
                let joiner = groups.joiner(&named(i)).expect("a joiner");
                let (clock, share) = (clocks.clocks()[i].clone(), shares[i]);
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
    let seen = bursts(&groups, &shares, Duration::from_millis(1), 0.5, 4.0);
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
