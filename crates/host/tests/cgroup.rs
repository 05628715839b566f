//! Control groups of this very machine. Needs root, and version 1.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use diorama_host::cgroup::{self, Tree};
use diorama_host::foreign::Foreign;
use diorama_host::now;

fn tree(name: &str) -> Tree {
    Tree::of(&format!("test-host-{name}-{}", std::process::id())).expect("these tests need control groups")
}

/// A process in the group `inside`, which is made.
fn member(tree: &Tree, inside: &str) -> Child {
    tree.group(inside).create().expect("these tests need root");
    let joiner = tree.group(inside).process_joiner().unwrap();
    let mut command = Command::new("sleep");
    // SAFETY: between fork and exec this makes system calls on open files only.
    unsafe { command.arg("1000").pre_exec(move || joiner.join()) };
    command.spawn().unwrap()
}

#[test]
fn this_machine_can_hold_nodes() {
    let offers = cgroup::offers();
    assert_eq!((offers.no_shares, offers.no_nodes, offers.writable), (None, None, true), "the tests below need it");
}

#[test]
fn a_tree_is_found_and_swept_with_all_that_is_in_it() {
    let tree = tree("sweep");
    tree.sweep().expect("nothing to sweep is fine");
    assert_eq!(tree.remains(), Vec::<std::path::PathBuf>::new());
    let mut inside = member(&tree, "emu/web/c");
    assert!(tree.contains(inside.id()) && !tree.contains(std::process::id()));
    assert!(!tree.remains().is_empty());
    assert!(Tree::all().unwrap().iter().any(|t| t.id() == tree.id()));
    let foreign = Foreign::new(tree.clone(), Vec::new()).list(now());
    assert!(!foreign.is_empty() && foreign.iter().all(|t| t.pid != inside.id()), "a run's own process is not foreign");
    tree.sweep().unwrap();
    assert!(!inside.wait().unwrap().success(), "it was killed");
    assert!(tree.remains().is_empty() && Tree::all().unwrap().iter().all(|t| t.id() != tree.id()));
}

#[test]
fn a_tree_does_not_reach_into_another_whose_name_is_longer() {
    let (short, long) = (tree("n"), tree("n"));
    let long = Tree::of(&format!("{}0", long.id())).unwrap();
    let mut inside = member(&long, "c");
    assert!(!short.contains(inside.id()));
    short.sweep().unwrap();
    assert!(inside.try_wait().unwrap().is_none(), "it lives");
    long.sweep().unwrap();
    inside.wait().unwrap();
}

#[test]
fn what_a_group_uses_is_counted_where_it_is_used() {
    let tree = tree("usage");
    tree.group("busy").create().unwrap();
    let (group, counter) = (tree.group("busy"), tree.group("busy").usage().unwrap());
    let all = tree.group("").usage_by_core(0).unwrap();
    let joiner = group.thread_joiner().unwrap();
    let own = std::thread::spawn(move || {
        diorama_host::pin(0).unwrap();
        joiner.join().unwrap();
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {
            std::hint::black_box(0);
        }
        let threads = group.threads().unwrap();
        assert_eq!(threads.len(), 1, "this thread and not its process");
        diorama_host::sched::times_of(threads[0]).unwrap().ran.as_nanos()
    });
    let ran = own.join().unwrap();
    let (counted, by_core) = (counter.read().unwrap().as_nanos(), all.read().unwrap());
    assert!(counted > 0 && counted <= ran + 10_000_000, "{counted} of {ran} ns");
    assert!(by_core[0] >= counted && by_core[1..].iter().all(|ns| *ns == 0), "{by_core:?}");
    assert!(cgroup::usage_of_machine().unwrap().read().unwrap()[0] > by_core[0]);
    tree.sweep().unwrap();
}

#[test]
fn limits_are_taken_by_the_kernel() {
    let tree = tree("limits");
    let group = |inside: &str| tree.group(inside);
    ["a", "b", "tiny"].iter().for_each(|g| group(g).create().unwrap());
    cgroup::divide(&[(group("a"), 0.5), (group("b"), 0.0001)]).unwrap();
    group("").outweigh_the_rest(1).unwrap();
    group("tiny").make_negligible().unwrap();
    [0.9, 0.05, 0.0001].iter().for_each(|share| group("a").cap(*share).unwrap());
    let mut reschedule = group("b").forced_reschedule().unwrap();
    reschedule.now().and_then(|()| reschedule.now()).unwrap();
    assert!(group("missing").make_negligible().unwrap_err().to_string().contains("missing"), "the group is named");
    assert_eq!(cgroup::oom_kills(&tree.path("a")), 0);
    tree.sweep().unwrap();
}

#[test]
fn a_group_can_have_processors_for_itself() {
    let tree = tree("alone");
    let inside = member(&tree, "emu/c");
    let mut outside = Command::new("sleep").arg("1000").spawn().unwrap();
    let last = diorama_host::cores::usable().unwrap().pop().unwrap();
    let may = |child: &Child| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap();
        list.trim().to_owned()
    };
    let before = may(&outside);
    match tree.group("emu").take(&[last]) {
        Ok(partition) => {
            assert_eq!(partition.lost(), None);
            assert_eq!((may(&inside), tree.held()), (last.to_string(), Some(last.to_string())));
            assert!(!may(&outside).ends_with(&last.to_string()), "it is taken from all others: {}", may(&outside));
            assert!(diorama_host::pin(last).is_err(), "whatever they ask for");
        }
        // Version 1, an older kernel, or too few of them.
        Err(error) => {
            assert!(error.to_string().contains("cannot belong to"), "{error}");
            assert!(cgroup::offers().no_partitions.is_some() || diorama_host::cores::count() < 2, "{error}");
            assert_eq!((may(&outside), tree.held()), (before.clone(), None));
        }
    }
    tree.sweep().unwrap();
    assert_eq!((may(&outside), tree.held()), (before, None), "and given back");
    outside.kill().unwrap();
    outside.wait().unwrap();
    drop(inside);
}

#[test]
fn a_process_can_be_counted_in_a_group_without_its_weight() {
    let tree = tree("counted");
    tree.group("keeper").create().unwrap();
    let joiner = tree.group("keeper").accounting_joiner().unwrap();
    let mut command = Command::new("cat");
    // SAFETY: between fork and exec this makes system calls on open files only.
    unsafe { command.arg("/proc/self/cgroup").pre_exec(move || joiner.join()) };
    let groups = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let of = |controller: &str| {
        let mut lines = groups.lines().map(|l| l.splitn(3, ':').collect::<Vec<_>>());
        lines.find(|l| l[1].split(',').any(|c| c == controller)).expect("version 1")[2].to_owned()
    };
    assert_eq!(of("cpuacct"), tree.path("keeper"));
    assert_eq!(of("cpu"), "/", "{groups}");
    tree.sweep().unwrap();
}
