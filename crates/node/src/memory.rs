//! The memory controller: whether it limits swap, and whom the kernel's OOM killer ended.

use std::fs;
use std::path::PathBuf;

use host::mounts;

/// Processes of `cgroup` (and its descendants) that the OOM killer has ended so far; 0 if the group is gone.
pub(crate) fn oom_kills(cgroup: &str) -> u64 {
    let inside = cgroup.trim_start_matches('/');
    let Some((mount, file)) = mount() else { return 0 };
    let text = fs::read_to_string(mount.join(inside).join(file)).unwrap_or_default();
    let count = text.lines().find_map(|l| l.strip_prefix("oom_kill "));
    count.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// Whether memory and swap together can be limited (version 1: `swapaccount`; version 2: always).
pub(crate) fn limits_swap() -> bool {
    match mount() {
        Some((mount, "memory.oom_control")) => mount.join("memory.memsw.limit_in_bytes").exists(),
        Some(_) => true,
        None => false,
    }
}

/// Where the controller is mounted, and the file of a group that counts OOM kills.
fn mount() -> Option<(PathBuf, &'static str)> {
    let mounts = mounts::all().ok()?;
    let v1 = mounts.iter().find(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == "memory"));
    let v2 = mounts.iter().find(|m| m.kind == "cgroup2");
    v1.map(|m| (m.point.clone(), "memory.oom_control")).or(v2.map(|m| (m.point.clone(), "memory.events")))
}
