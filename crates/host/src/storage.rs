//! Bytes that programs have read from block devices, and what devices have done.

use std::fs::File;
use std::os::unix::fs::FileExt;
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

/// Requests to a block device that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceWork {
    /// How many were reads.
    pub reads: u64,
    /// Bytes of these.
    pub read_bytes: u64,
    /// How many were writes.
    pub writes: u64,
    /// Bytes of these.
    pub written_bytes: u64,
}

/// The kernel's counters of a block device, which are read again and again without an allocation.
#[derive(Debug)]
pub struct DeviceCounters(File);

impl DeviceCounters {
    /// Finds the device at `path`, such as `/dev/loop3`; nothing if there is none.
    pub fn of(path: &Path) -> Option<DeviceCounters> {
        let stat = Path::new("/sys/class/block").join(path.file_name()?).join("stat");
        Some(DeviceCounters(File::open(stat).ok()?))
    }

    /// Its counters so far; nothing if it has gone.
    pub fn read(&self) -> Option<DeviceWork> {
        let mut text = [0; 512];
        let length = self.0.read_at(&mut text, 0).ok()?;
        work_in(std::str::from_utf8(&text[..length]).ok()?)
    }
}

/// By `Documentation/block/stat.rst`: requests, merged ones, sectors of 512 bytes and ms of reads, then of writes.
fn work_in(stat: &str) -> Option<DeviceWork> {
    let mut fields = stat.split_ascii_whitespace().map_while(|field| field.parse::<u64>().ok());
    let reads = fields.next()?;
    let read_bytes = fields.nth(1)? << 9;
    let writes = fields.nth(1)?;
    let written_bytes = fields.nth(1)? << 9;
    Some(DeviceWork { reads, read_bytes, writes, written_bytes })
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

    #[test]
    fn what_a_device_has_done_is_read_from_its_own_columns() {
        let stat = "     201        0     1608      180       77     3   616       69    2   249      250\n";
        let work = DeviceWork { reads: 201, read_bytes: 1608 << 9, writes: 77, written_bytes: 616 << 9 };
        assert_eq!(work_in(stat), Some(work));
        assert_eq!(work_in("201 0 1608 180 77"), None);
        assert!(DeviceCounters::of(Path::new("/dev/no-such-device")).is_none());
    }
}
