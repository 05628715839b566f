//! Files of `/proc` and `/sys` in which a node sees its own machine: its CPUs, its own memory, its own disk.
//!
//! The clock's image tells a program its CPUs where it asks the kernel (`sched_getaffinity`); these tell those who
//! count CPUs by reading, and `lsblk`.
//! They are written once for all nodes that are alike and do not move: the load in them is that of the moment at which
//! the first of these was made.

mod cpus;

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Facts that the files tell of.
pub(crate) struct Machine<'a> {
    /// The core of the host on which its CPUs are.
    pub(crate) core: usize,
    /// The numbers of its CPUs.
    pub(crate) cpus: &'a Range<usize>,
    pub(crate) memory_bytes: u64,
    /// Its block device.
    pub(crate) disk: Option<&'a Path>,
}

const CPUINFO: &str = "/proc/cpuinfo";
const STAT: &str = "/proc/stat";
const MEMINFO: &str = "/proc/meminfo";

/// Files that are written: the name of each, and where a node sees it.
const SHOWN: [(&str, &str); 8] = [
    ("cpuinfo", CPUINFO),
    ("stat", STAT),
    ("meminfo", MEMINFO),
    ("cpu", cpus::CPUS),
    ("node", cpus::MEMORY_NODES),
    ("block", "/sys/block"),
    ("block-class", "/sys/class/block"),
    ("block-numbers", "/sys/dev/block"),
];

/// The files that were written into `dir`, each with the path at which a node sees it.
pub(crate) fn shown(dir: &Path) -> Vec<(PathBuf, PathBuf)> {
    let all = SHOWN.into_iter().map(|(name, target)| (dir.join(name), PathBuf::from(target)));
    // A kernel that knows of one kind of memory only has no directory for it.
    all.filter(|(file, _)| file.exists()).collect()
}

/// Writes the files into `dir`.
pub(crate) fn write(dir: &Path, machine: &Machine<'_>) -> io::Result<()> {
    let &Machine { core, cpus, memory_bytes, disk } = machine;
    write_file(&dir.join("cpuinfo"), &cpus::cpuinfo(&read(CPUINFO)?, core, cpus))?;
    write_file(&dir.join("stat"), &cpus::stat(&read(STAT)?, core, cpus))?;
    write_file(&dir.join("meminfo"), &meminfo(&read(MEMINFO)?, memory_bytes))?;
    let (of_cpus, of_memory) = (Path::new(cpus::CPUS), Path::new(cpus::MEMORY_NODES));
    if of_cpus.is_dir() {
        cpus::tree(of_cpus, &dir.join("cpu"), core, cpus)?;
    }
    if of_memory.is_dir() {
        cpus::memory_nodes(of_memory, &dir.join("node"), core, cpus)?;
    }
    block_devices(dir, disk)
}

/// The node's disk as the only block device, in each place where the kernel lists all of them.
fn block_devices(dir: &Path, disk: Option<&Path>) -> io::Result<()> {
    for name in ["block", "block-class", "block-numbers"] {
        fs::create_dir_all(dir.join(name))?;
    }
    if let Some(disk) = disk {
        let number = fs::metadata(disk)?.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        // Where the kernel has what it knows of the device: `devices/virtual/block/loop3` below /sys.
        let place = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))?;
        let name = place.file_name().unwrap_or_default().to_owned();
        let below_sys = place.strip_prefix("/sys").map_err(io::Error::other)?;
        let numbers = format!("{major}:{minor}");
        for (list, link, up) in [
            ("block", name.as_os_str(), ".."),
            ("block-class", name.as_os_str(), "../.."),
            ("block-numbers", numbers.as_ref(), "../.."),
        ] {
            match symlink(Path::new(up).join(below_sys), dir.join(list).join(link)) {
                // A node that is started again.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
    }
    Ok(())
}

/// The node's memory, all of it free; no swap; sizes of the kernel's own pages as they are.
fn meminfo(host: &str, memory_bytes: u64) -> String {
    let size = |line: &str| {
        let key = line.split(':').next().unwrap_or_default();
        match key {
            "MemTotal" | "MemFree" | "MemAvailable" => format!("{key}:{:>16} kB\n", memory_bytes / 1024),
            k if k.starts_with("Huge") || k.starts_with("DirectMap") || k.starts_with("Vmalloc") => format!("{line}\n"),
            _ => format!("{key}:{:>16} kB\n", 0),
        }
    };
    host.lines().map(size).collect()
}

/// The names in a directory of the kernel's; none if it has no such directory.
fn entries(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Writes a file, and the directories above it.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

fn read(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_the_nodes() {
        let text = meminfo("MemTotal:       25251176 kB\nBuffers: 12 kB\nHugePages_Total:       0\n", 256 << 20);
        assert_eq!(text, "MemTotal:          262144 kB\nBuffers:               0 kB\nHugePages_Total:       0\n");
    }
}
