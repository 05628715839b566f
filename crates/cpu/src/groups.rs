//! The groups of one run: made, put under their limits, watched and removed.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use host::now;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use scale::{RealDuration, RealInstant};

use crate::cgroup::{self, Group, Mounts, Usage};
use crate::sweep::check_name;
use crate::weights::{self, PLANNED_USABLE};
use crate::{Error, NodeShare, Policy, fillers, sweep};

/// How long the fillers run before η is measured, and for how long it is: the scheduler's averages need the first.
const SETTLE: Duration = Duration::from_millis(150);
const CALIBRATE: Duration = Duration::from_millis(400);

/// More than this is never sold: the poked group and the error of the measurement need something.
const MAX_USABLE: f64 = 0.995;

/// The weight of a run's tree against everything else on the core: an ordinary task has 1024, and so gets 1 % beside it.
/// More would leave a stranger less than the noise in which the verdict could not see it.
const TREE_WEIGHT: u64 = 102_400;

/// Where a run's groups are, relative to the root of every hierarchy.
pub(crate) struct Paths {
    tree: String,
}

impl Paths {
    pub fn of(run_id: &str) -> Paths {
        Paths { tree: format!("/diorama-{run_id}") }
    }
    pub fn tree(&self) -> &str {
        &self.tree
    }
    pub fn emulated(&self) -> String {
        format!("{}/emu", self.tree)
    }
    pub fn poke(&self) -> String {
        format!("{}/poke", self.tree)
    }
    pub fn poked(&self) -> String {
        format!("{}/emu/_poked", self.tree)
    }
    /// Burns what is not sold. No node has this name: an underscore is not allowed in host names.
    pub fn unsold(&self) -> String {
        format!("{}/emu/_unsold", self.tree)
    }
    pub fn node(&self, name: &str) -> String {
        format!("{}/emu/{name}", self.tree)
    }
    pub fn container(&self, name: &str) -> String {
        format!("{}/emu/{name}/c", self.tree)
    }
    pub fn filler(&self, name: &str) -> String {
        format!("{}/emu/{name}/f", self.tree)
    }
}

/// The control groups of one run on one core. Dropping it removes them, like [`CpuGroups::release`].
#[derive(Debug)]
pub struct CpuGroups {
    run_id: String,
    core: usize,
    shares: Vec<NodeShare>,
    policy: Policy,
    mounts: Mounts,
    emulated: Usage,
    tree: Usage,
    everything: Usage,
    nodes: Vec<NodeCounters>,
    helper: Option<Child>,
    released: bool,
}

#[derive(Debug)]
struct NodeCounters {
    all: Usage,
    filler: Option<Usage>,
}

/// What was measured when limits were applied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// η, the fraction of the core that is left for nodes and fillers together; 1 where nothing was measured (no
    /// [`Policy::Slots`]).
    pub usable: f64,
    /// How long one group ran on the core before the next had its turn, on average: about 0.1 ms. Longer than 1 ms means that
    /// this kernel does not end slices when it is poked, and that bursts are wrong. `None` where nothing was measured.
    pub grain: Option<RealDuration>,
}

/// CPU time since the groups were made; differences of two samples are what counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// One per node, in the order of the shares.
    pub nodes: Vec<NodeUse>,
    /// When the counters below were read.
    pub at: RealInstant,
    /// By core: everything of this run that is in its groups (nodes, fillers, poke), in ns.
    pub run_ns: Vec<u64>,
    /// By core: everything on this machine, in ns. Less `run_ns` it is foreign (or the engine's own) load.
    pub all_ns: Vec<u64>,
}

/// One node's use of its core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeUse {
    /// When these counters were read.
    pub at: RealInstant,
    /// What the node's programs used, in ns.
    pub container_ns: u64,
    /// What its filler burnt because the node wanted less than its share, in ns. A node that always wants CPU still
    /// leaves its filler 0.3 % of its share.
    pub filler_ns: u64,
}

/// The way into a node's group.
#[derive(Debug)]
pub struct Doors {
    files: Vec<File>,
    core: usize,
}

impl Doors {
    /// Puts the calling thread into the group and on its core. Makes system calls only: may run between fork and exec.
    pub fn enter(&self) -> io::Result<()> {
        host::pin(self.core)?;
        cgroup::enter(&self.files)
    }
}

impl CpuGroups {
    /// Makes the groups of a run, all with ordinary weights and without limits: [`CpuGroups::engage`] applies those.
    ///
    /// Fails if the shares cannot be had on one core, or if groups cannot be made on this machine.
    pub fn create(run_id: &str, core: usize, shares: &[NodeShare], policy: Policy) -> Result<CpuGroups, Error> {
        check_name(run_id)?;
        shares.iter().try_for_each(|n| check_name(&n.name))?;
        match policy {
            Policy::Slots => drop(weights::slots(shares, 1.0)?),
            Policy::Quota | Policy::Pool { .. } => drop(weights::proportional(shares)?),
        }
        let mounts = Mounts::discover()?;
        let paths = Paths::of(run_id);
        let group = |path: &str| Group::at(&mounts, path);
        group(&paths.emulated()).create()?;
        let made = CpuGroups::fill_in(run_id, core, shares, policy, &mounts, &paths);
        if made.is_err() {
            let _ = sweep(run_id);
        }
        made
    }

