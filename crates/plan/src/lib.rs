//! The plan of a run: who runs where, and what every node and link gets there.
//!
//! An experiment says what the target is; its plan says what the harness does to look like it. Making a plan is pure
//! arithmetic on an experiment and on [facts](Facts) of a machine, and refuses what the harness could not keep to:
//! `diorama check` prints it, `plan.json` records it.

mod cores;
mod error;
mod fit;
mod pipes;
mod refusal;
mod sharing;
mod table;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use clock::VirtualCpu;
use cpu::{Speed, Terms};
use host::cgroup::Weights;
use indexmap::IndexMap;
use model::{Action, Address, BackgroundFlow, Experiment, Lan, LinkChange, NodeAction, Route};
use net::{AddressSpec, FlowSpec, LanSpec, Network, NetworkSpec, PipeChange, PipeId, Prefix, RouteSpec};
use record::Variant;
use record::plan::{Congestion, PlannedCpu, PlannedDisk, PlannedNode};
use scale::{TargetCpu, Tdf, Timeslice, VirtualDuration};
use tcp::Offers;

pub use self::cores::Supply;
pub use self::error::{Error, Result};
pub use self::fit::SMALLEST_SHARE;
pub use self::refusal::Refusal;
pub use cpu::PLANNED_USABLE;
use site::{Boot, CaptureSetup, CoreSharing, GuestSetup, MonitorSetup, NodeSetup, Root, Setup, Source};

/// How the pipes of a link are told apart: from its first end to its second, and back.
const DIRECTIONS: [&str; 2] = ["ab", "ba"];

/// The plan of a run: its record in `plan.json`, and what only the run itself needs to know.
#[derive(Clone, Debug)]
pub struct Plan {
    record: record::plan::Plan,
    /// The least propagation delay of a route from one node to another, on the target; `None` without a network.
    pub shortest_path: Option<VirtualDuration>,
    /// Which of TCP's times are scaled by programs in the kernel.
    pub offers: Offers,
    /// How long nodes keep their cores.
    pub slice: Timeslice,
    /// The terms on which nodes share their cores.
    pub terms: Terms,
    /// Of each node, how much of a core one of its CPUs is in real time, whoever limits that.
    cores_of_cpus: Vec<f64>,
}

/// Facts of the machine that a plan is for.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its offers to TCP.
    pub offers: Offers,
    /// Which of its cores there are.
    pub cores: Supply,
    /// The usual speed of a core of it, to which shares are related, if that is known.
    pub reference: Option<Speed>,
    /// By what its kernel divides a core, if it does.
    pub weights: Option<Weights>,
    /// The most processes and threads that a run may have on it, if that is known.
    pub processes: Option<u64>,
}

impl Deref for Plan {
    type Target = record::plan::Plan;
    fn deref(&self) -> &record::plan::Plan {
        &self.record
    }
}

impl DerefMut for Plan {
    fn deref_mut(&mut self) -> &mut record::plan::Plan {
        &mut self.record
    }
}

/// Whether programs of a variant live by clocks of ours: those of a baseline go through the mechanism at TDF 1, so
/// that a scaled run differs from it in nothing but the factor.
fn dilates(variant: Variant) -> bool {
    match variant {
        Variant::Scaled | Variant::Baseline => true,
        Variant::Naive | Variant::Native | Variant::Observed => false,
    }
}

