//! The plan of a run: who runs where, and what every node and link gets there.
//!
//! An experiment says what the target is; its plan says what the harness does to look like it. Making a plan is pure
//! arithmetic, and refuses what the harness could not keep to: `diorama check` prints it, and a run records it.

mod fit;
mod pipes;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use clock::CpuRate;
use indexmap::IndexMap;
use model::{Action, Congestion, Experiment, LinkChange, Route};
use net::{Network, NetworkSpec, PipeChange, PipeId, RouteSpec};
use record::Variant;
pub use record::plan::Cores;
use scale::{TargetCpu, Tdf, VirtualDuration};
use tcp::Offers;

use crate::error::{Error, Result};

pub use self::pipes::{JitterValues, LossModel, PipeValues, PlannedPipe, RedValues};

/// The first two cores that this process may use: one for all nodes, one for the harness.
pub fn cores_here() -> Result<Cores> {
    let usable = host::cores::usable().map_err(|e| Error::failed("sched_getaffinity", e))?;
    match usable[..] {
        [nodes, harness, ..] => Ok(Cores { nodes: vec![nodes], harness: vec![harness] }),
        _ => Err(Error::machine(
            "a run needs two cores, one for the nodes and one for the harness, and this process may use only one",
            "allow it another, as in `taskset -c 0,1 diorama …`, or use a machine with two cores",
        )),
    }
}

/// What a run is going to do; [`Plan::recorded`] is what of it is kept with the results.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// With which resources it runs.
    pub variant: Variant,
    /// Real time over virtual time of this run; 1 in every variant but the scaled one.
    pub tdf: Tdf,
    /// Nodes per harness machine over nodes per target machine: on one machine, the number of nodes.
    pub scaling_factor: f64,
    /// Who runs where.
    pub cores: Cores,
    /// The sum of the shares of all nodes, in cores.
    pub sold: f64,
    /// What each node gets, in the order of the experiment.
    pub nodes: IndexMap<String, PlannedNode>,
    /// What each direction of each link does, in the order of the experiment: `A--B/ab`, `A--B/ba`, ….
    pub pipes: IndexMap<String, PlannedPipe>,
    /// The programs that nodes used, as the engine found them.
    pub versions: BTreeMap<String, String>,
    /// What a reader of the results has to know, because this machine lacks something; a sentence each.
    pub warnings: Vec<String>,
    /// The least propagation delay of a route from one node to another, on the target; `None` without a network.
    pub shortest_path: Option<VirtualDuration>,
    /// Which of TCP's times are scaled by programs in the kernel.
    pub offers: Offers,
    pipe_ids: Vec<PipeId>,
}

/// What a node gets.
#[derive(Clone, Debug)]
pub struct PlannedNode {
    /// The core that it runs on.
    pub core: usize,
    /// The fraction of that core that it gets, in real time. In the naive variant its weight in the common pool.
    pub share: f64,
    /// Its memory limit.
    pub memory_bytes: u64,
    /// Its addresses, interface by interface.
    pub addresses: Vec<Ipv4Addr>,
    /// What its CPU clocks are divided by: the speed of its machine where time is dilated, else 1.
    pub cpu_clock_divisor: f64,
    /// Its TCP's congestion control.
    pub congestion: Congestion,
    cpu_rate: CpuRate,
}

impl PlannedNode {
    /// How fast its CPU clocks run.
    pub fn cpu_rate(&self) -> CpuRate {
        self.cpu_rate
    }
}

impl Plan {
    /// The plan of a variant of an experiment on this machine's first two cores. `tdf` takes the place of the
    /// experiment's, in the scaled variant only.
    pub fn new(experiment: &Experiment, variant: Variant, tdf: Option<Tdf>) -> Result<Plan> {
        Plan::with(Offers::here(), cores_here()?, experiment, variant, tdf)
    }

