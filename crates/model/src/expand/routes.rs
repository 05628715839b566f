//! Routes that the user gives.

use std::collections::{HashMap, HashSet};

use super::{Entry, MANY, select};
use crate::error::Problems;
use crate::experiment::Route;
use crate::file;
use crate::link::Link;
use crate::names::did_you_mean;
use crate::tree::{Span, shorten};

/// The routes, globs expanded, each as the links that it passes.
pub(super) fn routes(
    entries: Vec<Entry<'_, file::Route>>,
    nodes: &[&str],
    switches: &[&str],
    links: &[Link],
    problems: &mut Problems,
) -> Vec<Route> {
    let map = if entries.is_empty() { Map::default() } else { Map::of(nodes, switches, links) };
    let mut routes: Vec<Route> = Vec::new();
    let mut taken = HashSet::new();
    for entry in &entries {
        let Some(read) = &entry.value else { continue };
        let from = select(&read.from, nodes, "node", entry.at("from"), problems);
        let to = select(&read.to, nodes, "node", entry.at("to"), problems);
        if routes.len().saturating_add(from.len().saturating_mul(to.len())) > MANY {
            problems.add(entry.node.span, format!("this makes more than {MANY} routes"));
            return routes;
        }
        let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
        for (from, to) in pairs {
            let made = match taken.insert((from, to)) {
                false => Err((entry.at("from"), "there is already a route between the two: remove one".to_owned())),
                true => map.links_of(entry, (nodes[from], nodes[to]), &read.via),
            };
            match made {
                Ok(links) => routes.push(Route { from, to, links }),
                // A fault of one pair is mostly one of all.
                Err((at, what)) => {
                    let pair = format!("from `{}` to `{}`", nodes[from], nodes[to]);
                    problems.add(at, format!("{what} (route {pair})"));
                    break;
                }
            }
        }
    }
    routes
}

/// Who is joined with whom.
#[derive(Default)]
struct Map<'a> {
    links: &'a [Link],
    /// By node or switch: its links, in the order of the file.
    near: HashMap<&'a str, Vec<usize>>,
    /// By name.
    named: HashMap<&'a str, usize>,
}

type Wrong = (Span, String);

impl<'a> Map<'a> {
    fn of(nodes: &[&'a str], switches: &[&'a str], links: &'a [Link]) -> Map<'a> {
        let places = nodes.iter().chain(switches).copied();
        let mut near: HashMap<&str, Vec<usize>> = places.map(|p| (p, Vec::new())).collect();
        for (i, link) in links.iter().enumerate() {
            for end in [&link.a, &link.b] {
                near.entry(end).or_default().push(i);
            }
        }
        Map { links, near, named: links.iter().enumerate().map(|(i, l)| (l.name.as_str(), i)).collect() }
    }

    /// The links from one node to the other by way of the places and links that `via` names.
    fn links_of(
        &self,
        entry: &Entry<'_, file::Route>,
        (from, to): (&'a str, &'a str),
        via: &[String],
    ) -> Result<Vec<usize>, Wrong> {
        if from == to {
            return Err((entry.at("to"), "a route leads to another node".into()));
        }
        let (mut at, mut passed, mut links) = (from, HashSet::from([from]), Vec::new());
        let mut step = |at: &mut &'a str, link: usize, place: Span| {
            let Link { a, b, .. } = &self.links[link];
            *at = if a == *at { b } else { a };
            links.push(link);
            match passed.insert(*at) {
                true => Ok(()),
                false => Err((place, format!("this comes to `{at}` for the second time"))),
            }
        };
        for (i, stop) in via.iter().enumerate() {
            let place = entry.at_item("via", i);
            let link = match self.named.get(stop.as_str()) {
                Some(&link) if [&self.links[link].a, &self.links[link].b].contains(&&at.to_owned()) => link,
                Some(_) => return Err((place, format!("the link `{stop}` does not begin at `{at}`"))),
                None => self.between(at, stop).map_err(|what| (place, what))?,
            };
            step(&mut at, link, place)?;
        }
        if at != to {
            let place = if via.is_empty() { entry.at("to") } else { entry.at_item("via", via.len() - 1) };
            let link = self.between(at, to).map_err(|what| (place, what))?;
            step(&mut at, link, place)?;
        }
        Ok(links)
    }

    /// The link between two places; of several the one with the least delay, then the first in the file.
    fn between(&self, a: &str, b: &str) -> Result<usize, String> {
        let near = self.near.get(a).map_or(&[][..], Vec::as_slice);
        let joins = |i: &&usize| [(a, b), (b, a)].contains(&(self.links[**i].a.as_str(), self.links[**i].b.as_str()));
        if let Some(link) = near.iter().filter(joins).min_by_key(|i| self.links[**i].pipe_from(a).delay) {
            return Ok(*link);
        }
        if !self.near.contains_key(b) {
            let known: Vec<&str> = self.near.keys().chain(self.named.keys()).copied().collect();
            return Err(format!("there is no node, switch or link `{}`{}", shorten(b), did_you_mean(b, &known)));
        }
        let mut others: Vec<&str> = near
            .iter()
            .map(|i| &self.links[*i])
            .map(|l| if l.a == a { l.b.as_str() } else { l.a.as_str() })
            .take(5)
            .collect();
        others.dedup();
        let others: Vec<String> = others.iter().map(|o| format!("`{o}`")).collect();
        Err(format!("no link joins `{a}` and `{b}`; `{a}` is joined with {}", others.join(", ")))
    }
}
