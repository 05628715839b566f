//! The kernel's control groups: the only file that knows where they are mounted and what their
//! files are called.
//!
//! Version 1 (or the hybrid layout) today. In version 2 a weight is `cpu.weight` (1 to 10000), usage
//! is in `cpu.stat` and `cgroup.procs` is joined once: all of it fits behind [`Group`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::mounts::Mounted;

use crate::Error;

/// The largest value of `cpu.shares`.
pub const MAX_WEIGHT: u64 = 262_144;
/// The smallest value of `cpu.shares`.
pub const MIN_WEIGHT: u64 = 2;

/// Where the hierarchies are mounted.
#[derive(Clone, Debug, PartialEq)]
pub struct Mounts {
    /// The hierarchy with the `cpu` controller.
    pub cpu: PathBuf,
    /// The one with `cpuacct`; often the same.
    pub cpuacct: PathBuf,
    /// Every hierarchy, the unified one too.
    pub all: Vec<PathBuf>,
}

impl Mounts {
    /// Finds the hierarchies that this process sees.
    pub fn discover() -> Result<Mounts, Error> {
        Mounts::among(host::mounts::all()?)
    }

    fn among(mounts: Vec<Mounted>) -> Result<Mounts, Error> {
        let (mut cpu, mut cpuacct, mut all) = (None, None, Vec::new());
        for Mounted { point, kind, options } in mounts {
            if (kind != "cgroup" && kind != "cgroup2") || all.contains(&point) {
                continue;
            }
            let has = |controller| kind == "cgroup" && options.split(',').any(|o| o == controller);
            if cpu.is_none() && has("cpu") {
                cpu = Some(point.clone());
            }
            if cpuacct.is_none() && has("cpuacct") {
                cpuacct = Some(point.clone());
            }
            all.push(point);
        }
        match (cpu, cpuacct) {
            (Some(cpu), Some(cpuacct)) => Ok(Mounts { cpu, cpuacct, all }),
            _ => Err(Error::Machine {
                what: "the cgroup v1 controllers `cpu` and `cpuacct` are not mounted (cgroup v2 is not supported yet)"
                    .into(),
                help: "boot with systemd.unified_cgroup_hierarchy=0 \
                       systemd.legacy_systemd_cgroup_controller"
                    .into(),
            }),
        }
    }
}

/// One group, by the same path in the hierarchies that count and divide CPU time.
#[derive(Clone, Debug)]
pub struct Group {
    cpu: PathBuf,
    cpuacct: PathBuf,
}

impl Group {
    /// The group at `path` (such as `/diorama-x/emu/web-1/c`), which need not exist. `/` is the root.
    pub fn at(mounts: &Mounts, path: &str) -> Group {
        let path = path.trim_start_matches('/');
        Group { cpu: mounts.cpu.join(path), cpuacct: mounts.cpuacct.join(path) }
    }