    /// The same, on given cores of a machine that offers so much; pure. Fails if the harness could not keep to it.
    pub fn with(
        offers: Offers,
        cores: Cores,
        experiment: &Experiment,
        variant: Variant,
        tdf: Option<Tdf>,
    ) -> Result<Plan> {
        if variant != Variant::Scaled && tdf.is_some() {
            return Err(Error::Input(format!(
                "--tdf cannot be given with the {variant} variant, which runs at TDF 1: leave it out, or use --variant scaled"
            )));
        }
        // The naive variant has the resources of the scaled one, but not its time.
        let scaled_tdf = tdf.unwrap_or(experiment.tdf);
        let (clock_tdf, share_tdf) = match variant {
            Variant::Scaled => (scaled_tdf, scaled_tdf),
            Variant::Baseline => (Tdf::ONE, Tdf::ONE),
            Variant::Naive => (Tdf::ONE, scaled_tdf),
        };
        let cpus: Vec<TargetCpu> = experiment.nodes.iter().map(|n| target_cpu(experiment, n)).collect();
        fit::cpu(experiment, variant, share_tdf, &cpus)?;

        let spec = network_spec(experiment, clock_tdf);
        let network = Network::new(spec, 0)?;
        changes_are_possible(experiment, &network, clock_tdf)?;
        fit::round_trips(experiment, clock_tdf, &network, offers.initial_timeout)?;

        let core = cores.nodes.first().copied().unwrap_or(0);
        let mut nodes = IndexMap::new();
        for (n, cpu) in experiment.nodes.iter().zip(&cpus) {
            let divisor = if variant == Variant::Scaled { cpu.clock_divisor() } else { 1.0 };
            let cpu_rate = CpuRate::speed(divisor)?;
            let cpu_rate = if n.dilated_tsc { cpu_rate.with_dilated_tsc() } else { cpu_rate };
            let planned = PlannedNode {
                core,
                share: cpu.share(share_tdf),
                memory_bytes: experiment.machines[n.machine].memory_bytes,
                addresses: network.ports_of(&n.name).map(|p| p.address).collect(),
                cpu_clock_divisor: divisor,
                congestion: congestion_of(n, offers)?,
                cpu_rate,
            };
            nodes.insert(n.name.clone(), planned);
        }
        let mut pipes = IndexMap::new();
        for link in &experiment.links {
            for (direction, pipe) in [("ab", &link.ab), ("ba", &link.ba)] {
                pipes.insert(format!("{}/{direction}", link.name), PlannedPipe::new(pipe, link, clock_tdf));
            }
        }
        let shortest_path = shortest_path(experiment, &network);
        let pipe_ids = pipes.keys().filter_map(|name| network.pipe(name)).collect();
        Ok(Plan {
            experiment: experiment.name.clone(),
            variant,
            tdf: clock_tdf,
            scaling_factor: experiment.nodes.len() as f64,
            cores,
            sold: scale::sold(&cpus, share_tdf),
            nodes,
            pipes,
            versions: BTreeMap::new(),
            warnings: reno_for_cubic(experiment, offers).into_iter().collect(),
            shortest_path,
            offers,
            pipe_ids,
        })
    }

    /// The core that holds the nodes.
    pub fn nodes_core(&self) -> usize {
        self.cores.nodes[0]
    }

    /// The core that holds everything else of the run.
    pub fn harness_core(&self) -> usize {
        self.cores.harness[0]
    }

    /// All cores that the run uses.
    pub fn all_cores(&self) -> Vec<usize> {
        self.cores.nodes.iter().chain(&self.cores.harness).copied().collect()
    }

    /// In the naive variant, how much of the core all nodes have together.
    pub fn pool_cap(&self) -> Option<f64> {
        (self.variant == Variant::Naive).then_some(self.sold)
    }

    /// What the emulator is to build.
    pub fn network(&self, experiment: &Experiment) -> NetworkSpec {
        network_spec(experiment, self.tdf)
    }

    /// Both pipes of a link, from its first end to its second and back, as the network of [`Plan::network`] numbers them.
    pub fn pipe_ids_of(&self, link: &str) -> Vec<PipeId> {
        let first = self.pipes.get_index_of(format!("{link}/ab").as_str());
        first.and_then(|first| self.pipe_ids.get(first..first + 2)).map_or(Vec::new(), <[PipeId]>::to_vec)
    }

    /// What the emulator is to do when the experiment changes a link, in the order of [`Plan::pipe_ids_of`].
    pub fn harness_changes(&self, change: &LinkChange) -> [PipeChange; 2] {
        pipes::changes(change, self.tdf)
    }

