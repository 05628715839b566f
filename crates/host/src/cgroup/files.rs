//! Where the kernel has its control groups, and what it calls their files: the only file of Diorama that knows.
//!
//! Version 1, also beside version 2 (hybrid).

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags};
use scale::RealDuration;

use super::{Layout, Offers};
use crate::error::{Context, Error, Lack};
use crate::mounts::{self, Mounted};

/// Where a program in a node finds the groups that it is in.
pub const NODE_VIEW: &str = "/sys/fs/cgroup";
/// How a user sees whether a group of version 1 leaves any time to real-time threads.
pub const REAL_TIME_BUDGET: &str = "cat /sys/fs/cgroup/cpu/cpu.rt_runtime_us";

/// Who is in a group, by process; in both versions.
pub(super) const MEMBERS: &str = "cgroup.procs";
/// The same by thread, in version 1.
const THREADS: &str = "tasks";
const WEIGHT: &str = "cpu.shares";
const IDLE: &str = "cpu.idle";
const USAGE: &str = "cpuacct.usage";
const USAGE_BY_CORE: &str = "cpuacct.usage_percpu";

/// What a node needs.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuacct", "cpuset", "devices", "memory", "pids"];

/// The kernel's bounds on `cpu.shares`.
const WEIGHTS: std::ops::RangeInclusive<u64> = 2..=262_144;
/// The weight of a whole core: fractions are exact, and the largest is still within bounds.
const WEIGHT_OF_CORE: f64 = 200_000.0;
/// A hundred ordinary tasks.
const OUTWEIGHING: u64 = 102_400;

/// The smallest quota that the kernel accepts (`min_cfs_quota_period`).
const MIN_QUOTA: Duration = Duration::from_millis(1);

/// Where the hierarchies are mounted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hierarchies {
    /// The one with the `cpu` controller.
    cpu: PathBuf,
    /// The one with `cpuacct`; often the same.
    cpuacct: PathBuf,
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
            (Some(cpu), Some(cpuacct)) => Ok(Hierarchies { cpu, cpuacct, all }),
            _ => Err(no_version_1()),
        }
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
        Group { cpu: self.cpu.join(inside), cpuacct: self.cpuacct.join(inside), root: self.cpu.clone() }
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

fn no_version_1() -> Lack {
    Lack::new(
        "the cgroup v1 controllers `cpu` and `cpuacct` are not mounted (cgroup v2 is not supported yet)",
        "boot with `systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller`",
    )
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
    let missing: Vec<_> = CONTROLLERS.into_iter().filter(|c| place_of(&mounts, c).is_none()).collect();
    let no_shares = root.as_ref().err().cloned();
    let no_nodes = match (&no_shares, missing.as_slice()) {
        (Some(lack), _) => Some(lack.clone()),
        (None, []) => None,
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
        idle: root.is_ok_and(|root| root.cpu.join(IDLE).exists()),
    }
}

/// One group, by the same path in the hierarchies that count and divide CPU time.
#[derive(Clone, Debug)]
pub struct Group {
    cpu: PathBuf,
    cpuacct: PathBuf,
    /// Of the hierarchy that divides CPU time.
    root: PathBuf,
}

