//! Shares that are raised during a run, and what nodes are entitled to by that.

use std::io;

use host::cgroup::Fraction;

use crate::division::Division;
use crate::layout::Layout;
use crate::{Error, NodeShare};

/// A change of a node's fraction by less than this is not worth a write, which interrupts the core.
const WORTH_IT: f64 = 0.002;

/// The nodes of a run with their factors.
#[derive(Debug)]
pub(crate) struct Raised {
    nodes: Vec<Node>,
    /// The groups of small nodes, as their division names them.
    batches: Vec<Batch>,
    /// What a node with a whole core had been owed when the books were last brought up to date, in ns.
    owed_ns: u64,
}

#[derive(Debug)]
struct Node {
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
    pub fn new(layout: &Layout, shares: &[NodeShare], division: &Division) -> Result<Raised, Error> {
        let node = |n: &NodeShare| {
            let fraction = layout.node(&n.name).fraction()?;
            Ok(Node { fraction, books: Books { share: n.share, factor: 1.0, extra_ns: 0.0 } })
        };
        let batches = division.batches().iter().map(|batch| {
            let fraction = layout.batch(division, batch.level).fraction()?;
            Ok(Batch { fraction, told: 0.0 })
        });
        Ok(Raised {
            nodes: shares.iter().map(node).collect::<Result<_, Error>>()?,
            batches: batches.collect::<Result<_, Error>>()?,
            owed_ns: 0,
        })
    }

    /// Brings the books up to date: until now a node with a whole core was owed `owed_ns`.
    pub fn account(&mut self, owed_ns: u64) {
        let grown = owed_ns.saturating_sub(self.owed_ns) as f64;
        self.nodes.iter_mut().for_each(|node| node.books.account(grown));
        self.owed_ns = owed_ns;
    }

    /// What node `i` has been entitled to beyond its share of what was owed, in ns.
    pub fn extra_ns(&self, i: usize) -> u64 {
        self.nodes[i].books.extra_ns as u64
    }

    /// What all nodes would have of the core with these factors.
    pub fn sold(&self, factors: &[f64]) -> f64 {
        self.nodes.iter().zip(factors).map(|(node, factor)| node.books.share * factor).sum()
    }

    /// Puts factors in force, where the core is divided like this.
    pub fn set(&mut self, factors: &[f64], division: &Division) -> io::Result<()> {
        let worth_it = |now: f64, before: f64| (now / before - 1.0).abs() > WORTH_IT;
        let mut changed = Vec::new();
        for (i, (Node { books, .. }, &factor)) in self.nodes.iter_mut().zip(factors).enumerate() {
            if worth_it(factor, books.factor) || (factor == 1.0 && books.factor != 1.0) {
                books.factor = factor;
                changed.push(i);
            }
        }
        let shares: Vec<f64> = self.nodes.iter().map(|node| node.books.share * node.books.factor).collect();
        let fractions = division.fractions(&shares);
        changed.into_iter().try_for_each(|i| self.nodes[i].fraction.set(fractions.nodes[i]))?;
        for (Batch { fraction, told }, now) in self.batches.iter_mut().zip(fractions.batches) {
            if worth_it(now, *told) {
                fraction.set(now)?;
                *told = now;
            }
        }
        Ok(())
    }
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
