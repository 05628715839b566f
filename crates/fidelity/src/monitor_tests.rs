//! Readings of the monitor of counters that grow evenly, unevenly, or not at all.

use super::*;
use crate::counters::{CoreCounters, CoreTicks, CoreWork, Looks, NodeCounters};

const S: u64 = 1_000_000_000;
/// Virtual zero does not lie at the origin of the harness's clock.
const ZERO: u64 = 1234 * S;

fn monitor(cores: [usize; 2], harness: Vec<usize>, tdf: f64) -> Monitor {
    let node = |name: &str, core, share| Entitled { node: name.into(), core, share, cpus: 1 };
    let nodes = vec![node("server", cores[0], 0.5), node("client", cores[1], 0.25)];
    Monitor::new(Tdf::try_from(tdf).unwrap(), RealInstant::from_nanos(ZERO), nodes, harness)
}

struct Feed {
    monitor: Monitor,
    now: Snapshot,
}

impl Feed {
    /// Two nodes with half and a quarter of core 0; the harness has core 1.
    fn new(tdf: f64) -> Feed {
        Feed::on([0, 0], vec![1], tdf)
    }

    /// The two nodes on these cores, with a harness on those.
    fn on(cores: [usize; 2], harness: Vec<usize>, tdf: f64) -> Feed {
        let mut monitor = monitor(cores, harness, tdf);
        let at = RealInstant::from_nanos(ZERO);
        let tcp = Some(TcpCounters::default());
        let node = NodeCounters {
            at,
            container_ns: 77,
            unused_ns: 88,
            tcp,
            ring_drops: 5,
            no_memory: 2,
            ..NodeCounters::default()
        };
        let core = CoreCounters {
            run_ns: 3 * S,
            all_ns: 9 * S,
            ticks: CoreTicks { steal: 40, total: 5000, ..CoreTicks::default() },
        };
        let now = Snapshot { at, nodes: vec![node; 2], cores: vec![core; 4], ..Snapshot::default() };
        monitor.push(now.clone());
        Feed { monitor, now }
    }

    /// After `real` ns in which the nodes used these fractions of their shares and others this fraction of each core.
    fn step(&mut self, real: u64, used: [f64; 2], foreign: [f64; 2]) -> &mut Snapshot {
        self.now.at = self.now.at + RealDuration::from_nanos(real);
        for (i, share) in [0.5, 0.25].into_iter().enumerate() {
            let node = &mut self.now.nodes[i];
            node.at = self.now.at;
            node.container_ns += (real as f64 * share * used[i]) as u64;
            node.unused_ns += (real as f64 * share * (1.0 - used[i]).max(0.0)) as u64;
            let core = &mut self.now.cores[i];
            core.run_ns += real / 2;
            core.all_ns += real / 2 + (real as f64 * foreign[i]) as u64;
            core.ticks.total += real / 10_000_000;
        }
        &mut self.now
    }

    fn push(&mut self) {
        self.monitor.push(self.now.clone());
    }

    fn seconds(&mut self, n: usize, real: u64, used: [f64; 2], foreign: [f64; 2]) {
        for _ in 0..n {
            self.step(real, used, foreign);
            self.push();
        }
    }
}

fn near(worst: &Option<Occurrence>, value: f64) -> bool {
    worst.as_ref().is_some_and(|w| (w.value - value).abs() < 1e-3)
}

#[test]
fn only_a_node_that_always_wanted_cpu_is_judged() {
    let mut feed = Feed::new(1.0);
    feed.seconds(6, S, [0.995, 0.4], [0.0; 2]);
    let observed = feed.monitor.finish();
    assert_eq!(observed.entitled_intervals, 6, "the server's, not the client's");
    let worst = observed.entitlement.unwrap();
    assert!((worst.value - 99.5).abs() < 1e-6, "{worst:?}");
    assert_eq!(worst.whose.as_deref(), Some("server"));
}

