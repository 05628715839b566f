//! Run directories in which nothing is as it was written.

#[path = "../../model/tests/mutations/mod.rs"]
mod mutations;

use diorama_record::{Run, RunDir};

#[test]
fn any_file_of_a_run_is_read_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("metrics")).unwrap();
    let inputs = mutations::files("tests/golden", &[".json", ".csv", ".jsonl"]);
    assert!(inputs.len() >= 2);
    mutations::fuzz("record", &inputs, |bytes| {
        for name in ["result.json", "plan.json", "events.jsonl", "packets.json", "metrics/latency.csv"] {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let run = RunDir::at(dir.path());
        drop(run.plan().map_err(|e| e.to_string()));
        drop(run.packets().map_err(|e| e.to_string()));
        drop(Run::open(dir.path()).map_err(|e| e.to_string()));
    });
}