    fn fill_in(
        run_id: &str,
        core: usize,
        shares: &[NodeShare],
        policy: Policy,
        mounts: &Mounts,
        paths: &Paths,
    ) -> Result<CpuGroups, Error> {
        let group = |path: String| Group::at(mounts, &path);
        let mut nodes = Vec::new();
        for NodeShare { name, .. } in shares {
            group(paths.container(name)).create()?;
            let filler = (policy == Policy::Slots).then(|| group(paths.filler(name)));
            if let Some(filler) = &filler {
                filler.create()?;
                filler.set_idle()?;
            }
            nodes.push(NodeCounters {
                all: group(paths.node(name)).usage()?,
                filler: filler.map(|f| f.usage()).transpose()?,
            });
        }
        if policy == Policy::Slots {
            for path in [paths.poke(), paths.poked(), paths.unsold()] {
                group(path).create()?;
            }
        }
        Ok(CpuGroups {
            run_id: run_id.into(),
            core,
            shares: shares.to_vec(),
            policy,
            emulated: group(paths.emulated()).usage_by_core()?,
            tree: group(paths.tree().into()).usage_by_core()?,
            everything: group("/".into()).usage_by_core()?,
            mounts: mounts.clone(),
            nodes,
            helper: None,
            released: false,
        })
    }

    /// The group for a node's container, as OCI's `cgroupsPath`: the same in every hierarchy. The runtime may remove and
    /// make it again.
    pub fn container_path(&self, node: &str) -> String {
        Paths::of(&self.run_id).container(node)
    }

    /// The core that the shares are of.
    pub fn core(&self) -> usize {
        self.core
    }

    /// The way into a node's group for a single thread, to measure from inside (see [`crate::probe`]).
    pub fn doors(&self, node: &str) -> Result<Doors, Error> {
        let files = Group::at(&self.mounts, &self.container_path(node)).thread_doors()?;
        Ok(Doors { files, core: self.core })
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The process to start and to hand to [`CpuGroups::engage`]; `None` if the policy needs none. Its standard input and
    /// output are pipes and must stay so. It may be started inside another PID or mount namespace.
    pub fn helper(&self) -> Option<Command> {
        (self.policy == Policy::Slots).then(|| {
            let mut command = Command::new("/proc/self/exe");
            command.arg("__fillers");
            command.args(fillers::arguments(&self.run_id, self.core, self.shares.iter().map(|n| n.name.as_str())));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        })
    }

    /// Applies the limits: from here on every node has its share. Takes half a second with [`Policy::Slots`], in which η is
    /// measured; the nodes' programs should not have started yet.
    ///
    /// `helper` is [`CpuGroups::helper`], started. Fails if less of the core is usable than the shares sum to.
    pub fn engage(&mut self, helper: Option<Child>) -> Result<Calibration, Error> {
        self.helper = helper;
        let paths = Paths::of(&self.run_id);
        let group = |path: &str| Group::at(&self.mounts, path);
        group(paths.tree()).set_weight(TREE_WEIGHT)?;
        match self.policy {
            Policy::Slots => return self.engage_slots(&paths),
            Policy::Quota => {
                for node in &self.shares {
                    let (quota, period) = weights::quota(node.share);
                    group(&paths.node(&node.name)).set_quota(quota, period)?;
                }
            }
            Policy::Pool { cap } => {
                for (node, weight) in self.shares.iter().zip(weights::proportional(&self.shares)?) {
                    group(&paths.node(&node.name)).set_weight(weight)?;
                }
                let (quota, period) = weights::quota(cap);
                group(&paths.emulated()).set_quota(quota, period)?;
            }
        }
        Ok(Calibration { usable: 1.0, grain: None })
    }

    fn engage_slots(&mut self, paths: &Paths) -> Result<Calibration, Error> {
        let sold: f64 = self.shares.iter().map(|n| n.share).sum();
        self.set_weights(paths, PLANNED_USABLE.max(sold))?;
        Group::at(&self.mounts, &paths.poked()).set_weight(cgroup::MIN_WEIGHT)?;
        self.expect("ready")?;
        self.tell("go")?;
        self.expect("going")?;
        sleep(SETTLE);
        // The more turns, the better the average; but more than half of the core comes in several slices a turn.
        let unsold = (1.0 - sold, paths.unsold());
        let fillers = self.shares.iter().map(|n| (n.share, paths.filler(&n.name)));
        let (_, path) =
            fillers.chain([unsold]).filter(|g| g.0 <= 0.5).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        let group = Group::at(&self.mounts, &path);
        let (before, turns_before, start) = (self.on_core(&self.emulated)?, turns(&group)?, Instant::now());
        sleep(CALIBRATE);
        let (after, turns_after, wall) = (self.on_core(&self.emulated)?, turns(&group)?, start.elapsed());
        let usable = ((after - before) as f64 / wall.as_nanos() as f64).min(MAX_USABLE);
        self.set_weights(paths, usable)?;
        let (ran, turns) = (turns_after.0 - turns_before.0, turns_after.1 - turns_before.1);
        Ok(Calibration { usable, grain: Some(RealDuration::from_nanos(ran / turns.max(1))) })
    }

    fn set_weights(&self, paths: &Paths, usable: f64) -> Result<(), Error> {
        let weights = weights::slots(&self.shares, usable)?;
        for (node, weight) in self.shares.iter().zip(&weights.nodes) {
            Group::at(&self.mounts, &paths.node(&node.name)).set_weight(*weight)?;
        }
        Group::at(&self.mounts, &paths.unsold()).set_weight(weights.fill)
    }

    fn on_core(&self, usage: &Usage) -> Result<u64, Error> {
        usage.by_core()?.get(self.core).copied().ok_or_else(|| Error::Machine {
            what: format!("core {} does not exist", self.core),
            help: "name one that `nproc --all` counts".into(),
        })
    }

    /// Reads all counters: some 10 µs a node. Fails if the process that keeps the shares has ended.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        if let Some(helper) = &mut self.helper
            && let Ok(Some(status)) = helper.try_wait()
        {
            return Err(Error::Fillers(format!("they ended during the run ({status}), so nodes had no limits")));
        }
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for counters in &self.nodes {
            let at = now();
            let filler_ns = counters.filler.as_ref().map_or(Ok(0), Usage::ns)?;
            // The container's own group may be gone (the node was stopped), its share of the parent's counter stays.
            let container_ns = counters.all.ns()?.saturating_sub(filler_ns);
            nodes.push(NodeUse { at, container_ns, filler_ns });
        }
        let at = now();
        Ok(Sample { nodes, at, run_ns: self.tree.by_core()?, all_ns: self.everything.by_core()? })
    }