#[test]
fn how_busy_nodes_were_is_told_of_the_whole_run() {
    let mut feed = Feed::new(10.0);
    feed.seconds(2, 10 * S, [0.3, 0.2], [0.0; 2]);
    feed.seconds(2, 10 * S, [0.3, 0.6], [0.0; 2]);
    let observed = feed.monitor.finish();
    let busy: Vec<_> =
        observed.nodes.iter().map(|n| (n.node.as_str(), n.share, (n.busy * 1e6).round() / 1e6)).collect();
    assert_eq!(busy, [("server", 0.5, 0.3), ("client", 0.25, 0.4)]);
    assert_eq!(observed.lasted.as_secs_f64(), 4.0);
}

/// Ten real seconds in which nodes were owed so many times the time, and used this part of their shares of it.
fn paced(feed: &mut Feed, owed: f64, used: [f64; 2]) {
    let before = feed.now.core_work.get(&0).copied();
    let before = before.unwrap_or(CoreWork { at: feed.now.at, ..CoreWork::default() });
    feed.step(10 * S, used.map(|part| part * owed), [0.0; 2]);
    for node in &mut feed.now.nodes {
        node.unused_ns = 88;
    }
    let owed_ns = before.owed_ns + (owed * 10.0 * S as f64) as u64;
    feed.now.core_work.insert(0, CoreWork { at: feed.now.at, owed_ns, ..before });
    feed.push();
}

#[test]
fn entitlement_is_to_work_and_so_to_more_time_of_a_slow_core() {
    let mut feed = Feed::new(10.0);
    // The first reading is what growth is related to, so it is taken again with the core's work in it.
    feed.monitor = monitor([0, 0], vec![1], 10.0);
    feed.now.core_work.insert(0, CoreWork { at: feed.now.at, ..CoreWork::default() });
    feed.push();
    for _ in 0..3 {
        paced(&mut feed, 1.6, [1.0, 0.9]);
    }
    let observed = feed.monitor.finish();
    assert!(near(&observed.entitlement, 90.0), "of 1.6 times its share: {:?}", observed.entitlement);
    assert!((observed.nodes[0].busy - 1.0).abs() < 1e-6 && (observed.nodes[1].busy - 0.9).abs() < 1e-6, "{observed:?}");
}

#[test]
fn saturated_seconds_count_together() {
    let mut feed = Feed::new(1.0);
    feed.seconds(3, S, [1.0, 0.2], [0.0; 2]);
    for used in [0.8, 1.16] {
        feed.step(S, [used, 0.2], [0.0; 2]).nodes[0].unused_ns = 88;
        feed.push();
    }
    let observed = feed.monitor.finish();
    assert!(near(&observed.entitlement, 80.0), "the worst second: {:?}", observed.entitlement);
    assert!(near(&observed.entitled, 100.0 * 4.96 / 5.0), "what was missed then came later: {:?}", observed.entitled);
}

#[test]
fn the_worst_second_is_named_with_its_virtual_time() {
    let mut feed = Feed::new(10.0);
    feed.seconds(2, 10 * S, [1.0, 1.0], [0.0; 2]);
    // Nothing was left unused although the node got little: somebody else had the core.
    feed.step(10 * S, [1.0, 0.9], [0.0; 2]).nodes[1].unused_ns = 88;
    feed.push();
    feed.seconds(1, 10 * S, [1.02, 1.0], [0.0; 2]);
    let worst = feed.monitor.finish().entitlement.unwrap();
    assert_eq!(worst.whose.as_deref(), Some("client"));
    assert_eq!((worst.from.as_secs_f64(), worst.to.as_secs_f64()), (2.0, 3.0));
    assert!((worst.value - 90.0).abs() < 1e-6, "{worst:?}");
}

#[test]
fn too_much_is_as_bad_as_too_little() {
    let mut feed = Feed::new(1.0);
    feed.seconds(1, S, [0.991, 0.0], [0.0; 2]);
    feed.seconds(1, S, [1.02, 0.0], [0.0; 2]);
    feed.seconds(1, S, [0.999, 0.0], [0.0; 2]);
    assert!(near(&feed.monitor.finish().entitlement, 102.0));
}

