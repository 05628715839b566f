//! LANs: a place each, and a link for each member.

use std::net::Ipv4Addr;

use super::network::{Network, directions, mtu, snap};
use super::{Entry, MANY, key_span, link, select};
use crate::error::Problems;
use crate::experiment::{Capture, Lan};
use crate::file;
use crate::glob;
use crate::link::{Link, LinkChange, Pipe};
use crate::names::wrong_label;
use crate::tree::Span;

/// A block of addresses.
type Subnet = (Ipv4Addr, u8);

/// Adds the LANs with the links of their members.
pub(super) fn lans(
    entries: &[Entry<'_, file::Lan>],
    nodes: &[&str],
    switches: &[String],
    net: &mut Network,
    problems: &mut Problems,
) {
    let mut subnets: Vec<(usize, Subnet, Span)> = Vec::new();
    for entry in entries {
        let name = entry.name();
        if let Some(what) = wrong_label(name) {
            problems.add(entry.key_span(), what);
            net.incomplete = true;
        } else if nodes.contains(&name) || switches.iter().any(|s| s == name) {
            problems.add(entry.key_span(), format!("`{name}` is also a node or a switch: rename one"));
            net.incomplete = true;
        }
        let Some(read) = &entry.value else {
            net.incomplete = true;
            continue;
        };
        let begun = net.links.len();
        if !members(entry, read, nodes, net, problems) {
            net.incomplete = true;
            return;
        }
        let made = begun..net.links.len();
        net.choose(&read.addresses, made.clone(), nodes, entry.node, problems);
        let chosen = net.addresses.iter().find(|a| made.contains(&a.link)).map(|a| a.address);
        // A LAN of which only an address is known has the block of 256 that it is in, as programs have always guessed.
        let around = chosen.map(|a| (Ipv4Addr::from_bits(a.to_bits() & !0xff), 24));
        let subnet = read.subnet.map(|s| s.0).or(around);
        if let Some(subnet) = subnet {
            let at = entry.at("subnet");
            if let Some((other, ..)) = subnets.iter().find(|(_, s, _)| overlap(*s, subnet)) {
                let what =
                    format!("this LAN has addresses of the same block as `{}`: give it another", net.lans[*other].name);
                problems.add(at, what);
            } else {
                subnets.push((net.lans.len(), subnet, at));
            }
            let room = (1u64 << (32 - subnet.1)) - 2 * (1u64 << 24u8.saturating_sub(subnet.1));
            if made.len() as u64 > room {
                let what = format!(
                    "{}/{} has addresses for {room} members, and the LAN has {}: write a larger block",
                    subnet.0,
                    subnet.1,
                    made.len()
                );
                problems.add(at, what);
            }
        }
        net.lans.push(Lan { name: name.to_owned(), subnet: read.subnet.map(|s| s.0), links: made.collect() });
    }
    let mut notes = Vec::new();
    for chosen in &net.addresses {
        let at = net.chosen.get(&chosen.address).map_or(Span::default(), |(_, at)| *at);
        let own = net.lans.iter().position(|l| l.links.contains(&chosen.link));
        let inside = |s: &Subnet| overlap(*s, (chosen.address, 32));
        for (lan, subnet, _) in &subnets {
            let shown = format!("{}/{}", subnet.0, subnet.1);
            let name = &net.lans[*lan].name;
            if own == Some(*lan) && !inside(subnet) {
                let what = format!("{} is not in {shown}, the block of the LAN `{name}`", chosen.address);
                problems.add(at, what);
            } else if own != Some(*lan) && own.is_some() && inside(subnet) {
                let what = format!("{} is in {shown}, the block of the LAN `{name}`: write another", chosen.address);
                problems.add(at, what);
            } else if inside(subnet) && is_end(*subnet, chosen.address) {
                let what = format!("{} is the first or the last address of {shown}: write one between", chosen.address);
                problems.add(at, what);
            } else if own.is_none() && inside(subnet) {
                notes.push(format!(
                    "{} of the link `{}` is in {shown}, the block of the LAN `{name}`: members reach it by a route \
                     of its own, and nobody answers for it on the LAN",
                    chosen.address, net.links[chosen.link].name
                ));
            }
        }
    }
    net.notes.extend(notes);
}

/// Adds the links of a LAN's members; false if there are too many.
fn members(
    entry: &Entry<'_, file::Lan>,
    read: &file::Lan,
    nodes: &[&str],
    net: &mut Network,
    problems: &mut Problems,
) -> bool {
    let name = entry.name();
    let mtu = mtu(read.mtu, entry.at("mtu"), problems);
    net.note_mtu(mtu, &format!("the LAN `{name}`"));
    let both = link::change(&read.both(), entry.node, mtu, problems);
    let usual = directions(&both, [&read.ab, &read.ba], entry.node, mtu, problems);
    let mut exceptions: Vec<(&str, LinkChange, Span, bool)> = Vec::new();
    for (pattern, change) in &read.except {
        let place = entry.node.get("except").and_then(|e| e.get(pattern)).unwrap_or(entry.node);
        let both = link::change(&change.both(), place, mtu, problems);
        let change = directions(&both, [&change.ab, &change.ba], place, mtu, problems);
        exceptions.push((pattern, change, key_span(entry.node, "except", pattern), false));
    }
    let mut joined: Vec<usize> = Vec::new();
    for (i, pattern) in read.members.iter().enumerate() {
        let at = entry.at_item("members", i);
        let found = select(pattern, nodes, "node", at, problems);
        net.incomplete |= found.is_empty();
        for node in found {
            if joined.contains(&node) {
                let what =
                    format!("`{}` is a member of `{name}` already: a node has one interface on a LAN", nodes[node]);
                problems.add(at, what);
                continue;
            }
            joined.push(node);
        }
    }
    if joined.len() < 2 && !net.incomplete {
        let at = entry.at("members");
        problems.add(at, format!("a LAN has at least two members, and `{name}` has {}", joined.len()));
        net.incomplete = true;
    }
    if net.links.len() + joined.len() > MANY {
        problems.add(entry.key_span(), format!("this makes more than {MANY} links"));
        return false;
    }
    for node in joined {
        let member = nodes[node];
        let mut change = usual.clone();
        let mut by: Option<&str> = None;
        for (pattern, exception, at, used) in &mut exceptions {
            if !glob::matches(pattern, member) {
                continue;
            }
            *used = true;
            if let Some(other) = by {
                problems
                    .add(*at, format!("`{member}` is excepted by `{other}` already: let only one pattern match it"));
            }
            by = Some(pattern);
            change = LinkChange { ab: change.ab.but(&exception.ab), ba: change.ba.but(&exception.ba) };
        }
        let link = format!("{member}--{name}");
        if net.called.insert(link.clone(), false).is_some() {
            problems.add(entry.key_span(), format!("there is already a link called `{link}`: give that another name"));
            net.incomplete = true;
            continue;
        }
        let (ab, ba) = (Pipe::default().with(&change.ab), Pipe::default().with(&change.ba));
        let snap = read.capture.as_ref().and_then(snap);
        net.captures.extend(snap.map(|snap| Capture { link: net.links.len(), snap }));
        let (a, b, tso) = (member.to_owned(), name.to_owned(), read.tso.unwrap_or(true));
        net.links.push(Link { name: link, a, b, ab, ba, mtu, tso });
        net.places.push(problems.line(entry.key_span()));
    }
    for (pattern, _, at, used) in exceptions {
        if !used {
            problems.add(at, format!("`{}` matches no member of `{name}`", crate::tree::shorten(pattern)));
        }
    }
    true
}

fn overlap(a: Subnet, b: Subnet) -> bool {
    (a.0.to_bits() ^ b.0.to_bits()) >> (32 - a.1.min(b.1)) == 0
}

/// Whether an address stands for the whole block, or for all in it.
fn is_end(subnet: Subnet, address: Ipv4Addr) -> bool {
    let hosts = u32::MAX >> subnet.1;
    [0, hosts].contains(&(address.to_bits() & hosts))
}
