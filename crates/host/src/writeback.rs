//! When the kernel writes to disks what programs have left in its page cache and not synced: how old that may become,
//! and how often the kernel looks. Two settings of the whole machine (`vm.dirty_expire_centisecs` and
//! `vm.dirty_writeback_centisecs`, Documentation/admin-guide/sysctl/vm.rst), in real time; no file system, block device
//! or control group has its own.

use std::borrow::Cow;

use scale::RealDuration;

use crate::error::{Error, Lack};
use crate::settings::{self, Change, Held, Holder, Kind, Setting};

/// How old it may become if nobody has changed that.
pub const USUAL_AGE: RealDuration = RealDuration::from_nanos(30_000_000_000);

const PLACE: &str = "/proc/sys/vm";
/// Both count hundredths of a second.
const UNIT: RealDuration = RealDuration::from_nanos(10_000_000);

static EXPIRE: Kind = kind("dirty_expire_centisecs", "dirty-expire");
static INTERVAL: Kind = kind("dirty_writeback_centisecs", "dirty-writeback");

const fn kind(name: &'static str, noted_as: &'static str) -> Kind {
    let (name, noted_as) = (Cow::Borrowed(name), Cow::Borrowed(noted_as));
    Kind { name, place: PLACE, unit: UNIT, noted_as, applied: None, disagreed }
}

/// Both, as a run wants them. Dropping it gives them back.
#[derive(Debug)]
pub struct Writeback {
    // In this order: whoever changes the second has the kernel look at once at what is too old by the first.
    expire: Held,
    interval: Held,
}

impl Writeback {
    /// Has both be what `wanted` makes of what they are while no run holds them. `id` is the run's.
    ///
    /// # Errors
    ///
    /// [`Error::Machine`] if they cannot be written, or if another run wants other ones.
    pub fn take(id: &str, wanted: impl Fn(RealDuration) -> RealDuration) -> Result<Writeback, Error> {
        let expire = Held::take(id, Setting::writable_here(&EXPIRE)?, &wanted)?;
        Ok(Writeback { expire, interval: Held::take(id, Setting::writable_here(&INTERVAL)?, &wanted)? })
    }

    /// The changes of this machine because of them, the age first.
    pub fn changes(&self) -> [Change; 2] {
        [&self.expire, &self.interval].map(|held| held.change().clone())
    }
}

/// How old what is not written becomes now before the kernel writes it.
///
/// # Errors
///
/// If that cannot be read.
pub fn age() -> Result<RealDuration, Error> {
    Setting::here(&EXPIRE)?.read()
}

/// Fails if a run could not have them be others.
pub fn settable() -> Result<(), Error> {
    Setting::writable_here(&EXPIRE).and_then(|_| Setting::writable_here(&INTERVAL)).map(drop)
}

/// Restores what a run that was killed had changed, unless another still holds it, and says what. Does nothing, and
/// needs no rights, if nothing is noted.
pub fn sweep() -> Result<Vec<Change>, Error> {
    let restored = [&EXPIRE, &INTERVAL].map(|kind| settings::sweep(kind, || Setting::here(kind)));
    restored.into_iter().filter_map(Result::transpose).collect()
}

/// The runs that hold them now, by their ids; none without the rights to see them.
pub fn holders() -> Vec<String> {
    settings::holders(&EXPIRE)
}

fn disagreed(other: &Holder, wanted: RealDuration) -> Lack {
    settings::other_tdf("the kernel is to write back", other, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_both() {
        let usual = age().unwrap();
        assert!(usual.as_nanos() >= UNIT.as_nanos(), "{usual}");
        assert!(Setting::here(&INTERVAL).unwrap().read().is_ok());
    }

    /// Left out of `make check`.
    mod as_root {
        use super::*;

        #[test]
        fn what_can_only_be_read_is_not_to_be_had() {
            let read_only = Kind { name: "ngroups_max".into(), place: "/proc/sys/kernel", ..EXPIRE.clone() };
            assert!(Setting::here(&read_only).unwrap().read().is_ok());
            let said = Setting::writable_here(&read_only).unwrap_err().to_string();
            assert!(said.contains("cannot write to /proc/sys/kernel/ngroups_max"), "{said}");
            settable().unwrap();
        }
    }

    #[test]
    fn who_wants_other_times_is_told_whose_are_set() {
        let s = |s: u64| RealDuration::from_nanos(s * 1_000_000_000);
        let said = disagreed(&Holder { id: "a-1".into(), wants: s(300), process: 7 }, s(30)).to_string();
        assert!(said.contains("a-1, pid 7") && said.contains("300s") && said.contains("same TDF"), "{said}");
    }
}