    /// Makes the group and the ones above it; it is fine if they exist.
    pub fn create(&self) -> Result<(), Error> {
        for dir in [&self.cpu, &self.cpuacct] {
            fs::create_dir_all(dir).map_err(|source| match source.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::Machine {
                    what: format!("cannot make the control group {}: {source}", dir.display()),
                    help: "run as root, outside any container".into(),
                },
                _ => Error::Io { what: format!("make the control group {}", dir.display()), source },
            })?;
        }
        Ok(())
    }

    /// Sets the weight against the siblings (`cpu.shares`).
    pub fn set_weight(&self, weight: u64) -> Result<(), Error> {
        write(&self.cpu.join("cpu.shares"), weight.clamp(MIN_WEIGHT, MAX_WEIGHT).to_string())
    }

    /// The file of the weight, to be changed often.
    pub fn weight_file(&self) -> Result<File, Error> {
        door(&self.cpu.join("cpu.shares"))
    }

    /// Makes the group yield to any sibling that can run (`cpu.idle`, kernel 5.15).
    pub fn set_idle(&self) -> Result<(), Error> {
        write(&self.cpu.join("cpu.idle"), "1".into())
    }

    /// Whether the kernel knows idle groups.
    pub fn knows_idle(&self) -> bool {
        self.cpu.join("cpu.idle").exists()
    }

    /// Whether groups can be made below this one by this process.
    pub fn writable(&self) -> bool {
        [&self.cpu, &self.cpuacct].iter().all(|d| {
            rustix::fs::accessat(
                rustix::fs::CWD,
                d.as_path(),
                rustix::fs::Access::WRITE_OK,
                rustix::fs::AtFlags::EACCESS,
            )
            .is_ok()
        })
    }

    /// Caps the group at `quota` of CPU time in every `period` (both real).
    pub fn set_quota(&self, quota: Duration, period: Duration) -> Result<(), Error> {
        write(&self.cpu.join("cpu.cfs_period_us"), period.as_micros().to_string())?;
        write(&self.cpu.join("cpu.cfs_quota_us"), quota.as_micros().to_string())
    }

    /// The files through which a process or thread enters the group: see [`enter`].
    pub fn doors(&self) -> Result<Vec<File>, Error> {
        self.doors_named("cgroup.procs")
    }

    /// The same for single threads.
    pub fn thread_doors(&self) -> Result<Vec<File>, Error> {
        self.doors_named("tasks")
    }

    /// The door that decides scheduling only, not accounting.
    pub fn sched_door(&self) -> Result<File, Error> {
        door(&self.cpu.join("tasks"))
    }

    fn doors_named(&self, name: &str) -> Result<Vec<File>, Error> {
        let mut doors = vec![door(&self.cpu.join(name))?];
        if self.cpuacct != self.cpu {
            doors.push(door(&self.cpuacct.join(name))?);
        }
        Ok(doors)
    }

    /// The threads in the group, by the ids that this process knows them by.
    pub fn threads(&self) -> Result<Vec<u32>, Error> {
        let path = self.cpu.join("tasks");
        let text = fs::read_to_string(&path).map_err(Error::io(format!("read {}", path.display())))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// The counter of the group's CPU time; survives the removal of groups below.
    pub fn usage(&self) -> Result<Usage, Error> {
        Usage::open(self.cpuacct.join("cpuacct.usage"))
    }

    /// The same by core.
    pub fn usage_by_core(&self) -> Result<Usage, Error> {
        Usage::open(self.cpuacct.join("cpuacct.usage_percpu"))
    }
}

fn door(path: &Path) -> Result<File, Error> {
    OpenOptions::new().write(true).open(path).map_err(Error::io(format!("open {}", path.display())))
}

/// Moves the caller through the doors of a group. "0" means the writer, so that the caller's process
/// id need not be known (it differs inside a PID namespace). Allocates nothing: may run between fork
/// and exec.
pub fn enter(doors: &[File]) -> io::Result<()> {
    doors.iter().try_for_each(|mut door| door.write_all(b"0"))
}

fn write(path: &Path, value: String) -> Result<(), Error> {
    fs::write(path, &value).map_err(Error::io(format!("write {value} to {}", path.display())))
}

/// An open counter of CPU time.
#[derive(Debug)]
pub struct Usage {
    file: File,
    path: PathBuf,
}

impl Usage {
    fn open(path: PathBuf) -> Result<Usage, Error> {
        let file = File::open(&path).map_err(Error::io(format!("open {}", path.display())))?;
        Ok(Usage { file, path })
    }

    /// Nanoseconds used so far.
    pub fn ns(&self) -> Result<u64, Error> {
        Ok(self.by_core()?.first().copied().unwrap_or(0))
    }

    /// Nanoseconds used so far on each core.
    pub fn by_core(&self) -> Result<Vec<u64>, Error> {
        // 21 bytes a core: enough for the 380 cores of the largest harness in sight.
        let mut buffer = [0u8; 8192];
        let n = self.file.read_at(&mut buffer, 0).map_err(Error::io(format!("read {}", self.path.display())))?;
        let text = String::from_utf8_lossy(&buffer[..n]);
        Ok(text.split_whitespace().map_while(|word| word.parse().ok()).collect())
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
        host::mounts::of_table(text.as_bytes())
    }

    #[test]
    fn finds_separate_and_joint_mounts() {
        let mounts = Mounts::among(table(HYBRID)).unwrap();
        assert_eq!(mounts.cpu, Path::new("/sys/fs/cgroup/cpu"));
        assert_eq!(mounts.cpuacct, Path::new("/sys/fs/cgroup/cpuacct"));
        assert_eq!(mounts.all.len(), 4, "cpuset and the unified tree are swept too");

        let joint = "25 20 0:22 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        let mounts = Mounts::among(table(joint)).unwrap();
        assert_eq!(mounts.cpu, mounts.cpuacct);
    }

    #[test]
    fn says_what_a_version_2_host_lacks() {
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let error = Mounts::among(table(v2)).unwrap_err().to_string();
        assert!(error.contains("cgroup v2 is not supported yet"), "{error}");
    }
}
