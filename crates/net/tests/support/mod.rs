//! A network of bare namespaces: what these tests have in place of nodes.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use diorama_net::{
    Clocks, DEFAULT_MTU, Emulator, LinkSpec, Network, NetworkSpec, Options, PipeChange, PipeConfig, Tap,
};
use host::NetNamespace;
use scale::{RealDuration, RealRate};

/// How long something may take on a busy machine that takes no time on a free one.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `done`; fails after a while, saying what it waited for.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "this does not come: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Lets a socket hold all that a test sends, however late it is read: 16 MiB.
pub fn enlarge(socket: &UdpSocket) {
    rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, 16 << 20).expect("these tests need root");
}

/// A network namespace, which lives as long as this value.
pub struct Space(pub NetNamespace);

impl Space {
    pub fn new() -> Space {
        Space(NetNamespace::create().expect("these tests need root"))
    }

    /// Starts `work` inside.
    pub fn spawn<'s, T: Send + 's>(
        &'s self,
        scope: &'s thread::Scope<'s, '_>,
        work: impl FnOnce() -> T + Send + 's,
    ) -> ScopedJoinHandle<'s, T> {
        scope.spawn(move || {
            host::move_into_netns(self.0.as_fd()).expect("it can be entered");
            work()
        })
    }

    /// Does `work` inside.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| self.spawn(scope, work).join().expect("the work in the namespace is done"))
    }
}

/// A running network.
pub struct Testbed {
    pub emulator: Emulator,
    pub spaces: BTreeMap<String, Space>,
    /// By viewer and name.
    hosts: BTreeMap<String, BTreeMap<String, Ipv4Addr>>,
    pipes: BTreeMap<String, diorama_net::PipeId>,
}

impl Testbed {
    pub fn start(spec: NetworkSpec, seed: u64) -> Testbed {
        Testbed::with_clocks(spec, seed, Clocks::default())
    }

    pub fn with_clocks(spec: NetworkSpec, seed: u64, clocks: Clocks) -> Testbed {
        let nodes = spec.nodes.clone();
        let network = Network::new(spec, seed).expect("the network is valid");
        let spaces: BTreeMap<_, _> = nodes.iter().map(|n| (n.clone(), Space::new())).collect();
        let tap = |port: &diorama_net::Port| {
            Tap::create(spaces[&port.node].0.as_fd(), port, &clocks).expect("an interface is made")
        };
        let taps = network.ports().iter().map(tap).collect();
        let hosts = nodes.iter().map(|n| (n.clone(), network.hosts_seen_by(n).into_iter().collect())).collect();
        let ids = network.pipe_names().iter().map(|n| (n.clone(), network.pipe(n).expect("it was listed")));
        let pipes = ids.collect();
        let emulator = Emulator::start(network, taps, Options::default(), clocks).expect("the emulator starts");
        Testbed { emulator, spaces, hosts, pipes }
    }

    /// The address by which `viewer` knows `node`.
    pub fn address(&self, viewer: &str, node: &str) -> Ipv4Addr {
        self.hosts[viewer][node]
    }

    pub fn pipe(&self, name: &str) -> diorama_net::PipeId {
        self.pipes[name]
    }

    pub fn set(&self, pipe: &str, change: PipeChange) {
        self.emulator.set(vec![(self.pipes[pipe], change)]).expect("the change is valid");
    }

    pub fn counters(&self, pipe: &str) -> diorama_net::PipeCounters {
        let seen = self.emulator.observe().expect("the emulator lives");
        seen.pipes.into_iter().find(|p| p.name == pipe).expect("there is such a pipe").counters
    }
}

/// Nodes `n1` … around a switch `core`; both directions of each link are `config`.
pub fn star(nodes: usize, config: &PipeConfig) -> NetworkSpec {
    let nodes: Vec<String> = (1..=nodes).map(|i| format!("n{i}")).collect();
    let link = |n: &String| link(n, "core", config);
    NetworkSpec { links: nodes.iter().map(link).collect(), nodes, switches: vec!["core".into()], ..Default::default() }
}

pub fn link(a: &str, b: &str, config: &PipeConfig) -> LinkSpec {
    let (ab, ba) = (config.clone(), config.clone());
    LinkSpec { name: format!("{a}--{b}"), a: a.into(), b: b.into(), ab, ba, mtu: DEFAULT_MTU, tso: true }
}

pub fn ms(n: u64) -> RealDuration {
    RealDuration::from_nanos(n * 1_000_000)
}

pub fn mbit(n: f64) -> Option<RealRate> {
    Some(RealRate::from_bits_per_s(n * 1e6))
}
