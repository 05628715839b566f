//! Nothing stays: no process that burns the core, no group.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{CORE, alone, create, keeper, left_behind, limited, run_id};
use diorama_cpu::{CpuGroups, NodeShare, Policy, Terms};
use host::cgroup::Tree;

/// How long a test waits for what must come, which may take its time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The processes of this machine that have `word` among their arguments.
fn processes(word: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|e| fs::read_to_string(e.path().join("cmdline")).ok());
    lines.filter(|line| line.split('\0').any(|arg| arg == word)).collect()
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} within {PATIENCE:?}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn release_ends_the_keeper_and_removes_groups() {
    let _alone = alone();
    let id = run_id();
    let mut groups = create(&id, &[0.1, 0.1], Policy::Slots);
    let keeper = keeper(&groups);
    groups.engage(keeper).unwrap();
    assert_eq!(processes(&id).len(), 1, "the keeper");
    assert!(!left_behind(&id).is_empty());
    groups.release().unwrap();
    assert_eq!(processes(&id), Vec::<String>::new());
    assert!(left_behind(&id).is_empty(), "{:?}", left_behind(&id));
}

#[test]
fn a_killed_parent_takes_the_keeper_along_and_the_sweep_does_the_rest() {
    let _alone = alone();
    let id = run_id();
    let mut parent = Command::new(limited())
        .args(["hold", &id, &CORE.to_string(), "0.1", "0.2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "engaged\n");
    // A process that a node left running.
    let tree = Tree::of(&id).unwrap();
    let joiner = tree.group("emu/node-n0/c").process_joiner().unwrap();
    let mut orphan = Command::new("sleep");
    // SAFETY: between fork and exec this makes system calls on open files only.
    unsafe { orphan.arg("1000").pre_exec(move || joiner.join()) };
    let mut orphan = orphan.spawn().unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("the keeper dies with its parent", || processes(&id).is_empty());
    assert!(!left_behind(&id).is_empty(), "groups are not removed by dying");
    tree.sweep().unwrap();
    assert!(left_behind(&id).is_empty(), "{:?}", left_behind(&id));
    assert!(!orphan.wait().unwrap().success(), "it was killed for its membership");
    tree.sweep().expect("nothing to sweep is fine");
}

/// In each group the kernel has files of its own: in version 1 one called `tasks`.
#[test]
fn nodes_may_be_called_as_the_kernel_calls_its_files() {
    let _alone = alone();
    let id = run_id();
    let names = ["tasks", "cgroup.procs", "notify_on_release", "cpu.stat", "cpu.shares", "c", "emu"];
    let share = |(n, name): (usize, &&str)| NodeShare::new(*name, CORE, 0.1 / (n + 1) as f64);
    let shares: Vec<_> = names.iter().enumerate().map(share).collect();
    let groups = CpuGroups::create(&id, &shares, Policy::Slots, Terms::default()).unwrap();
    let paths: Vec<_> = names.iter().map(|name| groups.container_path(name)).collect();
    assert!(paths.iter().zip(names).all(|(path, name)| path.ends_with(&format!("/node-{name}/c"))), "{paths:?}");
    drop(groups);
    Tree::of(&id).unwrap().sweep().unwrap();
    assert!(left_behind(&id).is_empty(), "{:?}", left_behind(&id));
}

#[test]
fn a_burner_that_dies_is_noticed() {
    let _alone = alone();
    let id = run_id();
    let mut groups = create(&id, &[0.1], Policy::Slots);
    let keeper = keeper(&groups);
    groups.engage(keeper).unwrap();
    groups.sample().expect("all is well");
    let burner = Tree::of(&id).unwrap().group("emu/_slack").threads().unwrap()[0];
    // SAFETY: sends a signal to the burner that this test started.
    unsafe { libc::kill(burner as i32, libc::SIGKILL) };
    wait_until("a dead burner is an error", || groups.sample().is_err());
}