#[test]
fn snapshots_more_often_than_a_virtual_second_are_put_together() {
    let mut feed = Feed::new(10.0);
    feed.seconds(100, S / 5, [1.0, 0.0], [0.0; 2]);
    assert_eq!(feed.monitor.finish().entitled_intervals, 2, "20 real seconds are 2 virtual ones");
}

#[test]
fn a_burst_of_foreign_load_is_averaged_over_a_window_but_not_over_the_run() {
    let mut feed = Feed::new(1.0);
    feed.seconds(20, S, [0.5; 2], [0.001, 0.02]);
    feed.seconds(1, S, [0.5; 2], [0.001, 0.52]);
    feed.seconds(19, S, [0.5; 2], [0.001, 0.02]);
    let observed = feed.monitor.finish();
    assert!(near(&observed.foreign_nodes, 0.1), "{:?}", observed.foreign_nodes);
    assert!((observed.foreign_nodes_percent.unwrap() - 0.1).abs() < 1e-6, "{:?}", observed.foreign_nodes_percent);
    assert!(near(&observed.foreign_harness, 7.0), "{:?}", observed.foreign_harness);
    let worst = observed.foreign_harness.unwrap();
    assert_eq!((worst.from.as_secs_f64(), worst.to.as_secs_f64()), (20.0, 30.0));
    assert_eq!(worst.whose, None, "no threads were listed");
}

fn thread(tid: u32, name: &str, core: usize, ns: u64, waited_ns: u64) -> ForeignThread {
    ForeignThread { pid: tid, tid, name: name.into(), core, ns, waited_ns }
}

/// A window of 10 seconds with these threads of others at its ends.
fn window(before: Vec<ForeignThread>, after: Vec<ForeignThread>) -> Observations {
    let mut feed = Feed::new(1.0);
    feed.now.foreign = before;
    feed.step(1, [0.5; 2], [0.0; 2]);
    feed.push();
    feed.now.foreign.clear();
    feed.seconds(9, S, [0.5; 2], [0.01; 2]);
    feed.now.foreign = after;
    feed.seconds(1, S, [0.5; 2], [0.01; 2]);
    feed.monitor.finish()
}

#[test]
fn the_busiest_foreign_thread_on_the_core_is_named() {
    // init has used most ever, but little lately; make works on the other core; bash is new.
    let observed = window(
        vec![thread(1, "init", 0, 50 * S, 0), thread(7, "make", 1, 0, 0)],
        vec![thread(1, "init", 0, 50 * S + 1000, 0), thread(7, "make", 1, 4 * S, 0), thread(9, "bash", 0, S / 20, 0)],
    );
    assert_eq!(observed.foreign_nodes.unwrap().whose.as_deref(), Some("bash (process 9)"));
    assert_eq!(observed.foreign_harness.unwrap().whose.as_deref(), Some("make (process 7)"));
}

#[test]
fn who_wants_the_core_all_the_time_is_told_from_who_uses_more_of_it() {
    let observed = window(
        vec![thread(1, "daemon", 0, 50 * S, 70 * S), thread(7, "loop", 0, S, S), thread(8, "moved", 1, 0, 0)],
        vec![
            thread(1, "daemon", 0, 50 * S + S / 16, 76 * S),
            thread(7, "loop", 0, S + S / 25, 10 * S + S / 2),
            thread(8, "moved", 0, 9 * S, S),
        ],
    );
    let wanted = observed.wanted_nodes.unwrap();
    assert_eq!(wanted.whose.as_deref(), Some("loop (process 7)"));
    assert!((wanted.value - 95.4).abs() < 0.01, "{wanted:?}");
    assert_eq!(observed.foreign_nodes.unwrap().whose.as_deref(), Some("daemon (process 1)"));
}

