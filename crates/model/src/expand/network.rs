//! Switches and links.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::ops::Range;

use scale::link::{DEFAULT_MTU, LARGEST_OF_INTERFACES, MTUS};

use super::{Entry, MANY, key_span, link, select};
use crate::error::Problems;
use crate::experiment::{Address, Capture, Lan};
use crate::file;
use crate::link::{Link, LinkChange, Pipe, PipeChange};
use crate::names::{did_you_mean, wrong_label, wrong_link};
use crate::topology;
use crate::tree::{Span, Value, shorten};
use crate::units;

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

/// All that joins places, as far as it has been read.
#[derive(Default)]
pub(super) struct Network {
    pub(super) links: Vec<Link>,
    /// By link, the file and the line that describe it.
    pub(super) places: Vec<Option<(String, usize)>>,
    pub(super) captures: Vec<Capture>,
    pub(super) lans: Vec<Lan>,
    pub(super) addresses: Vec<Address>,
    /// By name of a link: whether the file gives it.
    pub(super) called: HashMap<String, bool>,
    /// Notes about it, though it is right.
    pub(super) notes: Vec<String>,
    /// Whether something that was written is missing, which has been noted.
    pub(super) incomplete: bool,
    /// Who has an address that was chosen, and where that is written.
    pub(super) chosen: HashMap<Ipv4Addr, (usize, Span)>,
}

impl Network {
    /// Notes whether the links join all places, if all is known that there is. Nodes that are joined to nothing need no
    /// network; a shape of wrong names would only be noise.
    pub(super) fn check_shape(&self, nodes: &[&str], places: &[&str], root: &Value, problems: &mut Problems) {
        let endpoints: Vec<&str> = nodes.iter().chain(places).copied().collect();
        let names: HashSet<&str> = endpoints.iter().copied().collect();
        let unused = self.links.is_empty() && places.is_empty();
        if !self.incomplete && !unused && names.len() == endpoints.len() {
            shape(&endpoints, &self.links, root, problems);
        }
    }

    /// Notes that the interfaces of a link, or of a LAN, cannot have all of its MTU.
    pub(super) fn note_mtu(&mut self, mtu: u16, of: &str) {
        if mtu > LARGEST_OF_INTERFACES {
            self.notes.push(format!(
                "{of} has an MTU of {mtu}, and its interfaces have {LARGEST_OF_INTERFACES}, the most that Linux gives \
                 TAP devices"
            ));
        }
    }

    /// The addresses that the map under `addresses` gives the nodes at the ends of `links`.
    pub(super) fn choose(
        &mut self,
        written: &BTreeMap<String, units::Address>,
        links: Range<usize>,
        nodes: &[&str],
        at: &Value,
        problems: &mut Problems,
    ) {
        for (name, address) in written {
            let address = address.0;
            let place = key_span(at, "addresses", name);
            let on: Vec<usize> =
                links.clone().filter(|l| [&self.links[*l].a, &self.links[*l].b].contains(&name)).collect();
            let (Some(node), [link]) = (nodes.iter().position(|n| n == name), on.as_slice()) else {
                let shown = shorten(name);
                let what = match on.len() {
                    0 | 1 => {
                        let ends = self.links[links.clone()].iter().flat_map(|l| [l.a.as_str(), l.b.as_str()]);
                        let ends: Vec<&str> = ends.filter(|end| nodes.contains(end)).collect();
                        format!("`{shown}` is no node here that could have an address{}", did_you_mean(name, &ends))
                    }
                    many => format!("`{shown}` has {many} of these links: give each of them an entry of its own"),
                };
                problems.add(place, what);
                continue;
            };
            if let Some((other, _)) = self.chosen.insert(address, (node, place)) {
                let what = format!("{address} is also the address of `{}`: give each its own", nodes[other]);
                problems.add(place, what);
                continue;
            }
            self.addresses.push(Address { link: *link, node, address });
        }
    }
}

