//! Limits of what the kernel counts for each user, or for the whole machine, and which nodes could use up.
//!
//! Root of a node has the number of the host's root, so that what it has of these is missing to the host's. Each such
//! thing takes memory that is charged to the node's control group: so while runs last the numbers are so high that the
//! node's memory ends first.

use std::borrow::Cow;
use std::path::Path;

use scale::RealDuration;

use crate::error::{Error, Lack};
use crate::settings::{self, Held, Holder, Kind, Setting};

/// More than fit into any node's memory.
const MANY: u64 = 1 << 30;

/// Settings are times elsewhere; these are numbers.
const ONE: RealDuration = RealDuration::from_nanos(1);

static ALL: [Kind; 6] = [
    kind("/proc/sys/fs/inotify", "max_user_instances", "inotify-instances"),
    kind("/proc/sys/fs/inotify", "max_user_watches", "inotify-watches"),
    kind("/proc/sys/fs/fanotify", "max_user_groups", "fanotify-groups"),
    kind("/proc/sys/fs/fanotify", "max_user_marks", "fanotify-marks"),
    kind("/proc/sys/fs/epoll", "max_user_watches", "epoll-watches"),
    // Of all users together, and of none by memory but who asks.
    kind("/proc/sys/fs", "aio-max-nr", "aio"),
];

const fn kind(place: &'static str, name: &'static str, noted_as: &'static str) -> Kind {
    let (name, noted_as) = (Cow::Borrowed(name), Cow::Borrowed(noted_as));
    Kind { name, place, unit: ONE, noted_as, applied: None, disagreed }
}

/// Raises the kernel's limits per user while a run lasts. Dropping it restores them.
#[derive(Debug)]
pub struct UserLimits {
    _held: Vec<Held>,
}

impl UserLimits {
    /// Raises them. `id` is the run's.
    ///
    /// # Errors
    ///
    /// [`Error::Machine`] if one of them cannot be written: then the others are as they were, too.
    pub fn raise(id: &str) -> Result<UserLimits, Error> {
        let there = ALL.iter().filter(|kind| Path::new(&kind.path()).exists());
        let held = there.map(|kind| Held::take(id, Setting::writable_here(kind)?, raised));
        Ok(UserLimits { _held: held.collect::<Result<_, _>>()? })
    }
}

/// Fails if a run could not raise them.
pub fn raisable() -> Result<(), Error> {
    let mut there = ALL.iter().filter(|kind| Path::new(&kind.path()).exists());
    there.try_for_each(|kind| Setting::writable_here(kind).map(drop))
}

/// Restores what a run that was killed had raised, unless another still needs it, and says what: the setting, and the
/// number before and meanwhile. Does nothing, and needs no rights, if nothing is noted.
///
/// # Errors
///
/// If one cannot be restored.
pub fn sweep() -> Result<Vec<(String, u64, u64)>, Error> {
    let restored = ALL.iter().map(|kind| {
        let change = settings::sweep(kind, || Setting::here(kind))?;
        Ok(change.map(|change| (kind.path(), change.before.as_nanos(), change.during.as_nanos())))
    });
    restored.filter_map(Result::transpose).collect()
}

fn raised(before: RealDuration) -> RealDuration {
    before.max(RealDuration::from_nanos(MANY))
}

fn disagreed(other: &Holder, _: RealDuration) -> Lack {
    let what = format!("another run ({}, pid {}) has set a limit of users to another number", other.id, other.process);
    Lack::new(what, "wait for its end: it is of another version")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(kind: &Kind) -> u64 {
        Setting::here(kind).unwrap().read().unwrap().as_nanos()
    }

    /// Left out of `make check`.
    mod as_root {
        use super::*;

        #[test]
        fn the_kernel_has_all_and_takes_the_number_and_the_old_one_again() {
            raisable().unwrap();
            let before: Vec<u64> = ALL.iter().map(now).collect();
            let limits = UserLimits::raise(&format!("test-{}", std::process::id())).unwrap();
            // Runs of other tests may hold them, too.
            assert!(ALL.iter().all(|kind| now(kind) >= MANY), "{:?}", ALL.iter().map(now).collect::<Vec<_>>());
            drop(limits);
            let after: Vec<u64> = ALL.iter().map(now).collect();
            let given_back = |(before, after): (&u64, &u64)| *after == *before || *before >= MANY || *after >= MANY;
            assert!(before.iter().zip(&after).all(given_back), "{before:?} became {after:?}");
            assert_eq!(raised(RealDuration::from_nanos(2 * MANY)).as_nanos(), 2 * MANY, "never less than it was");
        }
    }
}
