//! Networks as LANs.

use crate::label;
use crate::load::Loader;
use crate::node::Node;
use crate::project::Project;

/// A LAN, and who is in it.
#[derive(Clone, Debug)]
pub(crate) struct Lan {
    pub name: String,
    pub members: Vec<String>,
    pub subnet: Option<String>,
    /// Addresses that members have.
    pub addresses: Vec<(String, String)>,
}

/// Makes a LAN of each network that has two members at least.
pub(crate) fn lans(loader: &mut Loader, project: &Project, nodes: &[Node]) -> Vec<Lan> {
    let mut all: Vec<Lan> = Vec::new();
    let services = project.services.iter().filter_map(|service| {
        let node = nodes.iter().find(|node| node.name == service.name)?;
        Some((service, node))
    });
    for (service, node) in services {
        if service.network_mode.is_some() {
            join(&mut all, "default", node);
        }
        for member in &service.networks {
            join(&mut all, &member.network, node);
            if let Some(address) = &member.ipv4
                && let Some(lan) = all.iter_mut().find(|lan| lan.name == label(&member.network))
            {
                match node.count {
                    None => lan.addresses.push((node.name.clone(), address.clone())),
                    Some(_) => {
                        let what = format!("`{address}` is one address for several nodes: each gets one of its own");
                        loader.note(member.span, Some(&node.name), what);
                    }
                }
            }
        }
    }
    for network in &project.networks {
        let lan = label(&network.key);
        if let Some(known) = all.iter_mut().find(|known| known.name == lan) {
            let mut blocks = network.subnets.iter().filter(|(block, _)| !block.contains(':'));
            known.subnet = blocks.next().map(|(block, _)| block.clone());
            if let Some((block, span)) = blocks.next() {
                loader.note(
                    *span,
                    None,
                    format!("`{block}` is a second block of network `{}`: there is one", network.key),
                );
            }
        }
        for (option, value) in network.options.entries() {
            let what = match option.text.as_str() {
                _ if value.is_null() || value.data == crate::tree::Data::Bool(false) => continue,
                "external" => "no network leads out of an experiment".into(),
                "ipam" => {
                    told_of_blocks(loader, value);
                    continue;
                }
                "driver" | "name" | "internal" | "labels" | "attachable" | "enable_ipv4" | "enable_ipv6" => {
                    format!("`{}` of network `{}` changes nothing that is measured", option.text, network.key)
                }
                other => format!("`{other}` of network `{}` is not carried over", network.key),
            };
            loader.note(option.span, None, what);
        }
    }
    // A segment is shared by two at least.
    let of = |lan: &Lan| {
        let members = lan.members.iter().map(|m| nodes.iter().find(|node| node.pattern() == *m));
        members.map(|node| node.map_or(1, |node| node.count.unwrap_or(1))).sum::<u32>()
    };
    let (lans, alone): (Vec<Lan>, Vec<Lan>) = all.into_iter().partition(|lan| of(lan) > 1);
    for lan in alone {
        let what = format!("network `{}` has one member, who would speak to nobody there", lan.name);
        let at = project.networks.iter().find(|network| label(&network.key) == lan.name).map(|network| network.span);
        loader.note(at.unwrap_or_default(), None, what);
    }
    lans
}

fn join(all: &mut Vec<Lan>, network: &str, node: &Node) {
    let name = label(network);
    match all.iter_mut().find(|lan| lan.name == name) {
        Some(lan) => lan.members.push(node.pattern()),
        None => all.push(Lan { name, members: vec![node.pattern()], subnet: None, addresses: Vec::new() }),
    }
}

/// Says what of blocks of addresses is not carried over.
fn told_of_blocks(loader: &mut Loader, ipam: &crate::tree::Value) {
    for (key, value) in ipam.entries() {
        match key.text.as_str() {
            "config" => {
                for (key, _) in value.items().iter().flat_map(crate::tree::Value::entries) {
                    if key.text != "subnet" {
                        let what = format!("`{}` of a block is not carried over: there is no gateway", key.text);
                        loader.note(key.span, None, what);
                    }
                }
            }
            "driver" if crate::shown(Some(value)).as_deref() == Some("default") => {}
            other => loader.note(key.span, None, format!("`{other}` of `ipam` is not carried over")),
        }
    }
}
