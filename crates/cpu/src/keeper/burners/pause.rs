//! A burner leaves the queue of its core while its weight changes.
//!
//! Linux 6.13 to 6.19, and versions of 6.12 that have the same patch, put a group that has the core into a wrong place
//! of its queue when its weight changes: the average by which the scheduler tells who is owed something is then counted
//! with the group and as if without it (commit 6d71a9c61604, taken back in February 2026). Time stood still for all
//! others of the queue, and a node that was ready to run did not for up to 4 s.
//!
//! A burner that sleeps meanwhile leaves the core to a node, for which that is time beside nobody: it is owed as much
//! afterwards as if it had not had the core. So a burner keeps the core, as a real-time task: no node's time goes on.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use host::sched::{self, Class};
use rustix::thread::futex;
use scale::RealDuration;

/// For how long to wait for a burner: it looks after each chunk of the yardstick, of some 4 µs, and makes a system
/// call.
const PATIENCE: RealDuration = RealDuration::from_nanos(50_000);

/// For how long a burner keeps the core at most, should whoever asked for it be kept from theirs.
const KEEPS_CORE: RealDuration = RealDuration::from_nanos(200_000);

/// The class in which a burner keeps the core. There is none of the run's that it would keep from it.
pub(super) const ASIDE: Class = Class::RealTime { priority: 1, inherited: false };

const BURNS: u32 = 0;
const ASKED: u32 = 1;
const IS_ASIDE: u32 = 2;
const SLEEPS: u32 = 3;

/// Handshake of a burner with who changes its weight. Only system calls are made, and none that fails: a burner that is
/// a process without thread-local storage can, too.
#[derive(Debug, Default)]
pub(in crate::keeper) struct Pause {
    state: AtomicU32,
    /// Whether the kernel lets it be a real-time task.
    may_keep_core: AtomicBool,
}

impl Pause {
    /// Says that the kernel lets the burner be a real-time task.
    pub(super) fn keeps_core(&self) {
        self.may_keep_core.store(true, Ordering::Relaxed);
    }

    /// Pauses if somebody asks for it: called by the burner, often, whose slices are so long.
    #[inline(always)]
    pub fn if_asked(&self, slice: RealDuration) {
        if self.state.load(Ordering::Relaxed) == ASKED {
            self.take(slice);
        }
    }

    #[cold]
    fn take(&self, slice: RealDuration) {
        if self.may_keep_core.load(Ordering::Relaxed) && sched::set(ASIDE).is_ok() {
            if self.enters(IS_ASIDE) {
                let begun = host::now();
                while self.state.load(Ordering::Acquire) == IS_ASIDE && host::now().since(begun) < KEEPS_CORE {}
                let _ = self.state.compare_exchange(IS_ASIDE, BURNS, Ordering::AcqRel, Ordering::Relaxed);
            }
            // It was in that class before.
            let _ = sched::set(Class::Slices(slice));
        } else if self.enters(SLEEPS) {
            while self.state.load(Ordering::Acquire) == SLEEPS {
                // It is over by now, or a signal came: looked at again.
                let _ = futex::wait(&self.state, futex::Flags::PRIVATE, SLEEPS, None);
            }
        }
    }

    /// Says how it pauses, if that is still asked for.
    fn enters(&self, state: u32) -> bool {
        self.state.compare_exchange(ASKED, state, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Does something while the burner's group does not have its core, as `has_core` tells, or is not in its queue.
    /// `None` if it does not leave that in time, because an interrupt keeps it, or comes back before that is done: then
    /// it is to be done again.
    pub fn during<T>(&self, has_core: impl Fn() -> bool, change: impl FnOnce() -> T) -> Option<T> {
        let competes = || has_core() && self.state.load(Ordering::Acquire) != IS_ASIDE;
        if competes() {
            self.state.store(ASKED, Ordering::Release);
            let asked = host::now();
            while competes() && host::now().since(asked) < PATIENCE {
                std::hint::spin_loop();
            }
        }
        let is_aside = self.state.load(Ordering::Acquire) == IS_ASIDE;
        let changed = (!competes()).then(change);
        let paused = self.state.swap(BURNS, Ordering::AcqRel);
        if paused == SLEEPS {
            // Fails for a wrong address only.
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
        }
        changed.filter(|_| !is_aside || paused == IS_ASIDE)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;

    #[test]
    fn a_burner_that_does_not_have_its_core_is_not_asked() {
        let pause = Pause::default();
        assert_eq!(pause.during(|| false, || pause.state.load(Ordering::Relaxed)), Some(BURNS));
    }

    #[test]
    fn one_that_does_not_leave_its_core_keeps_its_weight() {
        let pause = Pause::default();
        assert_eq!(pause.during(|| true, || 1), None);
        assert_eq!(pause.state.load(Ordering::Relaxed), BURNS);
    }

    #[test]
    fn a_burner_that_may_not_keep_its_core_sleeps_meanwhile_and_goes_on() {
        stands_still(Pause::default());
    }

    /// Left out of `make check`.
    mod as_root {
        use super::*;

        #[test]
        fn a_burner_that_keeps_its_core_stands_still_meanwhile_and_goes_on() {
            let pause = Pause::default();
            pause.keeps_core();
            stands_still(pause);
        }

        #[test]
        fn it_gives_the_core_back_where_nobody_says_that_the_change_is_done() {
            let pause = Pause::default();
            pause.keeps_core();
            pause.state.store(ASKED, Ordering::Relaxed);
            pause.if_asked(SLICE);
            assert_eq!(pause.state.load(Ordering::Relaxed), BURNS);
            // SAFETY: a number in and a number out.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER);
        }
    }

    const SLICE: RealDuration = RealDuration::from_nanos(1_000_000);

    fn stands_still(pause: Pause) {
        let (laps, ends) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    laps.fetch_add(1, Ordering::Relaxed);
                    pause.if_asked(SLICE);
                }
            });
            let (mut paused, mut moved_on) = (0, 0);
            while paused < 20 {
                // It leaves its core when it sleeps.
                let has_core = || pause.state.load(Ordering::Relaxed) != SLEEPS;
                let moved = pause.during(has_core, || {
                    let before = laps.load(Ordering::Relaxed);
                    std::thread::sleep(std::time::Duration::from_micros(20));
                    laps.load(Ordering::Relaxed) - before
                });
                // On a busy machine it may not come by in time, or not be waited for.
                paused += u32::from(moved.is_some());
                moved_on += moved.unwrap_or(0);
            }
            let before = laps.load(Ordering::Relaxed);
            while laps.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
            ends.store(true, Ordering::Relaxed);
            assert_eq!(moved_on, 0, "laps");
        });
    }
}
