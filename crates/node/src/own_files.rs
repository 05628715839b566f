//! Files of `/proc` and `/sys` in which a node sees its own machine: one CPU, its own memory, its own disk.
//!
//! The scheduler already tells a program its CPU (`sched_getaffinity`); these tell those who count CPUs by reading, and
//! `lsblk`.
//! They are written once and do not move: the load in them is that of the moment at which the node was made.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Writes the files into `dir`; gives each with the path at which a node sees it. `disk` is the node's block device.
pub(crate) fn write(
    dir: &Path,
    core: usize,
    memory_bytes: u64,
    disk: Option<&Path>,
) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    fs::create_dir_all(dir)?;
    let list = format!("{core}\n");
    let files = [
        ("online", "/sys/devices/system/cpu/online", list.clone()),
        ("possible", "/sys/devices/system/cpu/possible", list.clone()),
        ("present", "/sys/devices/system/cpu/present", list),
        ("cpuinfo", "/proc/cpuinfo", cpuinfo(&fs::read_to_string("/proc/cpuinfo")?, core)),
        ("stat", "/proc/stat", stat(&fs::read_to_string("/proc/stat")?, core)),
        ("meminfo", "/proc/meminfo", meminfo(&fs::read_to_string("/proc/meminfo")?, memory_bytes)),
    ];
    let write = |(name, target, text): (&str, &str, String)| {
        let path = dir.join(name);
        fs::write(&path, text)?;
        Ok((path, PathBuf::from(target)))
    };
    let mut shown: Vec<_> = files.into_iter().map(write).collect::<io::Result<_>>()?;
    shown.extend(block_devices(dir, disk)?);
    Ok(shown)
}

/// The node's disk as the only block device, in each place where the kernel lists all of them.
fn block_devices(dir: &Path, disk: Option<&Path>) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let lists = [("block", "/sys/block"), ("block-class", "/sys/class/block"), ("block-numbers", "/sys/dev/block")];
    for (name, _) in lists {
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
    Ok(lists.into_iter().map(|(name, target)| (dir.join(name), PathBuf::from(target))).collect())
}

/// The block of one CPU, which says that it is alone.
fn cpuinfo(host: &str, core: usize) -> String {
    let number = |line: &str| line.split_once(':').and_then(|(_, v)| v.trim().parse::<usize>().ok());
    let mine = |block: &&str| {
        let line = block.lines().find(|l| l.starts_with("processor"));
        line.and_then(number) == Some(core)
    };
    let Some(block) = host.split("\n\n").find(mine) else { return host.into() };
    let alone = |line: &str| match line.split_once(':') {
        Some((key, _)) if matches!(key.trim(), "siblings" | "cpu cores") => format!("{key}: 1\n"),
        _ => format!("{line}\n"),
    };
    block.lines().map(alone).chain(["\n".into()]).collect()
}

/// The times of one CPU, as the sum of all and as the only one.
fn stat(host: &str, core: usize) -> String {
    let name = format!("cpu{core} ");
    let own = host.lines().find_map(|l| l.strip_prefix(&name)).unwrap_or_default();
    let rest = host.lines().filter(|l| !l.starts_with("cpu"));
    [format!("cpu  {own}"), format!("{name}{own}")]
        .into_iter()
        .chain(rest.map(Into::into))
        .flat_map(|l| [l, "\n".into()])
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_alone_and_keeps_its_number() {
        let host = "processor\t: 0\nsiblings\t: 2\nflags\t\t: fpu\n\nprocessor\t: 1\nsiblings\t: 2\nflags\t\t: sse\n\n";
        assert_eq!(cpuinfo(host, 1), "processor\t: 1\nsiblings\t: 1\nflags\t\t: sse\n\n");
    }

    #[test]
    fn the_times_are_those_of_the_core() {
        let host = "cpu  3 4\ncpu0 1 1\ncpu1 2 3\nintr 9\nbtime 7\n";
        assert_eq!(stat(host, 1), "cpu  2 3\ncpu1 2 3\nintr 9\nbtime 7\n");
    }

    #[test]
    fn memory_is_the_nodes() {
        let text = meminfo("MemTotal:       25251176 kB\nBuffers: 12 kB\nHugePages_Total:       0\n", 256 << 20);
        assert_eq!(text, "MemTotal:          262144 kB\nBuffers:               0 kB\nHugePages_Total:       0\n");
    }
}
