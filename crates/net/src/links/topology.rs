//! The shape of the network: who is joined to whom, which addresses they have, and which way each address lies.

mod addresses;
mod given;
mod shortest;

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use scale::link::MTUS;

use self::addresses::Addresses;
use self::given::Given;
use self::shortest::Routes;
use crate::Error;
use crate::links::address;
use crate::links::frame::{Frame, Refused};
use crate::links::ids::{Edges, PipeId, PortId, Vertex};
use crate::links::port::{Lan, Port, Rule};
use crate::links::prefix::{self, ANYWHERE, GIVEN_OUT, Prefix};
use crate::links::spec::{LinkSpec, NetworkSpec};

/// The most neighbours that the kernels of all nodes together keep on LANs. The table of neighbours is one for all
/// namespaces, and above 512 entries (`gc_thresh2`) the kernel forgets the older ones; above 1024 it loses packets.
const NEIGHBOURS: usize = 512;

/// Where a pipe leads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Port(PortId),
    Switch(Vertex),
}

/// Where a frame that a node sends goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aim {
    pub to: PortId,
    /// See [`Frame`].
    pub switched: bool,
}

#[derive(Debug)]
pub(crate) struct Topology {
    nodes: Vec<String>,
    /// Those in which a program has the interfaces.
    bare: HashSet<String>,
    /// By name of a node.
    by_name: HashMap<String, Vertex>,
    /// By name of a node or switch.
    places: HashMap<String, Vertex>,
    pub ports: Vec<Port>,
    /// The vertex of each port.
    owner: Vec<Vertex>,
    addresses: Addresses,
    /// The LANs are the vertices from this one on.
    first_lan: Vertex,
    pub pipe_names: Vec<String>,
    /// By name of a pipe.
    pipe_ids: HashMap<String, PipeId>,
    pub ends: Vec<End>,
    /// The vertex at which each pipe begins.
    starts: Vec<Vertex>,
    edges: Edges,
    /// By vertex: which of the parts of the network that nothing joins it is in.
    parts: Vec<u32>,
    /// By vertex: ports.
    ports_of: Vec<Vec<PortId>>,
    routes: Routes,
    given: Given,
}

impl Topology {
    pub fn new(spec: &NetworkSpec) -> Result<Self, Error> {
        let vertices = names(spec)?;
        let by_name = spec.nodes.iter().enumerate().map(|(v, n)| (n.clone(), v)).collect();
        let mut t = Topology {
            nodes: spec.nodes.clone(),
            bare: spec.bare.iter().cloned().collect(),
            by_name,
            places: vertices.iter().map(|(name, v)| ((*name).to_owned(), *v)).collect(),
            ports: Vec::new(),
            owner: Vec::new(),
            addresses: Addresses::default(),
            first_lan: spec.nodes.len() + spec.switches.len(),
            pipe_names: Vec::new(),
            pipe_ids: HashMap::new(),
            ends: Vec::new(),
            starts: Vec::new(),
            edges: vec![Vec::new(); vertices.len()],
            parts: Vec::new(),
            ports_of: vec![Vec::new(); vertices.len()],
            routes: Routes::default(),
            given: Given::default(),
        };
        t.joined(spec, &vertices)?;
        t.given = Given::new(spec, &vertices, &t.edges)?;
        t.tell_nodes(spec)?;
        Ok(t)
    }