impl Plan {
    /// The plan of a variant of an experiment on a machine. `tdf` takes the place of the experiment's, in the scaled
    /// variant only.
    ///
    /// # Errors
    ///
    /// If the harness could not keep to it.
    pub fn with(machine: &Facts, experiment: &Experiment, variant: Variant, tdf: Option<Tdf>) -> Result<Plan> {
        let (offers, reference) = (machine.offers, machine.reference);
        if variant != Variant::Scaled && tdf.is_some() {
            return Err(Refusal::TdfOfVariant(variant).into());
        }
        // The naive variant has the resources of the scaled one, but not its time.
        let scaled_tdf = tdf.unwrap_or(experiment.tdf);
        let (clock_tdf, share_tdf) = match variant {
            Variant::Scaled => (scaled_tdf, scaled_tdf),
            Variant::Baseline | Variant::Native | Variant::Observed => (Tdf::ONE, Tdf::ONE),
            Variant::Naive => (Tdf::ONE, scaled_tdf),
        };
        let cpus = sharing::cpus(experiment, reference)?;
        let packing = match variant {
            Variant::Native => fit::whole_cores(experiment, &cpus, machine)?,
            _ => fit::cpu(experiment, variant, share_tdf, &cpus, machine)?,
        };

        fit::link_rates(experiment, variant, clock_tdf)?;
        let spec = network_spec(experiment, clock_tdf);
        let network = Network::new(spec, 0)?;
        changes_are_possible(experiment, &network, clock_tdf)?;
        fit::round_trips(experiment, clock_tdf, &network, offers.initial_timeout)?;

        let shortest_path = shortest_path(experiment, &network);
        // In a pool nobody has a share or a timeslice of his own, and who has whole cores needs none.
        let has_shares = dilates(variant);
        let slice = sharing::slice(experiment, &cpus, shortest_path)?;
        let mut nodes = IndexMap::new();
        for ((n, cpu), core) in experiment.nodes.iter().zip(&cpus).zip(&packing.of_node) {
            let divisor = if dilates(variant) { cpu.clock_divisor() } else { 1.0 };
            // Refuses what is no speed.
            VirtualCpu::speed(divisor)?;
            let planned = PlannedNode {
                core: *core,
                whole_cores: packing.whole_of(nodes.len()),
                cpus: cpu.cpus,
                share: cpu.share(share_tdf),
                memory_bytes: experiment.machines[n.machine].memory_bytes,
                addresses: network.ports_of(&n.name).map(|p| p.address).collect(),
                cpu_clock_divisor: divisor,
                congestion: congestion_of(n, offers)?,
                disk: experiment.machines[n.machine]
                    .disk
                    .as_ref()
                    .map(|disk| PlannedDisk { like: disk.like.clone(), bytes: disk.parameters.capacity_bytes() }),
            };
            nodes.insert(n.name.clone(), planned);
        }
        let mut pipes = IndexMap::new();
        for link in &experiment.links {
            let (a, b) = (&link.a, &link.b);
            for (direction, pipe, ends) in [("ab", &link.ab, [a, b]), ("ba", &link.ba, [b, a])] {
                pipes.insert(format!("{}/{direction}", link.name), pipes::planned(pipe, ends, link, clock_tdf));
            }
        }
        let sold = scale::sold(&cpus, share_tdf);
        let planned = sharing::planned(experiment.cpu, packing.fullest, reference);
        let for_nodes = machine.cores.for_nodes();
        let little_room = sharing::little_room(variant, &planned, packing.fullest, for_nodes, &cpus);
        let weights = machine.weights.filter(|_| has_shares);
        let rounding = weights.and_then(|w| sharing::rounding(&cpus, &packing.of_node, share_tdf, w));
        let much_rounded = rounding.and_then(|rounding| sharing::much_rounded(experiment, rounding));
        let planned = PlannedCpu { rounding: rounding.map(|(_, error)| error), ..planned };
        let warnings = [
            reno_for_cubic(experiment, offers),
            little_room.filter(|_| has_shares),
            much_rounded,
            machine.cores.shared_units(&packing.cores),
            without_meaning(experiment),
            from_outside(experiment),
        ];
        let record = record::plan::Plan {
            experiment: experiment.name.clone(),
            variant,
            tdf: clock_tdf,
            scaling_factor: experiment.nodes.len() as f64,
            cores: packing.cores,
            sold,
            timeslice: has_shares.then(|| sharing::planned_slice(slice)),
            cpu: has_shares.then_some(planned),
            processes: machine.processes,
            nodes,
            pipes,
            versions: BTreeMap::new(),
            warnings: warnings.into_iter().flatten().collect(),
        };
        let terms = if has_shares { sharing::terms(slice.length, experiment.cpu, reference) } else { Terms::default() };
        let cores_of_cpus = cpus.iter().map(|cpu| TargetCpu { cpus: 1, ..*cpu }.share(clock_tdf)).collect();
        Ok(Plan { record, shortest_path, offers, slice, terms, cores_of_cpus })
    }

