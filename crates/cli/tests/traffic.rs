//! Flows of packets between nodes, and what starts, stops and changes them.

use std::time::Duration;

use crate::support::{Lab, PATIENCE, left_behind, wait_until};
use record::Status;

const FLOWS: &str = r#"
name: flows
tdf: 5
machines: { pc: { speed: 0.3, memory: 64MiB } }
nodes:
  a: { machine: pc, run: [sleep, infinity] }
  b: { machine: pc, run: [sleep, infinity] }
links: [{ from: a, to: b, bandwidth: 4Mbit/s, delay: 5ms, queue: 50 }]
traffic:
  video: { from: a, to: b, kind: cbr, rate: 800kbit/s, packet: 500B }
  bulk: { from: a, to: b, kind: ftp, start: 2.4s, stop: 4.6s }
  keys: { from: b, to: a, kind: telnet, interval: 20ms, start: event }
  beside: { from: b, to: a, kind: cbr, rate: 400kbit/s, packet: 500B, background: true }
  never: { from: b, to: a, kind: pareto, rate: 1Mbit/s, start: event }
events:
  - { at: 4.7s, flow: video, change: { rate: 1.6Mbit/s } }
ends: { limit: 7s }
"#;

/// The rows that a node of the run wrote, `(virtual s, value)`.
fn rows(lab: &Lab, metric: &str) -> Vec<(f64, f64)> {
    let text = lab.read(&format!("runs/flows/scaled/metrics/{metric}.csv"));
    let number = |text: &str| text.parse::<f64>().unwrap();
    let row = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    text.lines().skip(1).map(row).map(|row| (number(&row[0]), number(&row[1]))).collect()
}

/// Whether rows are so many in the mean, and none is far off: what a busy machine holds up at the end of one second is
/// in the next.
fn as_asked(rows: &[f64], expected: f64, percent: f64) -> bool {
    let mean = rows.iter().sum::<f64>() / rows.len() as f64;
    !rows.is_empty() && near(mean, expected, percent) && rows.iter().all(|v| near(*v, expected, 3.0))
}

fn near(value: f64, expected: f64, percent: f64) -> bool {
    (value / expected - 1.0).abs() * 100.0 <= percent
}

