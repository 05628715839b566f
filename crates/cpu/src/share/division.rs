//! How a core is divided by weights that are integers within bounds: pure arithmetic.
//!
//! Weights of control groups end at 10,000 in version 2, of which a whole core has 9,000: a node of a thousandth of a
//! core would have 9, and be off by up to 6 %. So small nodes are together in a *group of small ones*, whose weights
//! are [`FINER`] times as fine, and still smaller ones in a group of a second level, finer once more. Every group of
//! small ones has what is in it beside its siblings, so that nothing changes for anybody outside, and every weight is
//! [`LEAST`] or more: it rounds by 1/500 at most.
//!
//! Where the small ones together are too little even for that, a *spare* is with them: a part of what nobody has
//! bought.

use host::cgroup::Weights;

/// No group of consequence has a smaller weight, where weights are coarse.
const LEAST: f64 = 250.0;
/// How many times as fine each level is. A weight is below `LEAST × FINER`, for what would have more is one level
/// higher.
const FINER: f64 = 16.0;
/// Below the shares of this level the kernel would starve a node long before its weight were wrong.
const DEEPEST: u32 = 6;

/// Where each node of a core is, and what keeps it company there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Division {
    weights: Weights,
    /// By node, its level: 0 beside the groups of small ones, and else in the one of that level.
    levels: Vec<u32>,
    /// The groups of small ones, the deepest first.
    batches: Vec<Batch>,
}

/// A group of small nodes. There is one of each level at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Batch {
    /// Which it is; from 1.
    pub level: u32,
    /// In which it is itself; 0 for none.
    pub above: u32,
    /// The fraction of the core that its burner has where none of its nodes sleeps.
    pub spare: f64,
}

/// The fraction that each group is told it has beside its siblings; in proportion to them it has that.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fractions {
    /// By node.
    pub nodes: Vec<f64>,
    /// By group of small ones.
    pub batches: Vec<f64>,
    /// By group of small ones, of its burner where none of its nodes sleeps.
    pub spares: Vec<f64>,
}

impl Division {
    /// All nodes beside each other, as it is with any policy but always-runnable groups: where members of a group of
    /// small ones may sleep, the others would have what it weighs.
    pub fn flat(nodes: usize, weights: Weights) -> Division {
        Division { weights, levels: vec![0; nodes], batches: Vec::new() }
    }

    /// Decides where nodes with these shares of a core, each above 0, are to be.
    pub fn of(shares: &[f64], weights: Weights) -> Division {
        if !weights.are_coarse() {
            return Division::flat(shares.len(), weights);
        }
        let levels: Vec<u32> = shares.iter().map(|share| level_of(*share, weights)).collect();
        let mut batches: Vec<Batch> = Vec::new();
        // The sum in each, by its level: a batch that is in another comes before it.
        let mut inside = vec![0.0; 1 + levels.iter().copied().max().unwrap_or(0) as usize];
        shares.iter().zip(&levels).for_each(|(share, level)| inside[*level as usize] += share);
        for level in (1..inside.len() as u32).rev() {
            let fraction = inside[level as usize];
            if fraction > 0.0 {
                let above = level_of(fraction, weights).min(level - 1);
                // No rounding where it is needed: the weight is `LEAST`, which the kernel takes as it is.
                let spare = (LEAST / units(above, weights) - fraction).max(0.0);
                inside[above as usize] += fraction + spare;
                batches.push(Batch { level, above, spare });
            }
        }
        Division { weights, levels, batches }
    }

    /// The division where only so much of the core is slack, as may be too little for the spares.
    pub fn within(&self, slack: f64) -> Division {
        let part = if self.spare() > 0.0 { (slack.max(0.0) / self.spare()).min(1.0) } else { 1.0 };
        let batches = self.batches.iter().map(|batch| Batch { spare: batch.spare * part, ..*batch });
        Division { batches: batches.collect(), ..self.clone() }
    }

    /// The level at which each node is.
    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    /// The groups of small ones, each before the one that it is in.
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// The weights that it is made for.
    pub fn weights(&self) -> Weights {
        self.weights
    }

