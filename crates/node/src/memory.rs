//! The memory controller: whether it limits swap, and whom the kernel's OOM killer ended.

use std::fs;
use std::path::PathBuf;

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
    // Thread-self, because the enclosure's thread has a /proc in which its process does not exist: there, PID 1 sees
    // the same mounts.
    let text = fs::read_to_string("/proc/thread-self/mountinfo").or_else(|_| fs::read_to_string("/proc/1/mountinfo"));
    let text = text.ok()?;
    let parse = |line: &str| -> Option<(PathBuf, String, bool)> {
        let (left, right) = line.split_once(" - ")?;
        let point = PathBuf::from(left.split(' ').nth(4)?);
        let mut right = right.split(' ');
        let kind = right.next()?.to_string();
        let memory = right.nth(1)?.split(',').any(|o| o == "memory");
        Some((point, kind, memory))
    };
    let mounts: Vec<_> = text.lines().filter_map(parse).collect();
    let v1 = mounts.iter().find(|(_, kind, memory)| kind == "cgroup" && *memory);
    let v2 = mounts.iter().find(|(_, kind, _)| kind == "cgroup2");
    v1.map(|m| (m.0.clone(), "memory.oom_control")).or(v2.map(|m| (m.0.clone(), "memory.events")))
}
