//! The right of a run to a setting of the whole machine: taken, kept and given back.

use std::fs::File;
use std::path::Path;

use scale::RealDuration;

use super::notes::{Holder, Notes};
use super::{Change, Kind, Setting};
use crate::error::Error;

/// Where notes of what settings were are kept.
const STATE: &str = "/var/lib/diorama";

/// A setting of the whole machine that is as one run asked for it, or as several did. Dropping it gives it back: the
/// last run to do so restores the setting.
///
/// Runs that hold it at once agree on its value.
#[derive(Debug)]
pub struct Held {
    host: Host,
    id: String,
    change: Change,
    /// Locked.
    alive: Option<File>,
}

/// The machine's setting, and the notes about it.
#[derive(Debug)]
pub(crate) struct Host {
    setting: Setting,
    notes: Notes,
}

impl Held {
    /// Has the setting be what `wanted` makes of what it is while no run holds it. `id` is the run's.
    ///
    /// # Errors
    ///
    /// [`Error::Machine`] if it cannot be written, or if another run wants another value.
    pub(crate) fn take(
        id: &str,
        setting: Setting,
        wanted: impl FnOnce(RealDuration) -> RealDuration,
    ) -> Result<Held, Error> {
        Host::with(setting)?.take(id, wanted)
    }

    /// The change of this machine because of it.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// Gives it back.
    ///
    /// # Errors
    ///
    /// If the setting cannot be restored; the next command then tries again.
    pub fn release(mut self) -> Result<(), Error> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), Error> {
        match self.alive.take() {
            Some(alive) => self.host.give_back(&self.id, alive),
            None => Ok(()),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The next command restores what was not.
        let _ = self.let_go();
    }
}

/// Restores what a run that was killed had changed, unless another still holds it, and says what. Does nothing, and
/// needs no rights, if nothing is noted.
pub(crate) fn sweep(kind: &Kind, here: impl FnOnce() -> Result<Setting, Error>) -> Result<Option<Change>, Error> {
    let notes = Notes::at(Path::new(STATE), kind)?;
    match notes.are_none() {
        true => Ok(None),
        false => sweep_at(notes, here),
    }
}

/// The runs that hold a setting now, by their ids; none without the rights to see them.
pub(crate) fn holders(kind: &Kind) -> Vec<String> {
    let holders = || -> Result<Vec<Holder>, Error> {
        let notes = Notes::at(Path::new(STATE), kind)?;
        if notes.are_none() {
            return Ok(Vec::new());
        }
        let _lock = notes.lock()?;
        notes.holders()
    };
    holders().unwrap_or_default().into_iter().map(|holder| holder.id).collect()
}

/// The machine's setting is asked for only if there is something to be restored.
fn sweep_at(notes: Notes, here: impl FnOnce() -> Result<Setting, Error>) -> Result<Option<Change>, Error> {
    let lock = notes.lock()?;
    if !notes.holders()?.is_empty() {
        return Ok(None);
    }
    if notes.before()?.is_none() {
        // Of another boot.
        return notes.forget().map(|()| None);
    }
    Host { setting: here()?, notes }.restore(&lock)
}

impl Host {
    fn with(setting: Setting) -> Result<Host, Error> {
        let notes = Notes::at(Path::new(STATE), &setting.kind)?;
        Ok(Host { setting, notes })
    }

    fn take(self, id: &str, wanted: impl FnOnce(RealDuration) -> RealDuration) -> Result<Held, Error> {
        let lock = self.notes.lock()?;
        let others = self.notes.holders()?;
        if others.is_empty() {
            self.restore(&lock)?;
        }
        let noted = self.notes.before()?;
        let before = noted.map_or_else(|| self.setting.read(), Ok)?;
        let wants = wanted(before);
        if let Some(other) = others.iter().find(|other| other.wants != wants) {
            return Err((self.setting.kind.disagreed)(other, wants).into());
        }
        if noted.is_none() {
            self.notes.write(before)?;
        }
        let alive = self.notes.add(&Holder { id: id.to_owned(), wants, process: std::process::id() })?;
        let written = self.setting.write(wants);
        drop(lock);
        let change = self.change(before, wants);
        let held = Held { id: id.to_owned(), change, alive: Some(alive), host: self };
        // If it could not be written, its end restores what was.
        written.map(|()| held)
    }

    fn give_back(&self, id: &str, alive: File) -> Result<(), Error> {
        let lock = self.notes.lock()?;
        self.notes.remove(id)?;
        drop(alive);
        match self.notes.holders()?.is_empty() {
            true => self.restore(&lock).map(drop),
            false => Ok(()),
        }
    }

    /// Restores what is noted, while nobody holds anything, and says what was different.
    fn restore(&self, _lock: &File) -> Result<Option<Change>, Error> {
        let Some(before) = self.notes.before()? else { return Ok(None) };
        let during = self.setting.read()?;
        self.setting.write(before)?;
        self.notes.forget()?;
        Ok(Some(self.change(before, during)))
    }

    fn change(&self, before: RealDuration, during: RealDuration) -> Change {
        Change { setting: self.setting.kind.name.clone().into_owned(), before, during }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SLICE, Scratch};
    use super::*;

    fn us(us: u64) -> RealDuration {
        RealDuration::from_nanos(us * 1_000)
    }

    const BEFORE: &str = "2800000";

