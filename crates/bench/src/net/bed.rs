//! A network that runs, with an interface in a namespace of its own in place of each node.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;

use host::NetNamespace;
use net::{
    Capture, CaptureFile, Clocks, DEFAULT_MTU, Emulator, LanSpec, LinkSpec, Network, NetworkSpec, Options, PipeChange,
    PipeConfig, PipeId, Tap,
};
use scale::{RealDuration, RealInstant};

use super::traffic;
use crate::Error;
use crate::cores::{Cores, pin};

/// Nodes `a` and `b` joined by one link. `config` is the direction from `a` to `b`; the other is perfect.
pub fn pair(config: &PipeConfig) -> NetworkSpec {
    let link = link("a", "b", config.clone(), PipeConfig::default());
    NetworkSpec { nodes: vec!["a".into(), "b".into()], links: vec![link], ..Default::default() }
}

/// Nodes around a switch; both directions of each link are `config`.
pub fn star(nodes: usize, config: &PipeConfig) -> NetworkSpec {
    let nodes: Vec<String> = (1..=nodes).map(|i| format!("n{i}")).collect();
    let links = nodes.iter().map(|n| link(n, "core", config.clone(), config.clone())).collect();
    NetworkSpec { links, nodes, switches: vec!["core".into()], ..Default::default() }
}

/// Members of a LAN; both directions of each one's link are `config`.
pub fn lan(members: usize, config: &PipeConfig) -> NetworkSpec {
    let star = star(members, config);
    NetworkSpec { switches: Vec::new(), lans: vec![LanSpec { name: "core".into(), subnet: None }], ..star }
}

/// A link.
pub fn link(a: &str, b: &str, ab: PipeConfig, ba: PipeConfig) -> LinkSpec {
    LinkSpec { name: format!("{a}--{b}"), a: a.into(), b: b.into(), ab, ba, mtu: DEFAULT_MTU, tso: true }
}

/// A namespace and an interface for every node.
pub fn interfaces(network: &Network) -> Result<(Vec<NetNamespace>, Vec<Tap>), Error> {
    let made = network.ports().iter().map(|port| {
        let space = NetNamespace::create().map_err(Error::machine)?;
        let tap = Tap::create(space.as_fd(), port, &Clocks::default()).map_err(Error::machine)?;
        Ok((space, tap))
    });
    made.collect()
}

/// A running network.
pub struct Bed {
    pub emulator: Emulator,
    /// The nodes' namespaces, in the order of the nodes.
    pub spaces: Vec<NetNamespace>,
    /// The nodes' addresses, in the order of the nodes.
    pub addresses: Vec<Ipv4Addr>,
    /// From the nodes to what they are joined to.
    pipes: Vec<PipeId>,
    cores: Cores,
}

impl Bed {
    /// Two nodes; nothing about their link is left to chance, or to the same chance in every benchmark.
    pub fn pair(config: &PipeConfig, cores: &Cores, polling: Option<RealDuration>) -> Result<Bed, Error> {
        Bed::start(pair(config), cores, polling, 1)
    }

    /// Starts a network, and puts the calling thread where the nodes of a run are.
    pub fn start(spec: NetworkSpec, cores: &Cores, polling: Option<RealDuration>, seed: u64) -> Result<Bed, Error> {
        let network = Network::new(spec, seed).map_err(Error::failed)?;
        let (spaces, taps) = interfaces(&network)?;
        let (addresses, pipes) = network.ports().iter().map(|port| (port.address, port.pipe)).unzip();
        let options = Options { core: Some(cores.harness), polling };
        let emulator = Emulator::start(network, taps, options, Clocks::default()).map_err(Error::machine)?;
        pin(cores.nodes);
        Ok(Bed { emulator, spaces, addresses, pipes, cores: *cores })
    }

    /// Changes the pipes of all nodes.
    pub fn set_all(&self, change: &PipeChange) -> Result<(), Error> {
        let changes = self.pipes.iter().map(|pipe| (*pipe, change.clone())).collect();
        self.emulator.set(changes).map(drop).map_err(Error::failed)
    }

    /// A socket in the first node, connected to one in the second.
    pub fn sockets(&self) -> Result<(UdpSocket, UdpSocket), Error> {
        traffic::sockets(&self.spaces, &self.addresses)
    }

    /// Puts the calling thread where the nodes of a run are.
    pub fn join_nodes(&self) {
        pin(self.cores.nodes);
    }

    /// Records the frames of all nodes' pipes. As in a run, who writes them shares the emulator's core.
    pub fn capture(&self, path: PathBuf, snap: usize) -> Result<Capture, Error> {
        pin(self.cores.harness);
        let file = std::fs::File::create(&path).map_err(|e| Error::failed(format!("{}: {e}", path.display())))?;
        let file = CaptureFile { path, file, pipes: self.pipes.clone(), snap };
        let capture = self.emulator.capture(vec![file], Box::new(RealInstant::as_nanos));
        pin(self.cores.nodes);
        capture.map_err(Error::failed)
    }
}
