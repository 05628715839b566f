//! Small forms of the experiments after DieCast's evaluation: a few nodes, some virtual seconds. They start, end and
//! measure. Needs root, two cores and crun or runc, as every run does, and what `scripts/setup --evaluation` installs.

use std::path::Path;

use crate::support::{Lab, left_behind};
use record::RunResult;

/// Runs an experiment of the repository at TDF 2, with these changes.
fn small(name: &str, changes: &[&str]) -> RunResult {
    small_in(&Lab::new(""), name, changes)
}

fn small_in(lab: &Lab, name: &str, changes: &[&str]) -> RunResult {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(name);
    let mut words = vec!["run", folder.to_str().unwrap(), "--tdf", "2"];
    for change in changes {
        words.extend(["--set", change]);
    }
    let done = lab.diorama(&words);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(left_behind(true), Vec::<String>::new());
    lab.result(&format!("{name}/scaled"))
}

/// How many samples a metric has, and their mean.
fn seen(result: &RunResult, metric: &str) -> (usize, f64) {
    let summary = &result.metrics[metric];
    (summary.summary.n, summary.summary.mean)
}

#[test]
fn a_file_reaches_all_clients_of_bittorrent() {
    let result = small(
        "bittorrent",
        &[
            "nodes.tracker.run=python3 /srv/tracker.py 500000 4",
            "nodes.seeder.run=bash /srv/get 500000",
            "nodes.left.count=2",
            "nodes.right.count=2",
            "machines.peer.speed=0.15",
            "machines.tracker.speed=0.3",
        ],
    );
    let (clients, mean) = seen(&result, "download");
    assert_eq!((clients, seen(&result, "download-left").0, seen(&result, "download-right").0), (4, 2, 2));
    // 500 kB take 0.4 s through a link of 10 Mbit/s.
    assert!(mean > 400.0, "{mean} ms");
}

#[test]
fn all_requests_of_isaac_are_answered_though_databases_go_away() {
    let result = small(
        "isaac",
        &[
            "nodes.client.run=/usr/bin/python3 /srv/client.py usual 2 3 0.3",
            "nodes.client.count=2",
            "lead=40ms",
            "machines.database.speed=0.12",
            "machines.application.speed=0.11",
            "machines.front.speed=0.05",
            "machines.client.speed=0.06",
            "machines.balancer.speed=0.06",
            "events.0.when.after=300ms",
            "events.0.for=1s",
            "events.1.when.after=300ms",
            "events.1.for=1s",
        ],
    );
    let (requests, whole) = seen(&result, "response");
    assert_eq!(requests, 12);
    let tiers: f64 = ["front", "application", "database"].map(|tier| seen(&result, tier).1).iter().sum();
    // The rest of a response is the way to the tiers, and the client's own work.
    assert!(tiers < whole && tiers > 0.5 * whole, "{tiers} of {whole} ms");
    assert_eq!(seen(&result, "completed").0, 12);
}

#[test]
fn users_of_the_auction_are_answered_and_counted() {
    let result = small(
        "auction",
        &[
            "nodes.load.run=/usr/bin/python3 /srv/load.py 0.5 1 2",
            "nodes.load.env.SESSIONS=3",
            "lead=30ms",
            "machines.database.speed=0.25",
            "machines.web.speed=0.12",
            "machines.load.speed=0.08",
        ],
    );
    let (requests, _) = seen(&result, "response");
    let (_, throughput) = seen(&result, "throughput");
    assert!(requests > 4, "{requests} requests");
    // Requests that were answered in the two seconds that count.
    assert!((throughput - requests as f64 / 2.0).abs() < 0.01, "{throughput} a second, {requests} requests");
}

#[test]
fn ranks_of_an_mpi_program_compute_together() {
    let result = small("mpi", &["nodes.leader.env.TURNS=3", "machines.rank.speed=0.35"]);
    for (metric, times) in [("ring", 3), ("sum-8", 3), ("sum-8192", 3), ("sum-262144", 3), ("step", 6)] {
        let (seen, mean) = seen(&result, metric);
        assert_eq!(seen, times, "{metric}");
        // Around the ring are four ways of 1 ms, and ranks have no sum before they have heard from two others.
        assert!(mean > if metric == "ring" { 4.0 } else { 1.0 }, "{metric}: {mean} ms");
    }
}

#[test]
fn programs_with_four_workers_are_faster_on_four_cpus() {
    let run = "nodes.server.run=python3 /srv/work.py 1 zstd,mutex-1,mutex-50 1,4";
    let metric = |name: String| format!("{name}: {{ nodes: server, rows: /out/{name}, start: 1, value: 2, unit: s }}");
    let names = ["zstd", "mutex-1", "mutex-50"].iter().flat_map(|name| ["1", "4"].map(|n| format!("{name}-{n}")));
    let metrics = format!("metrics={{ {} }}", names.map(metric).collect::<Vec<_>>().join(", "));
    let result = small("speed-up", &[run, &metrics]);
    let times = |program: &str| {
        let [(1, alone), (1, four)] = ["1", "4"].map(|workers| seen(&result, &format!("{program}-{workers}"))) else {
            panic!("{:?}", result.metrics);
        };
        alone / four
    };
    // Half of the work of the last is done by one thread at a time: it can be twice as fast at best.
    let [zstd, free, half] = ["zstd", "mutex-1", "mutex-50"].map(times);
    assert!(zstd > 2.0 && free > 3.0 && free < 4.4 && half < 2.2, "{zstd:.2}, {free:.2} and {half:.2} times");
}

#[test]
fn etcd_answers_under_faults_and_leaves_a_history() {
    let found = std::process::Command::new("etcd").arg("--version").output();
    assert!(found.is_ok(), "this test needs etcd: apt install etcd-server (make test does)");
    let lab = Lab::new("");
    // Faults of a second, one after the other, from when members have found a leader.
    let chaos = "chaos={ seed: 1, nodes: 'etcd-*', quiet: { begin: 4s, end: 20s }, faults: { \
                 partition: { every: 1s, for: 1s }, speed: { every: 1s, for: 1s, factor: 0.5 }, \
                 clock: { every: 1s, for: 1s, offset: 5s } } }";
    let client = "nodes.client.run=[python3, /srv/register.py, '8', etcd-1, etcd-2, etcd-3]";
    let result = small_in(&lab, "etcd-faults", &[client, chaos, "ends.limit=30s"]);
    let log = lab.read("runs/etcd-faults/scaled/nodes/client/stdout.log");
    let answered = log.lines().filter(|line| line.starts_with('{') && line.contains("\"to\"")).count();
    assert!(answered > 50 && seen(&result, "done").1 > 50.0, "{answered}: {log}");
    let events = lab.read("runs/etcd-faults/scaled/events.jsonl");
    for fault in ["partition", "speed", "clock"] {
        assert!(events.contains(&format!("\"event\":\"{fault}\"")), "{events}");
    }
}
