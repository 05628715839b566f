//! The page with a node's clock, which the kernel's programs write: read and raised by the harness.
//!
//! `crates/scale/include/node_clock.h` says what is in it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags};
use scale::{NodeClockLine, NodeRate, RealDuration, RealInstant};

use crate::Error;

/// `NODE_CLOCK_DRIFT_BITS` of the header.
const DRIFT_BITS: u32 = 32;

/// How long ago the node of a request that is met now may have gone to sleep after it had made that.
const ON_ITS_WAY: RealDuration = RealDuration::from_nanos(1_000_000);

/// A page of memory; the kernel maps no less.
const PAGE_SIZE: usize = 4096;

/// `struct node_clock`.
#[repr(C)]
struct Shared {
    sequence: AtomicU32,
    state: AtomicU32,
    base_real: AtomicU64,
    base: AtomicU64,
    rate: AtomicU64,
    floor: AtomicU64,
    date_offset: AtomicI64,
    date_drift: AtomicI64,
    raised: AtomicU64,
    delivered: AtomicU64,
    date: AtomicU64,
    date_since: AtomicU64,
    date_earlier: AtomicI64,
    date_sequence: AtomicU32,
    queues: AtomicU32,
    answered: AtomicU64,
    // Only programs in the node read the rest.
}

/// How a node's date is off against the others', from an instant of its own monotonic clock on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DateOff {
    /// By how many ns at first.
    pub offset_ns: i64,
    /// And by how many ns more with each that passes.
    pub drift: f64,
    /// From which instant of its `CLOCK_MONOTONIC` on, in ns.
    pub since_ns: u64,
}

impl DateOff {
    /// By how many ns it is off at an instant of the monotonic clock.
    pub fn at(&self, monotonic_ns: u64) -> i64 {
        self.offset_ns + (self.drift * monotonic_ns.saturating_sub(self.since_ns) as f64) as i64
    }
}

/// A node's state on its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// None of its threads can run.
    Idle,
    /// One can, and waits for the core.
    Waits,
    /// One has the core.
    Runs,
}

/// A node's clock. Cloning gives another handle to the same page.
#[derive(Clone, Debug)]
pub struct NodeClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: NonNull<Shared>,
    guest: OwnedFd,
}

