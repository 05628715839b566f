//! What the kernel takes a device for: the settings of its queue of requests, below /sys/block.
//!
//! A loop or ublk device looks like one of flash memory, whatever its model is, and what the kernel does by its latency
//! it does in real time. So a device is told what its model is, and how much longer everything takes: the kernel then
//! holds back what it writes behind programs when a target's would (blk-wbt, *Writeback throttling*, in
//! `Documentation/ABI/stable/sysfs-block`).

use std::fs;
use std::path::{Path, PathBuf};

use scale::{Tdf, VirtualDuration};

/// The least that reads and syncs may take while the kernel writes behind programs: as long as requests of this length
/// are met, it sends no more of those writes. What block/blk-sysfs.c sets for flash memory, and for platters.
const FLASH: VirtualDuration = VirtualDuration::from_nanos(2_000_000);
const PLATTERS: VirtualDuration = VirtualDuration::from_nanos(75_000_000);

/// The queue of a device.
#[derive(Clone, Debug)]
pub(crate) struct BlkQueue {
    directory: PathBuf,
    rotates: bool,
}

impl BlkQueue {
    /// Tells a new device's what its model is, before there is a file system that could ask.
    pub fn of(device: &Path, rotates: bool) -> BlkQueue {
        let name = device.file_name().unwrap_or_default();
        let queue = BlkQueue { directory: Path::new("/sys/block").join(name).join("queue"), rotates };
        queue.set("rotational", u64::from(rotates));
        queue.scale(Tdf::ONE);
        queue
    }

    /// From now on everything takes so many times as long in real time.
    pub fn scale(&self, tdf: Tdf) {
        let latency = tdf.to_real(if self.rotates { PLATTERS } else { FLASH });
        self.set("wbt_lat_usec", latency.as_nanos() / 1000);
    }

    /// A kernel that has no such setting does nothing by it.
    fn set(&self, name: &str, value: u64) {
        let _ = fs::write(self.directory.join(name), value.to_string());
    }
}
