//! Where the kernel has its control groups, and what it calls their files: the only file of Diorama that knows.
//!
//! Version 1, also beside version 2 (hybrid); and version 2 where it has the controllers. There, one hierarchy counts
//! and divides, and a group passes on to those below it what is switched on in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags};
use scale::RealDuration;

use super::{Layout, Offers, scope};
use crate::error::{Context, Error, Lack};
use crate::mounts::{self, Mounted};

/// Where a program in a node finds the groups that it is in.
pub const NODE_VIEW: &str = "/sys/fs/cgroup";
/// How a user sees whether a group of version 1 leaves any time to real-time threads.
pub const REAL_TIME_BUDGET: &str = "cat /sys/fs/cgroup/cpu/cpu.rt_runtime_us";

/// Who is in a group, by process; in both versions.
pub(super) const MEMBERS: &str = "cgroup.procs";
const IDLE: &str = "cpu.idle";
const USAGE_BY_CORE: &str = "cpuacct.usage_percpu";
/// In version 2: what the root or a group has, and what it passes on.
const OFFERED: &str = "cgroup.controllers";
const PASSED_ON: &str = "cgroup.subtree_control";
/// On a tree of version 2, an extended attribute: what the root passed on before there was any tree. What it passes on
/// beyond that is switched off with the last one: the OCI runtime switches on more than nodes need.
const PASSED_ON_BEFORE: &str = "user.diorama.passed_on_before";

/// What a node needs of version 1.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuacct", "cpuset", "devices", "memory", "pids"];
/// The same of version 2, which counts CPU time anyhow and has programs for devices.
const CONTROLLERS_2: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// What a version calls its files, and within which bounds its weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    First,
    Second,
}

impl Version {
    /// Who is in a group, by thread.
    fn threads(self) -> &'static str {
        match self {
            Version::First => "tasks",
            Version::Second => "cgroup.threads",
        }
    }

    fn weight(self) -> &'static str {
        match self {
            Version::First => "cpu.shares",
            Version::Second => "cpu.weight",
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Version::First => "cpuacct.usage",
            Version::Second => "cpu.stat",
        }
    }

    /// The kernel's bounds on weights.
    fn weights(self) -> [u64; 2] {
        match self {
            Version::First => [2, 262_144],
            Version::Second => [1, 10_000],
        }
    }

    /// The weight of a whole core, with some room for more: fractions are as exact as can be.
    fn of_core(self) -> f64 {
        match self {
            Version::First => 200_000.0,
            Version::Second => 9_000.0,
        }
    }

    /// That of a hundred ordinary tasks.
    fn outweighing(self) -> u64 {
        match self {
            Version::First => 102_400,
            Version::Second => 10_000,
        }
    }

    /// The weight of a group with this fraction of a core.
    fn weight_of(self, fraction: f64) -> u64 {
        let [least, most] = self.weights();
        ((fraction * self.of_core()).round() as u64).clamp(least, most)
    }
}

/// The smallest quota that the kernel accepts (`min_cfs_quota_period`).
const MIN_QUOTA: Duration = Duration::from_millis(1);

/// Where the hierarchies are mounted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hierarchies {
    /// The one with the `cpu` controller.
    cpu: PathBuf,
    /// The one with `cpuacct`; often the same.
    cpuacct: PathBuf,
    version: Version,
    /// Whether systemd owns them, and is to be asked for a part.
    scoped: bool,
    /// Every one, that of version 2 too.
    all: Vec<PathBuf>,
}

impl Hierarchies {
    /// Finds the hierarchies that this process sees.
    pub(super) fn discover() -> Result<Hierarchies, Error> {
        Hierarchies::among(&mounts::all()?).map_err(Error::Machine)
    }

