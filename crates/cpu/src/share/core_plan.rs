//! The plan of one core: which nodes are on it, and how it is divided between them. Pure arithmetic.

use host::cgroup::Weights;

use crate::keeper::protocol::BurnerShare;
use crate::share::division::{Division, Fractions};
use crate::share::reservation::{self, PLANNED_USABLE};
use crate::{Error, NodeShare, Policy};

/// The part of a run on one core.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CorePlan {
    /// The core's number.
    pub core: usize,
    /// Which of the run's nodes are on it, in their order.
    nodes: Vec<usize>,
    /// Their shares.
    shares: Vec<f64>,
    /// How it is divided.
    pub division: Division,
    /// The division with as much to spare as there is.
    pub in_force: Division,
    /// The fraction of it for nodes and burners; as it was planned until it is measured.
    pub usable: f64,
}

impl CorePlan {
    /// Plans all cores on which nodes are, in the order in which nodes name them first.
    ///
    /// Fails if a core cannot be sold like this.
    pub fn all(shares: &[NodeShare], policy: Policy, weights: Weights) -> Result<Vec<CorePlan>, Error> {
        let of_core = |core| {
            match policy {
                Policy::Slots => reservation::slack(shares, core, 1.0)?,
                Policy::Quota | Policy::Pool { .. } => reservation::sold(shares, core)?,
                Policy::WholeCores => 0.0,
            };
            let nodes: Vec<usize> = (0..shares.len()).filter(|i| shares[*i].core == core).collect();
            let bought: Vec<f64> = nodes.iter().map(|i| shares[*i].share).collect();
            let division = match policy {
                Policy::Slots => Division::of(&bought, weights),
                Policy::Quota | Policy::Pool { .. } | Policy::WholeCores => Division::flat(bought.len(), weights),
            };
            let in_force = division.clone();
            Ok(CorePlan { core, nodes, shares: bought, division, in_force, usable: PLANNED_USABLE })
        };
        reservation::cores_of(shares).into_iter().map(of_core).collect()
    }

    /// Its nodes, each with the level at which it is in the division.
    pub fn levels(&self) -> impl Iterator<Item = (usize, u32)> {
        self.nodes.iter().copied().zip(self.division.levels().iter().copied())
    }

    /// Its burners' shares: in each group of small ones, in their order, and last beside all others.
    pub fn burners(&self) -> Vec<BurnerShare> {
        let largest = self.division.weights().largest_fraction();
        let told = self.fractions();
        let sold_at = |level: u32| {
            let at = self.shares.iter().zip(self.division.levels()).filter(|(_, of)| **of == level);
            at.map(|(share, _)| share).sum::<f64>()
        };
        let of_batches = self.division.batches().iter().zip(&told.spares);
        let small = of_batches.map(|(batch, base)| {
            let (scale, sold) = (self.division.scale_of(batch.level), sold_at(batch.level));
            BurnerShare { base: *base, scale, sold, largest }
        });
        let slack = (self.usable - self.taken()).max(0.0);
        small.chain([BurnerShare { base: slack, scale: 1.0, sold: sold_at(0), largest }]).collect()
    }

    /// Its nodes, each with the place of its burner among [those](CorePlan::burners).
    pub fn burner_of_nodes(&self) -> impl Iterator<Item = (usize, usize)> {
        let batches = self.division.batches();
        let place = move |level: u32| batches.iter().position(|b| b.level == level).unwrap_or(batches.len());
        self.levels().map(move |(node, level)| (node, place(level)))
    }

    /// The sum of its nodes' shares.
    pub fn sold(&self) -> f64 {
        self.shares.iter().sum()
    }

    /// The fraction of nodes, and of burners beside small ones: nothing of this is there to be had.
    pub fn taken(&self) -> f64 {
        self.sold() + self.in_force.spare()
    }

    /// The fraction that each of its groups is to be told.
    pub fn fractions(&self) -> Fractions {
        self.in_force.fractions(&self.shares)
    }

    /// Its nodes, each with what its group is to be told.
    pub fn of_nodes<'a>(&'a self, fractions: &'a Fractions) -> impl Iterator<Item = (usize, f64)> {
        self.nodes.iter().copied().zip(fractions.nodes.iter().copied())
    }

    /// Takes in how much of it is usable; gives back the slack.
    ///
    /// Fails if it is less than its nodes have bought.
    pub fn use_of(&mut self, shares: &[NodeShare], usable: f64) -> Result<f64, Error> {
        let slack = reservation::slack(shares, self.core, usable)?;
        self.usable = usable;
        self.in_force = self.division.within(slack);
        Ok(slack - self.in_force.spare())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_is_divided_by_itself() {
        let of = |(name, core, share)| NodeShare::new(name, core, share);
        let shares: Vec<_> =
            [("web", 2, 0.4), ("a", 1, 0.01), ("b", 2, 0.01), ("db", 1, 0.5)].map(of).into_iter().collect();
        let mut parts = CorePlan::all(&shares, Policy::Slots, Weights::coarse()).unwrap();
        assert_eq!(parts.iter().map(|p| p.core).collect::<Vec<_>>(), [2, 1]);
        let levels: Vec<Vec<_>> = parts.iter().map(|p| p.levels().collect()).collect();
        assert_eq!(levels, [[(0, 0), (2, 1)], [(1, 1), (3, 0)]]);
        assert!((parts[1].sold() - 0.51).abs() < 1e-12 && parts[1].taken() > 0.51, "{parts:?}");
        let fractions = parts[0].fractions();
        assert_eq!(parts[0].of_nodes(&fractions).next(), Some((0, 0.4)));
        let left = parts[1].use_of(&shares, 0.9).unwrap();
        assert!((left + parts[1].taken() - 0.9).abs() < 1e-12 && parts[1].usable == 0.9);
        assert!(parts[0].use_of(&shares, 0.4).is_err(), "more is sold");
        let flat = CorePlan::all(&shares, Policy::Quota, Weights::coarse()).unwrap();
        assert!(flat.iter().all(|part| part.division.batches().is_empty()), "only what always runs is in batches");
    }
}
