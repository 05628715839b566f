//! A burner leaves its core while its weight changes.
//!
//! Linux 6.13 to 6.19, and versions of 6.12 that have the same patch, put a group that has the core into a wrong place
//! of its queue when its weight changes: the average by which the scheduler tells who is owed something is then counted
//! with the group and as if without it (commit 6d71a9c61604, taken back in February 2026). Time stood still for all
//! others of the queue, and a node that was ready to run did not for up to 4 s.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;
use scale::RealDuration;

/// For how long to wait for a burner: it looks after each chunk of the yardstick, of some 4 µs.
const PATIENCE: RealDuration = RealDuration::from_nanos(30_000);

const BURNS: u32 = 0;
const ASKED: u32 = 1;
const PAUSES: u32 = 2;

/// Handshake of a burner with who changes its weight. Only system calls are made: a burner that is a process without
/// thread-local storage can, too.
#[derive(Debug, Default)]
pub(in crate::keeper) struct Pause(AtomicU32);

impl Pause {
    /// Pauses if somebody asks for it: called by the burner, often.
    #[inline(always)]
    pub fn if_asked(&self) {
        if self.0.load(Ordering::Relaxed) == ASKED {
            self.take();
        }
    }

    #[cold]
    fn take(&self) {
        if self.0.compare_exchange(ASKED, PAUSES, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            while self.0.load(Ordering::Acquire) == PAUSES {
                // It is over by now, or a signal came: looked at again.
                let _ = futex::wait(&self.0, futex::Flags::PRIVATE, PAUSES, None);
            }
        }
    }

    /// Does something while the burner does not have its core, as `has_core` tells; `None` if it does not leave it in
    /// time, because an interrupt keeps it.
    pub fn during<T>(&self, has_core: impl Fn() -> bool, change: impl FnOnce() -> T) -> Option<T> {
        if has_core() {
            self.0.store(ASKED, Ordering::Release);
            let asked = host::now();
            while has_core() && host::now().since(asked) < PATIENCE {
                std::hint::spin_loop();
            }
        }
        let changed = (!has_core()).then(change);
        if self.0.swap(BURNS, Ordering::AcqRel) == PAUSES {
            // Fails for a wrong address only.
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;

    #[test]
    fn a_burner_that_does_not_have_its_core_is_not_asked() {
        let pause = Pause::default();
        assert_eq!(pause.during(|| false, || pause.0.load(Ordering::Relaxed)), Some(BURNS));
    }

    #[test]
    fn one_that_does_not_leave_its_core_keeps_its_weight() {
        let pause = Pause::default();
        assert_eq!(pause.during(|| true, || 1), None);
        assert_eq!(pause.0.load(Ordering::Relaxed), BURNS);
    }

    #[test]
    fn a_burner_stands_still_meanwhile_and_goes_on() {
        let (pause, laps, ends) = (Pause::default(), AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    laps.fetch_add(1, Ordering::Relaxed);
                    pause.if_asked();
                }
            });
            let mut paused = 0;
            while paused < 20 {
                // Its core counts as left when it has said that it pauses.
                let begun = Cell::new(false);
                let has_core = || !begun.replace(true) || pause.0.load(Ordering::Relaxed) == ASKED;
                let moved = pause.during(has_core, || {
                    let before = laps.load(Ordering::Relaxed);
                    std::thread::sleep(std::time::Duration::from_micros(200));
                    laps.load(Ordering::Relaxed) - before
                });
                // On a busy machine it may not come by in time.
                assert!(moved.is_none_or(|moved| moved == 0), "{moved:?} laps");
                paused += u32::from(moved.is_some());
            }
            let before = laps.load(Ordering::Relaxed);
            while laps.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
