//! Files of the kernel that no node can read: they tell of the host, reach it, or do something when they are read.
//!
//! Reading is not always looking. A file of `/proc` or `/sys` may make a device (`zram-control/hot_add`), have every
//! processor interrupted (`stat_refresh`, frequencies), hold locks for as long as it takes to go through all memory
//! (`pagetypeinfo`), read whole tables from the host's disk (`mb_groups`), or have the firmware or a device do what its
//! registers do when they are read. The devices of the machine are none of a node's business, all of them.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Files, and directories with all that is in them.
const MASKED: [&str; 48] = [
    "/proc/acpi",
    "/proc/allocinfo",
    "/proc/asound",
    "/proc/bus",
    "/proc/config.gz",
    "/proc/driver",
    // Who writes there has the kernel print what it does.
    "/proc/dynamic_debug",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/lock_stat",
    "/proc/lockdep_stats",
    "/proc/mdstat",
    "/proc/page_owner",
    "/proc/pagetypeinfo",
    // No runtime but crun would mount the node's own there.
    "/proc/partitions",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/sys/vm/stat_refresh",
    "/proc/timer_list",
    "/proc/tty/driver",
    "/proc/vmallocinfo",
    "/proc/vmcore",
    "/proc/xen",
    "/sys/bus",
    // Who reads `hot_add` has made a device on the host.
    "/sys/class/zram-control",
    "/sys/devices/system/cpu/cpufreq",
    "/sys/devices/system/edac",
    "/sys/devices/system/machinecheck",
    "/sys/devices/virtual/dmi",
    "/sys/devices/virtual/hwmon",
    "/sys/devices/virtual/powercap",
    "/sys/devices/virtual/thermal",
    "/sys/firmware",
    "/sys/fs/btrfs",
    "/sys/fs/ext4",
    "/sys/fs/xfs",
    "/sys/hypervisor",
    "/sys/kernel",
    "/sys/module",
    "/sys/power",
];

/// Where the kernel has a directory for everything that devices hang on.
const DEVICES: &str = "/sys/devices";
/// The parts that are no device of the machine's.
const NO_DEVICES: [&str; 2] = ["system", "virtual"];
/// Where each processor has a directory.
const PROCESSORS: &str = "/sys/devices/system/cpu";
/// Tables that the firmware is asked for in there.
const OF_FIRMWARE: &str = "acpi_cppc";

/// Those that this machine has. Each costs a mount in each node.
pub(crate) fn paths() -> &'static [String] {
    static PATHS: OnceLock<Vec<String>> = OnceLock::new();
    PATHS.get_or_init(|| {
        let fixed = MASKED.iter().map(|path| path.to_string());
        let devices = below(DEVICES).into_iter().filter(|name| !NO_DEVICES.contains(&name.as_str()));
        // A counter of events has a type, and is no device either.
        let devices = devices.map(|name| format!("{DEVICES}/{name}")).filter(|at| !Path::new(at).join("type").exists());
        let processors = below(PROCESSORS).into_iter().map(|name| format!("{PROCESSORS}/{name}/{OF_FIRMWARE}"));
        fixed.chain(devices).chain(processors).filter(|path| Path::new(path).exists()).collect()
    })
}

/// The directories in one, by name.
fn below(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> = directories.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
