//! What the tests that run whole experiments share. They need root, two cores and crun or runc, as a run does.

#![allow(dead_code)] // Each test program uses a part of this.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fidelity::record::RunResult;
use rustix::fs::{FlockOperation, flock};

/// The program under test.
pub const DIORAMA: &str = env!("CARGO_BIN_EXE_diorama");

/// An experiment in a folder of its own, and the right to use the cores: runs of several tests must not meet, or all
/// but one of them would (rightly) be refused.
pub struct Lab {
    dir: tempfile::TempDir,
    _turn: File,
}

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
    run: [perl, -MIO::Socket::INET, -e, '$s = IO::Socket::INET->new(LocalPort => 7, Listen => 9, ReuseAddr => 1) or die; while ($c = $s->accept) { print $c scalar <$c>; close $c }']
    ready: { tcp: 7 }
  client:
    count: 2
    machine: client
    after: [server]
    run: [perl, -MIO::Socket::INET, -MTime::HiRes=time, -e, 'open L, ">/out/log"; for (1..5) { $t = time; $c = IO::Socket::INET->new("server:7") or die "no server: $!"; print $c "hello\n"; <$c> eq "hello\n" or die; printf L "%.6f %.6f\n", $t, time - $t } close L; print "done=5\n"']
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
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("lab")).unwrap();
        fs::write(dir.path().join("lab/experiment.yaml"), yaml).unwrap();
        Lab { dir, _turn: turn }
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
        let output = self.command(args).output().unwrap();
        Done::of(args, &output)
    }

    /// Starts `diorama ARGS`, its output going to a file.
    pub fn start(&self, args: &[&str]) -> Child {
        let log = File::create(self.path().join("started.log")).unwrap();
        self.command(args).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    /// What a started program has said.
    pub fn said(&self) -> String {
        fs::read_to_string(self.path().join("started.log")).unwrap_or_default()
    }

    /// `result.json` of `runs/NAME/VARIANT`.
    pub fn result(&self, run: &str) -> RunResult {
        RunResult::read(&self.path().join("runs").join(run)).unwrap()
    }

    /// A file of the lab.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// Waits until an event of a run has been recorded.
    pub fn wait_for_event(&self, run: &str, event: &str) {
        let path = self.path().join("runs").join(run).join("events.jsonl");
        let wanted = format!("\"event\":\"{event}\"");
        wait_until(&format!("event {event}"), Duration::from_secs(60), || {
            fs::read_to_string(&path).is_ok_and(|text| text.contains(&wanted))
        });
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

/// Waits until something is so.
pub fn wait_until(what: &str, limit: Duration, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !so() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Everything of runs that one can see on this machine: processes, mounts, interfaces, groups, state. Empty when nothing
/// has been left behind. `groups_too`: also what the next command removes after a run was killed.
pub fn left_behind(groups_too: bool) -> Vec<String> {
    let mut left = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let cmdline = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let cgroup = String::from_utf8_lossy(&read("cgroup")).into_owned();
        let ours = cmdline.contains(" __init") || cmdline.contains(" __fillers") || cgroup.contains("/diorama-");
        let zombie = String::from_utf8_lossy(&read("stat")).contains(") Z ");
        if ours && !zombie {
            left.push(format!("process {pid}: {cmdline}"));
        }
    }
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
            let known = |n: &String| !n.ends_with("/cores") && !n.ends_with("/lock");
            left.extend(names_in(Path::new(dir), "").filter(known).map(|n| format!("state {n}")));
        }
    }
    left
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
