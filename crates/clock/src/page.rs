//! The clock page: what all nodes of an experiment read their clocks by.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use scale::{Fixed, RealInstant, Tdf, VirtualInstant};

use crate::Error;
use crate::layout::{CHANGES, COOKIE, IMAGE_ROOM, MEMFD_SIZE, PAGE, PAGE_SIZE};
use crate::memory::{Plain, read_memory};

/// The guest image, an ELF file laid out as it is mapped.
pub(crate) const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/image"));

/// `struct clock_page` of `guest/dilation.h`.
#[repr(C)]
struct Shared {
    sequence: AtomicU32,
    kernel_vdso_is_slow: u32,
    values: Values,
    past: Past,
}

/// The guests' memory of what the rate was, as in `guest/dilation.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Past {
    used: u64,
    /// Real and virtual `CLOCK_MONOTONIC` when the rate changed; the last is the base of the values in force.
    change: [(u64, u64); CHANGES as usize],
}

const _: () = assert!(IMAGE_ROOM + PAGE_SIZE < MEMFD_SIZE && IMAGE.len() as u64 <= MEMFD_SIZE);
const _: () = assert!(size_of::<Shared>() as u64 <= COOKIE - IMAGE_ROOM);

impl Past {
    fn push(&mut self, real: u64, virt: u64) {
        if self.used == CHANGES {
            // The first, virtual zero, stays: what was before it is not dilated.
            self.change.copy_within(2.., 1);
            self.used -= 1;
        }
        self.change[self.used as usize] = (real, virt);
        self.used += 1;
    }

    /// Adds a time before now, if it can be counted on both clocks: the host has not been started since.
    fn push_stretch(&mut self, stretch: &Stretch, values: &Values) {
        let count = |date: u64, offset: i64| u64::try_from((date as i64).checked_sub(offset)?).ok();
        let ends = [0, 1].map(|end| {
            Some((count(stretch.real[end], values.host_offset)?, count(stretch.virt[end], values.realtime_offset)?))
        });
        let last = self.used.checked_sub(1).map_or((0, 0), |last| self.change[last as usize]);
        if let [Some(begin), Some(end)] = ends
            && last.0 <= begin.0
            && last.1 <= begin.1
            && begin.0 <= end.0
            && begin.1 <= end.1
            && end.0 <= values.real_base.max(begin.0)
        {
            self.push(begin.0, begin.1);
            self.push(end.0, end.1);
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Values {
    real_base: u64,
    virtual_base: u64,
    rate_whole: u64,
    rate_frac: u64,
    tdf_num: u64,
    tdf_den: u64,
    realtime_offset: i64,
    tai_offset: i64,
    host_offset: i64,
    // Fields derived from the others.
    second_rate: u64,
    second: u64,
    date_second: u64,
}

// SAFETY: `repr(C)`, and all its parts are integers of 64 bits.
unsafe impl Plain for Values {}

impl Values {
    fn tdf(&self) -> Tdf {
        Tdf::new(self.tdf_num, self.tdf_den).expect("it was written as a factor")
    }

    /// The guests' `CLOCK_MONOTONIC` at an instant of the host's.
    fn at(&self, real: u64) -> u64 {
        let rate = Fixed { whole: self.rate_whole, frac: self.rate_frac };
        self.virtual_base + rate.times(real.saturating_sub(self.real_base))
    }

    /// Another rate from `now` on, which `past` is to remember.
    fn turn_to(&mut self, tdf: Tdf, now: u64, past: &mut Past) {
        (self.virtual_base, self.real_base) = (self.at(now), now);
        self.run_at(tdf);
        past.push(self.real_base, self.virtual_base);
    }

    /// Derives the constants by which a guest tells the second without a division.
    fn derive(&mut self) {
        const SECOND: u64 = 1_000_000_000;
        self.second_rate = self.tdf().seconds_per_real_ns();
        self.second = self.virtual_base / SECOND;
        self.date_second = self.virtual_base.wrapping_add_signed(self.realtime_offset) / SECOND;
    }

    fn run_at(&mut self, tdf: Tdf) {
        let (num, den) = tdf.parts_for_c();
        let rate = tdf.pace();
        (self.rate_whole, self.rate_frac) = (rate.whole, rate.frac);
        (self.tdf_num, self.tdf_den) = (num, den);
    }
}

/// How long the page stays locked before a change takes effect: see [`ClockPage::write`].
const SETTLE_NS: u64 = 1_000;

/// Virtual zero: the instant at which the clocks of all nodes began to run slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zero {
    /// Virtual zero on the host's `CLOCK_MONOTONIC`.
    pub real: RealInstant,
    /// The date that the nodes see at virtual zero, the host's own if they do not go on from an earlier one: ns since
    /// 1970.
    pub unix_ns: u64,
}

/// Clocks of an earlier run, to go on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// The date from which they go on: ns since 1970.
    pub unix_ns: u64,
    /// When they ran before, earliest first.
    pub stretches: Vec<Stretch>,
}

/// A time in which clocks ran at one rate. Files of that time keep their dates by it, as long as the host has not been
/// started since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The host's date at its beginning and its end: ns since 1970.
    pub real: [u64; 2],
    /// The clocks' own date at both.
    pub virt: [u64; 2],
}

