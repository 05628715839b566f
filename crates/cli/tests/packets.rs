//! Packets, flow by flow: as many as a capture of the same run has, and told where two runs differ.

use std::collections::HashMap;
use std::fs::File;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::{Block, PcapNgReader};
use record::RunDir;

use crate::support::{Lab, left_behind};

/// Sixty answers of 20,000 bytes over a link that loses 2 % of all frames.
const ANSWERS: &str = r#"
name: answers
tdf: 4
machines: { m: { cpus: 1, speed: 0.3, memory: 64MiB } }
nodes:
  server:
    machine: m
    run: [perl, -MIO::Socket::INET, -e, '$s = IO::Socket::INET->new(LocalPort => 80, Listen => 9,
      ReuseAddr => 1) or die; while ($c = $s->accept) { <$c>; print $c "x" x 20000; close $c }']
    ready: { tcp: 80 }
  client:
    machine: m
    after: [server]
    observe: { packets: true }
    run: [perl, -MIO::Socket::INET, -MTime::HiRes=time, -e, 'open L, ">/out/log"; for (1..60) { $t = time;
      $c = IO::Socket::INET->new("server:80") or die "no server: $!"; print $c "hello\n"; local $/; $a = <$c>;
      length $a == 20000 or die length $a; close $c; printf L "%.6f %.6f\n", $t, time - $t } close L; sleep 1']
links:
  - { from: server, to: core, bandwidth: 100Mbit/s, delay: 1ms, capture: true }
  - { from: client, to: core, bandwidth: 10Mbit/s, delay: 5ms, loss: 2%, capture: true }
switches: [core]
metrics: { latency: { nodes: client, rows: /out/log, start: 1, value: 2, unit: s } }
ends: { exited: [client], limit: 120s }
"#;

/// Frames of TCP that entered a pipe, by a capture.
fn captured(lab: &Lab, run: &str, link: &str, interface: u32) -> Vec<EnhancedPacketBlock<'static>> {
    let path = lab.path().join(run).join(format!("captures/{link}.pcapng"));
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let mut found = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.unwrap().into_owned() {
            Block::EnhancedPacket(p) if p.interface_id == interface && p.data[12..14] == [8, 0] && p.data[23] == 6 => {
                found.push(p)
            }
            _ => (),
        }
    }
    found
}

fn dropped(frames: &[EnhancedPacketBlock]) -> u64 {
    let is_drop = |o: &EnhancedPacketOption| matches!(o, EnhancedPacketOption::Comment(c) if c.starts_with("dropped"));
    frames.iter().filter(|frame| frame.options.iter().any(is_drop)).count() as u64
}

/// Counts of one direction by hand: packets, bytes, bytes of data, segments that take a place in the stream, and those
/// that begin before the furthest byte that had been sent.
fn by_hand(frames: &[EnhancedPacketBlock]) -> [u64; 5] {
    let mut furthest: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut counts = [0; 5];
    for frame in frames {
        let number = |at: usize| u32::from(frame.data[at]) << 8 | u32::from(frame.data[at + 1]);
        let (ports, sequence) = (frame.data[34..38].to_vec(), number(38) << 16 | number(40));
        let (header, flags) = (u32::from(frame.data[46] >> 4) * 4, frame.data[47]);
        let payload = number(16) - 20 - header;
        let length = payload + u32::from(flags & 1) + u32::from(flags >> 1 & 1);
        counts[0] += 1;
        counts[1] += u64::from(frame.original_len);
        counts[2] += u64::from(payload);
        if length > 0 {
            counts[3] += 1;
            let (end, furthest) = (sequence.wrapping_add(length), furthest.entry(ports).or_insert(sequence));
            counts[4] += u64::from((furthest.wrapping_sub(sequence) as i32) > 0);
            if (end.wrapping_sub(*furthest) as i32) > 0 {
                *furthest = end;
            }
        }
    }
    counts
}

