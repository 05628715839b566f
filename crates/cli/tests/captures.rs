//! Records of links.

use std::fs::File;
use std::path::Path;

use crate::support::{ECHO, Lab, TinyDisk, left_behind};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::{Block, PcapNgReader};

/// A packet's interface, date and bytes.
fn packets(path: &Path) -> Vec<EnhancedPacketBlock<'static>> {
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let mut found = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap().into_owned() {
            found.push(packet);
        }
    }
    found
}

/// The dates of the connections' first packets that enter an interface, in ns since 1970.
fn openings(packets: &[EnhancedPacketBlock], interface: u32) -> Vec<u64> {
    // Ethernet 14, IP 20, and the flags of TCP: SYN alone.
    let opens = |p: &&EnhancedPacketBlock| p.interface_id == interface && p.data[23] == 6 && p.data[47] & 0x12 == 0x02;
    packets.iter().filter(opens).map(|p| p.timestamp.as_nanos() as u64).collect()
}

#[test]
fn frames_bear_the_date_that_the_nodes_clocks_show() {
    let yaml = ECHO
        .replace("bandwidth: 10Mbit/s, delay: 5ms", "bandwidth: 10Mbit/s, delay: 5ms, capture: true")
        .replace("bandwidth: 100Mbit/s, delay: 1ms", "bandwidth: 100Mbit/s, delay: 1ms, capture: { snap: 60B }")
        .replace(
            "printf L \"%.6f %.6f\\n\", $t, time - $t",
            "printf L \"%.6f %.6f\\n\", $t, time - $t; printf \"%.6f %.6f\\n\", $t, time",
        );
    for (variant, tdf) in [("baseline", 1), ("scaled", 5)] {
        let lab = Lab::new(&yaml);
        let done = lab.diorama(&["run", "lab", "--variant", variant]);
        assert_eq!(done.code, 0);
        let run = lab.path().join("runs/echo").join(variant);
        let of_client = packets(&run.join("captures/client-1--core.pcapng"));
        let of_server = packets(&run.join("captures/server--core.pcapng"));
        assert!(done.stdout.contains(&format!("captures/client-1--core.pcapng: {} frames", of_client.len())));
        let log = lab.read(&format!("runs/echo/{variant}/nodes/client-1/stdout.log"));
        let spans: Vec<(f64, f64)> = log
            .lines()
            .filter_map(|l| l.split_once(' '))
            .map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()))
            .collect();
        let opened = openings(&of_client, 0);
        assert_eq!((spans.len(), opened.len()), (5, 5), "TDF {tdf}: {log}");
        for ((from, to), opened) in spans.iter().zip(&opened) {
            // The node prints whole microseconds.
            let at = *opened as f64 / 1e9;
            assert!((from - 1e-6..=to + 1e-6).contains(&at), "TDF {tdf}: opened at {at}, between {from} and {to}");
        }
        // From one link to the next it is the delay and the transmission of its 74 bytes, to the rounding of the two
        // times.
        let arrived = openings(&of_server, 1);
        let first = arrived.iter().map(|at| at.abs_diff(opened[0] + 5_059_200)).min();
        assert!(first.is_some_and(|off| off <= 2), "TDF {tdf}: opened at {opened:?}, came at {arrived:?}");
        assert!(of_server.iter().all(|p| p.data.len() <= 60) && of_server.iter().any(|p| p.original_len > 60));
        let events = lab.read(&format!("runs/echo/{variant}/events.jsonl"));
        assert_eq!(events.matches("\"event\":\"capture\"").count(), 3, "{events}");
        series_adds_up(&lab, variant);
    }
}

/// Every packet that `pipes.csv` counts is in one of the seconds of `metrics/pipes.csv`.
fn series_adds_up(lab: &Lab, variant: &str) {
    let rows = |file: &str| -> Vec<Vec<String>> {
        let text = lab.read(&format!("runs/echo/{variant}/{file}"));
        text.lines().skip(1).map(|l| l.split(',').map(str::to_owned).collect()).collect()
    };
    let (series, totals) = (rows("metrics/pipes.csv"), rows("pipes.csv"));
    let number = |text: &String| text.parse::<f64>().unwrap();
    for total in &totals {
        let of_pipe: Vec<_> = series.iter().filter(|r| r[2] == total[0]).collect();
        for (place, what) in ["packets", "bytes"].into_iter().enumerate() {
            let sum: f64 = of_pipe.iter().map(|r| number(&r[6 + place])).sum();
            assert_eq!(sum, number(&total[1 + place]), "{what} of {}", total[0]);
        }
        for row in of_pipe {
            let (from, to, used) = (number(&row[0]), number(&row[1]), number(&row[3]));
            assert!(from.fract() == 0.0 && to - from <= 1.0 && (0.0..=1.0).contains(&used), "{row:?}");
        }
    }
    assert!(totals.iter().any(|t| number(&t[1]) > 0.0));
}