/// The page that the image in every dilated process reads, and the image itself, in one sealed memfd.
///
/// Until [`ClockPage::start`] a node would see the host's own clocks at the host's pace (nothing should run yet that
/// cares: containers are being set up). From then on virtual time runs at 1/TDF of real time, from the host's date.
/// Cloning gives another handle to the same page.
#[derive(Clone, Debug)]
pub struct ClockPage(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The factor at the start.
    tdf: Tdf,
    /// Read-only descriptor of the memfd, for the guests.
    memfd: OwnedFd,
    /// Number at the end of the page, which no other page has.
    cookie: u64,
    shared: *mut Shared,
    writer: Mutex<Writer>,
}

/// Who may write the page: there is one for each, behind its lock.
#[derive(Debug)]
struct Writer {
    shared: *mut Shared,
    /// Result of [`ClockPage::start`]: virtual zero, and what the guests' `CLOCK_MONOTONIC` was then.
    start: Option<(Zero, u64)>,
}

// SAFETY: `shared` points to a mapping that lives as long as `Inner`; it is written only by
// [`Writer::write`], behind the mutex, and read under its sequence lock.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl ClockPage {
    /// A page for nodes dilated by `tdf`. The clocks run as the host's until [`start`](Self::start).
    pub fn new(tdf: Tdf) -> Result<ClockPage, Error> {
        let writable = memfd()?;
        let mut file = File::from(writable);
        file.write_all(IMAGE).map_err(Error::system("the guest image cannot be written"))?;
        file.set_len(MEMFD_SIZE).map_err(Error::system("the guest image cannot be written"))?;
        // Seeded by the kernel's random numbers: enough to tell two pages apart.
        let cookie = RandomState::new().build_hasher().finish();
        file.write_all_at(&cookie.to_ne_bytes(), COOKIE).map_err(Error::system("the clock page cannot be written"))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let mapped = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), PAGE_SIZE as usize, prot, MapFlags::SHARED, &file, IMAGE_ROOM)
        };
        let mapped = mapped.map_err(Error::system("the clock page cannot be mapped"))?;
        // Our mapping stays writable, no new one can be.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(Error::system("the clock page cannot be sealed"))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let memfd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(Error::system("the clock page cannot be reopened read-only; is /proc mounted?"))?;

        let shared: *mut Shared = mapped.cast();
        let writer = Writer { shared, start: None };
        let page = ClockPage(Arc::new(Inner { tdf, memfd, cookie, shared, writer: Mutex::new(writer) }));
        // SAFETY: mapped above, page-aligned, large enough, and no guest has it yet.
        unsafe { (*page.0.shared).kernel_vdso_is_slow = u32::from(vdso_is_slow()) };
        let realtime_offset = offset(libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC);
        let tai_offset = offset(libc::CLOCK_TAI, libc::CLOCK_REALTIME);
        page.lock().write(|values, _, now| {
            (values.real_base, values.virtual_base) = (now, now);
            values.run_at(Tdf::ONE);
            (values.realtime_offset, values.tai_offset) = (realtime_offset, tai_offset);
            values.host_offset = realtime_offset;
        });
        Ok(page)
    }

    /// Virtual zero is now: from here on the clocks run at 1/TDF. A second call changes nothing and gives the first
    /// zero.
    pub fn start(&self) -> Zero {
        self.start_from(None)
    }

    /// Starts clocks that go on from those of an earlier run. `CLOCK_MONOTONIC` goes on from the
    /// host's, as after a boot.
    pub fn start_from(&self, earlier: Option<&Earlier>) -> Zero {
        let mut writer = self.lock();
        if let Some((zero, _)) = writer.start {
            return zero;
        }
        let host_offset = offset(libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC);
        let values = writer.write(|values, past, now| {
            values.host_offset = host_offset;
            values.realtime_offset = match earlier {
                Some(earlier) => (earlier.unix_ns as i64).wrapping_sub(values.at(now) as i64),
                None => host_offset,
            };
            for stretch in earlier.into_iter().flat_map(|earlier| &earlier.stretches) {
                past.push_stretch(stretch, values);
            }
            values.turn_to(self.0.tdf, now, past);
        });
        let zero = Zero {
            real: RealInstant::from_nanos(values.real_base),
            unix_ns: values.virtual_base.wrapping_add_signed(values.realtime_offset),
        };
        writer.start = Some((zero, values.virtual_base));
        zero
    }

    /// From now on the clocks run at 1/`tdf`. Gives the virtual instant of the change; before [`start`](Self::start)
    /// nothing is changed.
    ///
    /// No reader sees time run backwards. This changes the page alone; [`crate::Injector::set_tdf`] sees to those who
    /// wait, too. What sleeps looks at the page again when its real deadline comes: after a slow-down it sleeps on and
    /// wakes in time, after a speed-up it wakes late, by at most the real time that it had left. Timers that the kernel
    /// keeps (timerfd, POSIX timers, itimers) stay at the factor at which they were set.
    pub fn set_tdf(&self, tdf: Tdf) -> VirtualInstant {
        let mut writer = self.lock();
        let Some((_, base)) = writer.start else { return VirtualInstant::ZERO };
        let values = writer.write(|values, past, now| values.turn_to(tdf, now, past));
        VirtualInstant::from_nanos(values.virtual_base - base)
    }

    /// Virtual time now, counted from [`start`](Self::start); zero before.
    pub fn now(&self) -> VirtualInstant {
        let Some((_, base)) = self.lock().start else { return VirtualInstant::ZERO };
        VirtualInstant::from_nanos(self.monotonic() - base)
    }

    /// The factor that the page was made for; [`set_tdf`](Self::set_tdf) does not change it.
    pub fn tdf(&self) -> Tdf {
        self.0.tdf
    }

    /// Whether [`start`](Self::start) has been called.
    pub(crate) fn is_started(&self) -> bool {
        self.lock().start.is_some()
    }

    /// The factor now.
    pub(crate) fn tdf_now(&self) -> Tdf {
        self.read().tdf()
    }

    /// The real instant from which the factor holds.
    pub(crate) fn last_change(&self) -> RealInstant {
        RealInstant::from_nanos(self.read().real_base)
    }

    /// Whether a process has this page in its memory: no other tells these very instants.
    pub(crate) fn is_read_by(&self, process: libc::pid_t) -> bool {
        let at = PAGE + std::mem::offset_of!(Shared, values) as u64;
        read_memory::<Values>(process, at).is_ok_and(|theirs| theirs == self.read())
    }

    /// The guests' `CLOCK_MONOTONIC`, in ns.
    pub fn monotonic(&self) -> u64 {
        self.read().at(host::now().as_nanos())
    }

    /// The memfd for a guest: the image, and in it the page. Read-only.
    pub(crate) fn memfd(&self) -> BorrowedFd<'_> {
        self.0.memfd.as_fd()
    }

    /// The last word of the page, by which a guest knows the memfd.
    pub(crate) fn cookie(&self) -> u64 {
        self.0.cookie
    }

    fn read(&self) -> Values {
        loop {
            // SAFETY: mapped for as long as `self` lives; the sequence lock below discards torn reads.
            let (before, values, after) = unsafe {
                let before = (*self.0.shared).sequence.load(Ordering::Acquire);
                let values = std::ptr::read_volatile(&raw const (*self.0.shared).values);
                fence(Ordering::Acquire);
                (before, values, (*self.0.shared).sequence.load(Ordering::Relaxed))
            };
            if before == after && before & 1 == 0 {
                return values;
            }
            std::hint::spin_loop();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.0.writer.lock().expect("nobody panics while holding the lock")
    }
}