    /// The smallest TDF at which the scaled variant of an experiment can be planned on a machine, in tenths.
    ///
    /// # Errors
    ///
    /// If there is none: what is in the way at the smallest at which the nodes have room.
    pub fn smallest_tdf(machine: &Facts, experiment: &Experiment) -> Result<Tdf> {
        let mut tdf = Tdf::ONE;
        loop {
            let refusal = match Plan::with(machine, experiment, Variant::Scaled, Some(tdf)) {
                Ok(_) => return Ok(tdf),
                Err(Error::Refused(refusal)) => refusal,
                Err(error) => return Err(error),
            };
            match refusal.least_tdf().filter(|least| *least > tdf) {
                Some(least) => tdf = least,
                None if tdf == Tdf::ONE => return Err(Error::Refused(refusal)),
                None => return Err(Refusal::NoTdf { least: tdf, why: Box::new(refusal.at_any_tdf()) }.into()),
            }
        }
    }

    /// The record of it in `plan.json`.
    pub fn recorded(&self) -> &record::plan::Plan {
        &self.record
    }

    /// How much is sold of each core that holds nodes, in the order of the plan.
    pub fn sold_by_core(&self) -> Vec<(usize, f64)> {
        let of = |core: &usize| {
            let nodes = self.nodes.values().filter(|n| n.core == *core);
            (*core, nodes.map(|n| n.share).sum())
        };
        self.cores.nodes.iter().map(of).collect()
    }

    /// In the naive variant, how much of the cores all nodes have together.
    pub fn pool_cap(&self) -> Option<f64> {
        (self.variant == Variant::Naive).then_some(self.sold)
    }

    /// The part of the plan that a site has to know to carry it out.
    pub fn setup(&self, experiment: &Experiment, seed: u64) -> Setup {
        let captures = experiment.captures.iter().map(|capture| {
            let link = experiment.links[capture.link].name.clone();
            let pipes = DIRECTIONS.map(|d| format!("{link}/{d}")).to_vec();
            CaptureSetup { link, pipes, snap: usize::try_from(capture.snap).unwrap_or(usize::MAX) }
        });
        Setup {
            tdf: self.tdf,
            dilated: dilates(self.variant),
            cores: self.cores.clone(),
            sharing: match self.pool_cap() {
                Some(cap) => CoreSharing::Pool { cap },
                None if self.variant == Variant::Native => CoreSharing::WholeCores,
                None => CoreSharing::Shares,
            },
            terms: self.terms,
            nodes: (0..experiment.nodes.len()).map(|n| self.node_setup(n, experiment)).collect(),
            network: network_spec(experiment, self.tdf),
            seed,
            scales_initial_timeout: self.offers.initial_timeout,
            captures: captures.collect(),
            logs: experiment.logs.unwrap_or(record::USUAL_LOGS),
            monitor: MonitorSetup { every: experiment.monitor, cores: self.cores_of_cpus.clone() },
            log_rate: experiment.log_rate.map(|rate| self.tdf.to_real_rate(rate)),
            user_namespaces: experiment.user_namespaces,
            continues: None,
        }
    }