#[test]
fn no_thread_is_named_on_too_little_evidence() {
    let hog = |s: u64| vec![thread(7, "loop", 0, 0, s * S)];
    assert_eq!(window(hog(1), Vec::new()).wanted_nodes, None, "one listing");
    let quiet = window(vec![thread(7, "elsewhere", 1, 0, 0)], vec![thread(7, "elsewhere", 1, 9 * S, 0)]);
    assert!(near(&quiet.wanted_nodes, 0.0), "listed, and found none: {:?}", quiet.wanted_nodes);
    let mut short = Feed::new(1.0);
    for s in 1..=3 {
        short.now.foreign = hog(s);
        short.seconds(1, S, [0.5; 2], [0.0; 2]);
    }
    let observed = short.monitor.finish();
    assert_eq!((observed.wanted_nodes, near(&observed.foreign_nodes, 0.0)), (None, true));
}

#[test]
fn steal_is_that_of_the_worse_core() {
    let mut feed = Feed::new(1.0);
    feed.seconds(9, S, [0.5; 2], [0.0; 2]);
    feed.step(S, [0.5; 2], [0.0; 2]).cores[1].ticks.steal += 20;
    feed.push();
    let steal = feed.monitor.finish().steal.unwrap();
    assert!((steal.value - 2.0).abs() < 1e-9, "20 of 1000 ticks: {steal:?}");
    assert_eq!(steal.whose.as_deref(), Some("core 1"));
}

#[test]
fn on_average_counts_what_was_stolen_of_the_nodes_core() {
    let mut feed = Feed::new(1.0);
    feed.step(S, [0.5; 2], [0.0; 2]).cores[0].ticks.steal += 20;
    feed.push();
    feed.step(S, [0.5; 2], [0.0; 2]).cores[1].ticks.steal += 90;
    feed.push();
    feed.seconds(18, S, [0.5; 2], [0.0; 2]);
    let observed = feed.monitor.finish();
    assert!((observed.stolen_nodes_percent.unwrap() - 1.0).abs() < 1e-9, "20 of 2000 ticks: {observed:?}");
    assert!((observed.steal.unwrap().value - 9.0).abs() < 1e-9);
}

#[test]
fn a_node_is_owed_what_its_own_core_is() {
    let mut feed = Feed::on([0, 2], vec![1], 10.0);
    feed.monitor = monitor([0, 2], vec![1], 10.0);
    let mut work = CoreWork { at: feed.now.at, ..CoreWork::default() };
    feed.now.core_work = [(0, work), (2, work)].into();
    feed.push();
    // Core 2 is so slow that its node is owed 1.5 times its share, and gets its share.
    feed.step(10 * S, [1.0, 1.0], [0.0; 2]).nodes.iter_mut().for_each(|node| node.unused_ns = 88);
    work.at = feed.now.at;
    let owed = |times: f64| CoreWork { owed_ns: (times * 10.0 * S as f64) as u64, ..work };
    feed.now.core_work = [(0, owed(1.0)), (2, owed(1.5))].into();
    feed.push();
    let observed = feed.monitor.finish();
    assert!(near(&observed.entitlement, 100.0 / 1.5), "{:?}", observed.entitlement);
    assert_eq!(observed.entitlement.unwrap().whose.as_deref(), Some("client"));
    let of: Vec<_> = observed.nodes.iter().map(|n| (n.core, (n.busy * 1e3).round())).collect();
    assert_eq!((of, observed.nodes_cores), (vec![(0, 1000.0), (2, 667.0)], 2));
}