impl Writer {
    /// Lets `change` have the values, the past, and the instant from which they are to hold.
    fn write(&mut self, change: impl FnOnce(&mut Values, &mut Past, u64)) -> Values {
        let shared = self.shared;
        // SAFETY: the mapping lives as long as the page, whose one writer this is, borrowed for as long as it writes;
        // readers discard what they see while the sequence is odd.
        unsafe {
            let sequence = &(*shared).sequence;
            let old = sequence.load(Ordering::Relaxed);
            sequence.store(old.wrapping_add(1), Ordering::Relaxed);
            fence(Ordering::SeqCst);
            // A processor may check the sequence before it reads the clock, by as much as it executes out of order:
            // some 0.1 µs. Such a reader must still have read what is earlier than the change.
            let seen = host::now().as_nanos();
            let mut now = seen;
            while now - seen < SETTLE_NS {
                now = host::now().as_nanos();
            }
            let mut values = std::ptr::read(&raw const (*shared).values);
            let mut past = std::ptr::read(&raw const (*shared).past);
            change(&mut values, &mut past, now);
            values.derive();
            std::ptr::write_volatile(&raw mut (*shared).values, values);
            std::ptr::write_volatile(&raw mut (*shared).past, past);
            sequence.store(old.wrapping_add(2), Ordering::Release);
            values
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody else holds the pointer.
        let unmapped = unsafe { rustix::mm::munmap(self.shared.cast(), PAGE_SIZE as usize) };
        debug_assert!(unmapped.is_ok());
    }
}

fn nanos(clock: libc::clockid_t) -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place to write to. It cannot fail: these clocks exist on every Linux that is supported.
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// `a - b`, where b is read right before and right after a.
fn offset(a: libc::clockid_t, b: libc::clockid_t) -> i64 {
    closest(std::iter::repeat_with(|| (nanos(b), nanos(a), nanos(b))).take(READINGS))
}

/// Who has to wait for the processor between two readings, in one of so many, reads again; that clocks be read within
/// so many ns is enough.
const READINGS: usize = 100;
const CLOSE: i64 = 1000;

/// How far the second of three readings is from between the others, where these are closest to one another: by half of
/// their distance the result may be off, and with it all dates and stamps.
fn closest(readings: impl Iterator<Item = (i64, i64, i64)>) -> i64 {
    let (mut best, mut gap) = (0, i64::MAX);
    for (before, reading, after) in readings {
        if after - before < gap {
            (best, gap) = (reading - (before + (after - before) / 2), after - before);
        }
        if gap <= CLOSE {
            break;
        }
    }
    best
}

fn memfd() -> Result<OwnedFd, Error> {
    // MFD_EXEC says that mapping it executable is meant; kernels before 6.3 do not know the flag.
    const MFD_EXEC: MemfdFlags = MemfdFlags::from_bits_retain(0x10);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    rustix::fs::memfd_create("diorama-clock", flags | MFD_EXEC)
        .or_else(|_| rustix::fs::memfd_create("diorama-clock", flags))
        .map_err(Error::system("no memfd for the clock page"))
}

/// Whether the kernel's vDSO makes a system call for every reading on this machine.
fn vdso_is_slow() -> bool {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    // Where the file is hidden, assume the common case: it costs time if wrong, not truth.
    source.is_ok_and(|s| !["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"].contains(&s.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_that_of_readings_between_which_little_time_passed() {
        // A clock that is 500 ahead; twice who reads has to wait for the processor.
        let readings =
            [(1_000_000, 1_000_510, 27_400_000), (28_000_000, 28_005_500, 28_010_000), (30_000, 33_500, 36_000)];
        assert_eq!(closest(readings.into_iter()), 500);
        let more = [(0, 700, 400), (10_000, 10_600, 10_200)];
        assert_eq!(closest(more.into_iter()), 500, "close enough, though others are closer");
    }
}
