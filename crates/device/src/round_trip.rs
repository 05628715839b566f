//! How long a request is on its way between whoever asks and whoever serves.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::thread;

use host::Awake;
use host::sched::LightSession;
use rustix::fs::{CWD, Mode, OFlags, openat};
use scale::RealDuration;

use crate::blk_queue::{self, Stat};
use crate::drift::{self, Sum};
use crate::error::Error;
use crate::queue::Ways;
use crate::shared::Shared;

/// How long requests take by which the way to here and back is measured, and how many there are.
const PROBE: RealDuration = RealDuration::from_nanos(400_000);
const PROBES: usize = 120;
/// One that was held up counts for so many times the median at most.
const HELD_UP: u64 = 2;
/// How long the long ones among them are: as long as a request may be.
const SHORT: usize = 4 << 10;
const LONG: usize = 1 << 20;
/// Of how many of this process's cores none falls asleep meanwhile: whoever serves is on one of them, and where it may
/// be on more, no run has kept it to one.
const CORES: usize = 2;

/// A block of memory as direct I/O needs it.
#[repr(align(4096))]
struct DirectBlock([u8; LONG]);

/// How long requests are on their way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// How much of that whoever answers needs to wake up.
    pub waking: RealDuration,
    /// There and back.
    pub ways: Ways,
    /// How much of a short one the kernel does not count, if it counts any.
    pub outside: Option<RealDuration>,
}

/// Measures the way to a device, whose beginning is what it was afterwards: what requests take that are answered after
/// a millisecond, without that. They are asked for on the core `asker`, if there is that of which it is known; and, as
/// in a run, neither that nor this thread's own falls asleep.
pub(crate) fn measure(shared: &Shared, device: &Path, asker: Option<usize>) -> Result<Way, Error> {
    let own = host::cores::usable().map_err(|e| Error::system("cannot tell the cores of whoever serves disks", e))?;
    // The kernel's threads are on that way, and what keeps cores awake must not have theirs as others do.
    let _light = LightSession::begin();
    let _awake = own.into_iter().take(CORES).chain(asker).map(Awake::keep).collect::<Result<Vec<_>, _>>()?;
    let work = || {
        asker.map_or(Ok(()), host::pin).map_err(|e| Error::system("cannot ask from the nodes' core", e))?;
        measure_here(shared, device)
    };
    thread::scope(|scope| {
        // A long block is moved over the stack, where nothing is optimised.
        let started = thread::Builder::new().stack_size(8 * LONG).spawn_scoped(scope, work);
        let thread = started.map_err(|e| Error::system("cannot start a thread that measures the way to a disk", e))?;
        let ended = |_| Err(Error::Server("the thread that measures the way to it has ended".into()));
        thread.join().unwrap_or_else(ended)
    })
}

fn measure_here(shared: &Shared, device: &Path) -> Result<Way, Error> {
    let failed = |e: rustix::io::Errno| Error::file("read or write", device, e);
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let open = openat(CWD, device, flags, Mode::empty()).map_err(failed)?;
    shared.change(|queue| queue.answer_after(PROBE));
    let mut block = Box::new(DirectBlock([0; LONG]));
    let mut of = |probe| of(open.as_fd(), &mut block.0, probe).map_err(failed);
    // Each reads what the next one writes.
    let mut long = [of(Probe::Read(LONG))?, of(Probe::Write(LONG))?];
    let before = blk_queue::stat(device);
    let (mut write, mut flush) = (of(Probe::Write(SHORT))?, of(Probe::Flush)?);
    shared.change(|queue| queue.answer_after(PROBE));
    let mut read = of(Probe::Read(SHORT))?;
    let outside = outside(before, blk_queue::stat(device), [&read, &write, &flush]);
    let mut waking = shared.state().disks[0].queue.waking().to_vec();
    let now = host::now();
    shared.change(|queue| queue.pass(now));
    let ([long_read, long_write], [read, write, flush]) =
        (long.each_mut().map(|t| mean(t)), [&mut read, &mut write, &mut flush].map(|t| mean(t)));
    let spent = read.min(write).min(flush);
    let ways = Ways {
        spent,
        read,
        write,
        flush,
        read_mib: long_read.saturating_sub(read),
        write_mib: long_write.saturating_sub(write),
    };
    Ok(Way { ways, waking: mean(&mut waking).min(spent), outside })
}

/// How much of their way the kernel does not count of short requests, by what it had counted before them and after: of
/// that kind of which it is the least, as the others were held up on it.
fn outside(before: Option<Stat>, after: Option<Stat>, ways: [&[RealDuration]; 3]) -> Option<RealDuration> {
    let counted = drift::since(&before?.sums, &after?.sums, PROBES as u64);
    let of = |(sum, ways): (&Sum, &[RealDuration])| {
        let seen: u64 = ways.iter().map(|way| (PROBE + *way).as_nanos()).sum();
        RealDuration::from_nanos(seen.saturating_sub(sum.took.as_nanos()) / PROBES as u64)
    };
    // Others', while there is nobody else? Then it counts in a way of its own.
    let agrees = counted.iter().all(|sum| sum.count == PROBES as u64);
    counted.iter().zip(ways).map(of).min().filter(|_| agrees)
}

/// A request to the device; of reads and writes, how many bytes of the beginning.
#[derive(Clone, Copy, Debug)]
enum Probe {
    Read(usize),
    Write(usize),
    Flush,
}

/// How long such requests are on their way, one after the other.
fn of(device: BorrowedFd<'_>, block: &mut [u8], probe: Probe) -> rustix::io::Result<Vec<RealDuration>> {
    let mut took = Vec::new();
    for _ in 0..PROBES {
        let before = host::now();
        match probe {
            Probe::Read(length) => rustix::io::pread(device, &mut block[..length], 0).map(drop)?,
            Probe::Write(length) => rustix::io::pwrite(device, &block[..length], 0).map(drop)?,
            Probe::Flush => rustix::fs::fdatasync(device)?,
        }
        took.push(host::now().since(before).saturating_sub(PROBE));
    }
    Ok(took)
}

/// The mean and not the median, for some requests are held up a little, and so will some in the run.
fn mean(values: &mut [RealDuration]) -> RealDuration {
    values.sort_unstable();
    let Some(median) = values.get(values.len() / 2) else { return RealDuration::ZERO };
    let most = HELD_UP * median.as_nanos();
    let sum: u64 = values.iter().map(|value| value.as_nanos().min(most)).sum();
    RealDuration::from_nanos(sum / values.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_up_a_little_counts_and_nothing_counts_for_much() {
        let us = |us: u64| RealDuration::from_nanos(us * 1_000);
        assert_eq!(mean(&mut [us(10), us(12), us(11), us(18), us(9)]), us(12));
        assert_eq!(mean(&mut [us(10), us(50_000), us(10), us(11), us(9)]).as_nanos(), 12_000);
        assert_eq!(mean(&mut []), RealDuration::ZERO);
    }
}
