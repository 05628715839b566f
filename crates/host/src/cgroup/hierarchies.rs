//! Where the hierarchies of control groups are mounted, and what can be done in them.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags};

use super::files::{
    CONTROLLERS, CONTROLLERS_2, KIND, MEMBERS, NODE_VIEW, OFFERED, SECOND_BESIDE_FIRST, SOCKETS_LIMIT, SWAP_LIMIT,
    Version,
};
use super::group::Group;
use super::passing::{Known, not_among};
use super::weights::Weights;
use super::{Layout, Offers, partition, scope};
use crate::error::{CONTAINER, Context, Error, Lack};
use crate::mounts::{self, Mounted};

/// Where the hierarchies are mounted.
#[derive(Clone, Debug)]
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
    /// Which groups pass on all that is needed, as far as it was looked at.
    known: Known,
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
        let found = |cpu, cpuacct, version, scoped| {
            Ok(Hierarchies { cpu, cpuacct, version, scoped, all, known: Known::default() })
        };
        match (place_of(mounts, "cpu"), place_of(mounts, "cpuacct")) {
            (Some(cpu), Some(cpuacct)) => found(cpu, cpuacct, Version::First, false),
            _ => match mounts.iter().find(|m| is_v2(m)) {
                Some(root) if CONTROLLERS_2.iter().all(|controller| place_of(mounts, controller).is_none()) => {
                    let root = root.point.clone();
                    found(root.clone(), root, Version::Second, scope::systemd_runs())
                }
                _ => Err(no_controllers()),
            },
        }
    }

    /// The end of trees' names.
    pub(super) fn suffix(&self) -> &'static str {
        if self.scoped { scope::SUFFIX } else { "" }
    }

    /// Whether systemd owns them.
    pub(super) fn is_scoped(&self) -> bool {
        self.scoped
    }

    pub(super) fn all(&self) -> &[PathBuf] {
        &self.all
    }

    /// The weights that groups can have.
    pub(super) fn weights(&self) -> Weights {
        Weights::of(self.version)
    }

    /// Where the group at `path` is, or would be, in every hierarchy.
    pub(super) fn places(&self, path: &str) -> Vec<PathBuf> {
        self.all.iter().map(|root| root.join(path.trim_start_matches('/'))).collect()
    }

    /// Where the group at `path` is that counts processes; it is made where that is a hierarchy of its own.
    pub(super) fn of_processes(&self, path: &str) -> Result<PathBuf, Error> {
        let inside = path.trim_start_matches('/');
        if self.version == Version::Second {
            return Ok(self.cpu.join(inside));
        }
        let root = place_of(&mounts::all()?, "pids").ok_or_else(no_controllers)?;
        let group = root.join(inside);
        fs::create_dir_all(&group).map_err(|e| Error::file("make", &group, e))?;
        Ok(group)
    }

    /// The group at `path` (such as `/diorama-x/emu/web-1/c`), which need not exist. `/` is the root.
    pub(super) fn group(&self, path: &str) -> Group {
        let inside = path.trim_start_matches('/');
        Group {
            cpu: self.cpu.join(inside),
            cpuacct: self.cpuacct.join(inside),
            version: self.version,
            scoped: self.scoped,
            root: self.cpu.clone(),
            known: self.known.clone(),
        }
    }
}

pub(super) fn is_v1(mounted: &Mounted) -> bool {
    mounted.kind == "cgroup"
}

pub(super) fn is_v2(mounted: &Mounted) -> bool {
    mounted.kind == "cgroup2"
}

/// Where a controller of version 1 is mounted.
pub(super) fn place_of(mounts: &[Mounted], controller: &str) -> Option<PathBuf> {
    let mut v1 = mounts.iter().filter(|m| is_v1(m));
    v1.find(|m| m.options.split(',').any(|o| o == controller)).map(|m| m.point.clone())
}

