//! What is observed during a run, and the verdict that follows from it.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use clock::{ClockReading, Prober, clock_error_ppm};
use cpu::Policy;
use cpu::caches::Watcher;
use fidelity::checks::{self, Caches, ClockRate, Evidence, Grain, ScaledTimers};
use fidelity::observe::{CoreTicks, TcpCounters};
use fidelity::overload::{LoadWatch, Work};
use fidelity::watch::{CoreCounters, NodeCounters, Snapshot, Stranger, Watch};
use host::foreign::{self, Foreign};
use host::{stat, tcp, time};
use net::Observation;
use record::Fidelity;
use scale::{RealDuration, Tdf, VirtualDuration};

use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::rundir::RunDir;
use crate::series::PipeSeries;
use crate::stage::Stage;
use crate::timeline::Timeline;

/// The observer of one run.
pub struct Observer {
    watch: Watch,
    foreign: Foreign,
    probe: Result<Probe, String>,
    series: PipeSeries,
    load: LoadWatch,
    /// How long the nodes' core remembers data; nobody asks in a run that is not dilated.
    caches: Option<Watcher>,
    line: Timeline,
}

/// What was observed, at the end.
pub struct Observed {
    /// Whether to trust the run.
    pub fidelity: Fidelity,
    /// What the links did.
    pub network: Observation,
    /// CPU time that each node's programs used, in the order of the plan.
    pub used: Vec<RealDuration>,
}

/// A dilated process under the run's clock that reads its clock when asked.
struct Probe {
    prober: Prober<ChildStdin, ChildStdout>,
    child: Child,
    first: ClockReading,
}

impl Observer {
    /// Starts to observe, at virtual zero.
    pub fn begin(stage: &mut Stage, plan: &Plan, dir: &RunDir, line: Timeline) -> Result<Observer> {
        let nodes = plan.nodes.iter().map(|(name, n)| (name.clone(), n.share)).collect();
        let mut observer = Observer {
            watch: Watch::new(plan.tdf, line.zero, nodes, plan.nodes_core(), plan.harness_core()),
            foreign: Foreign::new(&stage.groups_tree()),
            series: PipeSeries::begin(&stage.emulator, dir, line)?,
            load: LoadWatch::default(),
            caches: watcher(plan),
            probe: Probe::start(stage).map_err(|e| e.to_string()),
            line,
        };
        observer.sample(stage, plan)?;
        Ok(observer)
    }

    /// Takes a sample: once per virtual second.
    pub fn sample(&mut self, stage: &mut Stage, plan: &Plan) -> Result<()> {
        let network = stage.emulator.observe()?;
        self.series.add(&network.intervals)?;
        self.push(stage, plan, &network)
    }

    /// Takes the last sample and judges the run.
    pub fn finish(mut self, stage: &mut Stage, plan: &Plan) -> Result<Observed> {
        // At one instant: the series adds up to the totals.
        let network = stage.emulator.end_series()?;
        self.series.finish(&network.intervals)?;
        self.push(stage, plan, &network)?;
        let clock = match (stage.page.is_some(), self.probe) {
            (false, _) => ClockRate::Native,
            (true, Ok(probe)) => match probe.error_ppm(plan) {
                Ok(ppm) => ClockRate::Measured { ppm, node: "a dilated process of the run".into() },
                Err(e) => ClockRate::Unknown(e.to_string()),
            },
            (true, Err(why)) => ClockRate::Unknown(why),
        };
        let seen = self.watch.finish();
        let line = self.line;
        // Before virtual zero nobody's frames were late but those of interfaces coming up.
        let seconds =
            network.lateness.seconds.iter().filter(|s| s.start + RealDuration::from_nanos(1_000_000_000) > line.zero);
        let latest = seconds.max_by_key(|s| s.p999).map(|s| (line.at(s.start), s.p999));
        let loads = self.load.loads();
        let fidelity = checks::judge(&Evidence {
            tdf: plan.tdf,
            lateness: &network.lateness.all,
            unseen: &network.lateness.unseen,
            latest,
            shortest_path: plan.shortest_path,
            clock,
            grain: match &stage.conditions.policy {
                Policy::Slots => Grain::Slots(stage.conditions.grain),
                Policy::Quota => Grain::Quota(stage.conditions.policy_because.clone().unwrap_or_default()),
                Policy::Pool { .. } => Grain::Pool,
            },
            caches: self.caches.and_then(Watcher::finish).map(|c| Caches { soon: c.soon, away: c.away, late: c.late }),
            loads: &loads,
            scaled: ScaledTimers {
                rto_min: !stage.conditions.not_applied.iter().any(|n| n.setting.contains("rto_min")),
                initial_rto: plan.offers.initial_timeout,
            },
            seen: &seen,
        });
        Ok(Observed { fidelity, network, used: seen.used })
    }

