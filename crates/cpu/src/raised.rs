//! Shares that are raised during a run, and what nodes are entitled to by that.

use std::collections::BTreeMap;
use std::io;

use host::cgroup::Fraction;

use crate::layout::Layout;
use crate::part::Part;
use crate::{CoreWork, Error, NodeShare};

/// A change of a node's fraction by less than this is not worth a write, which interrupts the core.
const WORTH_IT: f64 = 0.002;

/// The nodes of a run with their factors.
#[derive(Debug)]
pub(crate) struct Raised {
    nodes: Vec<Node>,
    /// The groups of small nodes, core by core, as the division of each names them.
    batches: Vec<Vec<Batch>>,
    /// By core, what a node with all of it had been owed when the books were last brought up to date, in ns.
    owed_ns: BTreeMap<usize, u64>,
}

#[derive(Debug)]
struct Node {
    core: usize,
    fraction: Fraction,
    books: Books,
}

/// A group of small nodes, which has as much more as they have.
#[derive(Debug)]
struct Batch {
    fraction: Fraction,
    /// What it was told last; 0 before that.
    told: f64,
}

/// A node's share, by what it is raised, and what that has been worth so far.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Books {
    share: f64,
    factor: f64,
    extra_ns: f64,
}

impl Raised {
    /// Nothing is raised yet.
    pub fn new(layout: &Layout, shares: &[NodeShare], parts: &[Part]) -> Result<Raised, Error> {
        let node = |n: &NodeShare| {
            let fraction = layout.node(&n.name).fraction()?;
            Ok(Node { core: n.core, fraction, books: Books { share: n.share, factor: 1.0, extra_ns: 0.0 } })
        };
        let batches = |part: &Part| {
            let levels = part.division.batches().iter().map(|batch| batch.level);
            levels.map(|level| Ok(Batch { fraction: layout.batch(part, level).fraction()?, told: 0.0 })).collect()
        };
        Ok(Raised {
            nodes: shares.iter().map(node).collect::<Result<_, Error>>()?,
            batches: parts.iter().map(batches).collect::<Result<_, Error>>()?,
            owed_ns: BTreeMap::new(),
        })
    }

    /// Brings the books up to date: until now a node with all of a core was owed so much, by core.
    pub fn account(&mut self, work: &[(usize, CoreWork)]) {
        for (core, CoreWork { owed_ns, .. }) in work {
            let before = self.owed_ns.insert(*core, *owed_ns).unwrap_or(0);
            let grown = owed_ns.saturating_sub(before) as f64;
            self.nodes.iter_mut().filter(|n| n.core == *core).for_each(|node| node.books.account(grown));
        }
    }

    /// What node `i` has been entitled to beyond its share of what was owed, in ns.
    pub fn extra_ns(&self, i: usize) -> u64 {
        self.nodes[i].books.extra_ns as u64
    }

    /// Puts factors in force, where the cores are divided like this.
    pub fn set(&mut self, factors: &[f64], parts: &[Part]) -> io::Result<()> {
        for (part, batches) in parts.iter().zip(&mut self.batches) {
            let fractions = part.fractions(factors);
            for (i, told) in part.of_nodes(&fractions) {
                let (Node { fraction, books, .. }, factor) = (&mut self.nodes[i], factors[i]);
                if worth_it(factor, books.factor) || (factor == 1.0 && books.factor != 1.0) {
                    fraction.set(told)?;
                    books.factor = factor;
                }
            }
            for (Batch { fraction, told }, now) in batches.iter_mut().zip(fractions.batches) {
                if worth_it(now, *told) {
                    fraction.set(now)?;
                    *told = now;
                }
            }
        }
        Ok(())
    }
}

fn worth_it(now: f64, before: f64) -> bool {
    (now / before - 1.0).abs() > WORTH_IT
}

impl Books {
    fn account(&mut self, owed_ns: f64) {
        self.extra_ns += self.share * (self.factor - 1.0) * owed_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_raised_share_is_worth_is_counted_while_it_is_raised() {
        let mut books = Books { share: 0.1, factor: 1.0, extra_ns: 0.0 };
        books.account(1e9);
        assert_eq!(books.extra_ns, 0.0);
        books.factor = 1.5;
        books.account(1e9);
        books.account(1e9);
        books.factor = 1.0;
        books.account(1e9);
        assert!((books.extra_ns - 0.1e9).abs() < 1.0, "{books:?}");
    }
}
