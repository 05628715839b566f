//! The nodes' network: a namespace each, their interfaces, the emulator between them, and their kernel's TCP.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::sync::Arc;

use cpu::NodeClocks;
use host::NetNamespace;
use net::{Clocks, Emulator, Observation, PipeChange, PipeId, Tap};
use node::{NotApplied, ParentNamespace};
use record::plan::Congestion;
use scale::{Tdf, VirtualDuration};
use site::{NodeIndex, NodeSetup, Setup, Timeline};
use tcp::{Cubic, InitialTimeout};

use super::guests::GuestPort;
use crate::error::{Error, Result};

/// How long an interval of the pipes' series is.
const INTERVAL: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);

/// The emulator and what it was made of.
pub struct Network {
    emulator: Emulator,
    pipes: HashMap<String, PipeId>,
    /// Node by node, the addresses of all others by their names.
    hosts: Vec<Vec<(String, IpAddr)>>,
    /// The address of each node's first interface, if it has one.
    addresses: Vec<Option<Ipv4Addr>>,
    /// All addresses, and whose they are.
    owners: Vec<(IpAddr, String)>,
    not_applied: Vec<NotApplied>,
    /// Node by node, the interfaces of those that are guests.
    guests: Vec<Arc<[GuestPort]>>,
}

/// The nodes' ends of the network: to be dropped when the nodes have gone.
pub struct Namespaces {
    all: Vec<NetNamespace>,
    /// Programs in the kernel that keep the nodes' TCP in virtual time; they end with these values.
    _tcp: (Option<Cubic>, Option<InitialTimeout>),
}

impl Network {
    /// Makes the namespaces and interfaces, and starts the emulator. `clocks` are those of the nodes, if they have any.
    pub fn create(setup: &Setup, clocks: Option<&NodeClocks>) -> Result<(Network, Namespaces)> {
        let network = net::Network::new(setup.network.clone(), setup.seed)?;
        // The congestion control of the nodes that have CUBIC, under this run's own name.
        let wants_cubic = setup.nodes.iter().any(|n| n.congestion == Congestion::Cubic);
        let cubic = wants_cubic.then(|| Cubic::register(setup.tdf)).transpose()?;
        let clocks = clocks.map_or(Ok(Clocks::default()), |clocks| of_ports(setup, &network, clocks))?;
        let (mut namespaces, mut taps, mut not_applied) = (Vec::new(), Vec::new(), Vec::new());
        let mut guests = Vec::new();
        for made in of_nodes(setup, &network, cubic.as_ref().map_or("cubic", Cubic::name), &clocks)? {
            namespaces.push(made.namespace);
            guests.push(guest_ports(&network, &made.taps)?);
            taps.extend(made.taps);
            not_applied.extend(made.not_applied);
        }
        not_applied.dedup();
        let timeout = initial_timeout(setup, &namespaces)?;
        let seen = |node: &NodeSetup| with_twins(with_names(network.hosts_seen_by(&node.name), &setup.nodes));
        let hosts = setup.nodes.iter().map(seen).collect();
        let first = |node: &NodeSetup| network.ports_of(&node.name).next().map(|port| port.address);
        let addresses = setup.nodes.iter().map(first).collect();
        let both =
            |port: &net::Port| [port.address.into(), net::twin(port.address).into()].map(|a| (a, port.node.clone()));
        let owners = network.ports().iter().flat_map(both).collect();
        let options = net::Options { core: setup.cores.emulator(), polling: setup.tdf.polling_interval() };
        let named = |name: &String| Some((name.clone(), network.pipe(name)?));
        let pipes = network.pipe_names().iter().filter_map(named).collect();
        let emulator = Emulator::start(network, taps, options, clocks)?;
        let namespaces = Namespaces { all: namespaces, _tcp: (cubic, timeout) };
        Ok((Network { emulator, pipes, hosts, addresses, owners, not_applied, guests }, namespaces))
    }

    /// The interfaces of a node that is a guest.
    pub fn guest_ports(&self, node: NodeIndex) -> Arc<[GuestPort]> {
        Arc::clone(&self.guests[node])
    }