    fn push(&mut self, stage: &mut Stage, plan: &Plan, network: &Observation) -> Result<()> {
        let work = Work { cpu: network.cpu, spun: network.spun, frames: network.lateness.all.len() };
        self.load.push(network.at, self.line.at(network.at), work);
        let cpu = stage.groups.sample()?;
        let ticks = stat::core_ticks()?;
        let tcp = tcp_counters(stage);
        // By node: frames lost, and those of them for which there was no memory.
        let mut drops: HashMap<&str, (u64, u64)> = HashMap::new();
        for port in &network.ports {
            let (lost, no_memory) = drops.entry(&port.node).or_default();
            *lost += port.missed();
            *no_memory += port.no_memory();
        }
        let nodes = plan.nodes.keys().zip(&cpu.nodes).zip(tcp).map(|((name, n), tcp)| {
            let (ring_drops, no_memory) = drops.get(name.as_str()).copied().unwrap_or_default();
            let (container_ns, filler_ns) = (n.container_ns, n.filler_ns);
            NodeCounters { at: n.at, container_ns, filler_ns, tcp, ring_drops, no_memory }
        });
        let nodes = nodes.collect();
        let own = time::of_this_process().as_nanos();
        let cores = cpu.all_ns.iter().zip(&cpu.run_ns).zip(ticks).enumerate().map(|(core, ((all, run), ticks))| {
            // The engine is pinned to the harness core, and not in the run's groups.
            let run_ns = run + if core == plan.harness_core() { own } else { 0 };
            let ticks = CoreTicks { steal: ticks.steal, total: ticks.total };
            CoreCounters { run_ns, all_ns: *all, ticks }
        });
        let cores = cores.collect();
        let strangers = self.foreign.list(cpu.at).into_iter().map(stranger).collect();
        self.watch.push(Snapshot { at: cpu.at, nodes, cores, strangers });
        Ok(())
    }
}

fn watcher(plan: &Plan) -> Option<Watcher> {
    if plan.tdf == Tdf::ONE {
        return None;
    }
    let virtual_ms = plan.tdf.to_real(VirtualDuration::from_nanos(1_000_000));
    // Where it cannot be started, the check is null.
    Watcher::start(plan.nodes_core(), virtual_ms).ok()
}

impl Probe {
    fn start(stage: &Stage) -> Result<Probe> {
        let why = |e: std::io::Error| Error::failed("the clock prober", e);
        let Some(admitted) = stage.cast.admit_outsider()? else {
            return Err(Error::Failed("the run is not dilated".into()));
        };
        let launcher = stage.launcher()?;
        let exec = clock::dilate_exec_file()?;
        let mut command = clock::launch(exec.as_fd(), admitted, [launcher.as_os_str(), "--probe".as_ref()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(why)?;
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut prober = Prober::new(input, output);
        let first = prober.read()?;
        Ok(Probe { prober, child, first })
    }

    fn error_ppm(mut self, plan: &Plan) -> Result<f64> {
        let last = self.prober.read()?;
        // Its input ends here, and so does it.
        drop(self.prober);
        clock::wait(&mut self.child).map_err(|e| Error::failed("the clock prober", e))?;
        Ok(clock_error_ppm(self.first, last, plan.tdf))
    }
}

/// The TCP counters of all nodes; `None` for one that could not be read this time.
fn tcp_counters(stage: &Stage) -> Vec<Option<TcpCounters>> {
    let read = || stage.netns.iter().map(|space| tcp::counters(space.as_fd()).ok().map(counters)).collect();
    // The thread that reads a namespace's counters has to move into it.
    std::thread::scope(|scope| scope.spawn(read).join()).unwrap_or_else(|_| vec![None; stage.netns.len()])
}

fn counters(read: tcp::Counters) -> TcpCounters {
    let tcp::Counters { in_segs, delayed_acks, loss_probes, syn_retrans, timeouts, aborts, waiting } = read;
    TcpCounters { in_segs, delayed_acks, loss_probes, syn_retrans, timeouts, aborts, waiting }
}

fn stranger(thread: foreign::Thread) -> Stranger {
    let foreign::Thread { pid, tid, name, core, ns, waited_ns } = thread;
    Stranger { pid, tid, name, core, ns, waited_ns }
}
