//! Whether anybody still does anything in a run. Pure.

use scale::{VirtualDuration, VirtualInstant};

/// A node that uses less than this part of its share of the core is asleep: what is left are its kernel's timers.
const ASLEEP: f64 = 0.01;

/// Signs of activity in a run, counted until some instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Frames that the emulator has delivered.
    pub frames: u64,
    /// By node, the CPU time that its programs have used: ns.
    pub used_ns: Vec<u64>,
    /// Commands of `diorama exec` that have begun.
    pub commands: u64,
    /// Those of them that go on.
    pub sessions: u64,
}

/// Looks for a time in which nobody does anything.
#[derive(Clone, Debug)]
pub struct Idleness {
    after: Option<VirtualDuration>,
    last: Option<(VirtualInstant, Counted)>,
    /// Since when nobody has done anything.
    since: VirtualInstant,
    told: bool,
}

impl Idleness {
    /// Looks from `now` on for so long a time, if that is of interest.
    pub fn new(after: Option<VirtualDuration>, now: VirtualInstant) -> Idleness {
        Idleness { after, last: None, since: now, told: false }
    }

    /// Takes what has been counted until now; whether it has been long enough, told once until somebody does something
    /// again. `share_ns` says how much CPU each node might have had in one virtual nanosecond.
    pub fn is_reached(&mut self, now: VirtualInstant, counted: Counted, share_ns: &[f64]) -> bool {
        let busy = self.last.as_ref().is_none_or(|(then, last)| {
            let passed = now.since(*then).as_nanos() as f64;
            let nodes = counted.used_ns.iter().zip(&last.used_ns).zip(share_ns);
            let awake = |((used, before), share): ((&u64, &u64), &f64)| {
                used.saturating_sub(*before) as f64 > ASLEEP * share * passed
            };
            let others = (last.frames, last.commands) != (counted.frames, counted.commands);
            others || counted.sessions > 0 || nodes.into_iter().any(awake)
        });
        self.last = Some((now, counted));
        if busy {
            (self.since, self.told) = (now, false);
        }
        let reached = !self.told && self.after.is_some_and(|after| now.since(self.since) >= after);
        self.told |= reached;
        reached
    }

    /// For how long nobody has done anything.
    pub fn lasts(&self, now: VirtualInstant) -> VirtualDuration {
        now.since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> VirtualInstant {
        VirtualInstant::from_nanos(s * 1_000_000_000)
    }

    #[test]
    fn who_sends_works_or_has_a_command_is_not_idle() {
        let mut idle = Idleness::new(Some(VirtualDuration::from_nanos(3_000_000_000)), at(0));
        let share = [0.1, 0.1];
        let mut counted = Counted { used_ns: vec![0, 0], ..Counted::default() };
        let mut second = 0;
        let mut look = |counted: &Counted| {
            second += 1;
            idle.is_reached(at(second), counted.clone(), &share)
        };
        assert!(!look(&counted));
        counted.frames = 1;
        assert!(!look(&counted));
        // A hundredth of a tenth of a second is what timers take; twice that is work.
        counted.used_ns[1] += 1_000_000;
        assert!(!look(&counted) && !look(&counted));
        counted.used_ns[1] += 2_000_000;
        assert!(!look(&counted));
        counted.commands += 1;
        counted.sessions = 1;
        for _ in 0..5 {
            assert!(!look(&counted));
        }
        counted.sessions = 0;
        assert!(!look(&counted) && !look(&counted));
        assert!(look(&counted), "three seconds after the command");
        assert!(!look(&counted) && !look(&counted), "it is told once");
        counted.frames += 1;
        assert!(!look(&counted) && !look(&counted) && !look(&counted));
        assert!(look(&counted), "and once more");
        assert_eq!(idle.lasts(at(second)), VirtualDuration::from_nanos(3_000_000_000));
    }
}
