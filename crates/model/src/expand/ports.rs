//! Ports of the harness's loopback that lead to nodes.

use std::collections::HashMap;

use super::{Entry, key_span};
use crate::error::Problems;
use crate::experiment::Node;
use crate::file;
use crate::tree::shorten;

/// Reads the ports that lead to a node.
pub(super) fn ports(entry: &Entry<'_, file::Node>, read: &file::Node, node: &mut Node, problems: &mut Problems) {
    if !read.ports.is_empty() && read.count.is_some_and(|count| count != 1) {
        let what = "a port of this machine leads to one node: leave `count` out, or give a node of its own the `ports`";
        problems.add(entry.at("ports"), what);
    }
    for (here, there) in &read.ports {
        match (number(here), *there) {
            (Some(here), 1..) => node.ports.push((here, *there)),
            (None, _) => {
                let what = format!(
                    "`{}` is no port of this machine: write a number from 1 to 65535, and behind it the node's port, \
                     such as `8080: 80`",
                    shorten(here)
                );
                problems.add(key_span(entry.node, "ports", here), what);
            }
            (_, 0) => {
                let what = "a port is 1 to 65535: write the one that the node's program listens on";
                problems.add(key_span(entry.node, "ports", here), what);
            }
        }
    }
    node.ports.sort_unstable();
}

/// Notes ports that are to lead to two nodes.
pub(super) fn that_meet(entries: &[Entry<'_, file::Node>], problems: &mut Problems) {
    let mut taken: HashMap<u16, &str> = HashMap::new();
    for entry in entries {
        for key in entry.value.iter().flat_map(|read| read.ports.keys()) {
            let Some(port) = number(key) else { continue };
            if let Some(other) = taken.insert(port, entry.name()) {
                let what = format!("port {port} of this machine leads to `{}` already: write another", shorten(other));
                problems.add(key_span(entry.node, "ports", key), what);
            }
        }
    }
}

/// A port by its number, as one writes it.
fn number(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|port| plain && *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_number() {
        assert_eq!((number("8080"), number("1"), number("65535")), (Some(8080), Some(1), Some(65535)));
        for wrong in ["", "0", "080", "65536", "+80", "http", "8080:80"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }
}
