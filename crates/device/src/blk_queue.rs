//! The kernel's view of a device, and what it counts of it: the settings of its queue of requests, and its
//! statistics, below /sys/block.
//!
//! A loop or ublk device looks like one of flash memory, whatever its model is, and what the kernel does by its latency
//! it does in real time. So a device is told what its model is, and how much longer everything takes: the kernel then
//! holds back what it writes behind programs when a target's would (blk-wbt, *Writeback throttling*, in
//! `Documentation/ABI/stable/sysfs-block`).

use std::fs;
use std::path::{Path, PathBuf};

use scale::{RealDuration, Tdf, VirtualDuration};

use crate::drift::{Sum, Sums};

/// The least that reads and syncs may take while the kernel writes behind programs: as long as requests of this length
/// are met, it sends no more of those writes. What block/blk-sysfs.c sets for flash memory, and for platters.
const FLASH: VirtualDuration = VirtualDuration::from_nanos(2_000_000);
const PLATTERS: VirtualDuration = VirtualDuration::from_nanos(75_000_000);

/// The queue of a device.
#[derive(Clone, Debug)]
pub(crate) struct BlkQueue {
    device: PathBuf,
    rotates: bool,
}

impl BlkQueue {
    /// Tells a new device's what its model is, before there is a file system that could ask.
    pub fn of(device: &Path, rotates: bool) -> BlkQueue {
        set(device, "rotational", &u64::from(rotates).to_string());
        BlkQueue { device: device.to_owned(), rotates }
    }

    /// From now on everything takes so many times as long in real time.
    pub fn scale(&self, tdf: Tdf) {
        let latency = tdf.to_real(if self.rotates { PLATTERS } else { FLASH });
        set(&self.device, "wbt_lat_usec", &(latency.as_nanos() / 1000).to_string());
    }
}

/// The kernel's counters of a device (`Documentation/block/stat.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Requests that have ended, in whole ms.
    pub sums: Sums,
    /// How many have not.
    pub under_way: u64,
}

/// The kernel's counters of a device; none if it does not count.
pub(crate) fn stat(device: &Path) -> Option<Stat> {
    let stat = Path::new("/sys/block").join(device.file_name()?).join("stat");
    read(&fs::read_to_string(stat).ok()?)
}

fn read(stat: &str) -> Option<Stat> {
    let fields: Vec<u64> = stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let field = |place: usize| fields.get(place).copied();
    let took = |place| Some(RealDuration::from_nanos(field(place)?.saturating_mul(1_000_000)));
    let sectors = |place| Some(field(place)? << 9);
    let sums = [
        Sum { count: field(0)?, took: took(3)?, bytes: sectors(2)? },
        Sum { count: field(4)?, took: took(7)?, bytes: sectors(6)? },
        Sum { count: field(15)?, took: took(16)?, bytes: 0 },
    ];
    Some(Stat { sums, under_way: field(8)? })
}

/// Sets something of a device's queue. A kernel that has no such setting does nothing by it.
pub(crate) fn set(device: &Path, setting: &str, value: &str) {
    let name = device.file_name().unwrap_or_default();
    let _ = fs::write(Path::new("/sys/block").join(name).join("queue").join(setting), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_counts_is_read() {
        let sum = |count, ms: u64, bytes| Sum { count, took: RealDuration::from_nanos(ms * 1_000_000), bytes };
        let stat =
            "     201        0     1608      180       77     3   616       69    2   249      250   0 0 0 0  120 64";
        let sums = [sum(201, 180, 1608 << 9), sum(77, 69, 616 << 9), sum(120, 64, 0)];
        assert_eq!(read(stat), Some(Stat { sums, under_way: 2 }));
        assert_eq!(read("1 2 3 4 5 6 7 8 9 10 11"), None, "a kernel that does not count flushes");
    }
}
