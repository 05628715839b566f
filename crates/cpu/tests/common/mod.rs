//! Limits around threads of the test itself.
#![allow(dead_code, reason = "each test file uses its part")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, mpsc};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use diorama_cpu::{CpuGroups, NodeShare, NodeUse, Policy, Terms};
use host::cgroup::Tree;

/// The core that all tests put their nodes on: one test at a time, see [`alone`].
pub const CORE: usize = 0;

static CORE_IN_USE: Mutex<()> = Mutex::new(());

/// Waits until no other test of this program uses the core.
pub fn alone() -> MutexGuard<'static, ()> {
    CORE_IN_USE.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// A run id that no other test has.
pub fn run_id() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The example program of this crate, which `cargo test` builds.
pub fn limited() -> PathBuf {
    let target =
        std::env::current_exe().expect("own path").parent().and_then(|d| d.parent()).expect("target").to_owned();
    let program = target.join("examples/limited");
    assert!(program.exists(), "{} is missing: run `cargo test`, which builds it", program.display());
    program
}

/// Nodes `n0`, `n1`, … with these shares, not yet under limits.
pub fn create(run_id: &str, shares: &[f64], policy: Policy) -> CpuGroups {
    create_on(run_id, shares, policy, Terms::default())
}

fn create_on(run_id: &str, shares: &[f64], policy: Policy, terms: Terms) -> CpuGroups {
    let node = |(i, &share): (usize, &f64)| NodeShare::new(named(i), CORE, share);
    let shares: Vec<_> = shares.iter().enumerate().map(node).collect();
    CpuGroups::create(run_id, &shares, policy, terms).expect("root and control groups are needed for this test")
}

/// Starts the keeper as the engine would.
pub fn keeper(groups: &CpuGroups) -> Option<Child> {
    groups.keeper().map(|command| {
        let mut named = Command::new(limited());
        named.args(command.get_args()).stdin(Stdio::piped()).stdout(Stdio::piped());
        named.spawn().expect("the keeper")
    })
}

/// Nodes under limits.
pub fn engaged(shares: &[f64], policy: Policy) -> CpuGroups {
    let mut groups = create(&run_id(), shares, policy);
    let keeper = keeper(&groups);
    groups.engage(keeper).expect("limits");
    groups
}

/// Nodes under limits on these terms, and the id of their run.
pub fn engaged_on(shares: &[f64], terms: Terms) -> (String, CpuGroups) {
    let id = run_id();
    let mut groups = create_on(&id, shares, Policy::Slots, terms);
    let keeper = keeper(&groups);
    groups.engage(keeper).expect("limits");
    (id, groups)
}

/// The name of the `i`-th node.
pub fn named(i: usize) -> String {
    format!("n{i}")
}

/// These nodes under limits, in always-runnable groups.
pub fn engage(run_id: &str, shares: &[NodeShare], terms: Terms) -> CpuGroups {
    let mut groups = CpuGroups::create(run_id, shares, Policy::Slots, terms).expect("root and control groups");
    let keeper = keeper(&groups);
    groups.engage(keeper).expect("limits");
    groups
}

/// Runs `then` while each of the nodes `busy` has a thread that never stops computing.
pub fn while_busy<T>(groups: &mut CpuGroups, busy: &[usize], then: impl FnOnce(&mut CpuGroups) -> T) -> T {
    let stop = &AtomicBool::new(false);
    scope(|threads| {
        for node in busy {
            let (ready, inside) = mpsc::channel();
            let shared = &*groups;
            let name = named(*node);
            // The thread needs the groups only to get in.
            let joiner = shared.joiner(&name).expect("a joiner");
            threads.spawn(move || {
                joiner.join().expect("joined");
                ready.send(()).expect("told");
                let mut n = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    n = std::hint::black_box(n + 1);
                }
            });
            inside.recv().expect("the thread entered its group");
        }
        until_over(stop, || then(groups))
    })
}

/// Runs `then`, and stops others after it: a test that fails must end, too.
pub fn until_over<T>(stop: &AtomicBool, then: impl FnOnce() -> T) -> T {
    let result = catch_unwind(AssertUnwindSafe(then));
    stop.store(true, Ordering::Relaxed);
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Works and sleeps for a while, in turns, until it is stopped.
pub fn come_and_go(stop: &AtomicBool, work: impl Fn(), rests: Duration) {
    while !stop.load(Ordering::Relaxed) {
        work();
        sleep(rests);
    }
}

/// Computes until a time has passed, whether it had the core or not.
pub fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {}
}

/// Measures nodes in the next `window`, as fractions of the core: (its programs, left unused).
pub fn used(groups: &mut CpuGroups, window: Duration) -> Vec<(f64, f64)> {
    // The scheduler's averages follow a change within some tens of milliseconds.
    sleep(Duration::from_millis(200));
    used_at_once(groups, window)
}

/// Measures at once, where nothing has changed for a while.
pub fn used_at_once(groups: &mut CpuGroups, window: Duration) -> Vec<(f64, f64)> {
    let before = groups.sample().expect("sample");
    sleep(window);
    let after = groups.sample().expect("sample");
    let rate = |a: &NodeUse, b: &NodeUse| {
        let wall = b.at.since(a.at).as_nanos() as f64;
        ((b.container_ns - a.container_ns) as f64 / wall, (b.unused_ns - a.unused_ns) as f64 / wall)
    };
    before.nodes.iter().zip(&after.nodes).map(|(a, b)| rate(a, b)).collect()
}

/// The directories of a run that exist, in every hierarchy.
pub fn left_behind(run_id: &str) -> Vec<PathBuf> {
    Tree::of(run_id).expect("control groups").remains()
}
