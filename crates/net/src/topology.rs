//! The shape of the network: who is joined to whom, which addresses they have, and which way each address lies.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use crate::Error;
use crate::address;
use crate::spec::NetworkSpec;

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipeId(pub(crate) u32);

/// A node's end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub(crate) u32);

impl PipeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl PortId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A node's end of a link, with all that its kernel has to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number in the network.
    pub id: PortId,
    /// The node that it belongs to.
    pub node: String,
    /// The interface's name inside the node: `eth0`, `eth1`, … in the order of the links.
    pub name: String,
    /// The interface's address.
    pub address: Ipv4Addr,
    /// Length of the network prefix: 8 on the interface behind which most of the network lies, 32 on others.
    pub prefix: u8,
    /// The interface's hardware address.
    pub mac: [u8; 6],
    /// The addresses behind an interface whose prefix is 32; the interface with prefix 8 has all the others.
    pub routes: Vec<Ipv4Addr>,
    /// Whether the node joins several links and so forwards between them with its own kernel.
    pub forwards: bool,
    /// The pipe into which the interface sends.
    pub pipe: PipeId,
}

/// Where a pipe leads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Port(PortId),
    Switch(Vertex),
}

/// A node or a switch: nodes first, in the order of the specification.
pub(crate) type Vertex = usize;

/// No pipe leads there from here.
const NOWHERE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Topology {
    nodes: Vec<String>,
    pub ports: Vec<Port>,
    /// The vertex of each port.
    owner: Vec<Vertex>,
    pub pipe_names: Vec<String>,
    pub ends: Vec<End>,
    /// By vertex: pipes out, with where they lead.
    edges: Vec<Vec<(PipeId, Vertex)>>,
    /// By vertex: ports.
    ports_of: Vec<Vec<PortId>>,
    /// By vertex, for switches and forwarding nodes: by port, the pipe that leads there.
    tables: Vec<Vec<u32>>,
}

impl Topology {
    pub fn new(spec: &NetworkSpec) -> Result<Self, Error> {
        let vertices = names(spec)?;
        let mut t = Topology {
            nodes: spec.nodes.clone(),
            ports: Vec::new(),
            owner: Vec::new(),
            pipe_names: Vec::new(),
            ends: Vec::new(),
            edges: vec![Vec::new(); vertices.len()],
            ports_of: vec![Vec::new(); vertices.len()],
            tables: vec![Vec::new(); vertices.len()],
        };
        let mut links = HashMap::new();
        for (i, link) in spec.links.iter().enumerate() {
            if links.insert(link.name.as_str(), i).is_some() {
                return Err(Error::Input(format!(
                    "two links are called `{}`; each needs a name of its own",
                    link.name
                )));
            }
            let find = |end: &str| {
                vertices.get(end).copied().ok_or_else(|| {
                    Error::Input(format!("link `{}`: there is no node or switch called `{end}`", link.name))
                })
            };
            let (a, b) = (find(&link.a)?, find(&link.b)?);
            if let Some(ring) = t.path(a, b) {
                return Err(Error::Input(ring_message(spec, &link.name, &ring)));
            }
            let (ab, ba) = (PipeId(2 * i as u32), PipeId(2 * i as u32 + 1));
            t.pipe_names.extend([format!("{}/ab", link.name), format!("{}/ba", link.name)]);
            let (at_a, at_b) = (t.end(a, ab), t.end(b, ba));
            t.ends.extend([at_b, at_a]);
            t.edges[a].push((ab, b));
            t.edges[b].push((ba, a));
        }
        if t.ports.len() > address::MAX_PORTS {
            return Err(Error::Input(format!(
                "{} interfaces; the emulator has addresses for {}",
                t.ports.len(),
                address::MAX_PORTS
            )));
        }
        t.connected(spec)?;
        t.fill_tables();
        t.fill_routes();
        Ok(t)
    }

