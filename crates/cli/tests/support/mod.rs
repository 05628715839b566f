//! Shared by tests that run whole experiments. They need root, two cores and crun or runc, as a run does.

#![allow(dead_code)] // Each test program uses a part of this.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use record::{RunDir, RunResult};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

/// The program under test.
pub const DIORAMA: &str = env!("CARGO_BIN_EXE_diorama");

/// How long a test waits for what must come. Generous: on a busy machine everything takes its time, and only a test
/// that fails waits so long.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// An experiment in a folder of its own, and the right to use the cores: runs of several tests must not meet, or all
/// but one of them would (rightly) be refused.
pub struct Lab {
    dir: tempfile::TempDir,
    started: Mutex<Vec<u32>>,
    _turn: File,
}

/// A test that fails must not leave a run behind, on whose core no other test can then run.
impl Drop for Lab {
    fn drop(&mut self) {
        let started = self.started.get_mut().unwrap_or_else(PoisonError::into_inner);
        for pid in started.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
            let program = format!("/proc/{}/exe", pid.as_raw_nonzero());
            let ours = || fs::read_link(&program).is_ok_and(|exe| exe == Path::new(DIORAMA));
            let end = Instant::now() + Duration::from_secs(20);
            while ours() && Instant::now() < end {
                let _ = kill_process(pid, Signal::TERM);
                std::thread::sleep(Duration::from_millis(500));
            }
        }
    }
}

/// The beginning of programs in C for [`Lab::compile`]: what most of them include, and the clock in us.
pub const NOW: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}
"#;

/// A server that answers each connection with one line, and clients that log how long each of 5 answers took.
pub const ECHO: &str = r#"
name: echo
tdf: 5
measure: 0s..30s
machines:
  server: { cpus: 1, speed: 0.4, memory: 128MiB }
  client: { cpus: 1, speed: 0.1, memory: 64MiB }
nodes:
  server:
    machine: server
    run: [perl, -MIO::Socket::INET, -e, '$s = IO::Socket::INET->new(LocalPort => 7, Listen => 9,
      ReuseAddr => 1) or die; while ($c = $s->accept) { print $c scalar <$c>; close $c }']
    ready: { tcp: 7 }
  client:
    count: 2
    machine: client
    after: [server]
    run: [perl, -MIO::Socket::INET, -MTime::HiRes=time, -e, 'open L, ">/out/log"; for (1..5) {
      $t = time; $c = IO::Socket::INET->new("server:7") or die "no server: $!"; print $c "hello\n";
      <$c> eq "hello\n" or die; printf L "%.6f %.6f\n", $t, time - $t } close L; print "done=5\n"']
links:
  - { from: server, to: core, bandwidth: 100Mbit/s, delay: 1ms }
  - { from: "client-*", to: core, bandwidth: 10Mbit/s, delay: 5ms }
switches: [core]
metrics:
  latency: { nodes: "client-*", rows: /out/log, start: 1, value: 2, unit: s }
  answers: { nodes: "client-*", line: 'done=(\d+)', from: stdout, combine: sum, unit: "1" }
ends: { exited: ["client-*"], limit: 60s }
"#;

