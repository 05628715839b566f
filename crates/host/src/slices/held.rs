//! The right of a run to slices of a length, where the whole machine has to have them: taken, kept and given back.

use std::fs::File;
use std::path::Path;

use scale::RealDuration;

use super::notes::{Holder, Notes};
use super::setting::{NAME, Setting};
use super::{Change, setting_here};
use crate::error::{Error, Lack};

/// Where notes of what the setting was are kept.
const STATE: &str = "/var/lib/diorama";

/// Slices of the whole machine that are as one run asked for them, or as several did. Dropping it gives them back: the
/// last run to do so restores the setting.
///
/// Runs that hold them at once agree on their length. A run that is alone may [have others](Held::set) for a while.
#[derive(Debug)]
pub struct Held {
    host: Host,
    id: String,
    change: Change,
    /// Locked.
    alive: Option<File>,
}

/// The scheduler's setting, and the notes about it.
#[derive(Debug)]
struct Host {
    setting: Setting,
    notes: Notes,
}

impl Held {
    /// Has all tasks of this machine have slices of this length. `id` is the run's.
    ///
    /// # Errors
    ///
    /// [`Error::Machine`] if the setting cannot be written, or if another run holds slices of another length.
    pub fn take(id: &str, slice: RealDuration) -> Result<Held, Error> {
        Host::with(Notes::at(Path::new(STATE))?)?.take(id, slice)
    }

    /// Has them be `slice` from now on, if no other run holds them, else as they were agreed on. What comes back is how
    /// long they are.
    pub fn set(&self, slice: RealDuration) -> Result<RealDuration, Error> {
        let _lock = self.host.notes.lock()?;
        let alone = self.host.notes.holders()?.iter().all(|holder| holder.id == self.id);
        let slice = if alone { slice } else { self.change.during };
        self.host.setting.write(slice)?;
        Ok(slice)
    }

    /// How long they are now, whoever set them.
    pub fn now(&self) -> Result<RealDuration, Error> {
        self.host.setting.read()
    }

    /// What is different on this machine because of them.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// Gives them back.
    ///
    /// # Errors
    ///
    /// If the setting cannot be restored; the next [`sweep`] then tries again.
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
        // What was not restored is, by the next command.
        let _ = self.let_go();
    }
}

/// Restores what a run that was killed had changed, unless another still holds it, and says what. Does nothing, and
/// needs no rights, if nothing is noted.
pub fn sweep() -> Result<Option<Change>, Error> {
    let notes = Notes::at(Path::new(STATE))?;
    match notes.are_none() {
        true => Ok(None),
        false => sweep_at(notes, Host::with),
    }
}

/// The runs that hold slices now, by their ids; none without the rights to see them.
pub fn holders() -> Vec<String> {
    let holders = || -> Result<Vec<Holder>, Error> {
        let notes = Notes::at(Path::new(STATE))?;
        if notes.are_none() {
            return Ok(Vec::new());
        }
        let _lock = notes.lock()?;
        notes.holders()
    };
    holders().unwrap_or_default().into_iter().map(|holder| holder.id).collect()
}

/// The host's setting is asked for only if there is something to be restored.
fn sweep_at(notes: Notes, host: impl FnOnce(Notes) -> Result<Host, Error>) -> Result<Option<Change>, Error> {
    let lock = notes.lock()?;
    if !notes.holders()?.is_empty() {
        return Ok(None);
    }
    if notes.before()?.is_none() {
        // Of another boot.
        return notes.forget().map(|()| None);
    }
    host(notes)?.restore(&lock)
}

impl Host {
    fn with(notes: Notes) -> Result<Host, Error> {
        let setting = setting_here()?;
        setting.writable()?;
        Ok(Host { setting, notes })
    }

    fn take(self, id: &str, slice: RealDuration) -> Result<Held, Error> {
        let lock = self.notes.lock()?;
        let others = self.notes.holders()?;
        if let Some(other) = others.iter().find(|other| other.slice != slice) {
            return Err(disagreed(other, slice).into());
        }
        if others.is_empty() {
            self.restore(&lock)?;
        }
        let before = match self.notes.before()? {
            Some(before) => before,
            None => {
                let before = self.setting.read()?;
                self.notes.write(before)?;
                before
            }
        };
        let alive = self.notes.add(&Holder { id: id.to_owned(), slice, process: std::process::id() })?;
        let written = self.setting.write(slice);
        drop(lock);
        let change = Change { setting: NAME.into(), before, during: slice };
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
        Ok(Some(Change { setting: NAME.into(), before, during }))
    }
}

fn disagreed(other: &Holder, slice: RealDuration) -> Lack {
    let Holder { id, slice: theirs, process } = other;
    let what = format!(
        "turns of {slice} are wanted, and another run ({id}, pid {process}) has set turns of {theirs} on the whole \
         machine, for this kernel has no slices per task (Linux 6.12)"
    );
    Lack::new(what, "wait for its end, or give both experiments a `grain` for which their turns are as long")
}

