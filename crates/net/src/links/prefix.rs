//! Few routes in place of one per address: a kernel's table with a thousand entries, in each of a thousand nodes, takes
//! longer to fill than all else.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// A block of addresses: those that begin with the first `length` bits of `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Prefix {
    /// Its first address.
    pub address: Ipv4Addr,
    /// How many bits count, 0 to 32.
    pub length: u8,
}

/// Where all addresses are that are given out.
pub(crate) const GIVEN_OUT: Prefix = Prefix { address: Ipv4Addr::new(10, 0, 0, 0), length: 9 };
/// All addresses that there are.
pub(crate) const ANYWHERE: Prefix = Prefix { address: Ipv4Addr::UNSPECIFIED, length: 0 };

/// The netmask of a network prefix, 0 to 32 bits long.
pub(crate) fn netmask(length: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0))
}

impl Prefix {
    /// Whether an address is in the block.
    pub fn holds(self, address: Ipv4Addr) -> bool {
        u64::from(self.address.to_bits() ^ address.to_bits()) >> (32 - u32::from(self.length)) == 0
    }

    /// Its netmask.
    pub fn mask(self) -> Ipv4Addr {
        netmask(self.length)
    }

    /// Its two halves; none if it is a single address.
    pub(crate) fn halves(self) -> Vec<Prefix> {
        if self.length == 32 {
            return Vec::new();
        }
        let (length, first) = (self.length + 1, self.address.to_bits());
        let half = |bits| Prefix { address: Ipv4Addr::from_bits(bits), length };
        vec![half(first), half(first | 1 << (31 - self.length))]
    }

    /// The address, other than its first and its last, that is number `n` in the block, counted from 0.
    pub(crate) fn host(self, n: u32) -> Option<Ipv4Addr> {
        let host = u64::from(n) + 1;
        let room = 1u64 << (32 - u32::from(self.length));
        (host + 1 < room).then(|| Ipv4Addr::from_bits(self.address.to_bits() + host as u32))
    }
}

/// The least number of prefixes longer than `all` by which every address of `ways` gets its way where the longest that
/// matches wins, and `otherwise` where none does. `ways` is in ascending order of addresses, all of them in `all`,
/// without doubles; addresses that are not in it may go anywhere.
///
/// From the leaves of the tree of all prefixes upwards, each prefix learns by which ways it could be sent at no more
/// cost than by any other; from the root downwards it is given one of them, which costs an entry only where that is not
/// the way inherited (Draves, King, Venkatachary and Zill: Constructing Optimal IP Routing Tables, INFOCOM 1999).
pub(crate) fn aggregate(ways: &[(Ipv4Addr, usize)], otherwise: usize, all: Prefix) -> Vec<(Prefix, usize)> {
    let mut prefixes = Vec::new();
    if let Some((first, rest)) = ways.split_first()
        && (first.1 != otherwise || rest.iter().any(|w| w.1 != otherwise))
    {
        let tree = tree(ways, all.length, all.length);
        assign_halves(&tree, all.address.to_bits(), all.length, otherwise, &mut prefixes);
    }
    prefixes
}

/// A prefix under which there are addresses; `best` is sorted.
struct Tree {
    best: Vec<usize>,
    halves: [Option<Box<Tree>>; 2],
}

/// `top`: the length of the prefix that all have in common, which has no entry of its own.
fn tree(ways: &[(Ipv4Addr, usize)], depth: u8, top: u8) -> Tree {
    let first = ways.first().map_or(0, |w| w.1);
    if depth > top && ways.iter().all(|w| w.1 == first) {
        return Tree { best: vec![first], halves: [None, None] };
    }
    let upper = |w: &(Ipv4Addr, usize)| w.0.to_bits() >> (31 - depth) & 1 == 1;
    let (low, high) = ways.split_at(ways.partition_point(|w| !upper(w)));
    let half = |ways: &[_]| (!ways.is_empty()).then(|| Box::new(tree(ways, depth + 1, top)));
    let halves = [half(low), half(high)];
    let best = match &halves {
        [Some(low), Some(high)] => {
            let both: Vec<usize> = low.best.iter().copied().filter(|w| high.best.binary_search(w).is_ok()).collect();
            let mut either = [low.best.as_slice(), &high.best].concat();
            either.sort_unstable();
            if both.is_empty() { either } else { both }
        }
        [Some(only), None] | [None, Some(only)] => only.best.clone(),
        [None, None] => vec![first],
    };
    Tree { best, halves }
}

fn assign(tree: &Tree, start: u32, length: u8, inherited: usize, prefixes: &mut Vec<(Prefix, usize)>) {
    let mut way = inherited;
    if tree.best.binary_search(&inherited).is_err() {
        way = tree.best[0];
        prefixes.push((Prefix { address: Ipv4Addr::from_bits(start), length }, way));
    }
    assign_halves(tree, start, length, way, prefixes);
}

fn assign_halves(tree: &Tree, start: u32, length: u8, way: usize, prefixes: &mut Vec<(Prefix, usize)>) {
    for (half, bit) in tree.halves.iter().zip([0, 1]) {
        if let Some(half) = half {
            assign(half, start | bit << (31 - length), length + 1, way, prefixes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(0x0a00_0000 + n)
    }

    fn way(prefixes: &[(Prefix, usize)], otherwise: usize, to: Ipv4Addr) -> usize {
        let matches =
            |p: &&(Prefix, usize)| (u64::from(p.0.address.to_bits() ^ to.to_bits())) >> (32 - p.0.length) == 0;
        prefixes.iter().filter(matches).max_by_key(|p| p.0.length).map_or(otherwise, |p| p.1)
    }

    #[test]
    fn every_address_keeps_its_way() {
        let mut state = 7u32;
        for size in [1, 2, 3, 10, 200, 700] {
            for kinds in [1, 2, 5, 40] {
                let mut ways = Vec::new();
                for n in 1..=size {
                    state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                    if state >> 30 != 0 {
                        // Runs, as neighbours in the file tend to lie the same way.
                        ways.push((ip(n), ((state >> 8) % kinds) as usize * usize::from(n % 7 != 0)));
                    }
                }
                let prefixes = aggregate(&ways, 0, GIVEN_OUT);
                for (to, expected) in &ways {
                    assert_eq!(way(&prefixes, 0, *to), *expected, "{to} of {size} with {kinds}: {prefixes:?}");
                }
                assert!(prefixes.len() <= ways.len());
            }
        }
    }

    #[test]
    fn neighbours_share_a_prefix_and_the_common_way_costs_nothing() {
        assert_eq!(aggregate(&[], 3, GIVEN_OUT), []);
        assert_eq!(aggregate(&[(ip(1), 3), (ip(9), 3)], 3, GIVEN_OUT), []);
        // The common way has 10.0.0.0/9 already, so another that all take is longer.
        assert_eq!(aggregate(&[(ip(1), 1)], 3, GIVEN_OUT), [(Prefix { address: ip(0), length: 10 }, 1)]);
        let all: Vec<_> = (1..=254).map(|n| (ip(n), usize::from(n >= 128))).collect();
        assert_eq!(aggregate(&all, 0, GIVEN_OUT), [(Prefix { address: ip(128), length: 25 }, 1)]);
        // One address that lies elsewhere is an exception to the rest.
        let most: Vec<_> = (1..=254).map(|n| (ip(n), usize::from(n != 77))).collect();
        let prefixes = aggregate(&most, 0, GIVEN_OUT);
        assert_eq!(prefixes.len(), 2, "{prefixes:?}");
    }
}