    /// The setting, and where notes are kept.
    struct Machine {
        kernel: Scratch,
        state: Scratch,
        boot: &'static str,
    }

    impl Machine {
        fn new() -> Machine {
            Machine { kernel: Scratch::with_setting(), state: Scratch::new(), boot: "b-1" }
        }

        fn notes(&self) -> Notes {
            Notes { kind: SLICE.clone(), directory: self.state.0.clone(), boot: self.boot.into() }
        }

        fn host(&self) -> Host {
            Host { setting: self.kernel.setting(), notes: self.notes() }
        }

        fn take(&self, id: &str, slice: RealDuration) -> Result<Held, Error> {
            self.host().take(id, |_| slice)
        }

        fn sweep(&self) -> Option<Change> {
            sweep_at(self.notes(), || Ok(self.kernel.setting())).unwrap()
        }

        fn left(&self) -> usize {
            std::fs::read_dir(&self.state.0).unwrap().count()
        }

        fn is_restored(&self) -> bool {
            self.kernel.text() == BEFORE && self.left() == 0
        }
    }

    #[test]
    fn the_setting_is_changed_for_a_run_and_then_as_it_was() {
        let machine = Machine::new();
        let held = machine.take("a-1", us(200)).unwrap();
        assert_eq!(machine.kernel.text(), "200000");
        let Change { setting, before, during } = held.change();
        assert_eq!((setting.as_str(), *before, *during), ("base_slice_ns", us(2_800), us(200)));
        held.release().unwrap();
        assert!(machine.is_restored(), "{}", machine.kernel.text());
    }

    #[test]
    fn what_is_wanted_may_be_a_part_of_what_was() {
        let machine = Machine::new();
        let seventh = |was: RealDuration| RealDuration::from_nanos(was.as_nanos() / 7);
        let held = machine.host().take("a-1", seventh).unwrap();
        let second = machine.host().take("b-2", seventh).unwrap();
        assert_eq!((held.change().during, second.change().during), (us(400), us(400)), "not a part of the part");
        drop((held, second));
        assert!(machine.is_restored());
    }

    #[test]
    fn the_last_of_two_runs_restores() {
        let machine = Machine::new();
        let first = machine.take("a-1", us(200)).unwrap();
        let second = machine.take("b-2", us(200)).unwrap();
        assert_eq!(machine.kernel.text(), "200000", "what both agreed on");
        drop(first);
        assert_eq!(machine.kernel.text(), "200000");
        assert_eq!(second.change().before, us(2_800), "not what the first had made of it");
        drop(second);
        assert!(machine.is_restored(), "{}", machine.kernel.text());
    }

    #[test]
    fn another_length_is_refused() {
        let machine = Machine::new();
        let first = machine.take("a-1", us(200)).unwrap();
        let refused = machine.take("b-2", us(100)).unwrap_err();
        assert!(matches!(refused, Error::Machine(_)), "{refused}");
        let said = refused.to_string();
        assert!(said.contains("a-1") && said.contains("100µs are wanted"), "{said}");
        assert_eq!(machine.kernel.text(), "200000");
        drop(first);
        drop(machine.take("b-2", us(100)).unwrap());
        assert!(machine.is_restored());
    }

    /// As `kill -9` does: locks go, files stay.
    fn kill(mut held: Held) {
        held.alive = None;
    }

    #[test]
    fn the_next_command_restores_for_a_run_that_was_killed() {
        let machine = Machine::new();
        assert_eq!(machine.sweep(), None);
        kill(machine.take("a-1", us(200)).unwrap());
        assert_eq!((machine.kernel.text().as_str(), machine.left()), ("200000", 2));
        let restored = machine.sweep().unwrap();
        assert_eq!((restored.before, restored.during), (us(2_800), us(200)));
        assert!(machine.is_restored(), "{}", machine.kernel.text());
    }

    #[test]
    fn what_a_killed_run_left_is_not_taken_for_what_was_before() {
        let machine = Machine::new();
        kill(machine.take("a-1", us(200)).unwrap());
        let next = machine.take("b-2", us(1_000)).unwrap();
        assert_eq!(next.change().before, us(2_800));
        kill(next);
        let live = machine.take("c-3", us(500)).unwrap();
        assert_eq!((machine.sweep(), machine.kernel.text().as_str()), (None, "500000"), "it is still held");
        drop(live);
        assert!(machine.is_restored());
    }

    #[test]
    fn a_note_from_before_a_boot_is_dropped() {
        let machine = Machine::new();
        kill(machine.take("a-1", us(200)).unwrap());
        let booted = Machine { boot: "b-2", kernel: Scratch::with_setting(), ..machine };
        booted.kernel.set("1400000");
        assert_eq!(booted.sweep(), None);
        assert_eq!((booted.kernel.text().as_str(), booted.left()), ("1400000", 0), "another kernel's own");
    }

    #[test]
    fn one_that_cannot_be_changed_is_left_as_it_was_and_noted() {
        let machine = Machine::new();
        let broken = machine.kernel.0.join(&*SLICE.name);
        std::fs::remove_file(&broken).unwrap();
        // A number that even root can only read.
        std::os::unix::fs::symlink("/proc/sys/kernel/ngroups_max", &broken).unwrap();
        let error = machine.take("a-1", us(200)).unwrap_err();
        assert!(error.to_string().contains(&*SLICE.name), "{error}");
        assert_eq!(machine.left(), 1, "the note, for another try");
    }
}
