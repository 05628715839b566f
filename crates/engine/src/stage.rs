//! Everything of a run that has to be there before virtual zero, and that has to go after its end.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use clock::{ClockPage, Injector};
use cpu::{CpuGroups, NodeShare, Policy};
use crossbeam_channel::Receiver;
use host::NetNamespace;
use model::{Congestion, Experiment};
use net::{Emulator, Network, Tap};
use node::{Enclosure, EnclosureOptions, Exit, Node, NodeSpec, NotApplied, Root, Runtime};
use record::Variant;
use scale::{RealDuration, Tdf};
use tcp::{Cubic, InitialTimeout};

use crate::attend;
use crate::cast::{self, Cast, Dilation};
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::registry::Registration;
use crate::rundir::RunDir;
use crate::timeline::Timeline;

/// A run that is set up. The order of the fields is that in which they are dropped: first what lives, last what it lived in.
pub struct Stage {
    pub cast: Arc<Cast>,
    pub emulator: Emulator,
    pub groups: CpuGroups,
    pub enclosure: Enclosure,
    pub page: Option<ClockPage>,
    pub netns: Vec<NetNamespace>,
    /// Programs in the kernel that keep the nodes' TCP in virtual time; they end with this value.
    _tcp: (Option<Cubic>, Option<InitialTimeout>),
    pub conditions: Conditions,
    /// Programs in the enclosure that are Diorama's: its own, and the runtime.
    pub own_programs: Vec<PathBuf>,
    registration: Registration,
}

/// Under which conditions the run takes place, for its verdict.
#[derive(Debug)]
pub struct Conditions {
    /// How CPU shares are enforced.
    pub policy: Policy,
    /// Why not by always-runnable groups, if they are not.
    pub policy_because: Option<String>,
    /// The usable fraction of the nodes' core, as calibrated.
    pub usable: f64,
    /// How long a turn on it lasts, where shares come in turns.
    pub grain: Option<RealDuration>,
    /// Kernel settings that could not be applied.
    pub not_applied: Vec<NotApplied>,
}

/// Sets a run up. `step` is told what is being done, and may refuse to go on.
pub fn set(
    experiment: &Experiment,
    plan: &Plan,
    registration: Registration,
    dir: &RunDir,
    seed: u64,
    step: &mut dyn FnMut(String) -> Result<()>,
) -> Result<Stage> {
    let (core, harness) = (plan.nodes_core(), plan.harness_core());
    // Asked before this process restricts itself to one core.
    let (policy, policy_because) = policy_of(plan);
    pin_to(harness)?;
    let runtime = Runtime::detect()?;

    step("making the enclosure".into())?;
    // As it lies on the host, however it was named.
    let folder = experiment.dir.canonicalize().map_err(|e| Error::failed(experiment.dir.display(), e))?;
    let enclosure = Enclosure::open(EnclosureOptions {
        state: registration.state_dir().to_path_buf(),
        init: "/proc/self/exe".into(),
        core: Some(harness),
        hide: vec![folder, dir.path().to_path_buf()],
    })?;
    let (page, dilation) = if plan.variant == Variant::Scaled {
        let page = ClockPage::new(plan.tdf)?;
        let injector = Injector::start(&page, Some(harness), |what| crate::notice::warn(what))?;
        let rates = plan.nodes.values().map(|n| n.cpu_rate()).collect();
        (Some(page), Some(Dilation { injector, rates }))
    } else {
        (None, None)
    };

    step("making the control groups".into())?;
    let shares: Vec<_> = plan.nodes.iter().map(|(name, n)| NodeShare { name: name.clone(), share: n.share }).collect();
    let mut groups = CpuGroups::create(&registration.id, core, &shares, policy)?;

    step(format!("making the network: {} nodes, {} pipes", plan.nodes.len(), plan.pipes.len()))?;
    let network = Network::new(plan.network(experiment), seed)?;
    let mut netns = Vec::new();
    let mut taps = Vec::new();
    let mut not_applied = Vec::new();
    let cubic = cubic_of(plan)?;
    for node in &experiment.nodes {
        let space = NetNamespace::create()?;
        let congestion = match plan.nodes[&node.name].congestion {
            Congestion::Cubic => cubic.as_ref().map_or("cubic", |c| c.name()),
            Congestion::Reno => "reno",
        };
        not_applied.extend(node::apply(&space, congestion, plan.tdf)?);
        let mut ports = network.ports_of(&node.name).peekable();
        // A TAP brings `lo` up as well.
        if ports.peek().is_none() {
            net::raise_loopback(std::os::fd::AsFd::as_fd(&space), &node.name)?;
        }
        for port in ports {
            taps.push(Tap::create(std::os::fd::AsFd::as_fd(&space), port)?);
        }
        not_applied.extend(node::apply_to_devices(&space, plan.tdf)?);
        netns.push(space);
    }
    let initial_timeout = initial_timeout_of(plan, &netns)?;
    not_applied.dedup();
    let hosts: Vec<_> = experiment.nodes.iter().map(|n| network.hosts_seen_by(&n.name)).collect();
    let options = net::Options { core: Some(harness), polling: plan.tdf.polling_interval() };
    let emulator = Emulator::start(network, taps, options)?;

    step(format!("creating {} containers with {}", plan.nodes.len(), runtime.name()))?;
    let mut specs = Vec::new();
    for (index, (n, hosts)) in experiment.nodes.iter().zip(hosts).enumerate() {
        let planned = &plan.nodes[&n.name];
        let spec = NodeSpec {
            name: n.name.clone(),
            root: match &n.root {
                model::Root::Host => Root::Host,
                model::Root::Directory(dir) => Root::Dir(dir.clone()),
                model::Root::OciArchive(file) => Root::OciArchive(file.clone()),
            },
            argv: if dilation.is_some() { cast::dilated(&n.argv) } else { n.argv.clone() },
            env: n.env.iter().map(|(k, v)| format!("{k}={v}")).collect(),
            cwd: n.cwd.clone().unwrap_or_else(|| "/".into()),
            hosts,
            files: n.files.iter().map(|(to, from)| (to.into(), from.clone())).collect(),
            tools: dilation.iter().map(|_| (clock::DILATE_EXEC_PATH.into(), clock::DILATE_EXEC)).collect(),
            memory_bytes: planned.memory_bytes,
            core,
            cgroup: groups.container_path(&n.name),
            netns: netns[index].clone(),
        };
        let io = cast::io_of(dir, &n.name, cast::first_admission(dilation.as_ref(), index)?)?;
        specs.push((spec, io));
    }
    let nodes = Node::create_all(&enclosure, &runtime, specs)?;

    step("calibrating the nodes' core and applying shares".into())?;
    let helper = groups.helper().map(|command| enclosure.spawn(command)).transpose()?;
    let cpu::Calibration { usable, grain } = groups.engage(helper)?;

    let cast = Arc::new(Cast::new(nodes, dilation));
    attend::serve(&registration.control_socket(), &cast)
        .map_err(|e| Error::failed(registration.control_socket().display(), e))?;
    let conditions = Conditions { policy, policy_because, usable, grain, not_applied };
    let own_programs = std::env::current_exe().into_iter().chain([runtime.path().to_path_buf()]).collect();
    let _tcp = (cubic, initial_timeout);
    Ok(Stage { cast, emulator, groups, enclosure, page, netns, _tcp, conditions, own_programs, registration })
}

