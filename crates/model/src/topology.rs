//! Whether the links join all nodes and switches.

use std::collections::HashMap;

/// The endpoints that no links lead to from the first one; every end of a link must be in `endpoints`.
pub(crate) fn apart<'a>(endpoints: &[&'a str], links: &[(&str, &str)]) -> Vec<&'a str> {
    let place: HashMap<&str, usize> = endpoints.iter().enumerate().map(|(i, e)| (*e, i)).collect();
    let mut parts: Vec<usize> = (0..endpoints.len()).collect();
    for (a, b) in links {
        let (Some(&a), Some(&b)) = (place.get(a), place.get(b)) else { continue };
        let (a, b) = (part(&mut parts, a), part(&mut parts, b));
        parts[a] = b;
    }
    let home = if endpoints.is_empty() { 0 } else { part(&mut parts, 0) };
    (0..endpoints.len()).filter(|i| part(&mut parts, *i) != home).map(|i| endpoints[i]).collect()
}

/// The representative of the part that `i` is in.
fn part(parts: &mut [usize], mut i: usize) -> usize {
    while parts[i] != i {
        parts[i] = parts[parts[i]];
        i = parts[i];
    }
    i
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_and_rings_are_whole() {
        assert!(apart(&["a", "b", "s"], &[("a", "s"), ("b", "s")]).is_empty());
        assert!(apart(&["a", "b", "s"], &[("a", "s"), ("b", "s"), ("a", "b"), ("b", "a")]).is_empty());
        assert!(apart(&["a"], &[]).is_empty());
    }

    #[test]
    fn a_part_that_nothing_reaches_is_found() {
        assert_eq!(apart(&["a", "b", "c", "d"], &[("a", "b"), ("d", "c"), ("c", "d")]), ["c", "d"]);
    }
}
