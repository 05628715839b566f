//! A whole run directory: what is written can be read, and the documentation has every file.

use std::fs;
use std::path::{Path, PathBuf};

use diorama_record::{
    Counters, Event, LogStream, NodeLogs, PipeInterval, PipeTotals, PortTotals, RunDir, Sample, SpeedInterval,
};

/// Everything that a run leaves, of one node `NAME`, one metric `NAME` and one link `A--B`.
fn written(path: &Path) -> RunDir {
    let dir = RunDir::prepare(path, ["NAME"]).unwrap();
    for (file, text) in
        [("result.json", include_str!("golden/result.json")), ("plan.json", include_str!("golden/plan.json"))]
    {
        fs::write(path.join(file), text).unwrap();
    }
    dir.write_experiment("name: golden\n").unwrap();
    let event =
        Event { virtual_s: Some(0.0), real_s: 0.0, event: "zero".into(), target: None, detail: Default::default() };
    dir.event_log().unwrap().write(&event).unwrap();
    let mut logs = NodeLogs::make(&dir, "NAME", 0).unwrap();
    logs.write(LogStream::Stdout, b"a line\n").unwrap();
    let sample = Sample { virtual_s: Some(1.0), value: 2.0, node: "NAME".into() };
    dir.write_samples("NAME", &[sample]).unwrap();
    let counters = Counters::new(&["packets"], [7]);
    let pipe = String::from("A--B/ab");
    dir.write_pipe_totals(&["packets"], &[PipeTotals { pipe: pipe.clone(), counters: counters.clone() }]).unwrap();
    let port = PortTotals { node: "NAME".into(), interface: "eth0".into(), counters: counters.clone() };
    dir.write_port_totals(&["packets"], &[port]).unwrap();
    let mut log = dir.pipe_interval_log(&["packets"]).unwrap();
    let (from_s, to_s, utilisation) = (0.0, 1.0, Some(0.5));
    log.add(&PipeInterval { from_s, to_s, pipe, utilisation, queue_mean: 1.0, queue_max: 3, counters }).unwrap();
    log.flush().unwrap();
    let mut log = dir.speed_log().unwrap();
    let (units_per_us, percent_of_reference) = (Some(800.0), Some(80.0));
    log.add(&SpeedInterval { virtual_s: 0.0, core: 0, units_per_us, percent_of_reference, k: 1.25, capped: 0.0 })
        .unwrap();
    log.flush().unwrap();
    dir.write_packets(Default::default()).unwrap();
    dir.make_captures().unwrap();
    fs::write(path.join(RunDir::capture_file("A--B")), "").unwrap();
    dir.write_report("<!DOCTYPE html>").unwrap();
    dir
}

/// The files below a directory, relative to it.
fn files(root: &Path, below: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(below)).unwrap().map(|entry| entry.unwrap());
    let found = entries.flat_map(|entry| {
        let path = below.join(entry.file_name());
        if entry.path().is_dir() { files(root, &path) } else { vec![path] }
    });
    found.collect()
}

#[test]
fn what_a_run_leaves_can_be_read() {
    let temp = tempfile::tempdir().unwrap();
    let dir = written(temp.path());
    assert_eq!((dir.result().unwrap().nodes.len(), dir.plan().unwrap().unwrap().nodes.len()), (2, 2));
    assert_eq!((dir.events().unwrap().len(), dir.samples("NAME").unwrap().len()), (1, 1));
    assert_eq!(dir.pipe_totals().unwrap()[0].counters.get("packets"), Some(7));
    assert_eq!(dir.port_totals().unwrap()[0].counters.get("packets"), Some(7));
    assert_eq!(dir.pipe_intervals().unwrap()[0].queue_max, 3);
    assert_eq!(dir.speed().unwrap()[0].k, 1.25);
    assert!(dir.has_logs() && dir.log("NAME", LogStream::Stderr).is_file());
    assert_eq!(dir.logged_nodes().unwrap(), ["NAME"]);
}

#[test]
fn the_documentation_has_every_file_and_every_column() {
    let page = include_str!("../../../docs/run-directory.md");
    let temp = tempfile::tempdir().unwrap();
    written(temp.path());
    let files = files(temp.path(), Path::new(""));
    assert_eq!(files.len(), 14, "{files:?}");
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap();
        let named = [file.to_str().unwrap(), name].iter().any(|name| page.contains(&format!("`{name}`")));
        assert!(named, "docs/run-directory.md does not say what {} is", file.display());
        if file.extension().is_some_and(|e| e == "csv") {
            let text = fs::read_to_string(temp.path().join(&file)).unwrap();
            for column in text.lines().next().unwrap().split(',').filter(|column| *column != "packets") {
                assert!(page.contains(&format!("`{column}`")), "{}: no word on the column {column}", file.display());
            }
        }
    }
}

#[test]
fn packets_are_read_as_they_were_written_and_another_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::prepare(dir.path().join("run"), []).unwrap();
    assert_eq!(run.packets().unwrap(), None);
    let golden = include_str!("golden/packets.json");
    let path = run.path().join("packets.json");
    fs::write(&path, golden).unwrap();
    let packets = run.packets().unwrap().unwrap();
    let way = &packets.ways[0];
    assert_eq!((way.flows, way.carried.counters.packets, way.carried.counters.lost), (1, 8, 0));
    assert_eq!((way.intervals[0].bytes, way.intervals[1].bytes), (540, 0));
    run.write_packets(packets.clone()).unwrap();
    assert_eq!(run.packets().unwrap(), Some(packets));
    fs::write(&path, golden.replace("\"version\":1", "\"version\":9")).unwrap();
    let refused = run.packets().unwrap_err().to_string();
    assert!(refused.contains("packets.json") && refused.contains("version 9") && refused.contains("run it again"));
}
