//! Weights: what a group has of its parent's CPU time beside its siblings.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;

use super::files::{self, Version};
use super::group::Group;
use super::sweep::gone;
use crate::error::Error;

/// The range of weights: integers within bounds, of which a whole core has so many that there is some room
/// for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// The kernel's bounds.
    bounds: [u64; 2],
    /// Of a whole core.
    of_core: u64,
    version: Version,
}

impl Weights {
    pub(super) fn of(version: Version) -> Weights {
        match version {
            Version::First => Weights { bounds: [2, 262_144], of_core: 200_000, version },
            Version::Second => Weights { bounds: [1, 10_000], of_core: 9_000, version },
        }
    }

    /// Those of version 1, of which a whole core has 200,000: fractions of a core from 0.0005 on are exact to 0.5 %.
    pub fn fine() -> Weights {
        Weights::of(Version::First)
    }

    /// Those of version 2, of which a whole core has 9,000: fractions of a core from 0.006 on are exact to 1 %.
    pub fn coarse() -> Weights {
        Weights::of(Version::Second)
    }

    /// Whether there are too few for small nodes beside large ones: a tree then needs groups for the small.
    pub fn are_coarse(self) -> bool {
        self.version == Version::Second
    }

    /// The weight of a group with this fraction of a core.
    pub fn weight_of(self, fraction: f64) -> u64 {
        let [least, most] = self.bounds;
        ((fraction * self.of_core as f64).round() as u64).clamp(least, most)
    }

    /// The worth of a weight to the scheduler, in any unit: in version 2 it counts in 1024ths of a hundred, and rounds
    /// to whole ones (`sched_weight_from_cgroup` in the kernel's `sched.h`).
    pub fn worth(self, weight: u64) -> u64 {
        match self.version {
            Version::First => weight,
            Version::Second => (weight * 1024 + 50) / 100,
        }
    }

    /// The weight of a whole core.
    pub fn of_core(self) -> f64 {
        self.of_core as f64
    }

    /// The largest fraction that can be expressed.
    pub fn largest_fraction(self) -> f64 {
        self.bounds[1] as f64 / self.of_core as f64
    }

    /// That of a hundred ordinary tasks.
    fn outweighing(self) -> u64 {
        100 * self.ordinary()
    }

    /// Of a group that nobody has given another.
    fn ordinary(self) -> u64 {
        match self.version {
            Version::First => 1_024,
            Version::Second => 100,
        }
    }
}

impl Group {
    fn weights(&self) -> Weights {
        Weights::of(self.version)
    }

    fn set_weight(&self, weight: u64) -> Result<(), Error> {
        files::write(&self.cpu.join(self.version.weight()), &weight.to_string())
    }

    /// See [`super::divide`].
    pub(super) fn set_fraction(&self, fraction: f64) -> Result<(), Error> {
        self.set_weight(self.weights().weight_of(fraction))
    }

    /// Gives the group, against everything else on a core, the weight of a hundred ordinary tasks. One that has tasks
    /// on so many `cores` divides its weight among them: as much as the kernel allows of that on each.
    pub fn outweigh_the_rest(&self, cores: usize) -> Result<(), Error> {
        let [_, most] = self.weights().bounds;
        self.set_weight((self.weights().outweighing() * cores.max(1) as u64).min(most))
    }

    /// Leaves the group, which always has something to run, next to nothing beside its siblings.
    pub fn make_negligible(&self) -> Result<(), Error> {
        self.set_weight(self.weights().bounds[0])
    }

    /// For changing the group's fraction many times, as [`super::divide`] sets it once.
    pub fn fraction(&self) -> Result<Fraction, Error> {
        let weight = files::open_for_writing(&self.cpu.join(self.version.weight()))?;
        Ok(Fraction { weight, weights: self.weights() })
    }

    /// The largest [`Fraction`] of it that can be set.
    pub fn largest_fraction(&self) -> f64 {
        self.weights().largest_fraction()
    }

    /// Makes the kernel bring up to date, on all cores, what it believes to be the load of the group above this one.
    /// Does nothing if there is no such group (any more).
    ///
    /// The kernel divides a group's weight among the cores by the load that the group has on each. A task that enters
    /// a group asleep leaves its load on the core where it fell asleep; that decays within half a second, but only the
    /// balancing of load looks, and a core that is alone in its scheduling domain is never balanced. There it stays,
    /// and the group has half of its weight where its tasks are. A weight that changes is news for all cores.
    pub fn recount_above(&self) -> Result<(), Error> {
        let path = self.cpu.join(self.version.weight());
        let [_, most] = self.weights().bounds;
        let change = || {
            let mut file = File::options().read(true).write(true).open(&path)?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let weight: u64 = text.trim().parse().map_err(|_| ErrorKind::InvalidData)?;
            let another = if weight < most { weight + 1 } else { weight - 1 };
            [another, weight].iter().try_for_each(|weight| file.write_all_at(weight.to_string().as_bytes(), 0))
        };
        match change() {
            Err(e) if !gone(&e) => Err(Error::file("change", &path, e)),
            _ => Ok(()),
        }
    }

