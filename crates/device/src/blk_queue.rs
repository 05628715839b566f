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

/// Sets something of a device's queue. A kernel that has no such setting does nothing by it.
pub(crate) fn set(device: &Path, setting: &str, value: &str) {
    let name = device.file_name().unwrap_or_default();
    let _ = fs::write(Path::new("/sys/block").join(name).join("queue").join(setting), value);
}