    /// Joins the vertices by the links, and works out the routes.
    fn joined(&mut self, spec: &NetworkSpec, vertices: &HashMap<&str, Vertex>) -> Result<(), Error> {
        let t = self;
        for (i, link) in spec.links.iter().enumerate() {
            let wrong = |what: String| Err(Error::Input(format!("link `{}`{what}", link.name)));
            let (a, b) = match [&link.a, &link.b].map(|end| vertices.get(end.as_str()).copied().ok_or(end)) {
                [Ok(a), Ok(b)] => (a, b),
                [Err(end), _] | [_, Err(end)] => {
                    return wrong(format!(": there is no node or switch called `{end}`"));
                }
            };
            if a == b {
                return wrong(" joins a node or switch with itself".into());
            }
            if a.max(b) >= t.first_lan && a.min(b) >= t.nodes.len() {
                return wrong(": the members of a LAN are nodes; join a node to it".into());
            }
            if !MTUS.contains(&link.mtu) {
                let (least, most) = (MTUS.start(), MTUS.end());
                return wrong(format!(": an MTU of {}; it must be from {least} to {most}", link.mtu));
            }
            let (ab, ba) = (PipeId(2 * i as u32), PipeId(2 * i as u32 + 1));
            for (pipe, direction) in [(ab, "ab"), (ba, "ba")] {
                let name = format!("{}/{direction}", link.name);
                t.pipe_names.push(name.clone());
                if t.pipe_ids.insert(name, pipe).is_some() {
                    let what = format!("two links are called `{}`; each needs a name of its own", link.name);
                    return Err(Error::Input(what));
                }
            }
            let (at_a, at_b) = (t.end(a, ab, link), t.end(b, ba, link));
            t.ends.extend([at_b, at_a]);
            t.starts.extend([a, b]);
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
        if let Some(many) = t.edges.iter().position(|edges| edges.len() > usize::from(u16::MAX)) {
            return Err(Error::Input(format!("{} links meet at one place", t.edges[many].len())));
        }
        t.find_parts();
        let delay = |pipe: PipeId| {
            let link = &spec.links[pipe.index() / 2];
            if pipe.0.is_multiple_of(2) { &link.ab } else { &link.ba }.delay.as_nanos()
        };
        if !spec.links.is_empty() {
            t.routes = Routes::shortest(&t.edges, delay);
        }
        Ok(())
    }

    /// The far end of the pipe that leads to `vertex`, whose own pipe on the same link is `out`.
    fn end(&mut self, vertex: Vertex, out: PipeId, link: &LinkSpec) -> End {
        let Some(node) = self.nodes.get(vertex) else { return End::Switch(vertex) };
        let id = PortId(self.ports.len() as u32);
        // The address follows when all links are known.
        let address = Ipv4Addr::UNSPECIFIED;
        self.ports.push(Port {
            id,
            node: node.clone(),
            name: format!("eth{}", self.ports_of[vertex].len()),
            address,
            prefix: 32,
            gateway: address::gateway(id.index()),
            lan: None,
            main: None,
            mac: address::mac(address),
            mtu: link.mtu,
            tso: link.tso,
            routes: Vec::new(),
            rules: Vec::new(),
            forwards: false,
            pipe: out,
            bare: self.bare.contains(node),
        });
        self.owner.push(vertex);
        self.ports_of[vertex].push(id);
        End::Port(id)
    }

    /// Finds the parts of the network: who is in one reaches all in it.
    fn find_parts(&mut self) {
        const NONE: u32 = u32::MAX;
        let mut parts = vec![NONE; self.edges.len()];
        let mut open = Vec::new();
        for start in 0..self.edges.len() {
            if parts[start] == NONE {
                open.push(start);
            }
            while let Some(v) = open.pop() {
                if parts[v] == NONE {
                    parts[v] = start as u32;
                    open.extend(self.edges[v].iter().map(|(_, w)| *w));
                }
            }
        }
        self.parts = parts;
    }

    /// Whether there is any way from one vertex to another.
    fn joined_with(&self, from: Vertex, to: Vertex) -> bool {
        self.parts[from] == self.parts[to]
    }

    /// Fills in what the kernels of the nodes have to know.
    fn tell_nodes(&mut self, spec: &NetworkSpec) -> Result<(), Error> {
        let subnets = self.give_addresses(spec)?;
        let mut order: Vec<usize> = (0..self.ports.len()).collect();
        order.sort_by_key(|p| self.ports[*p].address);
        let all = match self.addresses.all_given_out() {
            true => GIVEN_OUT,
            false => ANYWHERE,
        };
        let pairs = |lan: Vertex| self.edges[lan].len() * self.edges[lan].len().saturating_sub(1);
        let asks = (self.first_lan..self.edges.len()).map(pairs).sum::<usize>() <= NEIGHBOURS;
        for v in 0..self.nodes.len() {
            let own = self.ports_of[v].clone();
            let forwards = own.len() > 1;
            let mut behind: Vec<Vec<(Ipv4Addr, usize)>> = vec![Vec::new(); own.len()];
            let mut ways = Vec::new();
            let reached =
                || order.iter().copied().filter(|to| self.owner[*to] != v && self.joined_with(v, self.owner[*to]));
            // In the block of a LAN that the node is on, and not on that LAN: the block's route would not lead there.
            let on: Vec<Vertex> = own.iter().filter_map(|port| self.lan_of(*port)).collect();
            let stranger = |to: &usize| {
                let (address, lan) = (self.ports[*to].address, self.lan_of(PortId(*to as u32)));
                on.iter().any(|own| lan != Some(*own) && subnets[own - self.first_lan].holds(address))
            };
            if forwards {
                for to in reached() {
                    let slot = self.slot(v, to);
                    behind[slot].push((self.ports[to].address, slot));
                    // The block of a LAN that one is on has a route by itself.
                    if self.on_common_lan(v, to).is_none() && !stranger(&to) {
                        ways.push((self.ports[to].address, slot));
                    }
                }
            }
            let strangers: Vec<_> = reached().filter(stranger).collect();
            // The first of the largest; `max_by_key` would give the last.
            let main = (0..own.len()).rev().max_by_key(|slot| behind[*slot].len());
            for (slot, port) in own.iter().enumerate() {
                let lan = self.lan_of(*port);
                let first = lan.is_some() && own[..slot].iter().all(|p| self.lan_of(*p).is_none());
                let lan = lan.map(|lan| Lan { subnet: subnets[lan - self.first_lan], asks, first });
                let port = &mut self.ports[port.index()];
                port.forwards = forwards;
                port.lan = lan;
                port.main = (main == Some(slot)).then_some(all);
                port.prefix = match lan {
                    Some(lan) => lan.subnet.length,
                    None if main == Some(slot) && GIVEN_OUT.holds(port.address) => 8,
                    None => 32,
                };
            }
            for (prefix, slot) in prefix::aggregate(&ways, main.unwrap_or(0), all) {
                self.ports[own[slot].index()].routes.push(prefix);
            }
            for to in strangers {
                let (slot, address) = (self.slot(v, to), self.ports[to].address);
                self.ports[own[slot].index()].routes.push(Prefix { address, length: 32 });
            }
        }
        for (from, to, path) in self.given.paths() {
            for pipe in path {
                let at = self.starts[pipe.index()];
                let Some(slot) = self.edges[at].iter().position(|(p, _)| p == pipe) else { continue };
                let lan = self.ports_of.get(at).is_some_and(|own| own.iter().any(|p| self.lan_of(*p).is_some()));
                if at >= self.nodes.len() || self.edges[at].len() < 2 && !lan {
                    continue;
                }
                let sources: Vec<_> = match at == from {
                    true => vec![None],
                    false => self.ports_of[from].iter().map(|p| Some(self.ports[p.index()].address)).collect(),
                };
                let to: Vec<_> = self.ports_of[to].iter().map(|p| self.ports[p.index()].address).collect();
                let rules = sources.iter().flat_map(|from| to.iter().map(|to| Rule { from: *from, to: *to }));
                self.ports[self.ports_of[at][slot].index()].rules.extend(rules);
            }
        }
        Ok(())
    }

    /// Gives each port its address; the blocks of the LANs.
    fn give_addresses(&mut self, spec: &NetworkSpec) -> Result<Vec<Prefix>, Error> {
        let lan_of: Vec<Option<usize>> = (0..self.ports.len() as u32)
            .map(|port| self.lan_of(PortId(port)).map(|lan| lan - self.first_lan))
            .collect();
        let given = addresses::given(spec, &self.ports)?;
        let (addresses, subnets) = Addresses::give(spec, &self.ports, &lan_of, &given)?;
        for port in &mut self.ports {
            port.address = addresses.of(port.id);
            port.mac = address::mac(port.address);
        }
        self.addresses = addresses;
        Ok(subnets)
    }

    /// The node that a port belongs to.
    pub fn owner(&self, port: PortId) -> Vertex {
        self.owner[port.index()]
    }

    /// The node that has an address.
    pub fn node_at(&self, address: [u8; 4]) -> Option<Vertex> {
        self.addresses.port(address).map(|port| self.owner(port))
    }

    /// The LAN that a port is on.
    fn lan_of(&self, port: PortId) -> Option<Vertex> {
        match self.ends[self.ports[port.index()].pipe.index()] {
            End::Switch(at) if at >= self.first_lan => Some(at),
            _ => None,
        }
    }

    /// The port of the node `at` on the LAN that the port number `to` is on.
    fn on_common_lan(&self, at: Vertex, to: usize) -> Option<PortId> {
        let lan = self.lan_of(PortId(to as u32))?;
        self.ports_of.get(at)?.iter().copied().find(|own| self.lan_of(*own) == Some(lan))
    }

    /// Which of the edges of `at` leads to the port number `to` of another vertex: the link itself that the port is on,
    /// if `at` is the other end of it, and the LAN that both are on.
    fn slot(&self, at: Vertex, to: usize) -> usize {
        let direct = self.ports[to].pipe;
        match self.ends[direct.index()] {
            End::Switch(far) if far == at => self.place(at, direct.reverse()),
            End::Port(far) if self.owner[far.index()] == at => self.place(at, direct.reverse()),
            _ => match self.on_common_lan(at, to) {
                Some(own) if at != self.owner[to] => self.place(at, self.ports[own.index()].pipe),
                _ => self.routes.slot(at, self.owner[to]),
            },
        }
    }

    fn place(&self, at: Vertex, pipe: PipeId) -> usize {
        // The edges stand in the order of the links.
        self.edges[at].partition_point(|(p, _)| *p < pipe)
    }

    /// The pipe by which a frame for port `to` goes on from switch `at`. `source` is the address that
    /// it says it comes from.
    pub fn next(&self, at: Vertex, to: PortId, source: impl FnOnce() -> Option<[u8; 4]>) -> PipeId {
        let destination = self.owner[to.index()];
        let given = match self.given.is_empty() {
            true => None,
            false => source()
                .and_then(|address| self.addresses.port(address))
                .and_then(|port| self.given.next(at, self.owner[port.index()], destination)),
        };
        given.unwrap_or_else(|| self.edges[at][self.slot(at, to.index())].0)
    }

    /// Where a frame goes that the node of the port `from` sends there.
    pub fn aim(&self, from: PortId, frame: &Frame) -> Result<Aim, Refused> {
        if let Some(lan) = self.lan_of(from) {
            let switched = |to| Ok(Aim { to, switched: true });
            let mac = frame.destination_mac()?;
            let address = address::of_mac(mac);
            if mac[0] & 1 == 1 {
                return switched(PortId::ALL);
            }
            if !address.is_some_and(address::is_gateway) {
                let member = address.and_then(|a| self.addresses.port(a.octets()));
                return match member.filter(|port| self.lan_of(*port) == Some(lan)) {
                    Some(own) if own == from => Err(Refused::Unroutable),
                    // A switch that does not know where somebody is asks everywhere.
                    other => switched(other.unwrap_or(PortId::ALL)),
                };
            }
        }
        let to = self.addresses.port(frame.destination()?).ok_or(Refused::Unroutable)?;
        let right = self.accepts(from, to, || frame.source());
        if right { Ok(Aim { to, switched: false }) } else { Err(Refused::Unroutable) }
    }

    /// Whether a frame for the port `to` may enter the link that the port `from` is on: it is another node's, and a
    /// switch at the other end of the link would not send the frame back.
    fn accepts(&self, from: PortId, to: PortId, source: impl FnOnce() -> Option<[u8; 4]>) -> bool {
        let pipe = self.ports[from.index()].pipe;
        let (from_node, to_node) = (self.owner[from.index()], self.owner[to.index()]);
        from_node != to_node
            && self.joined_with(from_node, to_node)
            && match self.ends[pipe.index()] {
                End::Switch(at) => self.next(at, to, source) != pipe.reverse(),
                End::Port(_) => true,
            }
    }

    /// The pipe that leads to a member of a LAN.
    pub fn down(&self, member: PortId) -> PipeId {
        self.ports[member.index()].pipe.reverse()
    }

    /// The member number `n` of the LAN `at`, in the order of its links, with the pipe that leads there.
    pub fn member(&self, at: Vertex, n: usize) -> Option<(PipeId, PortId)> {
        let (pipe, _) = *self.edges[at].get(n)?;
        match self.ends[pipe.index()] {
            End::Port(port) => Some((pipe, port)),
            End::Switch(_) => None,
        }
    }

    /// The port that sends into a pipe, if a port does.
    pub fn sender(&self, pipe: PipeId) -> Option<PortId> {
        self.ports.iter().find(|p| p.pipe == pipe).map(|p| p.id)
    }

    /// The pipe with this name.
    pub fn pipe(&self, name: &str) -> Option<PipeId> {
        self.pipe_ids.get(name).copied()
    }

    /// The ports of a node; none if there is no such node.
    pub fn ports_of(&self, node: &str) -> impl Iterator<Item = &Port> {
        self.by_name.get(node).map_or(&[][..], |v| &self.ports_of[*v]).iter().map(|p| &self.ports[p.index()])
    }

    /// Every node's name and address as `node` should know them.
    pub fn hosts_seen_by(&self, node: &str) -> Vec<(String, Ipv4Addr)> {
        let Some(&viewer) = self.by_name.get(node) else { return Vec::new() };
        let facing = |v: Vertex| match self.ports_of[v].as_slice() {
            [only] => Some(*only),
            all if v == viewer => all.iter().copied().find(|p| self.ports[p.index()].main.is_some()),
            // The first of one that cannot be reached: its name is known all the same.
            all => match self.way(viewer, v) {
                Some(way) => match self.ends[way.last()?.index()] {
                    End::Port(port) => Some(port),
                    End::Switch(_) => None,
                },
                None => all.first().copied(),
            },
        };
        let named = |v: Vertex| Some((self.nodes[v].clone(), self.ports[facing(v)?.index()].address));
        (0..self.nodes.len()).filter_map(named).collect()
    }

    /// The pipes that a frame from one node to another passes, in order.
    pub fn route(&self, from: &str, to: &str) -> Option<Vec<PipeId>> {
        self.way(*self.by_name.get(from)?, *self.by_name.get(to)?)
    }

    /// Likewise for any two places, which may be switches.
    pub fn route_of_any(&self, from: &str, to: &str) -> Option<Vec<PipeId>> {
        self.way(*self.places.get(from)?, *self.places.get(to)?)
    }

    /// The pipes from one node to another; none if they are the same, `None` if there is no way.
    fn way(&self, from: Vertex, to: Vertex) -> Option<Vec<PipeId>> {
        if let Some(given) = self.given.path(from, to) {
            return Some(given.to_vec());
        }
        let (mut way, mut at) = (Vec::new(), from);
        while at != to {
            let pipe = self.step(at, to)?;
            way.push(pipe);
            at = self.head(pipe);
        }
        Some(way)
    }

    /// The first pipe of the shortest route from one vertex to another.
    fn step(&self, at: Vertex, to: Vertex) -> Option<PipeId> {
        if !self.joined_with(at, to) {
            return None;
        }
        let slot = match *self.edges[to].as_slice() {
            // Nothing leads there but this link.
            [(pipe, near)] if near == at => self.place(at, pipe.reverse()),
            [] => return None,
            _ => self.routes.slot(at, to),
        };
        Some(self.edges[at].get(slot)?.0)
    }

    /// The vertex to which a pipe leads.
    fn head(&self, pipe: PipeId) -> Vertex {
        self.starts[pipe.reverse().index()]
    }

    /// Sums of what `weight` says of the pipes of each node's route to the node number `to`; by node. `None` where
    /// there is no route, and for the node itself.
    pub fn sums_to(&self, to: Vertex, weight: impl Fn(PipeId) -> u64) -> Vec<Option<u64>> {
        let mut sums: Vec<Option<u64>> = vec![None; self.edges.len()];
        let mut open = Vec::new();
        for from in 0..self.nodes.len() {
            let mut at = from;
            let mut sum = loop {
                if let Some(known) = sums[at] {
                    break known;
                }
                let Some(pipe) = self.step(at, to).filter(|_| at != to) else { break 0 };
                open.push(pipe);
                at = self.head(pipe);
            };
            while let Some(pipe) = open.pop() {
                sum = weight(pipe).saturating_add(sum);
                sums[self.starts[pipe.index()]] = Some(sum);
            }
        }
        sums.truncate(self.nodes.len());
        for (from, path) in self.given.paths_to(to) {
            sums[from] = Some(path.iter().fold(0, |sum, pipe| weight(*pipe).saturating_add(sum)));
        }
        sums
    }
}

fn names(spec: &NetworkSpec) -> Result<HashMap<&str, Vertex>, Error> {
    let mut vertices = HashMap::new();
    for (i, name) in spec.names().enumerate() {
        if vertices.insert(name.as_str(), i).is_some() {
            return Err(Error::Input(format!(
                "two nodes or switches are called `{name}`; each needs a name of its own"
            )));
        }
    }
    Ok(vertices)
}
