//! One core of a run: which nodes are on it, and how it is divided between them. Pure arithmetic.

use host::cgroup::Weights;

use crate::division::{self, Division, Fractions};
use crate::shares::{self, PLANNED_USABLE};
use crate::{Error, NodeShare, Policy};

/// What a run has of one core.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// The core's number.
    pub core: usize,
    /// Which of the run's nodes are on it, in their order.
    nodes: Vec<usize>,
    /// What they have bought.
    shares: Vec<f64>,
    /// How it is divided.
    pub division: Division,
    /// The same with as much to spare as there is.
    pub in_force: Division,
    /// What is left of it for nodes and fillers; as it was planned until it is measured.
    pub usable: f64,
    /// How many groups burn what nobody has bought.
    pub pieces: usize,
}

/// No more groups than this burn what nobody has bought of a core: what burns it is counted, and told what to burn,
/// group by group.
const MOST_PIECES: usize = 32;

impl Part {
    /// Those of all cores on which nodes are, in the order in which nodes name them first. What is unsold is burnt `in
    /// pieces`, or else by one group of each core.
    ///
    /// Fails if a core cannot be sold like this.
    pub fn all(shares: &[NodeShare], policy: Policy, weights: Weights, in_pieces: bool) -> Result<Vec<Part>, Error> {
        let of_core = |core| {
            match policy {
                Policy::Slots => shares::unsold(shares, core, 1.0)?,
                Policy::Quota | Policy::Pool { .. } => shares::sold(shares, core)?,
            };
            let nodes: Vec<usize> = (0..shares.len()).filter(|i| shares[*i].core == core).collect();
            let bought: Vec<f64> = nodes.iter().map(|i| shares[*i].share).collect();
            let division = match policy {
                Policy::Slots => Division::of(&bought, weights),
                Policy::Quota | Policy::Pool { .. } => Division::flat(bought.len(), weights),
            };
            let in_force = division.clone();
            let pieces = if in_pieces { pieces(&bought, weights) } else { 1 };
            Ok(Part { core, nodes, shares: bought, division, in_force, usable: PLANNED_USABLE, pieces })
        };
        shares::cores_of(shares).into_iter().map(of_core).collect()
    }

    /// Its nodes, each with the level at which it is in the division.
    pub fn levels(&self) -> impl Iterator<Item = (usize, u32)> {
        self.nodes.iter().copied().zip(self.division.levels().iter().copied())
    }

    /// What all its nodes have bought together.
    pub fn sold(&self) -> f64 {
        self.shares.iter().sum()
    }

    /// What nodes have, and what burns beside small ones: nothing of this is there to be had.
    pub fn taken(&self) -> f64 {
        self.sold() + self.in_force.spare()
    }

    /// What each of its groups is to be told.
    pub fn fractions(&self) -> Fractions {
        self.in_force.fractions(&self.shares)
    }

    /// Its nodes, each with what its group is to be told.
    pub fn of_nodes<'a>(&'a self, fractions: &'a Fractions) -> impl Iterator<Item = (usize, f64)> {
        self.nodes.iter().copied().zip(fractions.nodes.iter().copied())
    }

    /// Now so much of it is known to be usable; gives back what nobody has of that.
    ///
    /// Fails if it is less than its nodes have bought.
    pub fn use_of(&mut self, shares: &[NodeShare], usable: f64) -> Result<f64, Error> {
        let unsold = shares::unsold(shares, self.core, usable)?;
        self.usable = usable;
        self.in_force = self.division.within(unsold);
        Ok(unsold - self.in_force.spare())
    }
}

/// In how many pieces what these shares leave of a core is burnt: each half as large as the largest share.
///
/// Who has a turn is whoever asked for the shortest of those that are owed something (EEVDF). Where most of a core is
/// one group's, which is owed nothing as soon as it has had a slice, all others have their turns as soon as they are
/// owed the least bit, and so of the shortest length, whatever they asked for. Beside many small ones, of which some is
/// always owed something, a node waits until it is owed a turn of the length that it asked for.
fn pieces(shares: &[f64], weights: Weights) -> usize {
    let largest = shares.iter().copied().fold(0.0, f64::max);
    let unsold = (PLANNED_USABLE - shares.iter().sum::<f64>()).max(0.0);
    let suiting = (2.0 * unsold / largest).round() as usize;
    suiting.min(division::finest(unsold, weights)).clamp(1, MOST_PIECES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unsold_is_burnt_in_pieces_that_are_smaller_than_nodes() {
        let of = |shares: &[f64], weights| pieces(shares, weights);
        assert_eq!(of(&[0.3, 0.1], Weights::fine()), 3, "of a sixth of the core each");
        assert_eq!(of(&[0.08, 0.02], Weights::fine()), 20);
        assert_eq!(of(&[0.08, 0.02], Weights::coarse()), 20);
        assert_eq!(of(&[0.01], Weights::fine()), MOST_PIECES);
        assert_eq!(of(&[0.3, 0.3, 0.29], Weights::coarse()), 1, "even of nothing");
        assert_eq!(of(&[0.84, 0.01], Weights::coarse()), 1);
        assert_eq!(of(&[0.05; 14], Weights::coarse()), 7, "no weight of it is much rounded");
    }

    #[test]
    fn every_core_is_divided_by_itself() {
        let of = |(name, core, share)| NodeShare::new(name, core, share);
        let shares: Vec<_> =
            [("web", 2, 0.4), ("a", 1, 0.01), ("b", 2, 0.01), ("db", 1, 0.5)].map(of).into_iter().collect();
        let mut parts = Part::all(&shares, Policy::Slots, Weights::coarse(), false).unwrap();
        assert_eq!(parts.iter().map(|p| p.core).collect::<Vec<_>>(), [2, 1]);
        let levels: Vec<Vec<_>> = parts.iter().map(|p| p.levels().collect()).collect();
        assert_eq!(levels, [[(0, 0), (2, 1)], [(1, 1), (3, 0)]]);
        assert!((parts[1].sold() - 0.51).abs() < 1e-12 && parts[1].taken() > 0.51, "{parts:?}");
        let fractions = parts[0].fractions();
        assert_eq!(parts[0].of_nodes(&fractions).next(), Some((0, 0.4)));
        let left = parts[1].use_of(&shares, 0.9).unwrap();
        assert!((left + parts[1].taken() - 0.9).abs() < 1e-12 && parts[1].usable == 0.9);
        assert!(parts[0].use_of(&shares, 0.4).is_err(), "more is sold");
        let flat = Part::all(&shares, Policy::Quota, Weights::coarse(), false).unwrap();
        assert!(flat.iter().all(|part| part.division.batches().is_empty()), "only what always runs is in batches");
    }
}