    /// The far end of the pipe that leads to `vertex`, whose own pipe on the same link is `out`.
    fn end(&mut self, vertex: Vertex, out: PipeId) -> End {
        let Some(node) = self.nodes.get(vertex) else { return End::Switch(vertex) };
        let id = PortId(self.ports.len() as u32);
        let address = address::of_port(id.index());
        let name = format!("eth{}", self.ports_of[vertex].len());
        let (prefix, mac) = (32, address::mac(address));
        let (node, routes) = (node.clone(), Vec::new());
        self.ports.push(Port { id, node, name, address, prefix, mac, routes, forwards: false, pipe: out });
        self.owner.push(vertex);
        self.ports_of[vertex].push(id);
        End::Port(id)
    }

    /// The pipes from `a` to `b`, if they are joined (none if they are the same).
    fn path(&self, a: Vertex, b: Vertex) -> Option<Vec<PipeId>> {
        let mut came_by = HashMap::from([(a, None)]);
        let mut open = vec![a];
        while let Some(v) = open.pop() {
            for &(pipe, w) in &self.edges[v] {
                if let std::collections::hash_map::Entry::Vacant(e) = came_by.entry(w) {
                    e.insert(Some((pipe, v)));
                    open.push(w);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = *came_by.get(&b)?;
        while let Some((pipe, before)) = at {
            path.push(pipe);
            at = came_by[&before];
        }
        path.reverse();
        Some(path)
    }

    fn connected(&self, spec: &NetworkSpec) -> Result<(), Error> {
        if spec.links.is_empty() {
            return Ok(());
        }
        let name = |v: Vertex| spec.nodes.iter().chain(&spec.switches).nth(v).expect("a vertex has a name");
        let start = (0..self.edges.len()).find(|v| !self.edges[*v].is_empty()).expect("there is a link");
        let mut seen = vec![false; self.edges.len()];
        self.walk(start, |v, _| seen[v] = true);
        let apart: Vec<Vertex> = (0..seen.len()).filter(|v| !seen[*v]).collect();
        let Some(&first) = apart.first() else { return Ok(()) };
        let list: Vec<String> = apart.iter().take(5).map(|v| format!("`{}`", name(*v))).collect();
        let more =
            if apart.len() > list.len() { format!(" and {} more", apart.len() - list.len()) } else { String::new() };
        let links = match self.edges[first].first() {
            Some((pipe, _)) => format!("link `{}` joins only part of them", spec.links[pipe.index() / 2].name),
            None => format!("`{}` has no link at all", name(first)),
        };
        Err(Error::Input(format!(
            "the network is in pieces: {}{more} cannot reach `{}`, which link `{}` joins; {links}; add the link that is missing",
            list.join(", "),
            name(start),
            spec.links[self.edges[start][0].0.index() / 2].name,
        )))
    }

    /// Visits every vertex of the tree from `root` on, with the pipe by which it was reached.
    fn walk(&self, root: Vertex, mut visit: impl FnMut(Vertex, Option<PipeId>)) {
        let mut open = vec![(root, usize::MAX, None)];
        while let Some((v, from, by)) = open.pop() {
            visit(v, by);
            open.extend(self.edges[v].iter().filter(|(_, w)| *w != from).map(|&(pipe, w)| (w, v, Some(pipe))));
        }
    }

    fn fill_tables(&mut self) {
        for v in 0..self.edges.len() {
            if v < self.nodes.len() && self.edges[v].len() < 2 {
                continue;
            }
            let mut table = vec![NOWHERE; self.ports.len()];
            for &(first, neighbour) in &self.edges[v] {
                let mut open = vec![(neighbour, v)];
                while let Some((w, from)) = open.pop() {
                    self.ports_of[w].iter().for_each(|p| table[p.index()] = first.0);
                    open.extend(self.edges[w].iter().filter(|(_, x)| *x != from).map(|&(_, x)| (x, w)));
                }
            }
            self.tables[v] = table;
        }
    }

    fn fill_routes(&mut self) {
        for v in 0..self.nodes.len() {
            let mut behind: Vec<Vec<Ipv4Addr>> = Vec::new();
            for port in &self.ports_of[v] {
                let pipe = self.ports[port.index()].pipe.0;
                let table = self.tables[v].iter().enumerate();
                behind.push(table.filter(|(_, p)| **p == pipe).map(|(d, _)| address::of_port(d)).collect());
            }
            // The first of the largest; `max_by_key` would give the last.
            let main = (0..behind.len()).rev().max_by_key(|i| behind[*i].len());
            let forwards = self.ports_of[v].len() > 1;
            for (i, port) in self.ports_of[v].iter().enumerate() {
                let port = &mut self.ports[port.index()];
                port.forwards = forwards;
                match main == Some(i) {
                    true => port.prefix = 8,
                    false => port.routes = std::mem::take(&mut behind[i]),
                }
            }
        }
    }

    /// The pipe by which a frame for `to` goes on from switch `at`.
    pub fn next(&self, at: Vertex, to: PortId) -> PipeId {
        PipeId(self.tables[at][to.index()])
    }

    /// Whether `to` lies behind the link that `from` is on: a frame for anywhere else has no business there.
    pub fn reaches(&self, from: PortId, to: usize) -> bool {
        let vertex = self.owner[from.index()];
        match self.tables[vertex].get(to) {
            Some(pipe) => *pipe == self.ports[from.index()].pipe.0,
            None => self.owner.get(to).is_some_and(|owner| *owner != vertex),
        }
    }

    fn node(&self, name: &str) -> Option<Vertex> {
        self.nodes.iter().position(|n| n == name)
    }

    /// The ports of a node; none if there is no such node.
    pub fn ports_of(&self, node: &str) -> impl Iterator<Item = &Port> {
        self.node(node).map_or(&[][..], |v| &self.ports_of[v]).iter().map(|p| &self.ports[p.index()])
    }

    /// Every node's name and address as `node` should know them.
    pub fn hosts_seen_by(&self, node: &str) -> Vec<(String, Ipv4Addr)> {
        let Some(viewer) = self.node(node) else { return Vec::new() };
        let mut facing = vec![None; self.nodes.len()];
        self.walk(viewer, |v, by| {
            if let Some(name) = facing.get_mut(v) {
                *name = match by.map(|pipe| self.ends[pipe.index()]) {
                    Some(End::Port(port)) => Some(port),
                    _ => self.ports_of[v].iter().copied().find(|p| self.ports[p.index()].prefix == 8),
                };
            }
        });
        let named =
            |(v, port): (usize, Option<PortId>)| port.map(|p| (self.nodes[v].clone(), self.ports[p.index()].address));
        facing.into_iter().enumerate().filter_map(named).collect()
    }

    /// The pipes that a frame from one node to another passes, in order.
    pub fn route(&self, from: &str, to: &str) -> Option<Vec<PipeId>> {
        self.path(self.node(from)?, self.node(to)?)
    }
}

fn names(spec: &NetworkSpec) -> Result<HashMap<&str, Vertex>, Error> {
    let mut vertices = HashMap::new();
    for (i, name) in spec.nodes.iter().chain(&spec.switches).enumerate() {
        if vertices.insert(name.as_str(), i).is_some() {
            return Err(Error::Input(format!(
                "two nodes or switches are called `{name}`; each needs a name of its own"
            )));
        }
    }
    Ok(vertices)
}

fn ring_message(spec: &NetworkSpec, closing: &str, ring: &[PipeId]) -> String {
    if ring.is_empty() {
        return format!("link `{closing}` joins a node or switch with itself");
    }
    let names: Vec<String> = ring.iter().map(|pipe| format!("`{}`", spec.links[pipe.index() / 2].name)).collect();
    format!(
        "link `{closing}` closes a ring with {}; a network must be a tree, so leave one of them out",
        names.join(", ")
    )
}