    fn node_setup(&self, index: usize, experiment: &Experiment) -> NodeSetup {
        let node = &experiment.nodes[index];
        let planned = &self.nodes[&node.name];
        let cuts = |action: &Action| match action {
            Action::Node { node, act } => *act == NodeAction::PowerOff && *node == index,
            _ => false,
        };
        let source = |path: &Path| match path.strip_prefix(&experiment.dir) {
            Ok(below) => Source::Experiment(below.to_path_buf()),
            Err(_) => Source::Machine(path.to_path_buf()),
        };
        NodeSetup {
            name: node.name.clone(),
            root: match &node.root {
                model::Root::Host => Root::Host,
                model::Root::Directory(dir) => Root::Directory(source(dir)),
                model::Root::OciArchive(file) => Root::OciArchive(source(file)),
                model::Root::Image(name) => Root::Image(name.clone()),
            },
            argv: node.argv.clone(),
            guest: node.guest.as_ref().map(|guest| GuestSetup {
                arch: guest.arch,
                boot: match &guest.boot {
                    model::Boot::Kernel { kernel, initrd, cmdline } => Boot::Kernel {
                        kernel: source(kernel),
                        initrd: initrd.as_deref().map(source),
                        cmdline: cmdline.clone(),
                    },
                    model::Boot::Firmware(firmware) => Boot::Firmware(*firmware),
                },
                disk: guest.disk.as_ref().map(|(image, format)| (source(image), *format)),
            }),
            env: node.env.clone(),
            cwd: node.cwd.clone(),
            user: node.user,
            hostname: node.hostname.clone(),
            names: node.names.clone(),
            stop_signal: node.stop_signal,
            files: node.files.iter().map(|(to, from)| (to.clone(), source(from))).collect(),
            ports: node.ports.clone(),
            core: planned.core,
            whole_cores: planned.whole_cores.clone(),
            cpus: planned.cpus,
            share: planned.share,
            memory_bytes: planned.memory_bytes,
            cpu_clock_divisor: planned.cpu_clock_divisor,
            dilated_tsc: node.dilated_tsc,
            observes_calls: node.observes_calls,
            observes_packets: node.observes_packets,
            congestion: planned.congestion,
            disk: experiment.machines[node.machine].disk.as_ref().map(|disk| disk.parameters.clone()),
            durable: experiment.machines[node.machine].disk.as_ref().is_some_and(|disk| disk.durable),
            traffic: experiment.flows.iter().any(|f| [f.from, f.to].contains(&index)),
            barriers: experiment.barriers.is_some(),
            may_lose_power: experiment.events.iter().any(|event| cuts(&event.action)),
        }
    }

    /// Changes of a link's pipes when the experiment changes the link, from its first end to its second, and back.
    pub fn harness_changes(&self, change: &LinkChange) -> [PipeChange; 2] {
        let change = change.to_harness(self.tdf);
        [change.ab, change.ba]
    }
}

/// A node's choice, or else Linux's: CUBIC, in every variant by the same program. Reno where that program
/// cannot be had, in every variant too, so that they can be compared.
fn congestion_of(node: &model::Node, offers: Offers) -> Result<Congestion> {
    match (node.congestion, offers.cubic) {
        (Some(model::Congestion::Cubic), false) => Err(Error::machine(
            format!("the node `{}` wants CUBIC, and this machine runs no BPF congestion control", node.name),
            "see `diorama doctor`, or write `congestion: reno`",
        )),
        (Some(model::Congestion::Reno), _) => Ok(Congestion::Reno),
        (Some(model::Congestion::Cubic), true) => Ok(Congestion::Cubic),
        (None, true) => Ok(Congestion::Cubic),
        (None, false) => Ok(Congestion::Reno),
    }
}

/// A sentence if nodes that left their congestion control open, and can reach others, have Reno for want of CUBIC.
fn reno_for_cubic(experiment: &Experiment, offers: Offers) -> Option<String> {
    let instead = experiment.nodes.iter().filter(|n| n.congestion.is_none()).count();
    (!offers.cubic && instead > 0 && !experiment.links.is_empty()).then(|| {
        format!(
            "{instead} of {} nodes have Reno where the target has CUBIC, for this machine runs no BPF congestion \
             control: see `diorama doctor`",
            experiment.nodes.len()
        )
    })
}

/// A sentence if ports of the machine lead to nodes.
fn from_outside(experiment: &Experiment) -> Option<String> {
    let all = experiment.nodes.iter().flat_map(|node| {
        node.ports.iter().map(|(here, there)| format!("127.0.0.1:{here} leads to port {there} of {}", node.name))
    });
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| {
        format!(
            "{}; whoever connects there waits in real time, over no link, and makes the run another than the file \
             describes",
            all.join(", ")
        )
    })
}

