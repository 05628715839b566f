//! Parameters of a drive of flash memory.

use serde::{Deserialize, Serialize};

use crate::parameters::{LARGEST, ParameterError, sectors, within};

/// So many pages can be read ahead: they are read one by one.
const MOST_AHEAD: u64 = 4_096;

/// A drive of flash memory. Rates are in bytes per virtual second, times in virtual microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SsdParameters {
    /// Its size, in bytes.
    pub capacity_bytes: u64,
    /// How much more flash memory there is, as a part of the capacity (over-provisioning).
    pub spare: f64,
    /// Whether the drive has been written all over, at random, before.
    pub state: State,
    /// The flash memory.
    pub flash: Flash,
    /// Rate of the interface in one direction.
    pub link_bytes_per_s: f64,
    /// Whether it carries as much in the other direction at the same time (PCIe does, SATA does not).
    pub full_duplex: bool,
    /// How many requests the drive takes at a time (32 by SATA's NCQ); others wait before it.
    pub queue_depth: u32,
    /// Work of the controller for a request before it takes up the next one: it sets the most requests per second.
    pub command_us: f64,
    /// Time of a read besides that, flash memory, channel and link.
    pub read_overhead_us: f64,
    /// Time of a write, a flush or a trim besides that, the link and waiting for the cache.
    pub write_overhead_us: f64,
    /// How far the drive reads ahead behind a sequential read; 0: not at all.
    pub read_ahead_bytes: u64,
    /// The cache for writing.
    pub cache: Cache,
    /// Flash memory that is used with one bit a cell while there is enough of it; none: none is.
    pub fast: Option<Fast>,
}

/// History of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing: nothing of what was written takes the place of anything before more has been written than there is.
    Fresh,
    /// It was full, and has been written over at random until that made no difference any more.
    Steady,
}

/// Flash memory: dies on channels, which work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Flash {
    /// Channels between the controller and the dies.
    pub channels: u32,
    /// Dies on each of them.
    pub dies_per_channel: u32,
    /// Rate of a channel.
    pub channel_bytes_per_s: f64,
    /// Bytes that a die reads in one go, and that lie on it side by side.
    pub page_bytes: u64,
    /// Bytes that a die programs in one go: a page of each plane, or of each bit of a cell.
    pub program_bytes: u64,
    /// Bytes that a die erases in one go.
    pub block_bytes: u64,
    /// Reading a page.
    pub read_us: f64,
    /// By which part the time of a read may be shorter or longer: pages of a cell differ.
    pub read_spread: f64,
    /// Programming.
    pub program_us: f64,
    /// Erasing.
    pub erase_us: f64,
    /// How long a read waits until programming or erasing has been suspended; none: until it is finished.
    pub suspend_us: Option<f64>,
}

/// The cache for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cache {
    /// Its size.
    pub bytes: u64,
    /// Whether capacitors keep it alive until it has been written: then a flush has nothing to do.
    pub power_loss_protection: bool,
    /// Whether the drive lies: a flush, and a write through the cache, are complete at once, and nothing is written.
    pub ignores_flush: bool,
}

/// Flash memory that is used with one bit a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fast {
    /// How much can be written so before it has to be moved, which is done when the drive is idle.
    pub bytes: u64,
    /// Programming as much as otherwise in one go.
    pub program_us: f64,
}

impl SsdParameters {
    /// Dies in all.
    pub fn dies(&self) -> u32 {
        self.flash.channels * self.flash.dies_per_channel
    }

    pub(crate) fn check(&self) -> Result<(), ParameterError> {
        sectors("capacity-bytes", self.capacity_bytes, 1 << 20, LARGEST)?;
        within("spare", self.spare, 0.01, 4.0, "of the capacity")?;
        let flash = &self.flash;
        within("flash.channels", f64::from(flash.channels), 1.0, 64.0, "")?;
        within("flash.dies-per-channel", f64::from(flash.dies_per_channel), 1.0, 64.0, "")?;
        within("flash.channel-bytes-per-s", flash.channel_bytes_per_s, 1e6, 1e11, "bytes/s")?;
        sectors("flash.page-bytes", flash.page_bytes, 512, 1 << 20)?;
        multiple("flash.program-bytes", flash.program_bytes, flash.page_bytes, 1 << 24)?;
        multiple("flash.block-bytes", flash.block_bytes, flash.program_bytes, 1 << 36)?;
        within("flash.read-us", flash.read_us, 0.1, 1e5, "µs")?;
        within("flash.read-spread", flash.read_spread, 0.0, 0.9, "of it")?;
        within("flash.program-us", flash.program_us, 0.1, 1e6, "µs")?;
        within("flash.erase-us", flash.erase_us, 0.0, 1e6, "µs")?;
        within("flash.suspend-us", flash.suspend_us.unwrap_or(0.0), 0.0, 1e4, "µs")?;
        within("link-bytes-per-s", self.link_bytes_per_s, 1e6, 1e12, "bytes/s")?;
        within("queue-depth", f64::from(self.queue_depth), 1.0, 65_536.0, "requests")?;
        within("command-us", self.command_us, 0.0, 1e4, "µs")?;
        within("read-overhead-us", self.read_overhead_us, 0.0, 1e5, "µs")?;
        within("write-overhead-us", self.write_overhead_us, 0.0, 1e5, "µs")?;
        sectors("read-ahead-bytes", self.read_ahead_bytes, 0, MOST_AHEAD * flash.page_bytes)?;
        // Open blocks and those being programmed.
        sectors("cache.bytes", self.cache.bytes, 2 * flash.program_bytes, 1 << 36)?;
        if let Some(fast) = &self.fast {
            sectors("fast.bytes", fast.bytes, 0, LARGEST)?;
            within("fast.program-us", fast.program_us, 0.1, flash.program_us, "µs")?;
        }
        Ok(())
    }
}

fn multiple(field: &str, is: u64, of: u64, most: u64) -> Result<(), ParameterError> {
    match is > 0 && is.is_multiple_of(of) && is <= most {
        true => Ok(()),
        false => Err(ParameterError::new(field, is, format!("a multiple of {of}, up to {most} bytes"))),
    }
}