// SAFETY: `shared` points to a mapping that lives as long as `Inner`, and all that is in it is atomic.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl NodeClock {
    /// The clock in the page that `map` is, such as an array of the kernel's programs that can be mapped. `guest`
    /// is the same, for a program in the node, which maps it for reading and closes it.
    pub fn new(map: BorrowedFd, guest: OwnedFd) -> Result<NodeClock, Error> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let mapped = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), PAGE_SIZE, prot, MapFlags::SHARED, map, 0)
        };
        let mapped =
            mapped.map_err(|e| Error::System { what: "cannot map a node's clock".into(), source: e.into() })?;
        let shared = NonNull::new(mapped.cast()).expect("the kernel maps nothing at 0");
        Ok(NodeClock(Arc::new(Inner { shared, guest })))
    }

    /// The clock in the page of the map with this number.
    pub fn open(number: u32) -> Result<NodeClock, Error> {
        let failed = |source| Error::System { what: "cannot open a node's clock".into(), source };
        let map = crate::bpf::open_map(number).map_err(failed)?;
        let guest = map.try_clone().map_err(failed)?;
        NodeClock::new(map.as_fd(), guest)
    }

    /// Sets the clock to the run's, of a node in which nothing runs yet.
    pub fn begin(&self, now: RealInstant) {
        let shared = self.shared();
        for word in [&shared.base_real, &shared.base, &shared.floor] {
            word.store(now.as_nanos(), Ordering::Relaxed);
        }
        shared.rate.store(NodeRate::UNIT.bits(), Ordering::Release);
    }

    /// The page for a program in the node, which can only read it.
    pub fn guest(&self) -> BorrowedFd<'_> {
        self.0.guest.as_fd()
    }

    /// Reads the clock at a real instant of about now.
    pub fn at(&self, real: RealInstant) -> RealInstant {
        self.line().at(real)
    }

    /// The clock when the node made a request of its disk that is met at a real instant of about now: of one that has
    /// gone to sleep since, which shows the run's clock, the instant at which it did.
    pub fn when_asked(&self, met: RealInstant) -> RealInstant {
        let line = self.line();
        let idle = line.rate == NodeRate::UNIT && line.base == line.base_real;
        match idle && met.since(line.base_real) < ON_ITS_WAY {
            true => line.floor,
            false => line.at(met),
        }
    }

    /// The clock when the node last had the core or was told of an event. Of a node that is idle,
    /// [`at`](NodeClock::at) shows the run's clock where that is ahead.
    pub fn last(&self) -> RealInstant {
        RealInstant::from_nanos(self.shared().floor.load(Ordering::Acquire))
    }

    /// The state of the node.
    pub fn state(&self) -> NodeState {
        match self.shared().state.load(Ordering::Acquire) {
            0 => NodeState::Idle,
            1 => NodeState::Waits,
            _ => NodeState::Runs,
        }
    }

    /// Raises the clock, for an event that any thread of the node may see: it shows no less from then on.
    pub fn raise(&self, to: RealInstant) {
        self.shared().raised.fetch_max(to.as_nanos(), Ordering::AcqRel);
        self.shared().floor.fetch_max(to.as_nanos(), Ordering::AcqRel);
    }

    /// Tells when the frame arrives that the node is handed next: who takes data out of it sees no earlier clock.
    /// `date_ns` is by how much the host's CLOCK_REALTIME is ahead of real instants. One thread calls this.
    pub fn hand(&self, arrives: RealInstant, date_ns: u64) {
        self.shared().date.store(date_ns, Ordering::Relaxed);
        self.shared().delivered.store(arrives.as_nanos(), Ordering::Release);
    }

    /// Has frames of the node carry its lead in place of the instant at which it sent them, since one of its interfaces
    /// has a queue (tc) that may hold them back. `date_ns` as for [`hand`](NodeClock::hand). One thread calls this.
    pub fn queue(&self, date_ns: u64) {
        self.shared().date.store(date_ns, Ordering::Relaxed);
        self.shared().queues.store(1, Ordering::Release);
    }

    /// Tells when the answer comes that the node's disk gives next, by the run's clock: who waits for it sees that
    /// instant, although it is woken later, where the node had been behind when it asked.
    pub fn answer(&self, comes: RealInstant) {
        self.shared().answered.store(comes.as_nanos(), Ordering::Release);
    }

    /// Sets the node's date off against the others'. What is earlier keeps the date that it had.
    ///
    /// One thread at a time may do this.
    pub fn set_date_off(&self, off: DateOff, earlier_ns: i64) {
        let shared = self.shared();
        let drift = (off.drift * (1u64 << DRIFT_BITS) as f64).round() as i64;
        let sequence = shared.date_sequence.load(Ordering::Relaxed);
        shared.date_sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        shared.date_offset.store(off.offset_ns, Ordering::Relaxed);
        shared.date_drift.store(drift, Ordering::Relaxed);
        shared.date_since.store(off.since_ns, Ordering::Relaxed);
        shared.date_earlier.store(earlier_ns, Ordering::Relaxed);
        shared.date_sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// How the clock goes on until its node's state changes.
    pub fn line(&self) -> NodeClockLine {
        let shared = self.shared();
        let instant = |word: &AtomicU64| RealInstant::from_nanos(word.load(Ordering::Relaxed));
        loop {
            let before = shared.sequence.load(Ordering::Acquire);
            let line = NodeClockLine {
                base_real: instant(&shared.base_real),
                base: instant(&shared.base),
                rate: NodeRate::from_bits(shared.rate.load(Ordering::Relaxed)),
                floor: instant(&shared.floor),
            };
            fence(Ordering::Acquire);
            if before & 1 == 0 && before == shared.sequence.load(Ordering::Relaxed) {
                return line;
            }
            std::hint::spin_loop();
        }
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped for as long as `self` lives, page-aligned, and large enough.
        unsafe { self.0.shared.as_ref() }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody else holds the pointer.
        let unmapped = unsafe { rustix::mm::munmap(self.shared.as_ptr().cast(), PAGE_SIZE) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn the_header_counts_drifts_in_the_same_units() {
        let header = include_str!("../../scale/include/node_clock.h");
        assert!(header.contains(&format!("#define NODE_CLOCK_DRIFT_BITS {DRIFT_BITS}\n")));
        let off = DateOff { offset_ns: -500, drift: 200e-6, since_ns: 1_000_000 };
        assert_eq!([0, 1_000_000, 11_000_000].map(|at| off.at(at)), [-500, -500, 1_500]);
    }

    #[test]
    fn a_raised_clock_shows_no_less() {
        let page = memfd_create("clock", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&page, PAGE_SIZE as u64).unwrap();
        let clock = NodeClock::new(page.as_fd(), page.try_clone().unwrap()).unwrap();
        let at = RealInstant::from_nanos;
        assert_eq!((clock.state(), clock.at(at(70))), (NodeState::Idle, at(0)), "a rate of nothing");
        clock.raise(at(50));
        clock.raise(at(40));
        assert_eq!((clock.at(at(70)), clock.last()), (at(50), at(50)));
    }

    #[test]
    fn a_request_was_made_before_its_node_went_to_sleep() {
        let page = memfd_create("clock", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&page, PAGE_SIZE as u64).unwrap();
        let clock = NodeClock::new(page.as_fd(), page.try_clone().unwrap()).unwrap();
        let ms = |ms: u64| RealInstant::from_nanos(ms * 1_000_000);
        clock.begin(ms(10));
        // It was 3 ms behind when it went to sleep.
        clock.shared().floor.store(ms(7).as_nanos(), Ordering::Relaxed);
        let soon = ms(10) + RealDuration::from_nanos(100_000);
        assert_eq!((clock.at(soon), clock.when_asked(soon)), (soon, ms(7)));
        assert_eq!(clock.when_asked(ms(12)), ms(12), "that is somebody else's, for the node has slept for long");
        // While it waits for the core, what it shows is what it showed.
        clock.shared().rate.store(0, Ordering::Relaxed);
        clock.shared().base.store(ms(8).as_nanos(), Ordering::Relaxed);
        assert_eq!(clock.when_asked(soon), ms(8));
    }
}
