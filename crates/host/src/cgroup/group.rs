//! A group: made, capped, and entered.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::files::{self, CAP, CAP_2, MEMBERS, REAL_TIME, Version};
use super::passing::{self, Known};
use super::scope;
use crate::error::{CONTAINER, Error, Lack};

/// The smallest quota that the kernel accepts (`min_cfs_quota_period`).
const MIN_QUOTA: Duration = Duration::from_millis(1);

/// The period within which the kernel grants real-time tasks their time (`cpu.rt_period_us`, as it is made).
const SECOND: Duration = Duration::from_secs(1);

/// One group, by the same path in the hierarchies that count and divide CPU time.
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) cpu: PathBuf,
    pub(super) cpuacct: PathBuf,
    pub(super) version: Version,
    pub(super) scoped: bool,
    /// The root of the hierarchy that divides CPU time.
    pub(super) root: PathBuf,
    pub(super) known: Known,
}

impl Group {
    /// Makes the group and the ones above it; it is fine if they exist.
    pub fn create(&self) -> Result<(), Error> {
        match self.version {
            Version::First => [&self.cpu, &self.cpuacct].into_iter().try_for_each(|dir| {
                fs::create_dir_all(dir).map_err(|source| not_made(dir, source))?;
                Ok(())
            }),
            Version::Second => self.create_from_the_root_down(),
        }
    }

    /// Version 2: every group above passes on what nodes need.
    fn create_from_the_root_down(&self) -> Result<(), Error> {
        let inside: Vec<_> = self.cpu.strip_prefix(&self.root).into_iter().flat_map(Path::iter).collect();
        let mut above = self.root.clone();
        for (depth, name) in inside.into_iter().enumerate() {
            let group = above.join(name);
            let made = match depth {
                0 if self.scoped && !group.exists() => scope::start(&group).map(|()| true)?,
                _ => make(&group)?,
            };
            if made {
                self.known.forget(&group);
            }
            if made && depth == 0 {
                // The root may have been restored since the last tree was there.
                self.known.forget(&above);
                passing::note_first(&above)?;
            }
            self.known.pass_on(&above)?;
            above = group;
        }
        Ok(())
    }

    /// The number by which the kernel knows the group in the hierarchy that divides CPU time.
    pub fn number(&self) -> Result<u64, Error> {
        let metadata = fs::metadata(&self.cpu).map_err(|e| Error::file("look at", &self.cpu, e))?;
        Ok(metadata.ino())
    }

    /// Caps the group at `share` of a core, in the shortest period from 10 ms up whose quota the kernel accepts. At
    /// least a thousandth of a core.
    pub fn cap(&self, share: f64) -> Result<(), Error> {
        let (quota, period) = quota(share);
        if self.version == Version::Second {
            return files::write(&self.cpu.join(CAP_2), &format!("{} {}", quota.as_micros(), period.as_micros()));
        }
        CAP.into_iter()
            .zip([period, quota])
            .try_for_each(|(file, time)| files::write(&self.cpu.join(file), &time.as_micros().to_string()))
    }

    /// Lets what is in the group be real-time tasks for `part` of the time of a core, where the kernel divides that
    /// among groups (version 1, CONFIG_RT_GROUP_SCHED). Those of siblings add up to no more than their parent's: the
    /// groups above have `above` from here on.
    pub fn grant_real_time(&self, part: f64, above: f64) -> Result<(), Error> {
        let above = self.cpu.ancestors().skip(1).take_while(|dir| *dir != self.root).map(|dir| (dir, above));
        let mut grants: Vec<_> = above.chain([(self.cpu.as_path(), part)]).collect();
        grants.sort_by_key(|(dir, _)| dir.components().count());
        for (file, part) in grants.into_iter().map(|(dir, part)| (dir.join(REAL_TIME), part)) {
            let wanted = (part * SECOND.as_micros() as f64) as i64;
            if file.exists() && files::read(&file)?.trim().parse().is_ok_and(|granted: i64| granted < wanted) {
                files::write(&file, &wanted.to_string())?;
            }
        }
        Ok(())
    }

    /// Whether this process can make groups below this one.
    pub(super) fn is_writable(&self) -> bool {
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
        groups.into_iter().try_for_each(|group| files::write(&group.join(MEMBERS), &pid.to_string()))
    }

    /// For a process whose CPU time is to be counted as the group's but which is scheduled like any task of the
    /// machine: the weights of the group and of those above it are not its own. In version 2 they are: there a process
    /// is counted where it is scheduled.
    pub fn accounting_joiner(&self) -> Result<Joiner, Error> {
        let mut joiner = self.process_joiner()?;
        if self.version == Version::First {
            joiner.files.push(files::open_for_writing(&self.root.join(self.version.threads()))?);
        }
        Ok(joiner)
    }

    fn joiner(&self, list: &str) -> Result<Joiner, Error> {
        let mut files = vec![files::open_for_writing(&self.cpu.join(list))?];
        if self.cpuacct != self.cpu {
            files.push(files::open_for_writing(&self.cpuacct.join(list))?);
        }
        Ok(Joiner { files })
    }

    /// The threads in the group, by the ids that this process knows them by.
    pub fn threads(&self) -> Result<Vec<u32>, Error> {
        let text = files::read(&self.cpu.join(self.version.threads()))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }
}

/// Makes a group in another; whether it was not there.
fn make(group: &Path) -> Result<bool, Error> {
    match fs::create_dir(group) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(not_made(group, e)),
    }
}

fn not_made(group: &Path, source: io::Error) -> Error {
    match source.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::Machine(Lack::new(
            format!("cannot make the control group {}: {source}", group.display()),
            format!("run as root; a container needs {CONTAINER}"),
        )),
        _ => Error::file("make the control group", group, source),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_respect_the_kernels_floor() {
        assert_eq!(quota(0.5), (Duration::from_millis(5), Duration::from_millis(10)));
        assert_eq!(quota(0.05), (Duration::from_millis(1), Duration::from_millis(20)));
        let (quota, period) = quota(0.0001);
        assert_eq!((quota, period), (MIN_QUOTA, Duration::from_secs(1)), "the floor, not zero");
    }
}
