//! A node's CPUs in `/proc` and `/sys`: as many as its machine has, each like the core that they all share.
//!
//! One package, whose cores have one thread each and share the last level of cache: the kernel says so of most virtual
//! machines, too.

use std::fmt::Write;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::{entries, read, write_file};

/// Where the kernel lists CPUs.
pub(super) const CPUS: &str = "/sys/devices/system/cpu";
/// And kinds of memory, with the CPUs that are near to each.
pub(super) const MEMORY_NODES: &str = "/sys/devices/system/node";

/// From this level on, CPUs share a cache.
const SHARED_LEVEL: u32 = 3;

/// `/proc/cpuinfo`: the core's own block for each CPU.
pub(super) fn cpuinfo(host: &str, core: usize, cpus: &Range<usize>) -> String {
    let number = |line: &str| line.split_once(':').and_then(|(_, v)| v.trim().parse::<usize>().ok());
    let mine = |block: &&str| {
        let line = block.lines().find(|l| l.starts_with("processor"));
        line.and_then(number) == Some(core)
    };
    let Some(block) = host.split("\n\n").find(mine) else { return host.into() };
    let mut text = String::new();
    for cpu in cpus.clone() {
        for line in block.lines() {
            let (key, place) = (line.split(':').next().unwrap_or_default(), cpu - cpus.start);
            let value = match key.trim() {
                "processor" => cpu,
                "siblings" | "cpu cores" => cpus.len(),
                "physical id" => 0,
                "core id" | "apicid" | "initial apicid" => place,
                _ => {
                    text += line;
                    text += "\n";
                    continue;
                }
            };
            let _ = writeln!(text, "{key}: {value}");
        }
        text += "\n";
    }
    text
}

/// `/proc/stat`: the core's times for each CPU, and their sum.
pub(super) fn stat(host: &str, core: usize, cpus: &Range<usize>) -> String {
    let name = format!("cpu{core} ");
    let own = host.lines().find_map(|l| l.strip_prefix(&name)).unwrap_or_default();
    let sum: Vec<String> = own
        .split_whitespace()
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .map(|ticks| ticks.saturating_mul(cpus.len() as u64).to_string())
        .collect();
    let mut text = format!("cpu  {}\n", sum.join(" "));
    for cpu in cpus.clone() {
        let _ = writeln!(text, "cpu{cpu} {own}");
    }
    for line in host.lines().filter(|l| !l.starts_with("cpu")) {
        text += line;
        text += "\n";
    }
    text
}

/// The directory of all CPUs, with that of each: what the kernel has for the core, in the numbers of the node.
pub(super) fn tree(host: &Path, tree: &Path, core: usize, cpus: &Range<usize>) -> io::Result<()> {
    for list in ["online", "possible", "present", "enabled"] {
        if host.join(list).exists() {
            write_file(&tree.join(list), &list_of(cpus))?;
        }
    }
    for (name, text) in
        [("offline", "\n"), ("isolated", "\n"), ("smt/active", "0\n"), ("smt/control", "notsupported\n")]
    {
        if host.join(name).exists() {
            write_file(&tree.join(name), text)?;
        }
    }
    copy_texts(host, tree, &["kernel_max", "modalias"])?;
    copy_all(&host.join("vulnerabilities"), &tree.join("vulnerabilities"))?;
    let like = host.join(format!("cpu{core}"));
    for cpu in cpus.clone() {
        let own = tree.join(format!("cpu{cpu}"));
        // As on most machines, the first cannot be taken away.
        if cpu > 0 {
            write_file(&own.join("online"), "1\n")?;
        }
        topology(&like.join("topology"), &own.join("topology"), cpu, cpus)?;
        caches(&like.join("cache"), &own.join("cache"), cpu, cpus)?;
    }
    Ok(())
}

/// The directory of kinds of memory: one, near to all CPUs.
pub(super) fn memory_nodes(host: &Path, tree: &Path, _core: usize, cpus: &Range<usize>) -> io::Result<()> {
    for list in ["online", "possible", "has_cpu", "has_memory", "has_normal_memory"] {
        if host.join(list).exists() {
            write_file(&tree.join(list), "0\n")?;
        }
    }
    let own = tree.join("node0");
    write_file(&own.join("cpulist"), &list_of(cpus))?;
    write_file(&own.join("cpumap"), &mask_of(cpus, cpus.end))?;
    write_file(&own.join("distance"), "10\n")
}

