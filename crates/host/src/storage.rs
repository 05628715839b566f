//! Bytes that programs have read from block devices.

use std::path::Path;

use crate::cgroup;

/// Bytes that the processes of the group at `path` (as [`cgroup::Tree::path`] gives it) have had read from any block
/// device so far, those included that they have waited for. What was in the page cache does not count. `None` if there
/// is no process, or the kernel does not count that (CONFIG_TASK_IO_ACCOUNTING).
pub fn read_by_group(path: &str) -> Option<u64> {
    let of = |pid: u32| read_bytes(&std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("io")).ok()?);
    cgroup::processes(path).into_iter().filter_map(of).reduce(|a, b| a + b)
}

fn read_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_from_devices_is_one_of_several_lines() {
        assert_eq!(read_bytes("rchar: 6976\nsyscr: 10\nread_bytes: 4096\nwrite_bytes: 7\n"), Some(4096));
        assert_eq!(read_bytes("rchar: 6976\n"), None);
    }

    #[test]
    fn a_group_that_is_not_there_has_read_nothing_that_is_known() {
        assert_eq!(read_by_group("/diorama-none/x"), None);
    }
}
