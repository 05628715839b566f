//! Switches and links.

use std::collections::{HashMap, HashSet};

use scale::link::{DEFAULT_MTU, MTUS};

use super::{Entry, MANY, link, select};
use crate::error::Problems;
use crate::experiment::Capture;
use crate::file;
use crate::link::{Link, LinkChange, Pipe, PipeChange};
use crate::names::{wrong_label, wrong_link};
use crate::topology;
use crate::tree::{Value, shorten};

/// The names of the switches.
pub(super) fn switches(entries: Vec<Entry<'_, String>>, nodes: &[&str], problems: &mut Problems) -> Vec<String> {
    let mut switches: Vec<String> = Vec::new();
    for entry in &entries {
        let Some(name) = &entry.value else { continue };
        if let Some(what) = wrong_label(name) {
            problems.add(entry.node.span, what);
        } else if nodes.contains(&name.as_str()) {
            problems.add(entry.node.span, format!("`{name}` is also a node: rename one"));
        } else if switches.contains(name) {
            problems.add(entry.node.span, format!("the switch `{name}` is here for the second time: remove it"));
            continue;
        }
        switches.push(name.clone());
    }
    switches
}

/// The links, globs expanded, and which of them are recorded.
pub(super) fn links(
    entries: Vec<Entry<'_, file::Link>>,
    nodes: &[&str],
    switches: &[String],
    root: &Value,
    problems: &mut Problems,
) -> (Vec<Link>, Vec<Capture>) {
    let mut endpoints: Vec<&str> = nodes.to_vec();
    endpoints.extend(switches.iter().map(String::as_str));
    let (mut links, mut captures): (Vec<Link>, Vec<Capture>) = Default::default();
    let mut taken: HashMap<(usize, usize), String> = HashMap::new();
    let mut called: HashMap<String, bool> = HashMap::new();
    let mut complete = true;
    for entry in &entries {
        let Some(read) = &entry.value else {
            complete = false;
            continue;
        };
        let mtu = match read.mtu {
            Some(mtu) if !u16::try_from(mtu).is_ok_and(|mtu| MTUS.contains(&mtu)) => {
                let (least, most) = (MTUS.start(), MTUS.end());
                problems
                    .add(entry.at("mtu"), format!("an MTU is {least} to {most} bytes: write a number such as 9000"));
                DEFAULT_MTU
            }
            given => given.map_or(DEFAULT_MTU, |mtu| mtu as u16),
        };
        let both = link::change(&read.both(), entry.node, mtu, problems);
        let LinkChange { ab, ba } = directions(&both, [&read.ab, &read.ba], entry.node, mtu, problems);
        let (ab, ba) = (Pipe::default().with(&ab), Pipe::default().with(&ba));
        let tso = read.tso.unwrap_or(true);
        if let Some(what) = read.name.as_deref().and_then(|n| wrong_link_name(n, &endpoints)) {
            problems.add(entry.at("name"), what);
            complete = false;
        }
        let from = select(&read.from, &endpoints, "node or switch", entry.at("from"), problems);
        let to = select(&read.to, &endpoints, "node or switch", entry.at("to"), problems);
        complete &= !from.is_empty() && !to.is_empty();
        if links.len().saturating_add(from.len().saturating_mul(to.len())) > MANY {
            problems.add(entry.node.span, format!("this makes more than {MANY} links"));
            return (links, captures);
        }
        let pairs = from.len().saturating_mul(to.len());
        if pairs > 1 && read.name.is_some() {
            problems.add(entry.at("name"), format!("this makes {pairs} links, and a name is for one: leave it out"));
            complete = false;
            continue;
        }
        for a in &from {
            for b in &to {
                let usual = format!("{}--{}", endpoints[*a], endpoints[*b]);
                let name = read.name.clone().unwrap_or(usual);
                if a == b {
                    let what = format!("the link `{name}` leads from `{}` to itself", endpoints[*a]);
                    problems.add(entry.at("to"), what);
                    complete = false;
                    continue;
                }
                let parallel = taken.insert((*a.min(b), *a.max(b)), name.clone());
                if let (Some(other), None) = (parallel, &read.name) {
                    let what = format!(
                        "there is already a link `{other}` between the two: remove one, or give this one a name of its \
                         own, such as `name: second`"
                    );
                    problems.add(entry.at("from"), what);
                    complete = false;
                    continue;
                }
                let given = read.name.is_some();
                if let Some(other_given) = called.insert(name.clone(), given) {
                    // If neither name was given, two ends are called the same, which has been noted.
                    if given || other_given {
                        let at = entry.at(if given { "name" } else { "from" });
                        let what = format!("there is already a link called `{name}`: give one of them another name");
                        problems.add(at, what);
                    }
                    complete = false;
                    continue;
                }
                let (a, b) = (endpoints[*a].to_owned(), endpoints[*b].to_owned());
                let snap = read.capture.as_ref().and_then(snap);
                captures.extend(snap.map(|snap| Capture { link: links.len(), snap }));
                links.push(Link { name, a, b, ab: ab.clone(), ba: ba.clone(), mtu, tso });
            }
        }
    }
    let names: HashSet<&str> = endpoints.iter().copied().collect();
    // Nodes that are joined to nothing need no network; a shape of wrong names would only be noise.
    let unused = links.is_empty() && switches.is_empty();
    if complete && !unused && names.len() == endpoints.len() {
        shape(&endpoints, &links, root, problems);
    }
    (links, captures)
}

/// What is written of `both` directions in the map `at`, and of each below its keys `ab` and `ba`.
pub(super) fn directions(
    both: &PipeChange,
    each: [&Option<file::Direction>; 2],
    at: &Value,
    mtu: u16,
    problems: &mut Problems,
) -> LinkChange {
    let [ab, ba] = [("ab", each[0]), ("ba", each[1])].map(|(key, read)| match read {
        Some(read) => both.but(&link::change(read, at.get(key).unwrap_or(at), mtu, problems)),
        None => both.clone(),
    });
    LinkChange { ab, ba }
}

/// What is wrong with the name that the file gives a link.
fn wrong_link_name(name: &str, endpoints: &[&str]) -> Option<String> {
    let taken = || format!("`{name}` is also a node or switch, and routes name both: give the link another name");
    wrong_link(name).or_else(|| endpoints.contains(&name).then(taken))
}

/// How many bytes of each packet are recorded, if any.
fn snap(read: &file::Capture) -> Option<u64> {
    match read {
        file::WordOr::Word(whole) => whole.0.then_some(u64::MAX),
        file::WordOr::Map(part) => Some(part.snap.0),
    }
}

fn shape(endpoints: &[&str], links: &[Link], root: &Value, problems: &mut Problems) {
    let pairs: Vec<(&str, &str)> = links.iter().map(|l| (l.a.as_str(), l.b.as_str())).collect();
    let apart = topology::apart(endpoints, &pairs);
    if let Some(first) = apart.first() {
        let at = root.get("links").or_else(|| root.get("nodes")).map_or(root.span, |v| v.span);
        let shown: Vec<String> = apart.iter().take(5).map(|e| format!("`{}`", shorten(e))).collect();
        let more = if apart.len() > 5 { format!(" and {} more", apart.len() - 5) } else { String::new() };
        let what = format!(
            "no links lead from `{}` to {}{more}: every node and switch must be reachable; add a link such as \
             `{{ from: {first}, to: {} }}`",
            endpoints[0],
            shown.join(", "),
            endpoints[0],
        );
        problems.add(at, what);
    }
}