fn topology(host: &Path, own: &Path, cpu: usize, cpus: &Range<usize>) -> io::Result<()> {
    let alone = cpu..cpu + 1;
    for entry in entries(host)? {
        let text = match entry.as_str() {
            "core_id" => format!("{}\n", cpu - cpus.start),
            "cluster_id" => "65535\n".into(),
            name if name.ends_with("_id") => "0\n".into(),
            name => {
                let (group, list) = match name.strip_suffix("_list") {
                    Some(group) => (group, true),
                    None => (name, false),
                };
                let members = match group {
                    "thread_siblings" | "core_cpus" | "cluster_cpus" => &alone,
                    "core_siblings" | "package_cpus" | "die_cpus" => cpus,
                    _ => continue,
                };
                if list { list_of(members) } else { mask_of(members, cpus.end) }
            }
        };
        write_file(&own.join(entry), &text)?;
    }
    Ok(())
}

fn caches(host: &Path, own: &Path, cpu: usize, cpus: &Range<usize>) -> io::Result<()> {
    let alone = cpu..cpu + 1;
    for index in entries(host)?.into_iter().filter(|name| name.starts_with("index")) {
        let (host, own) = (host.join(&index), own.join(&index));
        copy_all(&host, &own)?;
        let level = read(host.join("level")).ok().and_then(|level| level.trim().parse::<u32>().ok());
        let shared = level.is_some_and(|level| level >= SHARED_LEVEL);
        let members = if shared { cpus } else { &alone };
        write_file(&own.join("shared_cpu_list"), &list_of(members))?;
        write_file(&own.join("shared_cpu_map"), &mask_of(members, cpus.end))?;
        if own.join("id").exists() {
            write_file(&own.join("id"), &format!("{}\n", if shared { 0 } else { cpu - cpus.start }))?;
        }
    }
    Ok(())
}

/// `0-3`, as the kernel writes a list of CPUs.
fn list_of(cpus: &Range<usize>) -> String {
    match cpus.len() {
        1 => format!("{}\n", cpus.start),
        _ => format!("{}-{}\n", cpus.start, cpus.end - 1),
    }
}

/// `00ff,ffffffff`, as the kernel writes a mask of so many CPUs: 32 of them a word, the last word first.
fn mask_of(members: &Range<usize>, of: usize) -> String {
    let words = (0..of.div_ceil(32)).rev().map(|word| {
        let bits = (word * 32..of.min(word * 32 + 32)).filter(|cpu| members.contains(cpu));
        let value = bits.fold(0u32, |value, cpu| value | 1 << (cpu % 32));
        let digits = (of - word * 32).min(32).div_ceil(4);
        format!("{value:0digits$x}")
    });
    words.collect::<Vec<_>>().join(",") + "\n"
}

/// Copies what may be read of these files.
fn copy_texts<S: AsRef<str>>(host: &Path, own: &Path, names: &[S]) -> io::Result<()> {
    for name in names {
        // Some can be written only, or give an error on this machine.
        if let Ok(text) = read(host.join(name.as_ref())) {
            write_file(&own.join(name.as_ref()), &text)?;
        }
    }
    Ok(())
}