#[test]
fn of_several_cores_the_worst_is_told_by_its_number() {
    let mut feed = Feed::on([0, 2], vec![1, 3], 1.0);
    let hog = |s: u64| vec![thread(7, "loop", 2, s * S / 5, s * S / 2), thread(8, "quiet", 0, s, 0)];
    for s in 1..=10 {
        feed.now.foreign = hog(s);
        feed.step(S, [0.5; 2], [0.01, 0.0]);
        let others = (S as f64 * 0.2) as u64;
        // CPU time of the run's own process is booked on the harness's first core, wherever it was.
        feed.now.cores[1].run_ns += others;
        feed.now.cores[3].all_ns += others + S / 10;
        feed.now.cores[2].all_ns += others;
        feed.now.cores[2].ticks.total += 100;
        feed.now.cores[2].ticks.steal += 5;
        feed.push();
    }
    let observed = feed.monitor.finish();
    let whose = |seen: &Option<Occurrence>| seen.as_ref().and_then(|seen| seen.whose.clone()).unwrap_or_default();
    assert!(near(&observed.foreign_nodes, 20.0), "{:?}", observed.foreign_nodes);
    assert_eq!(whose(&observed.foreign_nodes), "loop (process 7) on core 2");
    assert_eq!(whose(&observed.wanted_nodes), "loop (process 7) on core 2");
    assert!((observed.foreign_nodes_percent.unwrap() - 20.0).abs() < 1e-6, "not that of core 0");
    assert!(near(&observed.foreign_harness, 5.0), "a tenth of one of two: {:?}", observed.foreign_harness);
    assert_eq!((whose(&observed.steal), observed.stolen_nodes_percent), ("core 2".into(), Some(5.0)));
}

#[test]
fn a_short_run_is_judged_as_a_whole_and_a_short_rest_is_not() {
    let mut short = Feed::new(1.0);
    short.seconds(2, S, [0.5; 2], [0.03, 0.0]);
    assert!(near(&short.monitor.finish().foreign_nodes, 3.0));
    let mut rest = Feed::new(1.0);
    rest.seconds(10, S, [0.5; 2], [0.0; 2]);
    rest.seconds(4, S, [0.5; 2], [0.9, 0.0]);
    assert!(near(&rest.monitor.finish().foreign_nodes, 0.0));
    assert_eq!(Feed::new(1.0).monitor.finish().foreign_nodes, None, "one snapshot has no interval");
    let nothing = Monitor::new(Tdf::ONE, RealInstant::ZERO, Vec::new(), vec![1]).finish();
    assert_eq!(nothing, Observations::default());
    assert_eq!(Feed::new(1.0).monitor.finish().stolen_nodes_percent, None);
}

#[test]
fn tcp_grows_from_t_zero_even_over_a_gap() {
    let mut feed = Feed::new(10.0);
    feed.seconds(1, 10 * S, [0.5; 2], [0.0; 2]);
    feed.step(10 * S, [0.5; 2], [0.0; 2]).nodes[0].tcp = None;
    feed.push();
    let tcp = TcpCounters { in_segs: 100, delayed_acks: 3, syn_retrans: 1, timeouts: 2, ..Default::default() };
    feed.step(10 * S, [0.5; 2], [0.0; 2]).nodes[0].tcp = Some(tcp);
    feed.push();
    let observed = feed.monitor.finish();
    assert_eq!(observed.tcp[0].grew, tcp);
    assert_eq!(observed.tcp[0].first_hard.map(|at| at.as_secs_f64()), Some(3.0));
    assert_eq!((observed.tcp[1].grew, observed.tcp[1].first_hard), (TcpCounters::default(), None));
    assert_eq!(observed.tcp[1].grew.waiting, None, "sockets are not listed");
}

#[test]
fn what_was_counted_before_t_zero_is_not_the_runs() {
    let mut feed = Feed::new(10.0);
    let client = &mut feed.step(10 * S, [0.5; 2], [0.0; 2]).nodes[1];
    (client.ring_drops, client.no_memory) = (client.ring_drops + 4, client.no_memory + 3);
    feed.push();
    let nodes = &mut feed.step(10 * S, [0.5; 2], [0.0; 2]).nodes;
    (nodes[0].ring_drops, nodes[1].ring_drops) = (nodes[0].ring_drops + 3, nodes[1].ring_drops + 2);
    feed.push();
    feed.step(10 * S, [0.5; 2], [0.0; 2]).nodes[0].ring_drops += 1;
    feed.push();
    let observed = feed.monitor.finish();
    assert_eq!((observed.ring_drops, observed.no_memory), (10, 3), "not those from before");
    let first = observed.first_ring_drop.unwrap();
    assert_eq!((first.whose.as_deref(), first.value), (Some("client"), 4.0));
    let most = observed.most_ring_drops.unwrap();
    assert_eq!((most.value, most.from.as_secs_f64(), most.to.as_secs_f64()), (5.0, 1.0, 2.0));
}