    /// Ends the fillers and removes the groups. What still runs in them is killed.
    pub fn release(mut self) -> Result<(), Error> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), Error> {
        self.released = true;
        if let Some(mut helper) = self.helper.take() {
            let _ = helper.stdin.take().map(|mut input| input.write_all(b"release\n"));
            let deadline = Instant::now() + Duration::from_secs(2);
            while helper.try_wait().is_ok_and(|ended| ended.is_none()) {
                if Instant::now() > deadline {
                    let _ = helper.kill();
                    let _ = helper.wait();
                    break;
                }
                sleep(Duration::from_millis(2));
            }
        }
        sweep(&self.run_id)
    }

    fn tell(&mut self, word: &str) -> Result<(), Error> {
        let input = self.helper.as_mut().and_then(|h| h.stdin.as_mut());
        let input = input.ok_or_else(|| Error::Fillers("they were not started".into()))?;
        writeln!(input, "{word}").map_err(broken)
    }

    /// Reads one line from the helper and checks that it is `word`.
    fn expect(&mut self, word: &str) -> Result<(), Error> {
        let output = self.helper.as_mut().and_then(|h| h.stdout.as_mut());
        let output = output.ok_or_else(|| Error::Fillers("they were not started".into()))?;
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut fds = [PollFd::new(&*output, PollFlags::IN)];
            let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
            let ready = match poll(&mut fds, Some(&limit)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other.map_err(broken)?,
            };
            if ready == 0 {
                return Err(Error::Fillers(format!("no `{word}` within 10 s")));
            }
            let mut byte = [0];
            if rustix::io::read(output.as_fd(), &mut byte).map_err(broken)? == 0 {
                break;
            }
            line.push(byte[0]);
        }
        let line = String::from_utf8_lossy(&line);
        match line.trim_end() {
            answer if answer == word => Ok(()),
            "" => Err(Error::Fillers("they ended without a word".into())),
            other => Err(Error::Fillers(other.trim_start_matches("error ").into())),
        }
    }
}

impl Drop for CpuGroups {
    fn drop(&mut self) {
        if !self.released {
            let _ = self.let_go();
        }
    }
}

/// What the only thread of a group ran, in ns, and in how many turns (`/proc/TID/schedstat`).
fn turns(group: &Group) -> Result<(u64, u64), Error> {
    let threads = group.threads()?;
    let [tid] = threads[..] else { return Err(Error::Fillers("one of them is not in its group".into())) };
    let path = format!("/proc/{tid}/schedstat");
    let text = std::fs::read_to_string(&path).map_err(Error::io(format!("read {path}")))?;
    let fields: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [ran, _waited, turns] = fields[..] else { return Err(Error::Fillers(format!("{path} is not as expected"))) };
    Ok((ran, turns))
}

fn broken(error: impl Display) -> Error {
    Error::Fillers(error.to_string())
}