/// Copies the files of a directory, but for directories in it.
fn copy_all(host: &Path, own: &Path) -> io::Result<()> {
    copy_texts(host, own, &entries(host)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\nsiblings\t: 2\ncore id\t\t: 0\nflags\t\t: fpu\n\n\
                           processor\t: 1\nsiblings\t: 2\ncore id\t\t: 1\nflags\t\t: sse\n\n";

    #[test]
    fn each_cpu_is_like_the_core() {
        let one = "processor\t: 0\nsiblings\t: 1\ncore id\t\t: 0\nflags\t\t: sse\n\n";
        assert_eq!(cpuinfo(CPUINFO, 1, &(0..1)), one);
        let block = |cpu| format!("processor\t: {cpu}\nsiblings\t: 3\ncore id\t\t: {cpu}\nflags\t\t: sse\n\n");
        assert_eq!(cpuinfo(CPUINFO, 1, &(0..3)), [0, 1, 2].map(block).concat());
        // In real time, whose calls tell the number of the core.
        assert!(cpuinfo(CPUINFO, 1, &(1..2)).starts_with("processor\t: 1\nsiblings\t: 1\ncore id\t\t: 0\n"));
    }

    #[test]
    fn times_are_those_of_the_core() {
        let host = "cpu  3 4\ncpu0 1 1\ncpu1 2 3\nintr 9\nbtime 7\n";
        assert_eq!(stat(host, 1, &(0..1)), "cpu  2 3\ncpu0 2 3\nintr 9\nbtime 7\n");
        assert_eq!(stat(host, 1, &(0..2)), "cpu  4 6\ncpu0 2 3\ncpu1 2 3\nintr 9\nbtime 7\n");
        assert_eq!(stat(host, 1, &(1..2)), "cpu  2 3\ncpu1 2 3\nintr 9\nbtime 7\n");
    }

    #[test]
    fn lists_and_masks_are_written_as_the_kernel_does() {
        assert_eq!(
            (list_of(&(0..1)), list_of(&(0..4)), list_of(&(3..4))),
            ("0\n".into(), "0-3\n".into(), "3\n".into())
        );
        assert_eq!((mask_of(&(0..1), 1), mask_of(&(0..2), 2)), ("1\n".into(), "3\n".into()));
        assert_eq!(mask_of(&(0..4), 4), "f\n");
        assert_eq!(mask_of(&(4..5), 6), "10\n");
        assert_eq!(mask_of(&(0..40), 40), "ff,ffffffff\n");
        assert_eq!(mask_of(&(2..3), 40), "00,00000004\n");
        assert_eq!(
            mask_of(&(255..256), 256),
            "80000000,00000000,00000000,00000000,00000000,00000000,00000000,00000000\n"
        );
    }

    #[test]
    fn the_directory_of_cpus_is_that_of_one_package() {
        let dir = tempfile::tempdir().unwrap();
        let (host, own) = (dir.path().join("host"), dir.path().join("own"));
        for (name, text) in [
            ("online", "0-1\n"),
            ("offline", "2-7\n"),
            ("kernel_max", "255\n"),
            ("smt/active", "1\n"),
            ("vulnerabilities/meltdown", "Not affected\n"),
            ("cpu1/topology/core_id", "1\n"),
            ("cpu1/topology/physical_package_id", "1\n"),
            ("cpu1/topology/thread_siblings_list", "0-1\n"),
            ("cpu1/topology/core_siblings", "3\n"),
            ("cpu1/cache/index0/level", "1\n"),
            ("cpu1/cache/index0/id", "1\n"),
            ("cpu1/cache/index0/shared_cpu_list", "0-1\n"),
            ("cpu1/cache/index3/level", "3\n"),
            ("cpu1/cache/index3/size", "32768K\n"),
        ] {
            write_file(&host.join(name), text).unwrap();
        }
        tree(&host, &own, 1, &(0..4)).unwrap();
        // Once more, as of a node that is started again.
        tree(&host, &own, 1, &(0..4)).unwrap();
        let shown = |name: &str| read(own.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (name, text) in [
            ("online", "0-3"),
            ("offline", ""),
            ("kernel_max", "255"),
            ("smt/active", "0"),
            ("vulnerabilities/meltdown", "Not affected"),
            ("cpu2/online", "1"),
            ("cpu2/topology/core_id", "2"),
            ("cpu2/topology/physical_package_id", "0"),
            ("cpu2/topology/thread_siblings_list", "2"),
            ("cpu2/topology/core_siblings", "f"),
            ("cpu3/cache/index0/shared_cpu_map", "8"),
            ("cpu3/cache/index0/id", "3"),
            ("cpu3/cache/index3/shared_cpu_list", "0-3"),
            ("cpu3/cache/index3/size", "32768K"),
        ] {
            assert_eq!(shown(name), format!("{text}\n"), "{name}");
        }
        assert!(!own.join("possible").exists(), "the host has none");
        assert!(!own.join("cpu0/online").exists() && !own.join("cpu4").exists());
    }
}
