//! Nodes with several CPUs, as the programs in them see these.

use std::path::Path;
use std::process::Command;

use crate::support::{Lab, compile};
use record::{CheckName, Variant};

const CPUS: u32 = 4;

/// How programs of several languages count CPUs; each is on every machine on which these tests run.
const COUNTS: &str = r#"
nproc
getconf _NPROCESSORS_ONLN
getconf _NPROCESSORS_CONF
grep -c ^processor /proc/cpuinfo
python3 -c 'import os; print(os.cpu_count()); print(len(os.sched_getaffinity(0)))'
perl -ne 'END { print "$n\n" } $n++ if /^cpu\d/' /proc/stat
node -e 'console.log(require("os").cpus().length)'
/srv/counts
"#;

fn built(program: &mut Command) {
    let status = program.status().unwrap_or_else(|e| panic!("{program:?}: {e}"));
    assert!(status.success(), "{program:?}");
}

#[test]
fn programs_count_the_cpus_of_their_node() {
    let yaml = format!(
        "name: counts\ntdf: 4\nmachines: {{ m: {{ cpus: {CPUS}, speed: 0.5, memory: 512MiB }} }}\nnodes:\n\
         \x20 a: {{ machine: m, run: sh /srv/all, files: {{ /srv/all: all, /srv/counts: counts }} }}\n\
         ends: {{ exited: [a], limit: 60s }}\n"
    );
    let lab = Lab::new(&yaml);
    std::fs::write(lab.path().join("lab/all"), COUNTS).unwrap();
    let source = lab.path().join("counts.go");
    let text = "package main\nimport \"runtime\"\n\
                func main() { print(runtime.NumCPU(), \"\\n\", runtime.GOMAXPROCS(0), \"\\n\") }";
    std::fs::write(&source, text).unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(lab.path().join("lab/counts")).arg(&source);
    built(go.envs([("CGO_ENABLED", "0"), ("GO111MODULE", "off"), ("GOFLAGS", "")]));
    let done = lab.diorama(&["run", "lab"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let said = |stream: &str| lab.read(&format!("runs/counts/scaled/nodes/a/{stream}.log"));
    // Go's `print` goes to standard error.
    let counts: Vec<String> = [said("stdout"), said("stderr")].concat().lines().map(str::to_owned).collect();
    assert_eq!(counts, vec![CPUS.to_string(); 10]);
}

#[test]
fn cpu_clocks_go_as_many_times_as_fast_as_the_clock_as_cpus_work() {
    let yaml = format!(
        "name: clocks\ntdf: 4\ncpu: time\nmachines: {{ m: {{ cpus: {CPUS}, speed: 0.4, memory: 128MiB }} }}\nnodes:\n\
         \x20 a: {{ machine: m, run: /srv/cpus {CPUS}, files: {{ /srv/cpus: cpus }} }}\n\
         ends: {{ exited: [a], limit: 60s }}\n"
    );
    let lab = Lab::new(&yaml);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/cpus.c");
    compile(source, lab.path().join("lab/cpus"), &["-O1", "-static", "-pthread"]);
    let done = lab.diorama(&["run", "lab"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let said = lab.read("runs/clocks/scaled/nodes/a/stdout.log");
    let lines: Vec<&str> = said.lines().collect();
    let (last, lines) = lines.split_last().unwrap();
    // Each thread was on one CPU for as long as it ran, and no number was that of none.
    assert_eq!(*last, "wrong 0");
    let mut alone = None;
    for line in lines {
        let words: Vec<f64> =
            line.split(' ').map(|word| word.parse().unwrap_or_else(|e| panic!("{line}: {e}"))).collect();
        let (threads, ratios) = words.split_first().unwrap();
        // One thread is the reference for more of them: what this machine's core does meanwhile is the same for all.
        let alone: &f64 = alone.get_or_insert(ratios[0]);
        for ratio in ratios {
            let times = ratio / alone / threads.min(CPUS.into());
            assert!((0.85..1.15).contains(&times), "{line}: one thread alone, {alone}");
        }
    }
    assert_eq!(lines.len(), 4, "{said}");
}

/// A node with a core to itself.
const NATIVE: &str = "name: alone\ntdf: 4\nmachines: { m: { cpus: 1, speed: 1, memory: 128MiB } }\nnodes:\n\
                      \x20 a: { machine: m, run: sh /srv/all, files: { /srv/all: all } }\n\
                      ends: { exited: [a], limit: 60s }\n";

#[test]
fn a_native_node_has_a_whole_core_and_the_kernels_clock() {
    let lab = Lab::new(NATIVE);
    let script = "taskset -pc $$; nproc; grep -c ^processor /proc/cpuinfo; cut -d' ' -f1 /proc/uptime\n\
                  cat /proc/self/maps | grep -c diorama || true\n";
    std::fs::write(lab.path().join("lab/all"), script).unwrap();
    let up = || std::fs::read_to_string("/proc/uptime").unwrap().split('.').next().unwrap().parse::<i64>().unwrap();
    let before = up();
    let done = lab.diorama(&["run", "lab", "--variant", "native"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let plan: serde_json::Value = serde_json::from_str(&lab.read("runs/alone/native/plan.json")).unwrap();
    let node = &plan["nodes"]["a"];
    let core = node["core"].as_u64().unwrap();
    assert_eq!((&node["whole_cores"], plan["timeslice"].is_null()), (&serde_json::json!([core]), true));
    let said = lab.read("runs/alone/native/nodes/a/stdout.log");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].ends_with(&format!("list: {core}")), "{said}");
    assert_eq!((lines[1], lines[2]), ("1", "1"));
    let shown: i64 = lines[3].split('.').next().unwrap().parse().unwrap();
    assert!((before..=up()).contains(&shown), "not the kernel's clock: {before}, {said}");
    assert_eq!(lines[4], "0", "nothing is injected");
    let result = lab.result("alone/native");
    assert_eq!((result.variant, result.tdf.to_string()), (Variant::Native, "1".into()));
    let lead = result.fidelity.check(CheckName::ClockLead).unwrap();
    assert!(lead.says.starts_with("Nodes have cores of their own"), "{lead:?}");
}

#[test]
fn a_native_run_that_no_machine_could_hold_is_refused_with_what_would_do() {
    let checked = |from: &str, to: &str| {
        let lab = Lab::new(&NATIVE.replace(from, to));
        std::fs::write(lab.path().join("lab/all"), "true\n").unwrap();
        lab.diorama(&["check", "lab", "--variant", "native"])
    };
    let few = checked("cpus: 1", "cpus: 256");
    assert_eq!(few.code, 2, "{}", few.stderr);
    assert!(few.stderr.contains("needs a whole core for each CPU of its nodes, 256 in all"), "{}", few.stderr);
    let fast = checked("speed: 1,", "speed: 1.5,");
    assert!(fast.code == 2 && fast.stderr.contains("lower its machine's speed to 1 or less"), "{}", fast.stderr);
    let slow = checked("speed: 1,", "speed: 0.5,");
    assert!(slow.code == 0 && slow.stdout.contains("CFS quota of 50%"), "{}{}", slow.stdout, slow.stderr);
}