    /// What is kept of it with the results of the run; `diorama check --json` prints it.
    pub fn recorded(&self) -> record::Plan {
        let node = |node: &PlannedNode| record::plan::PlannedNode {
            core: node.core,
            share: node.share,
            memory_bytes: node.memory_bytes,
            addresses: node.addresses.clone(),
            cpu_clock_divisor: node.cpu_clock_divisor,
            congestion: match node.congestion {
                Congestion::Cubic => record::plan::Congestion::Cubic,
                Congestion::Reno => record::plan::Congestion::Reno,
            },
        };
        let pipe = |pipe: &PlannedPipe| {
            let values = serde_json::to_value(pipe).expect("a pipe has only numbers and string keys");
            serde_json::from_value(values).expect("the record has the same form")
        };
        record::Plan {
            experiment: self.experiment.clone(),
            variant: self.variant,
            tdf: self.tdf,
            scaling_factor: self.scaling_factor,
            cores: self.cores.clone(),
            sold: self.sold,
            nodes: self.nodes.iter().map(|(name, n)| (name.clone(), node(n))).collect(),
            pipes: self.pipes.iter().map(|(name, p)| (name.clone(), pipe(p))).collect(),
            versions: self.versions.clone(),
            warnings: self.warnings.clone(),
        }
    }
}

/// What a node asks for, or else what Linux has: CUBIC, in every variant by the same program. Reno where that program
/// cannot be had, in every variant too, so that they can be compared.
fn congestion_of(node: &model::Node, offers: Offers) -> Result<Congestion> {
    match (node.congestion, offers.cubic) {
        (Some(Congestion::Cubic), false) => Err(Error::machine(
            format!("the node `{}` wants CUBIC, and this machine runs no BPF congestion control", node.name),
            "see `diorama doctor`, or write `congestion: reno`",
        )),
        (Some(asked), _) => Ok(asked),
        (None, true) => Ok(Congestion::Cubic),
        (None, false) => Ok(Congestion::Reno),
    }
}

/// A sentence if nodes that left their congestion control open, and can reach others, have Reno for want of CUBIC.
fn reno_for_cubic(experiment: &Experiment, offers: Offers) -> Option<String> {
    let instead = experiment.nodes.iter().filter(|n| n.congestion.is_none()).count();
    (!offers.cubic && instead > 0 && !experiment.links.is_empty()).then(|| {
        format!(
            "{instead} of {} nodes have Reno where the target has CUBIC, for this machine runs no BPF congestion control: \
             see `diorama doctor`",
            experiment.nodes.len()
        )
    })
}

fn target_cpu(experiment: &Experiment, node: &model::Node) -> TargetCpu {
    let machine = &experiment.machines[node.machine];
    TargetCpu { cpus: machine.cpus, speed: machine.speed }
}

fn network_spec(experiment: &Experiment, tdf: Tdf) -> NetworkSpec {
    let route = |r: &Route| RouteSpec {
        from: experiment.nodes[r.from].name.clone(),
        to: experiment.nodes[r.to].name.clone(),
        links: r.links.iter().map(|l| experiment.links[*l].name.clone()).collect(),
    };
    NetworkSpec {
        nodes: experiment.nodes.iter().map(|n| n.name.clone()).collect(),
        switches: experiment.switches.clone(),
        links: experiment.links.iter().map(|l| pipes::link(l, tdf)).collect(),
        routes: experiment.routes.iter().map(route).collect(),
    }
}

/// Fails if the emulator would refuse a change that the experiment makes of a link: better now than in the middle of a run.
fn changes_are_possible(experiment: &Experiment, network: &Network, tdf: Tdf) -> Result<()> {
    for event in &experiment.events {
        let Action::Link { link, change } = &event.action else { continue };
        let link = &experiment.links[*link].name;
        for (direction, change) in ["ab", "ba"].into_iter().zip(pipes::changes(change, tdf)) {
            let Some(pipe) = network.pipe(&format!("{link}/{direction}")) else { continue };
            let at = event.at.as_secs_f64();
            let refused = |e| Error::Input(format!("{}: the event at {at} s: {e}", experiment.name));
            network.allows(pipe, &change).map_err(refused)?;
        }
    }
    Ok(())
}

/// The least delay from one node to another, by the routes that packets take.
fn shortest_path(experiment: &Experiment, network: &Network) -> Option<VirtualDuration> {
    let delay = |pipe: PipeId| {
        let link = &experiment.links[pipe.link()];
        (if pipe.is_ab() { &link.ab } else { &link.ba }).delay.as_nanos()
    };
    let to = |node| network.route_sums(node, delay).into_iter().flatten().min();
    (0..experiment.nodes.len()).filter_map(to).min().map(VirtualDuration::from_nanos)
}
