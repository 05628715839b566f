//! Whether the links make a tree of all nodes and switches.

use std::collections::{HashMap, VecDeque};

/// What is wrong with the shape of the network.
#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    /// This link closes a cycle of these links, itself last.
    Cycle { link: usize, cycle: Vec<usize> },
    /// This node or switch cannot reach the first one.
    Apart { endpoint: String },
}

/// Checks links between endpoints; every end of a link must be in `endpoints`.
pub(crate) fn check(endpoints: &[&str], links: &[(&str, &str)]) -> Vec<Fault> {
    let place: HashMap<&str, usize> = endpoints.iter().enumerate().map(|(i, e)| (*e, i)).collect();
    let mut near: Vec<Vec<(usize, usize)>> = vec![Vec::new(); endpoints.len()];
    let mut parts: Vec<usize> = (0..endpoints.len()).collect();
    let mut faults = Vec::new();
    for (link, (a, b)) in links.iter().enumerate() {
        let (Some(&a), Some(&b)) = (place.get(a), place.get(b)) else { continue };
        let (part_a, part_b) = (part(&mut parts, a), part(&mut parts, b));
        if part_a == part_b {
            let mut cycle = way(&near, a, b);
            cycle.push(link);
            faults.push(Fault::Cycle { link, cycle });
        } else {
            parts[part_a] = part_b;
            near[a].push((b, link));
            near[b].push((a, link));
        }
    }
    if !endpoints.is_empty() {
        let home = part(&mut parts, 0);
        for (i, endpoint) in endpoints.iter().enumerate() {
            if part(&mut parts, i) != home {
                faults.push(Fault::Apart { endpoint: (*endpoint).to_owned() });
            }
        }
    }
    faults
}

/// The representative of the part that `i` is in.
fn part(parts: &mut [usize], mut i: usize) -> usize {
    while parts[i] != i {
        parts[i] = parts[parts[i]];
        i = parts[i];
    }
    i
}

/// The links on the way from `a` to `b`.
fn way(near: &[Vec<(usize, usize)>], a: usize, b: usize) -> Vec<usize> {
    let mut came: HashMap<usize, (usize, usize)> = HashMap::new();
    let mut queue = VecDeque::from([a]);
    while let Some(here) = queue.pop_front() {
        if here == b {
            break;
        }
        for &(next, link) in &near[here] {
            if next != a && !came.contains_key(&next) {
                came.insert(next, (here, link));
                queue.push_back(next);
            }
        }
    }
    let mut links = Vec::new();
    let mut here = b;
    while let Some(&(before, link)) = came.get(&here) {
        links.push(link);
        here = before;
    }
    links.reverse();
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_right() {
        assert_eq!(check(&["a", "b", "s"], &[("a", "s"), ("b", "s")]), []);
        assert_eq!(check(&["a"], &[]), []);
    }

    #[test]
    fn a_cycle_names_its_links_and_no_others() {
        let links = [("x", "a"), ("a", "b"), ("b", "c"), ("c", "a")];
        let cycle = Fault::Cycle { link: 3, cycle: vec![2, 1, 3] };
        assert_eq!(check(&["a", "b", "c", "x"], &links), [cycle]);
    }

    #[test]
    fn a_part_that_nothing_reaches_is_found() {
        assert_eq!(check(&["a", "b", "c"], &[("a", "b")]), [Fault::Apart { endpoint: "c".into() }]);
    }
}