#[test]
fn meetings_with_waiting_senders_add_up() {
    let mut feed = Feed::new(10.0);
    for waiting in [1, 0, 2] {
        let now = feed.step(10 * S, [0.5; 2], [0.0; 2]);
        now.nodes[0].tcp = Some(TcpCounters { waiting: Some(waiting), ..Default::default() });
        now.looks = 4;
        feed.push();
    }
    let observed = feed.monitor.finish();
    assert_eq!((observed.tcp[0].grew.waiting, observed.looks), (Some(3), 12));
    assert_eq!(observed.looks_per_s(), 4.0);
    assert_eq!(observed.tcp[0].first_waiting.map(|at| at.as_secs_f64()), Some(1.0));
}

/// Ten real seconds at TDF 10 in which a server with four CPUs slept for this part, while its threads wanted so many of
/// them on average and had so many.
fn in_parallel(feed: &mut Feed, slept: f64, wanted: f64, had: f64) {
    feed.step(10 * S, [had / 4.0, 0.2], [0.0; 2]);
    let server = &mut feed.now.nodes[0];
    server.slept_ns += (slept * 10.0 * S as f64) as u64;
    let of_share = |cpus: f64| (10.0 * S as f64 * 0.5 * cpus / 4.0) as u64;
    server.unused_ns = server.unused_ns.saturating_sub(of_share(4.0 - had)) + of_share(4.0 - wanted);
    feed.push();
}

#[test]
fn threads_of_a_node_that_never_sleeps_have_the_cpus_that_they_want() {
    let mut feed = Feed::new(10.0);
    feed.monitor.nodes[0].cpus = 4;
    in_parallel(&mut feed, 0.0, 2.5, 2.5);
    in_parallel(&mut feed, 0.0, 1.0, 0.8);
    in_parallel(&mut feed, 0.5, 1.0, 3.0);
    in_parallel(&mut feed, 0.0, 4.0, 4.0);
    let seen = feed.monitor.finish().parallelism.unwrap();
    assert_eq!((seen.seconds, seen.wanted), (3, (1.0, 4)), "not the one in which it slept");
    assert!(near(&Some(seen.worst.clone()), 80.0) && near(&Some(seen.all.clone()), 100.0 * 7.3 / 7.5), "{seen:?}");
    assert_eq!(seen.worst.from.as_secs_f64(), 1.0);

    let mut feed = Feed::new(10.0);
    in_parallel(&mut feed, 0.0, 4.0, 4.0);
    assert_eq!(feed.monitor.finish().parallelism, None, "it has one CPU");
}

#[test]
fn threads_that_could_not_be_counted_are_told() {
    let mut feed = Feed::new(10.0);
    feed.monitor.nodes[0].cpus = 2;
    for uncounted in [3, 3, 8] {
        feed.step(10 * S, [0.1, 0.2], [0.0; 2]).nodes[0].uncounted = uncounted;
        feed.push();
    }
    assert_eq!(feed.monitor.finish().uncounted, Some((8, "server".into())));
}

#[test]
fn the_node_that_looks_furthest_ahead_is_told() {
    let mut feed = Feed::new(10.0);
    // A few looks are chance.
    for (count, few) in [(500, 0), (1_500, 40), (2_500, 99)] {
        let nodes = &mut feed.step(10 * S, [0.1, 0.2], [0.0; 2]).nodes;
        nodes[0].empty_looks = Looks { count, ahead_ns: 3_000 * count };
        nodes[1].empty_looks = Looks { count: few, ahead_ns: 9_000 * few };
        feed.push();
    }
    let spinning = feed.monitor.finish().spinning.unwrap();
    assert_eq!((spinning.node.as_str(), spinning.looks, spinning.ahead.as_nanos()), ("server", 2_500, 3_000));
}