/// The links of an experiment as the emulator has them, in real rates and delays.
pub fn network_spec(experiment: &Experiment, tdf: Tdf) -> NetworkSpec {
    let route = |r: &Route| RouteSpec {
        from: experiment.nodes[r.from].name.clone(),
        to: experiment.nodes[r.to].name.clone(),
        links: r.links.iter().map(|l| experiment.links[*l].name.clone()).collect(),
    };
    let lan = |l: &Lan| LanSpec {
        name: l.name.clone(),
        subnet: l.subnet.map(|(address, length)| Prefix { address, length }),
    };
    let flow = |f: &BackgroundFlow| FlowSpec {
        name: f.name.clone(),
        ways: f.ways.clone(),
        load: harness_load(&f.load, tdf),
        seed: f.seed,
    };
    let address = |a: &Address| AddressSpec {
        link: experiment.links[a.link].name.clone(),
        node: experiment.nodes[a.node].name.clone(),
        address: a.address,
    };
    NetworkSpec {
        nodes: experiment.nodes.iter().map(|n| n.name.clone()).collect(),
        switches: experiment.switches.clone(),
        lans: experiment.lans.iter().map(lan).collect(),
        links: experiment.links.iter().map(|l| l.to_harness(tdf)).collect(),
        routes: experiment.routes.iter().map(route).collect(),
        addresses: experiment.addresses.iter().map(address).collect(),
        flows: experiment.background.iter().map(flow).collect(),
        bare: experiment.nodes.iter().filter(|n| n.guest.is_some()).map(|n| n.name.clone()).collect(),
    }
}

/// Headers of Ethernet, IPv4 and UDP before what a packet carries, in bytes.
const HEADERS: usize = 14 + 20 + 8;

/// The payload of a flow's frame, in bytes.
pub fn carried(frame: usize) -> u64 {
    frame.saturating_sub(HEADERS) as u64
}

/// The load that the emulator sends for a source of a flow.
pub fn harness_load(load: &model::Load, tdf: Tdf) -> net::Load {
    let real = |seconds: f64| tdf.to_real(VirtualDuration::from_secs_f64(seconds)).as_secs_f64();
    net::Load { frame: load.packet as usize + HEADERS, pattern: load.pattern.with_times(real) }
}

/// Fails if the emulator would refuse a change that the experiment makes of a link: better now than in the middle of a
/// run.
fn changes_are_possible(experiment: &Experiment, network: &Network, tdf: Tdf) -> Result<()> {
    for event in &experiment.events {
        let Action::Link { link, change } = &event.action else { continue };
        let link = &experiment.links[*link].name;
        let change = change.to_harness(tdf);
        for (direction, change) in DIRECTIONS.into_iter().zip([change.ab, change.ba]) {
            let Some(pipe) = network.pipe(&format!("{link}/{direction}")) else { continue };
            let refused = |reason: net::Error| Refusal::Event {
                experiment: experiment.name.clone(),
                at_s: event.at.as_secs_f64(),
                reason: reason.to_string(),
            };
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

/// Whether a plan has to know what a core of the machine usually does.
pub fn needs_usual_speed(experiment: &Experiment, variant: Variant) -> bool {
    dilates(variant) || sharing::is_absolute(experiment)
}

/// The images that an experiment's nodes have as their roots, each once.
pub fn images(experiment: &Experiment) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for node in &experiment.nodes {
        if let model::Root::Image(name) = &node.root
            && !names.contains(name)
        {
            names.push(name.clone());
        }
    }
    names
}

/// Keys that the experiment still has, and that do nothing any more.
fn without_meaning(experiment: &Experiment) -> Option<String> {
    let keys: Vec<_> = experiment.without_meaning.iter().map(|key| format!("`{key}`")).collect();
    let does = if keys.len() == 1 { "does nothing" } else { "do nothing" };
    (!keys.is_empty()).then(|| format!("{} {does} any more, and can be removed", keys.join(", ")))
}