impl Stage {
    /// Virtual zero is now.
    pub fn zero(&self) -> Timeline {
        match &self.page {
            Some(page) => {
                let zero = page.start();
                Timeline { zero: zero.real, zero_unix_ns: zero.unix_ns, tdf: page.tdf() }
            }
            None => {
                let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                Timeline { zero: host::now(), zero_unix_ns: unix.as_nanos() as u64, tdf: Tdf::ONE }
            }
        }
    }

    /// What the paths of all control groups of the run begin with.
    pub fn groups_tree(&self) -> String {
        format!("diorama-{}", self.registration.id)
    }

    /// The launcher of dilated programs as a file outside the nodes, for processes of the engine's own.
    pub fn launcher(&self) -> Result<PathBuf> {
        let path = self.registration.state_dir().join("dilate-exec");
        let write = || -> io::Result<()> {
            fs::write(&path, clock::DILATE_EXEC)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))
        };
        write().map_err(|e| Error::failed(path.display(), e))?;
        Ok(path)
    }

    /// The exits of containers and of commands in them.
    pub fn exits(&self) -> &Receiver<Exit> {
        self.enclosure.exits()
    }
}

/// The congestion control of the nodes that have CUBIC, under this run's own name.
fn cubic_of(plan: &Plan) -> Result<Option<Cubic>> {
    let wanted = plan.nodes.values().any(|n| n.congestion == Congestion::Cubic);
    Ok(wanted.then(|| Cubic::register(plan.tdf)).transpose()?)
}

fn initial_timeout_of(plan: &Plan, netns: &[NetNamespace]) -> Result<Option<InitialTimeout>> {
    if plan.tdf == Tdf::ONE || !plan.offers.initial_timeout {
        return Ok(None);
    }
    let cookies = netns.iter().map(NetNamespace::cookie).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(Some(InitialTimeout::attach(plan.tdf, &cookies)?))
}

fn policy_of(plan: &Plan) -> (Policy, Option<String>) {
    match plan.pool_cap() {
        Some(cap) => (Policy::Pool { cap }, None),
        None => cpu::best_policy(),
    }
}

/// Keeps the engine, and all threads that it starts from here on, off the nodes' core.
fn pin_to(core: usize) -> Result<()> {
    host::pin(core).map_err(|e| {
        Error::machine(
            format!("core {core} cannot be used: {e}"),
            "a run needs two cores that this process may use (see `taskset -p $$`)",
        )
    })
}
