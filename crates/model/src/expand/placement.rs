//! Which machines of a harness nodes may be on.

use std::collections::HashMap;

use super::{Entry, item_span, key_span, select};
use crate::error::Problems;
use crate::experiment::Placement;
use crate::file;
use crate::names::wrong_word;
use crate::tree::shorten;

/// The rules, globs expanded.
pub(super) fn placement(
    entries: Vec<Entry<'_, file::Placement>>,
    nodes: &[&str],
    places: &[&str],
    problems: &mut Problems,
) -> Vec<Placement> {
    let names: Vec<&str> = nodes.iter().chain(places).copied().collect();
    let mut rules = Vec::new();
    let mut placed: HashMap<usize, String> = HashMap::new();
    for entry in &entries {
        let Some(read) = &entry.value else { continue };
        let mut about: Vec<usize> = Vec::new();
        for (i, pattern) in read.nodes.iter().enumerate() {
            about.extend(select(pattern, &names, "node", item_span(entry.node, "nodes", i), problems));
        }
        about.sort_unstable();
        about.dedup();
        if read.nodes.is_empty() {
            problems.add(entry.at("nodes"), "this names no node: write a list, such as `[\"web-*\"]`");
        }
        let wants: Vec<(String, f64)> = read.wants.clone().into_iter().collect();
        if read.kind.is_none() && read.on.is_none() && wants.is_empty() && (read.together, read.apart) == (None, None) {
            let what = "this says nothing of these nodes: add at least one of type, wants, on, together and apart";
            problems.add(entry.node.span, what);
        }
        for (feature, weight) in &wants {
            let at = key_span(entry.node, "wants", feature);
            if let Some(what) = wrong_word(feature) {
                problems.add(at, what);
            }
            if let Some(what) = wrong_weight(*weight) {
                problems.add(at, what);
            }
        }
        for (key, weight) in [("together", read.together), ("apart", read.apart)] {
            if let Some(what) = weight.and_then(wrong_weight) {
                problems.add(entry.at(key), what);
            }
        }
        if let Some(machine) = &read.on {
            for node in &about {
                if let Some(other) = placed.insert(*node, machine.clone()).filter(|other| other != machine) {
                    let what = format!(
                        "`{}` must be on `{}` already, and cannot be on `{}`, too: remove one",
                        names[*node],
                        shorten(&other),
                        shorten(machine)
                    );
                    problems.add(entry.at("on"), what);
                    break;
                }
            }
        }
        rules.push(Placement {
            nodes: about.iter().map(|i| names[*i].to_owned()).collect(),
            kind: read.kind.clone(),
            wants,
            on: read.on.clone(),
            together: read.together,
            apart: read.apart,
        });
    }
    rules
}

/// The fault of a weight; none if it is right.
fn wrong_weight(weight: f64) -> Option<String> {
    (!(0.0..=1.0).contains(&weight))
        .then(|| format!("`{weight}` is out of range: write a weight from 0 to 1; with 1 it must be so"))
}