impl Group {
    /// Makes the group and the ones above it; it is fine if they exist.
    pub fn create(&self) -> Result<(), Error> {
        for dir in [&self.cpu, &self.cpuacct] {
            fs::create_dir_all(dir).map_err(|source| match source.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::Machine(Lack::new(
                    format!("cannot make the control group {}: {source}", dir.display()),
                    "run as root, outside any container",
                )),
                _ => Error::file("make the control group", dir, source),
            })?;
        }
        Ok(())
    }

    /// See [`super::divide`].
    pub(super) fn set_fraction(&self, fraction: f64) -> Result<(), Error> {
        self.set_weight(weight(fraction))
    }

    /// Gives the group, against everything else on a core, the weight of a hundred ordinary tasks.
    pub fn outweigh_the_rest(&self) -> Result<(), Error> {
        self.set_weight(OUTWEIGHING)
    }

    /// Leaves the group, which always has something to run, next to nothing beside its siblings.
    pub fn make_negligible(&self) -> Result<(), Error> {
        self.set_weight(*WEIGHTS.start())
    }

    fn set_weight(&self, weight: u64) -> Result<(), Error> {
        write(&self.cpu.join(WEIGHT), &weight.to_string())
    }

    /// Makes the group yield to any sibling that can run (Linux 5.15).
    pub fn make_idle(&self) -> Result<(), Error> {
        write(&self.cpu.join(IDLE), "1")
    }

    /// Caps the group at `share` of a core, in the shortest period from 10 ms up whose quota the kernel accepts. At
    /// least a thousandth of a core.
    pub fn cap(&self, share: f64) -> Result<(), Error> {
        let (quota, period) = quota(share);
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

    /// For a single thread that is to be in the group, wherever the rest of its process is.
    pub fn thread_joiner(&self) -> Result<Joiner, Error> {
        self.joiner(THREADS)
    }

    /// For a process whose CPU time is to be counted as the group's but which is scheduled like any task of the
    /// machine: the weights of the group and of those above it are not its own.
    pub fn accounting_joiner(&self) -> Result<Joiner, Error> {
        let mut joiner = self.process_joiner()?;
        joiner.files.push(open_for_writing(&self.root.join(THREADS))?);
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
        let path = self.cpu.join(THREADS);
        let text = fs::read_to_string(&path).map_err(|e| Error::file("read", &path, e))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// The counter of the group's CPU time; survives the removal of groups below.
    pub fn usage(&self) -> Result<Usage, Error> {
        Counter::open(self.cpuacct.join(USAGE)).map(Usage)
    }

    /// The same by core.
    pub fn usage_by_core(&self) -> Result<UsageByCore, Error> {
        Counter::open(self.cpuacct.join(USAGE_BY_CORE)).map(UsageByCore)
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
        Ok(Fraction { weight: open_for_writing(&self.cpu.join(WEIGHT))? })
    }

    /// Makes the kernel account for the core on which this group's only thread runs: see [`Poke`].
    pub fn poke(&self) -> Result<Poke, Error> {
        Ok(Poke { weight: open_for_writing(&self.cpu.join(WEIGHT))?, heavier: false })
    }
}

/// The weight of a group with this fraction of a core.
fn weight(fraction: f64) -> u64 {
    ((fraction * WEIGHT_OF_CORE).round() as u64).clamp(*WEIGHTS.start(), *WEIGHTS.end())
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
}

impl Fraction {
    /// The largest that can be set, in fractions of a core.
    pub const LARGEST: f64 = *WEIGHTS.end() as f64 / WEIGHT_OF_CORE;

    /// Sets it: one system call. Siblings that compete lose the turn that they are in, so not more than some tens of
    /// times a second.
    pub fn set(&self, fraction: f64) -> io::Result<()> {
        self.weight.write_all_at(weight(fraction).to_string().as_bytes(), 0)
    }
}

/// Makes the kernel account for what runs on a core, from another core.
///
/// Changing the weight of a group with something to run charges whatever runs beside it. The group must be a
/// negligible one: changing the weight of one that competes can starve the others.
#[derive(Debug)]
pub struct Poke {
    weight: File,
    heavier: bool,
}

impl Poke {
    /// Does it once: one system call.
    pub fn now(&mut self) -> io::Result<()> {
        self.heavier = !self.heavier;
        self.weight.write_all_at(if self.heavier { b"3" } else { b"2" }, 0)
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

    fn read(&self) -> Result<Vec<u64>, Error> {
        // 21 bytes a core: enough for the 380 cores of the largest harness in sight.
        let mut buffer = [0u8; 8192];
        let n = self.file.read_at(&mut buffer, 0).map_err(|e| Error::file("read", &self.path, e))?;
        let text = String::from_utf8_lossy(&buffer[..n]);
        Ok(text.split_whitespace().map_while(|word| word.parse().ok()).collect())
    }
}

/// An open counter of a group's CPU time.
#[derive(Debug)]
pub struct Usage(Counter);

impl Usage {
    /// CPU time used so far.
    pub fn read(&self) -> Result<RealDuration, Error> {
        Ok(RealDuration::from_nanos(self.0.read()?.first().copied().unwrap_or(0)))
    }
}

/// An open counter of CPU time by core.
#[derive(Debug)]
pub struct UsageByCore(Counter);

impl UsageByCore {
    /// Nanoseconds used so far on each core, by its number.
    pub fn read(&self) -> Result<Vec<u64>, Error> {
        self.0.read()
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
    fn says_what_a_version_2_host_lacks() {
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let lack = Hierarchies::among(&table(v2)).unwrap_err();
        assert!(lack.what.contains("cgroup v2 is not supported yet"), "{lack}");
        assert!(lack.help.contains("systemd.unified_cgroup_hierarchy=0"), "{lack}");
    }

    #[test]
    fn weights_divide_a_core_as_it_was_asked_for() {
        for (shares, usable) in
            [(vec![0.5, 0.08, 0.08, 0.08, 0.08], 0.93), (vec![0.008; 100], 0.91), (vec![0.05], 0.95)]
        {
            let unsold = usable - shares.iter().sum::<f64>();
            let total: u64 = shares.iter().copied().chain([unsold]).map(weight).sum();
            for share in shares {
                let got = usable * weight(share) as f64 / total as f64;
                assert!((got / share - 1.0).abs() < 0.002, "{got} of a core for a share of {share}");
            }
        }
        assert_eq!((weight(0.0), weight(9.0)), (*WEIGHTS.start(), *WEIGHTS.end()));
    }

    #[test]
    fn quotas_respect_the_kernels_floor() {
        assert_eq!(quota(0.5), (Duration::from_millis(5), Duration::from_millis(10)));
        assert_eq!(quota(0.05), (Duration::from_millis(1), Duration::from_millis(20)));
        let (quota, period) = quota(0.0001);
        assert_eq!((quota, period), (MIN_QUOTA, Duration::from_secs(1)), "the floor, not zero");
    }
}