#[test]
fn as_much_is_counted_of_flows_as_a_capture_of_the_same_run_has() {
    let lab = Lab::new(ANSWERS);
    let run = lab.diorama(&["run", "lab"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let dir = "runs/answers/scaled";
    let seen = RunDir::at(lab.path().join(dir)).packets().unwrap().expect("they were observed");
    assert_eq!((seen.nodes.as_slice(), seen.missed, seen.others.packets), (&["client".to_owned()][..], 0, 0));
    let way = |asks| seen.ways.iter().find(|w| w.protocol == "tcp" && w.asks == asks).expect("a way of TCP");
    let (up, down) = (way(true), way(false));
    assert_eq!((up.from.as_str(), up.to.as_str(), up.server_port, up.flows), ("client", "server", Some(80), 60));
    // Where each enters the network, and what becomes of it on the client's link.
    let (sent_up, sent_down) = (captured(&lab, dir, "client--core", 0), captured(&lab, dir, "server--core", 0));
    let counted = [up, down].map(|way| {
        let c = &way.carried.counters;
        [c.packets, c.bytes, c.payload_bytes, c.segments, c.retransmissions]
    });
    assert_eq!(counted, [by_hand(&sent_up), by_hand(&sent_down)]);
    let last = captured(&lab, dir, "client--core", 1);
    assert_eq!(up.carried.counters.lost, dropped(&sent_up));
    assert_eq!(down.carried.counters.lost, dropped(&last));
    for (way, sent) in [(up, &sent_up), (down, &sent_down)] {
        let c = &way.carried.counters;
        assert_eq!(c.delivered, sent.len() as u64 - c.dropped());
        assert!(c.lost > 0 && c.delays == c.delivered && c.round_trips > 60 && c.out_of_order == 0, "{c:?}");
        let (delays, round_trips) = (way.carried.delays_ns.unwrap(), way.carried.round_trips_ns.unwrap());
        // 6 ms, and what 54 bytes and more take on both links.
        assert!((6_047_520..6_100_000).contains(&delays.least), "{delays:?}");
        assert!((12_095_000..12_500_000).contains(&round_trips.least), "{round_trips:?}");
    }
    // Senders repeat what was lost, and what they take to be so.
    assert!(down.carried.counters.retransmissions >= down.carried.counters.lost / 2, "{down:?}");
    assert_eq!(down.carried.counters.payload_bytes - down.carried.counters.retransmitted_bytes, 60 * 20_000);
    let events = lab.read(&format!("{dir}/events.jsonl"));
    assert!(events.contains("\"event\":\"packets\"") && events.contains("\"core_s\""), "{events}");
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn a_link_that_loses_more_is_found_and_named() {
    let lab = Lab::new(ANSWERS);
    let at_loss = |loss: &str, out: &str| {
        let loss = format!("links.1.loss={loss}");
        let run = lab.diorama(&["run", "lab", "--variant", "baseline", "--set", &loss, "--out", out]);
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    };
    at_loss("0%", "whole");
    at_loss("5%", "lossy");
    let told = lab.diorama(&["compare", "whole", "lossy", "--html", "page.html"]);
    assert_eq!(told.code, 0, "{}{}", told.stdout, told.stderr);
    let lines: Vec<&str> = told.stdout.lines().skip_while(|line| !line.contains(": network: tcp 80, ")).collect();
    let differs =
        |what: &str| lines.iter().any(|l| l.starts_with(&format!("  {what} ")) && l.contains("0.000 in whole"));
    assert!(lines[0].ends_with("it differs:"), "{}", told.stdout);
    assert!(differs("dropped") && differs("retransmissions"), "{}", told.stdout);
    assert!(lab.read("page.html").contains("<h2>Network"));
    let json = lab.diorama(&["compare", "whole", "lossy", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let way = &json["network"]["ways"][0];
    assert_eq!((way["protocol"].as_str(), way["server_port"].as_u64()), (Some("tcp"), Some(80)));
    assert_eq!(json["network"]["requests"][0], "latency");
    // A run is what it is beside itself, and one without packets says what would help.
    let alike = lab.diorama(&["compare", "whole", "whole"]).stdout;
    assert!(alike.contains("nothing differs by more than chance") && !alike.contains("it differs"), "{alike}");
    let run =
        lab.diorama(&["run", "lab", "--variant", "baseline", "--set", "nodes.client.observe={}", "--out", "blind"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let blind = lab.diorama(&["compare", "whole", "blind"]);
    assert!(
        blind.code == 0 && blind.stdout.contains("the packets of blind were not observed: write"),
        "{}",
        blind.stdout
    );
    let json = lab.diorama(&["compare", "whole", "blind", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["network"].is_null() && json["network_because"].as_str().unwrap().contains("observe"), "{json}");
    assert!(lab.diorama(&["compare", "blind", "blind"]).stdout.find("network:").is_none());
}