    /// How many times its share of the core a node at this level is told that it has.
    pub fn scale_of(&self, level: u32) -> f64 {
        FINER.powi(level as i32)
    }

    /// The levels of the groups that something of this level is in, from the top down, its own last.
    pub fn path_to(&self, level: u32) -> Vec<u32> {
        let above = |level: &u32| self.batches.iter().find(|batch| batch.level == *level).map(|batch| batch.above);
        let mut path: Vec<u32> = std::iter::successors(Some(level), above).filter(|level| *level > 0).collect();
        path.reverse();
        path
    }

    /// The fraction of the core that all spares have together.
    pub fn spare(&self) -> f64 {
        // Not -0, as the sum of none would be.
        self.batches.iter().map(|batch| batch.spare).sum::<f64>().max(0.0)
    }

    /// The fractions of all groups, where nodes have these shares just now.
    pub fn fractions(&self, shares: &[f64]) -> Fractions {
        let finer = |level: u32| FINER.powi(level as i32);
        let nodes = shares.iter().zip(&self.levels).map(|(share, level)| share * finer(*level)).collect();
        let spares = self.batches.iter().map(|batch| batch.spare * finer(batch.level)).collect();
        let mut inside = [0.0; 1 + DEEPEST as usize];
        shares.iter().zip(&self.levels).for_each(|(share, level)| inside[*level as usize] += share);
        let batches = self.batches.iter().map(|batch| {
            let fraction = inside[batch.level as usize] + batch.spare;
            inside[batch.above as usize] += fraction;
            fraction * finer(batch.above)
        });
        Fractions { nodes, batches: batches.collect(), spares }
    }

    /// The shares that the kernel makes of these, node by node, where so much of the core is left for all groups.
    pub fn realised(&self, shares: &[f64], usable: f64) -> Vec<f64> {
        let slack = (usable - shares.iter().sum::<f64>()).max(0.0);
        let division = self.within(slack);
        let Fractions { nodes, batches, spares } = division.fractions(shares);
        let worth = |fraction: f64| self.weights.worth(self.weights.weight_of(fraction)) as f64;
        // By level, the weights of all that are beside each other.
        let mut sums = [0.0; 1 + DEEPEST as usize];
        sums[0] = worth(slack - division.spare());
        nodes.iter().zip(&self.levels).for_each(|(node, level)| sums[*level as usize] += worth(*node));
        for ((batch, fraction), spare) in division.batches.iter().zip(&batches).zip(&spares) {
            sums[batch.above as usize] += worth(*fraction);
            sums[batch.level as usize] += worth(*spare);
        }
        // By level, what those have of the core together; a group of small ones comes after the one that it is in.
        let mut have = [usable; 1 + DEEPEST as usize];
        for (batch, fraction) in division.batches.iter().zip(&batches).rev() {
            let above = batch.above as usize;
            have[batch.level as usize] = have[above] * worth(*fraction) / sums[above];
        }
        let each = nodes.iter().zip(&self.levels);
        each.map(|(node, level)| have[*level as usize] * worth(*node) / sums[*level as usize]).collect()
    }
}

/// How far the kernel's weights are from nodes' shares of a core, node by node: what it would give each over its share,
/// less 1. `shares` are above 0, and sum to no more than `usable`, which is left for all groups together.
pub fn rounding(shares: &[f64], usable: f64, weights: Weights) -> Vec<f64> {
    let realised = Division::of(shares, weights).realised(shares, usable);
    realised.iter().zip(shares).map(|(realised, share)| realised / share - 1.0).collect()
}

/// The weight of a whole core at a level.
fn units(level: u32, weights: Weights) -> f64 {
    weights.of_core() * FINER.powi(level as i32)
}

/// The highest level at which a fraction of a core has a weight that rounds little.
fn level_of(fraction: f64, weights: Weights) -> u32 {
    // A spare fills up to exactly the least; sums of decimal fractions are off by some units in the last place.
    let fine = |level: &u32| fraction * units(*level, weights) >= LEAST * (1.0 - 1e-9);
    (0..DEEPEST).find(fine).unwrap_or(DEEPEST)
}

#[cfg(test)]
#[path = "division_tests.rs"]
mod tests;