    /// The emulator, for a capture.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// The `/etc/hosts` of each node.
    pub fn hosts(&self) -> &[Vec<(String, IpAddr)>] {
        &self.hosts
    }

    /// The address of each node's first interface, if it has one.
    pub fn addresses(&self) -> &[Option<Ipv4Addr>] {
        &self.addresses
    }

    /// All addresses of nodes, and whose they are.
    pub fn owners(&self) -> &[(IpAddr, String)] {
        &self.owners
    }

    /// Whether a guest listens on a TCP port, by what it has answered so far.
    pub fn guest_listens(&self, node: NodeIndex, tcp: u16) -> Result<bool> {
        for GuestPort { port, .. } in self.guests[node].iter() {
            if self.emulator.knock(port.id, tcp)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Kernel settings that could not be applied.
    pub fn not_applied(&self) -> &[NotApplied] {
        &self.not_applied
    }

    /// Changes pipes, all at one instant.
    pub fn change(&self, changes: &[(String, PipeChange)]) -> Result<()> {
        let change = |(name, change): &(String, PipeChange)| Ok((self.pipe(name)?, change.clone()));
        self.emulator.set(changes.iter().map(change).collect::<Result<_>>()?)?;
        Ok(())
    }

    /// Cuts nodes off from others: these pairs of a sender and a receiver, and no others.
    pub fn cut(&self, pairs: &[[NodeIndex; 2]]) -> Result<()> {
        Ok(self.emulator.cut(pairs.to_vec())?)
    }

    /// Changes a flow of the emulator's own.
    pub fn change_flow(&self, flow: usize, change: net::FlowChange) -> Result<()> {
        Ok(self.emulator.change_flows(vec![(flow, change)])?)
    }

    /// The pipe of a name, `A--B/ab`.
    pub fn pipe(&self, name: &str) -> Result<PipeId> {
        self.pipes.get(name).copied().ok_or_else(|| Error::SiteLost(format!("the network has no pipe `{name}`")))
    }

    /// Has the emulator record what each pipe does from virtual zero on, virtual second by virtual second, and know the
    /// nodes' date.
    pub fn start_series(&self, timeline: Timeline) {
        self.emulator.start_series(timeline.zero, timeline.tdf.to_real(INTERVAL));
        self.emulator.show_dates(move |at| timeline.date(at));
    }

    /// Everything counted so far.
    pub fn observe(&self) -> Result<Observation> {
        Ok(self.emulator.observe()?)
    }

    /// Ends the series, with everything counted until the same instant.
    pub fn end_series(&self) -> Result<Observation> {
        Ok(self.emulator.end_series()?)
    }
}

impl Namespaces {
    /// The namespace of a node.
    pub fn of(&self, node: NodeIndex) -> &NetNamespace {
        &self.all[node]
    }

    /// Those of all nodes.
    pub fn all(&self) -> &[NetNamespace] {
        &self.all
    }

    /// TCP's counters of all nodes; `None` for one that could not be read this time.
    pub fn tcp_counters(&self) -> Vec<Option<counters::TcpCounters>> {
        let read = || self.all.iter().map(|n| host::tcp::counters(n.as_fd()).ok()).collect();
        // The thread that reads a namespace's counters has to move into it.
        std::thread::scope(|scope| scope.spawn(read).join()).unwrap_or_else(|_| vec![None; self.all.len()])
    }
}

/// The clock of each port's node; what leaves by the port is sent by it.
fn of_ports(setup: &Setup, network: &net::Network, clocks: &NodeClocks) -> Result<Clocks> {
    let nodes: HashMap<&str, NodeIndex> = setup.nodes.iter().enumerate().map(|(i, n)| (n.name.as_str(), i)).collect();
    let of_port = |port: &net::Port| {
        let Some(&node) = nodes.get(port.node.as_str()) else { return Ok(None) };
        let [_, _, address @ ..] = port.mac;
        clocks.sends_from(address, node)?;
        Ok(Some(clocks.clocks()[node].clone()))
    };
    let of_ports = network.ports().iter().map(of_port).collect::<Result<_>>()?;
    let (stamper, dater) = (Some(clocks.stamper()?), Some(clocks.dater()?));
    Ok(Clocks { stamper, dater, of_loopback: Some(clocks.of_loopback()?), of_ports })
}

/// The interfaces of a node that are a guest's.
fn guest_ports(network: &net::Network, taps: &[Tap]) -> Result<Arc<[GuestPort]>> {
    let of_tap = |tap: &Tap| {
        let wire = tap.program()?;
        let port = network.ports().iter().find(|port| port.id == tap.port())?.clone();
        Some(wire.map(|wire| GuestPort { port, wire }).map_err(Error::io("an interface of a guest")))
    };
    taps.iter().filter_map(of_tap).collect()
}

/// A node's part of the network, before the emulator connects it.
struct NodeNetwork {
    namespace: NetNamespace,
    taps: Vec<Tap>,
    not_applied: Vec<NotApplied>,
}

impl NodeNetwork {
    fn make(
        setup: &Setup,
        parent: &ParentNamespace,
        node: &NodeSetup,
        ports: &[&net::Port],
        cubic: &str,
        clocks: &Clocks,
    ) -> Result<NodeNetwork> {
        let namespace = parent.child(setup.user_namespaces)?;
        let congestion = match node.congestion {
            Congestion::Cubic => cubic,
            Congestion::Reno => "reno",
        };
        let mut not_applied = node::apply(&namespace, congestion, setup.tdf)?;
        // A TAP brings `lo` up as well.
        if ports.is_empty() {
            net::raise_loopback(namespace.as_fd(), &node.name)?;
        }
        let taps = ports.iter().map(|port| Ok(Tap::create(namespace.as_fd(), port, clocks)?)).collect::<Result<_>>()?;
        not_applied.extend(node::apply_to_devices(&namespace, setup.tdf)?);
        Ok(NodeNetwork { namespace, taps, not_applied })
    }
}

/// Makes each node's part, in their order, made on all of the run's cores, for the nodes have nothing to do yet.
fn of_nodes(setup: &Setup, network: &net::Network, cubic: &str, clocks: &Clocks) -> Result<Vec<NodeNetwork>> {
    let (all, parent) = (setup.cores.all(), ParentNamespace::create()?);
    let nodes = setup.nodes.iter().map(|node| (node, network.ports_of(&node.name).collect::<Vec<_>>()));
    node::in_parallel(nodes.collect(), |(node, ports)| {
        // Of a thread that ends with this. What cannot be had of the nodes' cores only takes longer.
        let _ = host::cores::restrict(&all);
        NodeNetwork::make(setup, &parent, node, &ports, cubic, clocks)
    })
}

fn initial_timeout(setup: &Setup, namespaces: &[NetNamespace]) -> Result<Option<InitialTimeout>> {
    if setup.tdf == Tdf::ONE || !setup.scales_initial_timeout {
        return Ok(None);
    }
    let cookies = namespaces.iter().map(NetNamespace::cookie).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(Some(InitialTimeout::attach(setup.tdf, &cookies)?))
}

/// Behind the nodes their further names. One that several have is there for each, and programs that look it up get all.
fn with_names(mut hosts: Vec<(String, Ipv4Addr)>, nodes: &[NodeSetup]) -> Vec<(String, Ipv4Addr)> {
    if nodes.iter().all(|node| node.names.is_empty()) {
        return hosts;
    }
    let addresses: HashMap<String, Ipv4Addr> = hosts.iter().cloned().collect();
    for node in nodes {
        let Some(address) = addresses.get(&node.name) else { continue };
        hosts.extend(node.names.iter().map(|name| (name.clone(), *address)));
    }
    hosts
}

/// Beside each name that of the same node's IPv6 address: `web.ip6` beside `web`. Under the same name it would be
/// preferred to the other by most programs (RFC 6724), also where servers listen on IPv4 only.
fn with_twins(hosts: Vec<(String, Ipv4Addr)>) -> Vec<(String, IpAddr)> {
    let both = |(name, address): (String, Ipv4Addr)| {
        let six = format!("{name}.ip6");
        [(name, address.into()), (six, net::twin(address).into())]
    };
    hosts.into_iter().flat_map(both).collect()
}