#[test]
fn a_capture_that_fills_the_disk_fails_the_run_with_its_name() {
    let lab = Lab::new(
        r#"
name: echo
tdf: 1
machines: { m: { speed: 0.4, memory: 64MiB } }
nodes:
  sink: { machine: m, run: sleep 60 }
  source:
    machine: m
    run: [perl, -MIO::Socket::INET, -e, '$s = IO::Socket::INET->new(Proto => "udp", PeerAddr => "sink",
      PeerPort => 9) or die; for ($end = time + 20; time < $end;) { $s->send("x" x 1400) }']
links: [{ from: source, to: sink, bandwidth: 100Mbit/s, capture: true }]
ends: { exited: [source], limit: 30s }
"#,
    );
    let disk = TinyDisk::with_free(lab.path(), 600 << 10);
    let out = disk.0.join("out");
    let done = lab.diorama(&["run", "lab", "--variant", "baseline", "--out", out.to_str().unwrap()]);
    assert_eq!(done.code, 1);
    let named = out.join("captures/source--sink.pcapng: cannot write");
    assert!(done.stderr.contains(named.to_str().unwrap()) && done.stderr.contains("No space left"), "{}", done.stderr);
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

/// 20 datagrams at gaps of 20 to 96 ms.
const SENDS: &str = r#"
name: sends
tdf: 2
machines: { pc: { speed: 0.3, memory: 64MiB } }
nodes:
  b: { machine: pc, run: [perl, -MIO::Socket::INET, -e,
    '$s = IO::Socket::INET->new(Proto => "udp", LocalPort => 9) or die; $s->recv($d, 99) for 1..20'] }
  a: { machine: pc, after: [b], run: [perl, -MIO::Socket::INET, -MTime::HiRes=sleep, -e, 'sleep 0.3;
    $s = IO::Socket::INET->new(Proto => "udp", PeerAddr => "b:9") or die;
    for (1..20) { $s->send("n$_"); sleep 0.02 + 0.004 * $_ }'] }
links: [{ from: a, to: b, bandwidth: 10Mbit/s, delay: 2ms, capture: true }]
ends: { exited: [a, b], limit: 30s }
"#;

#[test]
fn a_capture_is_replayed_at_virtual_times() {
    let gaps = |lab: &Lab, run: &str| -> Vec<f64> {
        let packets = packets(&lab.path().join(format!("runs/{run}/captures/a--b.pcapng")));
        // UDP to port 9, as it enters the link.
        let told = |p: &&EnhancedPacketBlock| {
            p.interface_id == 0 && p.data.get(23) == Some(&17) && p.data.get(36..38) == Some(&[0, 9])
        };
        let dates: Vec<f64> = packets.iter().filter(told).map(|p| p.timestamp.as_secs_f64()).collect();
        dates.windows(2).map(|w| w[1] - w[0]).collect()
    };
    let lab = Lab::new(SENDS);
    assert_eq!(lab.diorama(&["run", "lab", "--variant", "baseline"]).code, 0);
    let sent = gaps(&lab, "sends/baseline");
    assert_eq!(sent.len(), 19);
    std::fs::copy(lab.path().join("runs/sends/baseline/captures/a--b.pcapng"), lab.path().join("lab/seen.pcapng"))
        .unwrap();
    let (from, to) = (SENDS.find("  a: {").unwrap(), SENDS.find("links:").unwrap());
    let replays = "  a: { machine: pc, after: [b], files: { /seen.pcapng: seen.pcapng },\n    \
                   run: [sh, -c, 'sleep 0.3; exec tcpreplay --intf1=eth0 /seen.pcapng'] }\n";
    let text = [&SENDS[..from], replays, &SENDS[to..]].concat();
    std::fs::write(lab.path().join("lab/experiment.yaml"), text).unwrap();
    assert_eq!(lab.diorama(&["run", "lab"]).code, 0);
    let replayed = gaps(&lab, "sends/scaled");
    let off = |(one, other): (&f64, &f64)| (one - other).abs();
    let worst = sent.iter().zip(&replayed).map(off).fold(0.0, f64::max);
    assert!(replayed.len() == 19 && worst < 0.01, "{worst}: {sent:?} {replayed:?}");
}