fn no_controllers() -> Lack {
    Lack::new(
        "neither the cgroup v1 controllers `cpu` and `cpuacct` nor cgroup v2 alone are mounted",
        format!("`mount -t cgroup2 none {NODE_VIEW}`, or in a container run it with {CONTAINER}"),
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
    let writable = root.as_ref().is_ok_and(Group::is_writable);
    let no_nodes = no_nodes.or_else(|| (!writable).then(not_writable));
    let no_nodes = no_nodes.or_else(|| root.as_ref().ok().filter(|_| second).and_then(|root| confined(&root.cpu)));
    let no_partitions = partition::lack(root.as_ref().ok().map(|root| root.version));
    Offers { layout, no_partitions, no_shares, no_nodes, writable }
}

fn not_writable() -> Lack {
    Lack::new("no control groups can be made here", format!("run as root; a container needs {CONTAINER}"))
}

/// Whether the hierarchy begins, for this process, with a group that cannot pass anything on because processes are in
/// it: that of a container.
fn confined(root: &Path) -> Option<Lack> {
    let members = || fs::read_to_string(root.join(MEMBERS)).unwrap_or_default();
    // The first group of all has no kind.
    let confined = root.join(KIND).exists() && !members().trim().is_empty();
    let what = "of the control groups only those of this container are to be seen";
    confined.then(|| Lack::new(what, format!("run on the host itself, or in a container with {CONTAINER}")))
}

fn not_passed_on(missing: &[&str]) -> Lack {
    Lack::new(
        format!("control groups (version 2) here lack the controllers {}", missing.join(", ")),
        format!("see `cat {NODE_VIEW}/{OFFERED}`: a container needs {CONTAINER}"),
    )
}

/// Whether this is Linux `major.minor` or later.
pub(super) fn kernel_at_least(major: u32, minor: u32) -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|running| running >= (major, minor))
}

/// Where the memory controller is mounted. Looked for until it is found, and then kept: it is asked of each node,
/// several times, and to read the table of mounts costs more than what is read there.
pub(super) fn memory() -> Option<(PathBuf, Version)> {
    static FOUND: OnceLock<(PathBuf, Version)> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Some(found.clone());
    }
    let mounts = mounts::all().ok()?;
    let v1 = place_of(&mounts, "memory").map(|point| (point, Version::First));
    let found = v1.or_else(|| mounts.iter().find(|m| is_v2(m)).map(|m| (m.point.clone(), Version::Second)))?;
    Some(FOUND.get_or_init(|| found).clone())
}

/// Whether memory and swap together can be limited (version 1: `swapaccount`; version 2: always).
pub fn limits_swap() -> bool {
    match memory() {
        Some((mount, Version::First)) => mount.join(SWAP_LIMIT).exists(),
        Some((_, Version::Second)) => true,
        None => false,
    }
}

/// Whether what waits in sockets is counted apart from other memory, and can be limited (version 1). Version 2 counts
/// it as memory.
pub fn limits_sockets() -> bool {
    matches!(memory(), Some((mount, Version::First)) if mount.join(SOCKETS_LIMIT).exists())
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
///
/// It makes its groups there all the same, for the kernel tells every process that it is in one of version 2: as
/// directories of no consequence. So there is something in which it can: systemd mounts what is below read-only.
pub fn hide_second_version() -> Result<(), Error> {
    let hidden = || {
        rustix::mount::unmount(SECOND_BESIDE_FIRST, UnmountFlags::DETACH)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount("diorama", SECOND_BESIDE_FIRST, "tmpfs", flags, Some(c"mode=0755"))
    };
    match Path::new(SECOND_BESIDE_FIRST).join(MEMBERS).exists() {
        true => hidden().context(|| "cannot hide the second cgroup tree from the runtime".into()),
        false => Ok(()),
    }
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
    fn a_container_of_its_own_groups_is_told_from_the_machine() {
        let root = std::env::temp_dir().join(format!("diorama-confined-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join(MEMBERS), "1\n7\n").unwrap();
        assert_eq!(confined(&root), None, "processes may be in the first group of all");
        fs::write(root.join(KIND), "domain\n").unwrap();
        assert!(confined(&root).unwrap().help.contains("--cgroupns=host"));
        fs::write(root.join(MEMBERS), "").unwrap();
        assert_eq!(confined(&root), None, "it can pass on what it has");
        fs::remove_dir_all(&root).unwrap();
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
}
