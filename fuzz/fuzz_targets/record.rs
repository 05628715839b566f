//! Any bytes in the place of a run directory's files are read or refused.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use record::{Run, RunDir};

/// All files that are read again, the last of them the samples of a metric.
const FILES: [&str; 10] = [
    "result.json",
    "plan.json",
    "events.jsonl",
    "pipes.csv",
    "ports.csv",
    "metrics/pipes.csv",
    "speed.csv",
    "disks.csv",
    "packets.json",
    "metrics/latency.csv",
];

fuzz_target!(|bytes: &[u8]| {
    let dir = diorama_fuzz::scratch();
    fs::create_dir_all(dir.join("metrics")).expect("it can be made");
    // Samples beside a result, both of which may be anything, where there is such a line.
    let mark = b"\n# samples\n";
    let at = bytes.windows(mark.len()).position(|part| part == mark);
    let (bytes, samples) = at.map_or((bytes, bytes), |at| (&bytes[..at], &bytes[at + mark.len()..]));
    for name in FILES {
        let content = if name == "metrics/latency.csv" { samples } else { bytes };
        fs::write(dir.join(name), content).expect("it can be written");
    }
    let run = RunDir::at(dir);
    drop(run.result().map_err(|e| e.to_string()));
    drop(run.plan().map_err(|e| e.to_string()));
    drop(run.events().map_err(|e| e.to_string()));
    drop(run.pipe_totals().map_err(|e| e.to_string()));
    drop(run.port_totals().map_err(|e| e.to_string()));
    drop(run.pipe_intervals().map_err(|e| e.to_string()));
    drop(run.speed().map_err(|e| e.to_string()));
    drop(run.disks().map_err(|e| e.to_string()));
    drop(run.packets().map_err(|e| e.to_string()));
    drop(run.samples("latency").map_err(|e| e.to_string()));
    drop(Run::open(dir).map_err(|e| e.to_string()));
});