    /// For ending timeslices that are over on the cores on which this group has tasks.
    pub fn forced_reschedule(&self) -> Result<ForcedReschedule, Error> {
        let weights = match self.version {
            Version::First => [b"2", b"3"],
            Version::Second => [b"1", b"2"],
        };
        let weight = files::open_for_writing(&self.cpu.join(self.version.weight()))?;
        Ok(ForcedReschedule { weight, weights, heavier: false })
    }
}

/// A group's fraction of its parent's time beside its siblings; see [`super::divide`].
#[derive(Debug)]
pub struct Fraction {
    weight: File,
    weights: Weights,
}

impl Fraction {
    /// Sets it: one system call. Siblings that compete lose the timeslice that they are in, so not more than some
    /// tens of times a second.
    pub fn set(&self, fraction: f64) -> io::Result<()> {
        self.weight.write_all_at(self.weights.weight_of(fraction).to_string().as_bytes(), 0)
    }
}

/// Makes the kernel account for what runs on a core, from another core, so that it sees whose timeslice is over.
///
/// Changing the weight of a group with something to run charges whatever runs beside it. The group must be a
/// negligible one: changing the weight of one that competes can starve the others.
#[derive(Debug)]
pub struct ForcedReschedule {
    weight: File,
    /// The lighter and the heavier.
    weights: [&'static [u8; 1]; 2],
    heavier: bool,
}

impl ForcedReschedule {
    /// Forces it once: one system call.
    pub fn now(&mut self) -> io::Result<()> {
        self.heavier = !self.heavier;
        self.weight.write_all_at(self.weights[usize::from(self.heavier)], 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Tree;

    #[test]
    fn weights_divide_a_core_as_it_was_asked_for() {
        let weights = Weights::fine();
        for (shares, usable) in
            [(vec![0.5, 0.08, 0.08, 0.08, 0.08], 0.93), (vec![0.008; 100], 0.91), (vec![0.05], 0.95)]
        {
            let slack = usable - shares.iter().sum::<f64>();
            let total: u64 = shares.iter().copied().chain([slack]).map(|f| weights.weight_of(f)).sum();
            for share in shares {
                let got = usable * weights.weight_of(share) as f64 / total as f64;
                assert!((got / share - 1.0).abs() < 0.002, "{got} of a core for a share of {share}");
            }
        }
        assert_eq!([0.0, 9.0].map(|f| Weights::fine().weight_of(f)), [2, 262_144]);
        assert_eq!([0.0, 9.0].map(|f| Weights::coarse().weight_of(f)), [1, 10_000]);
    }

    #[test]
    fn the_scheduler_rounds_weights_of_version_2_once_more() {
        let coarse = Weights::coarse();
        assert_eq!([1, 2, 3, 25, 100, 10_000].map(|w| coarse.worth(w)), [10, 20, 31, 256, 1024, 102_400]);
        assert_eq!(Weights::fine().worth(7), 7);
        assert!((Weights::fine().largest_fraction() - 1.310_72).abs() < 1e-12);
        assert!(coarse.are_coarse() && coarse.largest_fraction() > 1.1);
    }

    /// Left out of `make check`.
    mod as_root {
        use super::*;

        #[test]
        fn loads_are_counted_again_and_weights_stay_as_they_were() {
            let tree = Tree::of(&format!("test-recount-{}", std::process::id())).unwrap();
            let groups = ["n/c", "n/d", "n/no-such"].map(|inside| tree.group(inside));
            groups[..2].iter().for_each(|group| group.create().unwrap());
            // That of one is as it was made, that of the other the largest.
            groups[1].set_fraction(9.0).unwrap();
            let weights = || groups.each_ref().map(|g| std::fs::read_to_string(g.cpu.join(g.version.weight())).ok());
            let before = weights();
            groups.iter().for_each(|group| group.recount_above().unwrap());
            assert_eq!(weights(), before);
            assert!(before[0].is_some() && before[1].is_some() && before[2].is_none());
            tree.sweep().unwrap();
        }
    }
}