#[test]
fn flows_send_what_they_say_in_virtual_time() {
    let lab = Lab::new(FLOWS);
    let mut started = lab.start(&["run", "lab"]);
    lab.wait_for_event("flows/scaled", "all-ready");
    let event = |text: &str| lab.diorama(&["event", "flows", text]);
    assert_eq!(event("flow: keys, do: start").code, 0);
    assert_eq!(event("flow: beside, change: { rate: 800kbit/s }").code, 0);
    for (wrong, part) in [
        ("flow: nobody, do: stop", "there is no flow `nobody`"),
        ("flow: keys, do: kill", "is started or stopped"),
        ("flow: keys, change: { rate: 1Mbit/s, shape: 2 }", "`shape` belongs to `pareto`"),
    ] {
        let done = event(wrong);
        assert!(done.code == 2 && done.stderr.contains(part), "`{wrong}`: {} {}", done.code, done.stderr);
    }
    let end = PATIENCE + Duration::from_secs(35);
    wait_until("the run ends", end, || started.try_wait().unwrap().is_some());
    assert_eq!(started.wait().unwrap().code(), Some(0), "{}", lab.said());
    let result = lab.result("flows/scaled");
    assert_eq!(result.status, Status::Ok);
    assert!(!result.metrics.contains_key("never-rate"), "{:?}", result.metrics.keys());

    // Alone on the link: 200 packets a second, within half a percent, sent and received.
    for metric in ["video-sent", "video-packets"] {
        let alone: Vec<f64> = rows(&lab, metric).into_iter().filter(|(at, _)| *at < 1.3).map(|(_, v)| v).collect();
        assert_eq!(alone.len(), 2, "{metric}: {:?}", rows(&lab, metric));
        assert!(as_asked(&alone, 200.0, 0.5), "{metric}: {alone:?}");
    }
    let rate = rows(&lab, "video-rate");
    assert!(as_asked(&[rate[0].1, rate[1].1], 800e3, 0.5), "{rate:?}");
    // 5 ms, and 528 bytes at 4 Mbit/s; what programs and kernel take comes on top, and is shown by virtual clocks.
    let delay = rows(&lab, "video-delay")[0].1;
    assert!((6.05..30.0).contains(&delay), "{delay} ms; by real clocks it would be five times as much");
    // TCP takes what is left, with 66 bytes of headers for 1448 of data; it must find that first.
    let bulk = rows(&lab, "bulk-rate");
    let left = (4e6 - 800e3 * 542.0 / 500.0) * 1448.0 / 1514.0;
    assert!(bulk.iter().all(|(_, v)| (0.6 * left..1.05 * left).contains(v)), "{bulk:?} of {left}");
    let waiting = rows(&lab, "bulk-delay")[0].1;
    assert!(waiting > 2.0 * delay, "what fills a queue waits in it: {waiting} ms, after {delay} ms");
    // Twice as much, from the change on.
    let changed: Vec<f64> = rows(&lab, "video-sent").into_iter().filter(|(at, _)| *at > 4.7).map(|(_, v)| v).collect();
    assert!(as_asked(&changed, 400.0, 1.0), "{changed:?}");
    // Only in the emulator: exactly what is asked, with what a frame of 542 bytes takes of 4 Mbit/s and the delay.
    let beside = rows(&lab, "beside-packets");
    let later: Vec<f64> = beside.iter().skip(2).map(|(_, v)| *v).collect();
    assert!(later.len() >= 3 && as_asked(&later, 200.0, 0.5), "{beside:?}");
    // Never sooner; how much later is the emulator's lateness, which a run counts and judges by itself.
    let took = rows(&lab, "beside-delay");
    assert!(took.iter().all(|(_, ms)| (6.084..12.0).contains(ms)), "{took:?}; by real clocks it would be 30 ms");
    // Started by hand.
    let keys = &result.metrics["keys-packets"].summary;
    assert!(keys.n >= 3 && (30.0..75.0).contains(&keys.mean), "{keys:?}");
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

const WAITS: &str = r#"
name: waits
tdf: 2
machines: { pc: { speed: 0.2, memory: 64MiB } }
nodes:
  hub: { machine: pc, run: [sh, -c, 'sleep 1; /.diorama/barrier -n go -i 2; echo "$? $(date +%s.%N)"'] }
  early: { machine: pc, run: [sh, -c, '/usr/local/etc/emulab/emulab-sync -n go; echo "$? $(date +%s.%N)"'] }
  late: { machine: pc, run: [sh, -c, 'sleep 1.5; /.diorama/barrier -n go -e 4; echo "$? $(date +%s.%N)"'] }
  wrong: { machine: pc, run: [sh, -c, '/.diorama/barrier -z; echo "$?"'] }
lans: { core: { members: [hub, early, late, wrong], delay: 1ms } }
barriers: hub
ends: { exited: [early, late, wrong], limit: 60s }
"#;

#[test]
fn nodes_wait_for_one_another_at_barriers() {
    let lab = Lab::new(WAITS);
    let done = lab.diorama(&["run", "lab"]);
    assert_eq!(done.code, 0);
    let log = |node: &str, stream: &str| lab.read(&format!("runs/waits/scaled/nodes/{node}/{stream}.log"));
    let went = ["hub", "early", "late"].map(|node| {
        let text = log(node, "stdout");
        let (code, at) = text.trim().split_once(' ').unwrap_or_else(|| panic!("{node}: {text}"));
        // The greatest code that anybody had to report.
        assert_eq!(code, "4", "{node}");
        at.parse::<f64>().unwrap()
    });
    let (first, last) = (went.iter().copied().fold(f64::INFINITY, f64::min), went.iter().copied().fold(0.0, f64::max));
    assert!(last - first < 0.3, "{went:?}");
    assert_eq!(log("wrong", "stdout").trim(), "255");
    assert!(log("wrong", "stderr").contains("there is no option `-z`"), "{}", log("wrong", "stderr"));
}
