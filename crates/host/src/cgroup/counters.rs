//! Counters of a group: CPU time, and who was killed in it for want of memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use scale::RealDuration;

use super::files::{self, MEMBERS, OUT_OF_MEMORY, SCHEDULER, USAGE_BY_CORE, Version};
use super::group::Group;
use super::hierarchies::{self, Hierarchies};
use crate::error::Error;

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
            Version::First => text.split_whitespace().next().and_then(|word| word.parse().ok()),
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
    /// The whole machine's, from the scheduler's own statistics.
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
            Source::OfScheduler => Ok(run_by_core(&files::read(Path::new(SCHEDULER))?)),
        }
    }
}

impl Group {
    /// The counter of the group's CPU time; survives the removal of groups below.
    pub fn usage(&self) -> Result<Usage, Error> {
        Counter::open(self.cpuacct.join(self.version.usage())).map(|counter| Usage { counter, version: self.version })
    }

    /// Whether the kernel counts what a group uses by core. In version 2 it does not.
    pub fn counts_by_core(&self) -> bool {
        self.version == Version::First
    }

    /// Opens the counter by core. Version 2 does not count by core: there all of it is that of `home`, on which all
    /// members run.
    pub fn usage_by_core(&self, home: usize) -> Result<UsageByCore, Error> {
        match self.version {
            Version::First => {
                Counter::open(self.cpuacct.join(USAGE_BY_CORE)).map(|counter| UsageByCore(Source::Counted(counter)))
            }
            Version::Second => self.usage().map(|usage| UsageByCore(Source::On(usage, home))),
        }
    }
}

/// Opens the counter of everything on this machine.
pub(super) fn usage_of_machine() -> Result<UsageByCore, Error> {
    let root = Hierarchies::discover()?.group("/");
    match root.version {
        Version::First => root.usage_by_core(0),
        Version::Second => Ok(UsageByCore(Source::OfScheduler)),
    }
}

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

/// The processes of the group at `path` (as [`super::Tree::path`] gives it), by their ids; none if it is gone.
pub fn processes(path: &str) -> Vec<u32> {
    let Some((mount, _)) = hierarchies::memory() else { return Vec::new() };
    let text = fs::read_to_string(mount.join(path.trim_start_matches('/')).join(MEMBERS)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Processes of the group at `path` (as [`super::Tree::path`] gives it) and its descendants that the kernel's OOM
/// killer has ended so far; 0 if the group is gone.
pub fn oom_kills(path: &str) -> u64 {
    let Some((mount, version)) = hierarchies::memory() else { return 0 };
    let [first, second] = OUT_OF_MEMORY;
    let file = if version == Version::First { first } else { second };
    let text = fs::read_to_string(mount.join(path.trim_start_matches('/')).join(file)).unwrap_or_default();
    let count = text.lines().find_map(|l| l.strip_prefix("oom_kill "));
    count.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_statistics_are_read_by_core() {
        let text = "version 17\ntimestamp 42\ncpu0 0 0 0 0 0 0 111 222 333\ndomain0 MC 3 0 0 0 0 0 0 9\n\
                    cpu2 0 0 0 0 0 0 444 1 2\n";
        assert_eq!(run_by_core(text), [111, 0, 444]);
    }
}