#[cfg(test)]
mod tests {
    use super::super::setting::testing::Scratch;
    use super::*;

    fn us(us: u64) -> RealDuration {
        RealDuration::from_nanos(us * 1_000)
    }

    const BEFORE: &str = "2800000";

    /// The setting, and where notes are kept.
    struct Machine {
        debugfs: Scratch,
        state: Scratch,
        boot: &'static str,
    }

    impl Machine {
        fn new() -> Machine {
            Machine { debugfs: Scratch::with_setting(), state: Scratch::new(), boot: "b-1" }
        }

        fn notes(&self) -> Notes {
            Notes { directory: self.state.0.clone(), boot: self.boot.into() }
        }

        fn host(&self) -> Host {
            Host { setting: self.debugfs.setting(), notes: self.notes() }
        }

        fn take(&self, id: &str, slice: RealDuration) -> Result<Held, Error> {
            self.host().take(id, slice)
        }

        fn sweep(&self) -> Option<Change> {
            sweep_at(self.notes(), |notes| Ok(Host { notes, ..self.host() })).unwrap()
        }

        fn left(&self) -> usize {
            std::fs::read_dir(&self.state.0).unwrap().count()
        }

        fn is_restored(&self) -> bool {
            self.debugfs.text() == BEFORE && self.left() == 0
        }
    }

    #[test]
    fn the_setting_is_changed_for_a_run_and_then_as_it_was() {
        let machine = Machine::new();
        let held = machine.take("a-1", us(200)).unwrap();
        assert_eq!(machine.debugfs.text(), "200000");
        let Change { setting, before, during } = held.change();
        assert_eq!((setting.as_str(), *before, *during), ("base_slice_ns", us(2_800), us(200)));
        assert_eq!(held.set(us(500)).unwrap(), us(500));
        assert_eq!(held.now().unwrap(), us(500));
        held.release().unwrap();
        assert!(machine.is_restored(), "{}", machine.debugfs.text());
    }

    #[test]
    fn the_last_of_two_runs_restores() {
        let machine = Machine::new();
        let first = machine.take("a-1", us(200)).unwrap();
        first.set(us(700)).unwrap();
        let second = machine.take("b-2", us(200)).unwrap();
        assert_eq!(first.now().unwrap(), us(200), "what both agreed on");
        assert_eq!(first.set(us(700)).unwrap(), us(200), "it is not alone");
        drop(first);
        assert_eq!(machine.debugfs.text(), "200000");
        assert_eq!(second.set(us(300)).unwrap(), us(300), "it is now");
        assert_eq!(second.change().before, us(2_800), "not what the first had made of it");
        drop(second);
        assert!(machine.is_restored(), "{}", machine.debugfs.text());
    }

    #[test]
    fn another_length_is_refused() {
        let machine = Machine::new();
        let first = machine.take("a-1", us(200)).unwrap();
        let refused = machine.take("b-2", us(100)).unwrap_err();
        assert!(matches!(refused, Error::Machine(_)), "{refused}");
        let said = refused.to_string();
        assert!(said.contains("a-1, pid") && said.contains("grain"), "{said}");
        assert_eq!(first.now().unwrap(), us(200));
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
        assert_eq!((machine.debugfs.text().as_str(), machine.left()), ("200000", 2));
        let restored = machine.sweep().unwrap();
        assert_eq!((restored.before, restored.during), (us(2_800), us(200)));
        assert!(machine.is_restored(), "{}", machine.debugfs.text());
    }

    #[test]
    fn what_a_killed_run_left_is_not_taken_for_what_was_before() {
        let machine = Machine::new();
        kill(machine.take("a-1", us(200)).unwrap());
        let next = machine.take("b-2", us(1_000)).unwrap();
        assert_eq!(next.change().before, us(2_800));
        kill(next);
        let live = machine.take("c-3", us(500)).unwrap();
        assert_eq!((machine.sweep(), live.now().unwrap()), (None, us(500)), "it is still held");
        drop(live);
        assert!(machine.is_restored());
    }

    #[test]
    fn a_note_from_before_a_boot_is_dropped() {
        let machine = Machine::new();
        kill(machine.take("a-1", us(200)).unwrap());
        let booted = Machine { boot: "b-2", debugfs: Scratch::with_setting(), ..machine };
        booted.debugfs.set("1400000");
        assert_eq!(booted.sweep(), None);
        assert_eq!((booted.debugfs.text().as_str(), booted.left()), ("1400000", 0), "another kernel's own");
    }

    #[test]
    fn one_that_cannot_be_changed_is_left_as_it_was_and_noted() {
        let machine = Machine::new();
        let broken = machine.debugfs.0.join(NAME);
        std::fs::remove_file(&broken).unwrap();
        // A number that even root can only read.
        std::os::unix::fs::symlink("/proc/sys/kernel/ngroups_max", &broken).unwrap();
        let error = machine.take("a-1", us(200)).unwrap_err();
        assert!(error.to_string().contains(NAME), "{error}");
        assert_eq!(machine.left(), 1, "the note, for another try");
    }
}