    fn among(mounts: &[Mounted]) -> Result<Hierarchies, Lack> {
        let mut all: Vec<PathBuf> = Vec::new();
        for mounted in mounts.iter().filter(|m| is_v1(m) || is_v2(m)) {
            if !all.contains(&mounted.point) {
                all.push(mounted.point.clone());
            }
        }
        match (place_of(mounts, "cpu"), place_of(mounts, "cpuacct")) {
            (Some(cpu), Some(cpuacct)) => Ok(Hierarchies { cpu, cpuacct, version: Version::First, scoped: false, all }),
            _ => match mounts.iter().find(|m| is_v2(m)) {
                Some(root) if CONTROLLERS_2.iter().all(|controller| place_of(mounts, controller).is_none()) => {
                    let root = root.point.clone();
                    let version = Version::Second;
                    Ok(Hierarchies { cpu: root.clone(), cpuacct: root, version, scoped: scope::systemd_runs(), all })
                }
                _ => Err(no_controllers()),
            },
        }
    }

    /// What the names of trees end with.
    pub(super) fn suffix(&self) -> &'static str {
        if self.scoped { scope::SUFFIX } else { "" }
    }

    pub(super) fn all(&self) -> &[PathBuf] {
        &self.all
    }

    /// Where the group at `path` is, or would be, in every hierarchy.
    pub(super) fn places(&self, path: &str) -> Vec<PathBuf> {
        self.all.iter().map(|root| root.join(path.trim_start_matches('/'))).collect()
    }

    /// The group at `path` (such as `/diorama-x/emu/web-1/c`), which need not exist. `/` is the root.
    pub(super) fn group(&self, path: &str) -> Group {
        let inside = path.trim_start_matches('/');
        let root = self.cpu.clone();
        let (version, scoped) = (self.version, self.scoped);
        Group { cpu: self.cpu.join(inside), cpuacct: self.cpuacct.join(inside), version, scoped, root }
    }
}

fn is_v1(mounted: &Mounted) -> bool {
    mounted.kind == "cgroup"
}

fn is_v2(mounted: &Mounted) -> bool {
    mounted.kind == "cgroup2"
}

/// Where a controller of version 1 is mounted.
fn place_of(mounts: &[Mounted], controller: &str) -> Option<PathBuf> {
    let mut v1 = mounts.iter().filter(|m| is_v1(m));
    v1.find(|m| m.options.split(',').any(|o| o == controller)).map(|m| m.point.clone())
}

fn no_controllers() -> Lack {
    Lack::new(
        "neither the cgroup v1 controllers `cpu` and `cpuacct` nor cgroup v2 alone are mounted",
        format!("`mount -t cgroup2 none {NODE_VIEW}`, or in a container run it with `--privileged --cgroupns=host`"),
    )
}

/// Which of `wanted` a file such as `cgroup.controllers` does not list.
fn not_among<'a>(wanted: &[&'a str], listed: &str) -> Vec<&'a str> {
    wanted.iter().copied().filter(|c| listed.split_whitespace().all(|l| l != *c)).collect()
}

/// See [`super::offers`].
pub(super) fn offers() -> Offers {
    let mounts = mounts::all().unwrap_or_default();
    let layout = match (mounts.iter().any(is_v1), mounts.iter().any(is_v2)) {
        (false, false) => Layout::None,
        (false, true) => Layout::V2,
        (true, false) => Layout::V1,
        (true, true) => Layout::Hybrid,
    };
    let root = Hierarchies::among(&mounts).map(|hierarchies| hierarchies.group("/"));
    let second = root.as_ref().is_ok_and(|root| root.version == Version::Second);
    let offered = root.as_ref().ok().filter(|_| second).map(|root| root.cpu.join(OFFERED));
    let offered = offered.map(|file| fs::read_to_string(file).unwrap_or_default());
    let missing: Vec<_> = match &offered {
        Some(offered) => not_among(&CONTROLLERS_2, offered),
        None => CONTROLLERS.into_iter().filter(|c| place_of(&mounts, c).is_none()).collect(),
    };
    let no_cpu = offered.is_some() && missing.contains(&"cpu");
    let no_shares = root.as_ref().err().cloned().or_else(|| no_cpu.then(|| not_passed_on(&missing)));
    let no_nodes = match (&no_shares, missing.as_slice()) {
        (Some(lack), _) => Some(lack.clone()),
        (None, []) => None,
        (None, missing) if second => Some(not_passed_on(missing)),
        (None, missing) => Some(Lack::new(
            format!("controllers of control groups are not mounted: {}", missing.join(", ")),
            format!("`mount -t cgroup -o NAME cgroup {NODE_VIEW}/NAME` for each"),
        )),
    };
    Offers {
        layout,
        no_shares,
        no_nodes,
        writable: root.as_ref().is_ok_and(Group::is_writable),
        // The root of version 2 has no such file itself; groups below it have it from the same kernel on.
        idle: root.is_ok_and(|root| root.cpu.join(IDLE).exists()) || (second && kernel_at_least(5, 15)),
    }
}