impl Lab {
    /// Waits for its turn and writes the experiment.
    pub fn new(yaml: &str) -> Lab {
        let turn = File::create("/run/diorama-tests.lock").expect("these tests need root");
        flock(&turn, FlockOperation::LockExclusive).unwrap();
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = processes().collect();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("lab")).unwrap();
        fs::write(dir.path().join("lab/experiment.yaml"), yaml).unwrap();
        Lab { dir, started: Mutex::default(), _turn: turn }
    }

    /// The folder that everything is in; run directories are in `runs`.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `diorama ARGS` in the lab's folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(DIORAMA);
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// Runs `diorama ARGS` to its end.
    pub fn diorama(&self, args: &[&str]) -> Done {
        let child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        watch(child.id());
        Done::of(args, &child.wait_with_output().unwrap())
    }

    /// Starts `diorama ARGS`, its output going to a file.
    pub fn start(&self, args: &[&str]) -> Child {
        let log = File::create(self.path().join("started.log")).unwrap();
        let child = self.command(args).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(child.id());
        watch(child.id());
        child
    }

    /// The output of the started program.
    pub fn said(&self) -> String {
        fs::read_to_string(self.path().join("started.log")).unwrap_or_default()
    }

    /// `result.json` of `runs/NAME/VARIANT`.
    pub fn result(&self, run: &str) -> RunResult {
        RunDir::at(self.path().join("runs").join(run)).result().unwrap()
    }

    /// A file of the lab.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// Compiles a program in C, [`NOW`] and this, into a file of the experiment's folder.
    pub fn compile(&self, text: &str, program: &str, flags: &[&str]) {
        let source = self.path().join(format!("{program}.c"));
        fs::write(&source, [NOW, text].concat()).unwrap();
        compile(source, self.path().join("lab").join(program), flags);
    }

    /// Waits until an event of a run has been recorded.
    pub fn wait_for_event(&self, run: &str, event: &str) {
        let path = self.path().join("runs").join(run).join("events.jsonl");
        let wanted = format!("\"event\":\"{event}\"");
        let end = Instant::now() + PATIENCE;
        while !fs::read_to_string(&path).is_ok_and(|text| text.contains(&wanted)) {
            assert!(Instant::now() < end, "no event {event} within {PATIENCE:?}; the run said: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// How a command ended.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    fn of(args: &[&str], output: &Output) -> Done {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let done = Done {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        // Shown by the test harness only if the test fails.
        println!("diorama {}: {}\n{}{}", args.join(" "), done.code, done.stdout, done.stderr);
        done
    }
}

/// Has the calling test, and what it starts from now on, use the first two of its cores only: on these there is one run
/// at a time.
pub fn on_two_cores() {
    let mut set = rustix::thread::sched_getaffinity(None).unwrap();
    let all: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
    all.iter().skip(2).for_each(|core| set.unset(*core));
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

/// Compiles a program in C.
pub fn compile(source: impl AsRef<Path>, program: impl AsRef<Path>, flags: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(flags).arg("-o").arg(program.as_ref()).arg(source.as_ref());
    assert!(cc.status().expect("the tests need a C compiler: apt install gcc").success(), "{cc:?}");
}

/// A program that does away with its memory, in ways that it is told.
pub const EMPTIED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clock/tests/programs/emptied.c");

/// Waits until something is so.
pub fn wait_until(what: &str, limit: Duration, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !so() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Everything of runs that one can see on this machine: processes, namespaces (and with them the mounts and interfaces
/// that they hold), groups, state. Empty when nothing has been left behind. `groups_too`: also what the next command
/// removes after a run was killed.
pub fn left_behind(groups_too: bool) -> Vec<String> {
    let mut left = Vec::new();
    for pid in processes() {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let cmdline = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let cgroup = String::from_utf8_lossy(&read("cgroup")).into_owned();
        let ours = [" __init", " __keeper", " __disks"].iter().any(|verb| cmdline.contains(verb))
            || cgroup.contains("/diorama-");
        let zombie = state(pid).is_some_and(|(state, _)| state == 'Z');
        if ours && !zombie {
            left.push(format!("process {pid}: {cmdline}"));
        }
    }
    left.extend(surviving_namespaces());
    // Things made outside of the run's own namespaces, where they do not belong.
    let lines = |file: &str| fs::read_to_string(file).unwrap_or_default();
    left.extend(lines("/proc/mounts").lines().filter(|l| l.contains("diorama")).map(|l| format!("mount {l}")));
    let interfaces = lines("/proc/net/dev");
    left.extend(interfaces.lines().skip(2).filter_map(|l| {
        let name = l.split(':').next()?.trim();
        (name.starts_with("tap") || name.starts_with("eth0@")).then(|| format!("interface {name}"))
    }));
    if groups_too {
        for controller in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
            let of_a_run = |n: &String| n.rsplit_once("diorama-").is_some_and(|(_, id)| is_run_id(id));
            left.extend(names_in(&controller.path(), "diorama-").filter(of_a_run).map(|n| format!("group {n}")));
        }
        for dir in ["/run/diorama", "/var/lib/diorama"] {
            // Files kept from run to run: the claims', what is known of this machine, and its queue.
            let kept = ["/cores", "/lock", ".json", "/queue.db", "/queue.db.jobs", "/images"];
            let known = |n: &String| !kept.iter().any(|name| n.ends_with(name));
            left.extend(names_in(Path::new(dir), "").filter(known).map(|n| format!("state {n}")));
        }
    }
    left
}

/// Namespaces in which processes of the lab's commands were, or which they held, and which are not the test's own:
/// `net:[4026532179]`. They are those of one test, for only one has its turn.
static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The processes that there were when the test got its turn: what they start since is not the test's.
static BEFORE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Whether a process descends from one that there was before the test (and is neither the test nor the reaper of all
/// orphans). The kernel uses the numbers of namespaces again, also for those of others.
fn is_strange(pid: u32) -> bool {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut pid = pid;
    while pid > 1 && pid != std::process::id() {
        if before.contains(&pid) {
            return true;
        }
        let Some((_, parent)) = state(pid) else { return false };
        pid = parent;
    }
    false
}

/// Notes the namespaces of a command and all its descendants until it has ended: often at first, when they are made,
/// then seldom, so as to disturb little what the command measures.
fn watch(command: u32) {
    std::thread::spawn(move || {
        let ours: BTreeSet<String> = namespaces(std::process::id()).collect();
        let mut pause = Duration::from_millis(50);
        while state(command).is_some_and(|(state, _)| state != 'Z') {
            let found = family(command).into_iter().flat_map(namespaces).filter(|name| !ours.contains(name));
            let found: Vec<String> = found.collect();
            SEEN.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
            std::thread::sleep(pause);
            pause = (pause * 3 / 2).min(Duration::from_secs(1));
        }
    });
}

/// Those of [`SEEN`] that still exist, each with what keeps it. The others are forgotten, for the kernel may use their
/// numbers again.
fn surviving_namespaces() -> Vec<String> {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.is_empty() {
        return Vec::new();
    }
    let mut alive = BTreeMap::new();
    // A process that has ended and only waits for its parent to look keeps no more than the name.
    let lives = |pid: u32| state(pid).is_some_and(|(state, _)| state != 'Z');
    for pid in processes().filter(|pid| lives(*pid) && !is_strange(*pid)) {
        for name in namespaces(pid).filter(|name| seen.contains(name)) {
            alive.entry(name).or_insert_with(|| format!("of process {pid}"));
        }
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let mounted = mounts.lines().filter(|l| l.contains(" - nsfs ")).filter_map(|l| l.split(' ').nth(3));
        for name in mounted.filter(|name| seen.contains(*name)) {
            alive.entry(name.to_string()).or_insert_with(|| format!("mounted where process {pid} sees it"));
        }
    }
    seen.retain(|name| alive.contains_key(name));
    alive.into_iter().map(|(name, why)| format!("namespace {name} {why}")).collect()
}

/// The mount, network and PID namespaces that a process is in, or has a descriptor of.
fn namespaces(pid: u32) -> impl Iterator<Item = String> {
    let own = ["mnt", "net", "pid", "pid_for_children"].map(|name| PathBuf::from(format!("/proc/{pid}/ns/{name}")));
    let held = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let name = |path: PathBuf| fs::read_link(path).ok()?.into_os_string().into_string().ok();
    let names = own.into_iter().chain(held).filter_map(name);
    names.filter(|name| ["mnt:[", "net:[", "pid:["].iter().any(|kind| name.starts_with(kind)))
}

/// A process and all its descendants.
fn family(head: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = processes().filter_map(|pid| Some((pid, state(pid)?.1))).collect();
    let mut family = vec![head];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process's state (`Z` is a zombie) and its parent.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether this is what runs call themselves, and not something that another test made.
fn is_run_id(name: &str) -> bool {
    name.split('-').count() == 2 && name.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

fn names_in(dir: &Path, prefix: &'static str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(move |e| e.file_name().to_string_lossy().starts_with(prefix))
        .map(|e| e.path().to_string_lossy().into_owned())
}

/// A process that wants all of a core, until it is dropped.
pub struct Hog(Child);

impl Hog {
    /// Spins on `core`.
    pub fn on(core: usize) -> Hog {
        let core = core.to_string();
        Hog(Command::new("taskset").args(["-c", &core, "sh", "-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Hog {
    /// Has half of `core`, 30 ms at a time, and comes before everybody else there, the emulator included.
    pub fn in_real_time_on(core: usize) -> Hog {
        let core = core.to_string();
        let spin = "for (;;) { $t = time + 0.03; 1 while time < $t; select undef, undef, undef, 0.03 }";
        let run = ["-c", &core, "chrt", "--fifo", "97", "perl", "-MTime::HiRes=time", "-e", spin];
        Hog(Command::new("taskset").args(run).spawn().unwrap())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file system in memory with room for only `bytes`, until it is dropped.
pub struct TinyDisk(pub PathBuf);

impl TinyDisk {
    /// Mounts it on a new directory below `parent` and leaves only `free` bytes.
    pub fn with_free(parent: &Path, free: usize) -> TinyDisk {
        const ALL: usize = 1 << 20;
        let path = parent.join("tiny");
        fs::create_dir(&path).unwrap();
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tiny"]).arg(&path).status().unwrap();
        assert!(done.success());
        File::create(path.join(".ballast")).unwrap().write_all(&vec![1; ALL - free]).unwrap();
        TinyDisk(path)
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