/// The links, globs expanded, and which of them are recorded.
pub(super) fn links(
    entries: Vec<Entry<'_, file::Link>>,
    nodes: &[&str],
    switches: &[String],
    lans: &[&str],
    problems: &mut Problems,
) -> Network {
    let mut endpoints: Vec<&str> = nodes.to_vec();
    endpoints.extend(switches.iter().map(String::as_str));
    let mut net = Network::default();
    let mut taken: HashMap<(usize, usize), String> = HashMap::new();
    for entry in &entries {
        let Some(read) = &entry.value else {
            net.incomplete = true;
            continue;
        };
        let mtu = mtu(read.mtu, entry.at("mtu"), problems);
        let both = link::change(&read.both(), entry.node, mtu, problems);
        let LinkChange { ab, ba } = directions(&both, [&read.ab, &read.ba], entry.node, mtu, problems);
        let (ab, ba) = (Pipe::default().with(&ab), Pipe::default().with(&ba));
        let tso = read.tso.unwrap_or(true);
        net.note_mtu(mtu, &format!("a link from `{}` to `{}`", read.from, read.to));
        if let Some(what) = read.name.as_deref().and_then(|n| wrong_link_name(n, &endpoints)) {
            problems.add(entry.at("name"), what);
            net.incomplete = true;
        }
        let begun = net.links.len();
        let place = problems.line(entry.node.span);
        if let Some((lan, key)) = [(&read.from, "from"), (&read.to, "to")].iter().find(|e| lans.contains(&e.0.as_str()))
        {
            let what = format!("`{lan}` is a LAN: write the other end of this link among its `members`");
            problems.add(entry.at(key), what);
            net.incomplete = true;
            continue;
        }
        let from = select(&read.from, &endpoints, "node or switch", entry.at("from"), problems);
        let to = select(&read.to, &endpoints, "node or switch", entry.at("to"), problems);
        net.incomplete |= from.is_empty() || to.is_empty();
        if net.links.len().saturating_add(from.len().saturating_mul(to.len())) > MANY {
            problems.add(entry.node.span, format!("this makes more than {MANY} links"));
            net.incomplete = true;
            return net;
        }
        let pairs = from.len().saturating_mul(to.len());
        if pairs > 1 && read.name.is_some() {
            problems.add(entry.at("name"), format!("this makes {pairs} links, and a name is for one: leave it out"));
            net.incomplete = true;
            continue;
        }
        for a in &from {
            for b in &to {
                let usual = format!("{}--{}", endpoints[*a], endpoints[*b]);
                let name = read.name.clone().unwrap_or(usual);
                if a == b {
                    let what = format!("the link `{name}` leads from `{}` to itself", endpoints[*a]);
                    problems.add(entry.at("to"), what);
                    net.incomplete = true;
                    continue;
                }
                let parallel = taken.insert((*a.min(b), *a.max(b)), name.clone());
                if let (Some(other), None) = (parallel, &read.name) {
                    let what = format!(
                        "there is already a link `{other}` between the two: remove one, or give this one a name of its \
                         own, such as `name: second`"
                    );
                    problems.add(entry.at("from"), what);
                    net.incomplete = true;
                    continue;
                }
                let given = read.name.is_some();
                if let Some(other_given) = net.called.insert(name.clone(), given) {
                    // If neither name was given, two ends are called the same, which has been noted.
                    if given || other_given {
                        let at = entry.at(if given { "name" } else { "from" });
                        let what = format!("there is already a link called `{name}`: give one of them another name");
                        problems.add(at, what);
                    }
                    net.incomplete = true;
                    continue;
                }
                let (a, b) = (endpoints[*a].to_owned(), endpoints[*b].to_owned());
                let snap = read.capture.as_ref().and_then(snap);
                net.captures.extend(snap.map(|snap| Capture { link: net.links.len(), snap }));
                net.links.push(Link { name, a, b, ab: ab.clone(), ba: ba.clone(), mtu, tso });
                net.places.push(place.clone());
            }
        }
        let made = begun..net.links.len();
        net.choose(&read.addresses, made, nodes, entry.node, problems);
    }
    net
}

/// The MTU that is written, or the usual one.
pub(super) fn mtu(written: Option<u32>, at: Span, problems: &mut Problems) -> u16 {
    match written {
        Some(mtu) if !u16::try_from(mtu).is_ok_and(|mtu| MTUS.contains(&mtu)) => {
            let (least, most) = (MTUS.start(), MTUS.end());
            problems.add(at, format!("an MTU is {least} to {most} bytes: write a number such as 9000"));
            DEFAULT_MTU
        }
        given => given.map_or(DEFAULT_MTU, |mtu| mtu as u16),
    }
}

/// The changes of `both` directions in the map `at`, and of each below its keys `ab` and `ba`.
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

/// The fault of the name that the file gives a link.
fn wrong_link_name(name: &str, endpoints: &[&str]) -> Option<String> {
    let taken = || format!("`{name}` is also a node or switch, and routes name both: give the link another name");
    wrong_link(name).or_else(|| endpoints.contains(&name).then(taken))
}

/// How many bytes of each packet are recorded, if any.
pub(super) fn snap(read: &file::Capture) -> Option<u64> {
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
             `{{ from: {first}, to: {} }}`, or write `apart: true` if they are to be apart",
            endpoints[0],
            shown.join(", "),
            endpoints[0],
        );
        problems.add(at, what);
    }
}
