//! How long a request is on its way between whoever asks and whoever serves.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use scale::RealDuration;

use crate::error::Error;
use crate::queue::LongWay;
use crate::shared::Shared;

/// How long requests take by which the way to here and back is measured, and how many there are.
const PROBE: RealDuration = RealDuration::from_nanos(1_000_000);
const PROBES: usize = 40;
/// How long the long ones among them are: as long as a request may be.
const SHORT: usize = 4 << 10;
const LONG: usize = 1 << 20;

/// A block of memory as direct I/O needs it.
#[repr(align(4096))]
struct Block([u8; LONG]);

/// How long requests are on their way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// There and back, a short one.
    pub spent: RealDuration,
    /// How much of that whoever answers needs to wake up.
    pub waking: RealDuration,
    /// How much more long ones need.
    pub long: LongWay,
}

/// Measures the way to a device, whose beginning is what it was afterwards: what requests take that are answered after
/// a millisecond, without that.
pub(crate) fn measure(shared: &Shared, device: &Path) -> Result<Way, Error> {
    let failed = |e: rustix::io::Errno| Error::file("read or write", device, e);
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let open = openat(CWD, device, flags, Mode::empty()).map_err(failed)?;
    shared.change(|queue| queue.answer_after(PROBE));
    let mut block = Box::new(Block([0; LONG]));
    let mut of = |length, write| of(std::os::fd::AsFd::as_fd(&open), &mut block.0[..length], write).map_err(failed);
    // Each reads what the next one writes.
    let long_read = of(LONG, false)?;
    let long_write = of(LONG, true)?;
    let write = of(SHORT, true)?;
    shared.change(|queue| queue.answer_after(PROBE));
    let spent = of(SHORT, false)?;
    let mut waking = shared.state().queues[0].waking().to_vec();
    let now = host::now();
    shared.change(|queue| queue.pass(now));
    let waking = median(&mut waking).min(spent);
    let long = LongWay { read: long_read.saturating_sub(spent), write: long_write.saturating_sub(write) };
    Ok(Way { spent, waking, long })
}

/// How long a request of the beginning is on its way: the median.
fn of(device: BorrowedFd<'_>, block: &mut [u8], write: bool) -> rustix::io::Result<RealDuration> {
    let mut took = Vec::new();
    for _ in 0..PROBES {
        let before = host::now();
        match write {
            true => rustix::io::pwrite(device, block, 0)?,
            false => rustix::io::pread(device, &mut *block, 0)?,
        };
        took.push(host::now().since(before).saturating_sub(PROBE));
    }
    Ok(median(&mut took))
}

fn median(values: &mut [RealDuration]) -> RealDuration {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