fn not_passed_on(missing: &[&str]) -> Lack {
    Lack::new(
        format!("control groups (version 2) here lack the controllers {}", missing.join(", ")),
        format!("see `cat {NODE_VIEW}/{OFFERED}`: a container needs `--privileged --cgroupns=host`"),
    )
}

fn kernel_at_least(major: u32, minor: u32) -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|running| running >= (major, minor))
}

/// One group, by the same path in the hierarchies that count and divide CPU time.
#[derive(Clone, Debug)]
pub struct Group {
    cpu: PathBuf,
    cpuacct: PathBuf,
    version: Version,
    scoped: bool,
    /// Of the hierarchy that divides CPU time.
    root: PathBuf,
}

impl Group {
    /// Makes the group and the ones above it; it is fine if they exist.
    pub fn create(&self) -> Result<(), Error> {
        let tree = self.cpu.strip_prefix(&self.root).ok().and_then(|inside| inside.iter().next());
        let new = tree.map(|tree| self.root.join(tree)).filter(|top| self.version == Version::Second && !top.exists());
        if let Some(top) = new.as_ref().filter(|_| self.scoped) {
            scope::start(top)?;
        }
        for dir in [&self.cpu, &self.cpuacct] {
            fs::create_dir_all(dir).map_err(|source| match source.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::Machine(Lack::new(
                    format!("cannot make the control group {}: {source}", dir.display()),
                    "run as root, outside any container",
                )),
                _ => Error::file("make the control group", dir, source),
            })?;
        }
        match self.version {
            Version::First => Ok(()),
            Version::Second => {
                new.map_or(Ok(()), |top| note_first(&self.root, &top))?;
                self.pass_on()
            }
        }
    }

    /// Version 2: switches on, in all groups above this one, what nodes need.
    fn pass_on(&self) -> Result<(), Error> {
        let inside: Vec<_> = self.cpu.strip_prefix(&self.root).into_iter().flat_map(Path::iter).collect();
        let mut above = self.root.clone();
        for name in inside {
            let passed_on = above.join(PASSED_ON);
            let listed = fs::read_to_string(&passed_on).map_err(|e| Error::file("read", &passed_on, e))?;
            let missing = not_among(&CONTROLLERS_2, &listed);
            if !missing.is_empty() {
                let switch = missing.iter().map(|c| format!("+{c}")).collect::<Vec<_>>().join(" ");
                fs::write(&passed_on, &switch).map_err(|source| match source.raw_os_error() {
                    Some(libc::EBUSY | libc::EACCES | libc::EPERM | libc::EROFS | libc::ENOENT) => {
                        let what = format!("cannot pass {} on in {}: {source}", missing.join(", "), above.display());
                        let help = "run on the host itself, or in a container with `--privileged --cgroupns=host`";
                        Error::Machine(Lack::new(what, help))
                    }
                    _ => Error::file("write to", &passed_on, source),
                })?;
            }
            above.push(name);
        }
        Ok(())
    }

    /// See [`super::divide`].
    pub(super) fn set_fraction(&self, fraction: f64) -> Result<(), Error> {
        self.set_weight(self.version.weight_of(fraction))
    }

    /// Gives the group, against everything else on a core, the weight of a hundred ordinary tasks. One that has tasks
    /// on so many `cores` divides its weight among them: as much as the kernel allows of that on each.
    pub fn outweigh_the_rest(&self, cores: usize) -> Result<(), Error> {
        let [_, most] = self.version.weights();
        self.set_weight((self.version.outweighing() * cores.max(1) as u64).min(most))
    }

    /// Leaves the group, which always has something to run, next to nothing beside its siblings.
    pub fn make_negligible(&self) -> Result<(), Error> {
        self.set_weight(self.version.weights()[0])
    }

    fn set_weight(&self, weight: u64) -> Result<(), Error> {
        write(&self.cpu.join(self.version.weight()), &weight.to_string())
    }

    /// Makes the group yield to any sibling that can run (Linux 5.15).
    pub fn make_idle(&self) -> Result<(), Error> {
        write(&self.cpu.join(IDLE), "1")
    }

    /// Caps the group at `share` of a core, in the shortest period from 10 ms up whose quota the kernel accepts. At
    /// least a thousandth of a core.
    pub fn cap(&self, share: f64) -> Result<(), Error> {
        let (quota, period) = quota(share);
        if self.version == Version::Second {
            return write(&self.cpu.join("cpu.max"), &format!("{} {}", quota.as_micros(), period.as_micros()));
        }
        write(&self.cpu.join("cpu.cfs_period_us"), &period.as_micros().to_string())?;
        write(&self.cpu.join("cpu.cfs_quota_us"), &quota.as_micros().to_string())
    }

    /// Whether this process can make groups below this one.
    fn is_writable(&self) -> bool {
        let may_write = |dir: &PathBuf| accessat(CWD, dir, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
        [&self.cpu, &self.cpuacct].into_iter().all(may_write)
    }

    /// For a process that is to be in the group with all its threads and children.
    pub fn process_joiner(&self) -> Result<Joiner, Error> {
        self.joiner(MEMBERS)
    }

    /// For a single thread that is to be in the group, wherever the rest of its process is. In version 2 all of its
    /// process comes along ([`Group::holds_threads`]).
    pub fn thread_joiner(&self) -> Result<Joiner, Error> {
        match self.version {
            Version::First => self.joiner(self.version.threads()),
            Version::Second => self.process_joiner(),
        }
    }

    /// Whether threads of one process can be in different groups. In version 2 only in groups without memory limits.
    pub fn holds_threads(&self) -> bool {
        self.version == Version::First
    }

    /// Puts a process into the group.
    pub fn admit(&self, pid: u32) -> Result<(), Error> {
        let mut groups = vec![&self.cpu];
        groups.extend((self.cpuacct != self.cpu).then_some(&self.cpuacct));
        groups.into_iter().try_for_each(|group| write(&group.join(MEMBERS), &pid.to_string()))
    }

    /// For a process whose CPU time is to be counted as the group's but which is scheduled like any task of the
    /// machine: the weights of the group and of those above it are not its own. In version 2 they are: there a process
    /// is counted where it is scheduled.
    pub fn accounting_joiner(&self) -> Result<Joiner, Error> {
        let mut joiner = self.process_joiner()?;
        if self.version == Version::First {
            joiner.files.push(open_for_writing(&self.root.join(self.version.threads()))?);
        }
        Ok(joiner)
    }

    fn joiner(&self, list: &str) -> Result<Joiner, Error> {
        let mut files = vec![open_for_writing(&self.cpu.join(list))?];
        if self.cpuacct != self.cpu {
            files.push(open_for_writing(&self.cpuacct.join(list))?);
        }
        Ok(Joiner { files })
    }

    /// The threads in the group, by the ids that this process knows them by.
    pub fn threads(&self) -> Result<Vec<u32>, Error> {
        let path = self.cpu.join(self.version.threads());
        let text = fs::read_to_string(&path).map_err(|e| Error::file("read", &path, e))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// The counter of the group's CPU time; survives the removal of groups below.
    pub fn usage(&self) -> Result<Usage, Error> {
        Counter::open(self.cpuacct.join(self.version.usage())).map(|counter| Usage { counter, version: self.version })
    }

    /// Whether the kernel counts what a group uses by core. In version 2 it does not.
    pub fn counts_by_core(&self) -> bool {
        self.version == Version::First
    }

    /// The same by core. Version 2 does not count by core: there all of it is that of `home`, on which all members run.
    pub fn usage_by_core(&self, home: usize) -> Result<UsageByCore, Error> {
        match self.version {
            Version::First => {
                Counter::open(self.cpuacct.join(USAGE_BY_CORE)).map(|counter| UsageByCore(Source::Counted(counter)))
            }
            Version::Second => self.usage().map(|usage| UsageByCore(Source::On(usage, home))),
        }
    }

    /// Where the group is for [`crate::perf`], or would be: in the hierarchy of version 1 for that if it is mounted, or
    /// else in version 2, where it needs no controller.
    pub fn place_of_counters(&self) -> io::Result<PathBuf> {
        let mounts = mounts::all().map_err(io::Error::other)?;
        let v2 = || mounts.iter().find(|m| is_v2(m)).map(|m| m.point.clone());
        let root = place_of(&mounts, "perf_event").or_else(v2).ok_or(ErrorKind::Unsupported)?;
        Ok(root.join(self.cpu.strip_prefix(&self.root).unwrap_or(&self.cpu)))
    }

    /// For changing the group's fraction many times, as [`super::divide`] sets it once.
    pub fn fraction(&self) -> Result<Fraction, Error> {
        Ok(Fraction { weight: open_for_writing(&self.cpu.join(self.version.weight()))?, version: self.version })
    }

    /// Makes the kernel account for the core on which this group's only thread runs: see [`Poke`].
    pub fn poke(&self) -> Result<Poke, Error> {
        let weights = match self.version {
            Version::First => [b"2", b"3"],
            Version::Second => [b"1", b"2"],
        };
        Ok(Poke { weight: open_for_writing(&self.cpu.join(self.version.weight()))?, weights, heavier: false })
    }

    /// The largest [`Fraction`] of it that can be set.
    pub fn largest_fraction(&self) -> f64 {
        self.version.weights()[1] as f64 / self.version.of_core()
    }
}

/// Quota and period that cap a group at `share` of a core.
fn quota(share: f64) -> (Duration, Duration) {
    let shortest = MIN_QUOTA.as_secs_f64() / share;
    let period = Duration::from_secs_f64(shortest.clamp(0.010, 1.0));
    (period.mul_f64(share).max(MIN_QUOTA), period)
}

/// The right to join a group, for a process or thread that could not open the group's files by then.
#[derive(Debug)]
pub struct Joiner {
    files: Vec<File>,
}

impl Joiner {
    /// Moves the calling process or thread into the group. Makes system calls only and allocates nothing: may run
    /// between fork and exec.
    pub fn join(&self) -> io::Result<()> {
        // "0" means the writer, so that its id need not be known (it differs inside a PID namespace).
        self.files.iter().try_for_each(|mut file| file.write_all(b"0"))
    }
}

/// What a group has of its parent's time beside its siblings; see [`super::divide`].
#[derive(Debug)]
pub struct Fraction {
    weight: File,
    version: Version,
}

impl Fraction {
    /// Sets it: one system call. Siblings that compete lose the turn that they are in, so not more than some tens of
    /// times a second.
    pub fn set(&self, fraction: f64) -> io::Result<()> {
        self.weight.write_all_at(self.version.weight_of(fraction).to_string().as_bytes(), 0)
    }
}

/// Makes the kernel account for what runs on a core, from another core.
///
/// Changing the weight of a group with something to run charges whatever runs beside it. The group must be a
/// negligible one: changing the weight of one that competes can starve the others.
#[derive(Debug)]
pub struct Poke {
    weight: File,
    /// The lighter and the heavier.
    weights: [&'static [u8; 1]; 2],
    heavier: bool,
}

impl Poke {
    /// Does it once: one system call.
    pub fn now(&mut self) -> io::Result<()> {
        self.heavier = !self.heavier;
        self.weight.write_all_at(self.weights[usize::from(self.heavier)], 0)
    }
}

#[derive(Debug)]
struct Counter {
    file: File,
    path: PathBuf,
}

impl Counter {
    fn open(path: PathBuf) -> Result<Counter, Error> {
        let file = File::open(&path).map_err(|e| Error::file("open", &path, e))?;
        Ok(Counter { file, path })
    }

    fn read<T>(&self, parse: impl Fn(&str) -> T) -> Result<T, Error> {
        // 21 bytes a core: enough for the 380 cores of the largest harness in sight.
        let mut buffer = [0u8; 8192];
        let n = self.file.read_at(&mut buffer, 0).map_err(|e| Error::file("read", &self.path, e))?;
        Ok(parse(&String::from_utf8_lossy(&buffer[..n])))
    }
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

/// An open counter of a group's CPU time.
#[derive(Debug)]
pub struct Usage {
    counter: Counter,
    version: Version,
}

impl Usage {
    /// CPU time used so far; in version 2 to the microsecond.
    pub fn read(&self) -> Result<RealDuration, Error> {
        let nanos = self.counter.read(|text| match self.version {
            Version::First => numbers(text).first().copied(),
            Version::Second => {
                let us = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
                us.and_then(|us| us.trim().parse::<u64>().ok()).map(|us| us * 1_000)
            }
        })?;
        Ok(RealDuration::from_nanos(nanos.unwrap_or(0)))
    }
}

/// An open counter of CPU time by core.
#[derive(Debug)]
pub struct UsageByCore(Source);

#[derive(Debug)]
enum Source {
    /// The kernel counts by core.
    Counted(Counter),
    /// All of it is on this core.
    On(Usage, usize),
    /// Of the whole machine, from the scheduler's own statistics.
    OfScheduler,
}

impl UsageByCore {
    /// Nanoseconds used so far on each core, by its number.
    pub fn read(&self) -> Result<Vec<u64>, Error> {
        match &self.0 {
            Source::Counted(counter) => counter.read(numbers),
            Source::On(usage, core) => {
                let mut by_core = vec![0; core + 1];
                by_core[*core] = usage.read()?.as_nanos();
                Ok(by_core)
            }
            Source::OfScheduler => {
                let text = fs::read_to_string(SCHEDULER).map_err(|e| Error::file("read", Path::new(SCHEDULER), e))?;
                Ok(run_by_core(&text))
            }
        }
    }
}

/// Where the scheduler tells how long tasks ran on each core.
const SCHEDULER: &str = "/proc/schedstat";

/// How long tasks ran on each core, by its number: the seventh number of each line `cpuN`
/// (`Documentation/scheduler/sched-stats.rst`).
fn run_by_core(text: &str) -> Vec<u64> {
    let mut by_core = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let core = words.next().and_then(|name| name.strip_prefix("cpu")).and_then(|n| n.parse::<usize>().ok());
        if let Some((core, ran)) = core.zip(words.nth(6).and_then(|n| n.parse().ok())) {
            by_core.resize(by_core.len().max(core + 1), 0);
            by_core[core] = ran;
        }
    }
    by_core
}

/// What everything on this machine has used.
pub(super) fn usage_of_machine() -> Result<UsageByCore, Error> {
    let root = Hierarchies::discover()?.group("/");
    match root.version {
        Version::First => root.usage_by_core(0),
        Version::Second => Ok(UsageByCore(Source::OfScheduler)),
    }
}

/// Notes on a tree what the root passed on before, unless another tree has that note.
fn note_first(root: &Path, tree: &Path) -> Result<(), Error> {
    let switch = root.join(PASSED_ON);
    let passed_on = fs::read_to_string(&switch).map_err(|e| Error::file("read", &switch, e))?;
    let others = fs::read_dir(root).map_err(|e| Error::file("read", root, e))?;
    match others.flatten().any(|other| noted(&other.path()).is_some()) {
        true => Ok(()),
        false => note(tree, passed_on.trim()),
    }
}

fn note(tree: &Path, passed_on: &str) -> Result<(), Error> {
    let set = rustix::fs::setxattr(tree, PASSED_ON_BEFORE, passed_on.as_bytes(), rustix::fs::XattrFlags::empty());
    set.map_err(|e| Error::file("make a note on", tree, e))
}

/// What was noted on a tree.
fn noted(tree: &Path) -> Option<String> {
    let mut buffer = [0u8; 256];
    let n = rustix::fs::getxattr(tree, PASSED_ON_BEFORE, &mut buffer[..]).ok()?;
    String::from_utf8(buffer[..n].to_vec()).ok()
}

/// What the root passed on before there was any tree, as noted on one that is being removed.
pub(super) struct Before {
    root: PathBuf,
    passed_on: String,
}

/// The note on `tree`, if it has it.
pub(super) fn before(tree: &Path) -> Option<Before> {
    Some(Before { root: tree.parent()?.to_owned(), passed_on: noted(tree)? })
}

impl Before {
    /// Leaves the note to one of the trees that are still there; after the last, has the root pass on what it did.
    pub(super) fn hand_over(self, heirs: &[PathBuf]) {
        if heirs.iter().any(|heir| note(heir, &self.passed_on).is_ok()) {
            return;
        }
        let switch = self.root.join(PASSED_ON);
        let now = fs::read_to_string(&switch).unwrap_or_default();
        for controller in not_among(&now.split_whitespace().collect::<Vec<_>>(), &self.passed_on) {
            // Where another group has come to pass it on, the kernel keeps it.
            let _ = fs::write(&switch, format!("-{controller}"));
        }
    }
}

fn open_for_writing(path: &Path) -> Result<File, Error> {
    OpenOptions::new().write(true).open(path).map_err(|e| Error::file("open", path, e))
}

fn write(path: &Path, value: &str) -> Result<(), Error> {
    fs::write(path, value).map_err(|e| Error::file(&format!("write {value} to"), path, e))
}

/// Where the memory controller is mounted, and the file of a group that counts whom the OOM killer ended.
fn memory() -> Option<(PathBuf, &'static str)> {
    let mounts = mounts::all().ok()?;
    let v1 = place_of(&mounts, "memory").map(|point| (point, "memory.oom_control"));
    v1.or_else(|| mounts.iter().find(|m| is_v2(m)).map(|m| (m.point.clone(), "memory.events")))
}

/// Processes of the group at `path` (as [`super::Tree::path`] gives it) and its descendants that the kernel's OOM
/// killer has ended so far; 0 if the group is gone.
pub fn oom_kills(path: &str) -> u64 {
    let Some((mount, file)) = memory() else { return 0 };
    let text = fs::read_to_string(mount.join(path.trim_start_matches('/')).join(file)).unwrap_or_default();
    let count = text.lines().find_map(|l| l.strip_prefix("oom_kill "));
    count.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// Whether memory and swap together can be limited (version 1: `swapaccount`; version 2: always).
pub fn limits_swap() -> bool {
    match memory() {
        Some((mount, "memory.oom_control")) => mount.join("memory.memsw.limit_in_bytes").exists(),
        Some(_) => true,
        None => false,
    }
}

/// The group to which every socket of this machine belongs, for BPF programs that are to see them all.
///
/// It is the root of the version 2 hierarchy, whether that has controllers (a host with version 2 only) or not (hybrid
/// and version 1 hosts), and whether it is mounted anywhere or not: this mount is ours and has no place.
pub fn of_all_sockets() -> Result<OwnedFd, Error> {
    let mount = || {
        let context = rustix::mount::fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(context.as_fd())?;
        rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    };
    mount().context(|| "no cgroup v2 hierarchy".into())
}

/// In a mount namespace of one's own: leaves an OCI runtime only the tree of version 1, where there are both. crun
/// 1.8.1 does not know what to do with version 2 controllers beside version 1 ones.
pub fn hide_second_version() -> Result<(), Error> {
    let unified = "/sys/fs/cgroup/unified";
    if Path::new(unified).join(MEMBERS).exists() {
        rustix::mount::unmount(unified, UnmountFlags::DETACH)
            .context(|| "cannot hide the second cgroup tree from the runtime".into())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    fn table(text: &str) -> Vec<Mounted> {
        mounts::of_table(text.as_bytes())
    }

    #[test]
    fn finds_separate_and_joint_mounts() {
        let found = Hierarchies::among(&table(HYBRID)).unwrap();
        assert_eq!(found.cpu, Path::new("/sys/fs/cgroup/cpu"));
        assert_eq!(found.cpuacct, Path::new("/sys/fs/cgroup/cpuacct"));
        assert_eq!(found.places("/x").len(), 4, "cpuset and the unified tree are swept too");

        let joint = "25 20 0:22 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        let found = Hierarchies::among(&table(joint)).unwrap();
        assert_eq!(found.cpu, found.cpuacct);
    }

    #[test]
    fn version_2_serves_where_it_is_alone() {
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Hierarchies::among(&table(v2)).unwrap();
        assert_eq!((found.version, found.cpu == found.cpuacct), (Version::Second, true));
        assert_eq!(found.group("/x/y").cpu, Path::new("/sys/fs/cgroup/x/y"));
        let lack = Hierarchies::among(&table("")).unwrap_err();
        assert!(lack.help.contains("mount -t cgroup2"), "{lack}");
        let beside = format!("{v2}31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
        assert!(Hierarchies::among(&table(&beside)).is_err(), "its controllers are elsewhere");
        let harmless = format!("{v2}31 30 0:27 / /run/net_cls rw - cgroup cgroup rw,net_cls\n");
        assert_eq!(Hierarchies::among(&table(&harmless)).unwrap().version, Version::Second);
    }

    #[test]
    fn the_schedulers_statistics_are_read_by_core() {
        let text = "version 17\ntimestamp 42\ncpu0 0 0 0 0 0 0 111 222 333\ndomain0 MC 3 0 0 0 0 0 0 9\n\
                    cpu2 0 0 0 0 0 0 444 1 2\n";
        assert_eq!(run_by_core(text), [111, 0, 444]);
    }

    #[test]
    fn weights_divide_a_core_as_it_was_asked_for() {
        for (shares, usable) in
            [(vec![0.5, 0.08, 0.08, 0.08, 0.08], 0.93), (vec![0.008; 100], 0.91), (vec![0.05], 0.95)]
        {
            let unsold = usable - shares.iter().sum::<f64>();
            let total: u64 = shares.iter().copied().chain([unsold]).map(|f| Version::First.weight_of(f)).sum();
            for share in shares {
                let got = usable * Version::First.weight_of(share) as f64 / total as f64;
                assert!((got / share - 1.0).abs() < 0.002, "{got} of a core for a share of {share}");
            }
        }
        assert_eq!([0.0, 9.0].map(|f| Version::First.weight_of(f)), Version::First.weights());
        assert_eq!([0.0, 9.0].map(|f| Version::Second.weight_of(f)), Version::Second.weights());
    }

    #[test]
    fn quotas_respect_the_kernels_floor() {
        assert_eq!(quota(0.5), (Duration::from_millis(5), Duration::from_millis(10)));
        assert_eq!(quota(0.05), (Duration::from_millis(1), Duration::from_millis(20)));
        let (quota, period) = quota(0.0001);
        assert_eq!((quota, period), (MIN_QUOTA, Duration::from_secs(1)), "the floor, not zero");
    }
}
