//! Observation of a run, and the checks of what was observed.

use std::collections::{BTreeMap, HashMap};

use counters::Staleness;
use cpu::Policy;
use fidelity::checks;
use fidelity::core_speed::SpeedSeries;
use fidelity::counters::{CoreCounters, CoreWork, NodeCounters, Snapshot};
use fidelity::emulator_load::{EmulatorCounters, EmulatorLoad};
use fidelity::evidence::{
    ClockRate, Crossings, Evidence, GoesInRealTime, Monitoring, Observation, Pace, ScaledTimers, Sharing, Spread,
};
use fidelity::monitor::Monitor;
use fidelity::observations::Entitled;
use net::{FlowInterval, PipeCounters, PipeInterval};
use plan::Plan;
use record::plan::PlannedNode;
use record::{Counters, PipeIntervalLog, RunDir};
use scale::RealDuration;
use site::{Conditions, Injections, Monitored, Sample, SpeedSeen, Timeline};

use crate::close::Judged;
use crate::core_speed::CoreSpeeds;
use crate::disks::DiskSeries;
use crate::error::Result;
use crate::links::PipeSums;

/// A site's words when counting ends, beside its last counters.
pub struct Told<'a> {
    pub clock_error_ppm: Option<Result<f64, String>>,
    /// By core that holds nodes.
    pub caches: &'a [(usize, Staleness)],
    pub injections: Option<&'a Injections>,
    pub monitored: &'a Monitored,
    pub observation: Option<&'a std::result::Result<Observation, String>>,
}

/// The observer of one run.
pub struct Observer {
    conditions: Conditions,
    monitor: Monitor,
    load: EmulatorLoad,
    /// By core that holds nodes.
    speeds: BTreeMap<usize, SpeedSeries>,
    intervals: PipeIntervalLog,
    links: PipeSums,
    speed: CoreSpeeds,
    disks: DiskSeries,
    /// Pages of files that the machine had read again at first, and at last, where idle memory goes in real time.
    read_again: Option<[u64; 2]>,
    flows: Vec<FlowInterval>,
    dir: RunDir,
    timeline: Timeline,
}

impl Observer {
    /// Begins at virtual zero, with nothing seen yet.
    pub fn begin(
        plan: &Plan,
        conditions: Conditions,
        dir: &RunDir,
        timeline: Timeline,
        links: PipeSums,
    ) -> Result<Observer> {
        let entitled = |(name, n): (&String, &PlannedNode)| Entitled {
            node: name.clone(),
            core: n.core,
            share: n.share,
            cpus: n.cpus,
        };
        let nodes = plan.nodes.iter().map(entitled).collect();
        let reference = conditions.terms.pace.map(|pace| pace.reference);
        Ok(Observer {
            conditions,
            monitor: Monitor::new(plan.tdf, timeline.zero, nodes, plan.cores.harness.clone()).from(timeline.from),
            load: EmulatorLoad::default(),
            speeds: BTreeMap::new(),
            intervals: dir.pipe_interval_log(PipeCounters::COLUMNS)?,
            links,
            speed: CoreSpeeds::begin(dir, reference),
            disks: DiskSeries::default(),
            read_again: None,
            flows: Vec::new(),
            dir: dir.clone(),
            timeline,
        })
    }

    /// Adds what was counted until now.
    pub fn add(&mut self, plan: &Plan, sample: Sample) -> Result<()> {
        for interval in &sample.network.intervals {
            self.intervals.add(&self.recorded(interval, &sample))?;
            self.links.add(interval, self.timeline);
        }
        self.flows.extend_from_slice(&sample.network.flows);
        self.speed.add(self.timeline.at(sample.cpu.at), &sample.cpu.work)?;
        self.disks.add(self.timeline.at(sample.cpu.at), plan, &sample.disks, &self.dir)?;
        self.disks.note_reads(&sample.device_reads);
        if let Some(pages) = sample.read_again {
            self.read_again.get_or_insert([pages; 2])[1] = pages;
        }
        self.push(plan, sample);
        self.flush()
    }

    /// Writes out what has been added, so that who looks at the run sees it, and a killed run has it.
    fn flush(&mut self) -> Result<()> {
        self.intervals.flush()?;
        self.speed.flush()?;
        self.disks.flush()
    }

    /// Intervals of the emulator's flows, so far.
    pub fn flows(&self) -> &[FlowInterval] {
        &self.flows
    }

    /// Speeds of the nodes' cores, as far as they were measured.
    pub fn speeds_seen(&self) -> Vec<SpeedSeen> {
        self.speed.windows()
    }

    /// Adds the last that was counted, and makes the checks.
    pub fn finish(&mut self, plan: &Plan, sample: Sample, told: Told<'_>) -> Result<Judged> {
        let Told { clock_error_ppm, caches, injections, monitored, observation } = told;
        let monitoring = monitoring(monitored);
        let lateness = sample.network.lateness.clone();
        let crossings = sample.network.clocks.as_ref().map(crossings);
        self.add(plan, sample)?;
        let disks = self.disks.all();
        let observations = self.monitor.clone().finish();
        let timeline = self.timeline;
        // Before virtual zero only the frames of interfaces that come up can have been late.
        let second = RealDuration::from_nanos(1_000_000_000);
        let seconds = lateness.seconds.iter().filter(|s| s.start + second > timeline.zero);
        let latest = seconds.max_by_key(|s| s.p999).map(|s| (timeline.at(s.start), s.p999));
        let loads = std::mem::take(&mut self.load).intervals();
        let speeds = std::mem::take(&mut self.speeds).into_iter();
        let speeds: Vec<_> = speeds.filter_map(|(core, series)| Some((core, series.finish()?))).collect();
        let conditions = &self.conditions;
        let other_writeback = conditions.disks.as_ref().and_then(|disks| disks.writeback.as_ref().err());
        let findings = checks::judge(&Evidence {
            tdf: plan.tdf,
            lateness: &lateness.all,
            unseen: &lateness.unseen,
            latest,
            shortest_path: plan.shortest_path,
            clock: match clock_error_ppm {
                None => ClockRate::Native,
                Some(Ok(ppm)) => ClockRate::Measured { ppm, node: "a dilated process of the run".into() },
                Some(Err(why)) => ClockRate::Unknown(why),
            },
            sharing: match &conditions.policy {
                Policy::Slots => {
                    Sharing::Slots(conditions.cores.iter().map(|core| (core.core, conditions.terms.slice)).collect())
                }
                Policy::Quota => Sharing::Quota(conditions.policy_because.clone().unwrap_or_default()),
                Policy::Pool { .. } => Sharing::Pool,
                Policy::WholeCores => whole_cores(plan),
            },
            crossings,
            host_slices: conditions.host_setting.as_ref().map(|change| [change.during, change.before]),
            pace: Pace {
                reference: plan.cpu.and_then(|cpu| cpu.reference_units_per_us),
                gain: conditions.terms.pace.map(|pace| pace.gain),
            },
            speeds: &speeds,
            caches,
            disks: &disks,
            other_writeback: other_writeback.map(|other| (other.because.as_str(), other.from)),
            goes_in_real_time: conditions.idle_memory.as_ref().err().map(|because| GoesInRealTime {
                because,
                read_again: self.read_again.map(|[first, last]| last.saturating_sub(first)),
            }),
            untrue_settings: injections.map(|made| made.untrue_settings.as_slice()),
            monitoring: monitoring.as_ref(),
            observation,
            loads: &loads,
            scaled: ScaledTimers {
                rto_min: !conditions.not_applied.iter().any(|n| n.setting.contains("rto_min")),
                initial_rto: plan.offers.initial_timeout,
            },
            observations: &observations,
        });
        let used = observations.nodes.iter().map(|n| n.used).collect();
        Ok(Judged { findings, used, links: self.links.clone() })
    }

    fn recorded(&self, interval: &PipeInterval, sample: &Sample) -> record::PipeInterval {
        record::PipeInterval {
            from_s: self.timeline.at(interval.from).as_secs_f64(),
            to_s: self.timeline.at(interval.to).as_secs_f64(),
            pipe: sample.network.pipes[interval.pipe.index()].name.clone(),
            utilisation: interval.utilisation,
            queue_mean: interval.queue_mean,
            queue_max: interval.queue_max as u64,
            counters: Counters::new(PipeCounters::COLUMNS, interval.grew.values()),
        }
    }

    fn push(&mut self, plan: &Plan, sample: Sample) {
        // Field by field, so that one that is new is not forgotten here; the rest is seen to elsewhere.
        let Sample {
            network,
            cpu,
            ticks,
            tcp,
            foreign,
            own,
            cores_lost: _,
            disks: _,
            commands: _,
            device_reads: _,
            read_again: _,
            looks,
        } = sample;
        let done = EmulatorCounters { cpu: network.cpu, spun: network.spun, frames: network.lateness.all.len() };
        self.load.push(network.at, self.timeline.at(network.at), done);
        // By node: frames lost, and those of them for which there was no memory.
        let mut drops: HashMap<&str, (u64, u64)> = HashMap::new();
        for port in &network.ports {
            let (lost, no_memory) = drops.entry(&port.node).or_default();
            *lost += port.missed();
            *no_memory += port.no_memory();
        }
        let core_work: BTreeMap<usize, CoreWork> = cpu.work.iter().copied().collect();
        for (core, work) in &core_work {
            self.speeds.entry(*core).or_default().push(self.timeline.at(work.at), *work);
        }
        let nodes = plan.nodes.keys().zip(&cpu.nodes).zip(tcp).map(|((name, n), tcp)| {
            let (ring_drops, no_memory) = drops.get(name.as_str()).copied().unwrap_or_default();
            let counters::NodeUse { at, container_ns, unused_ns, slept_ns, uncounted, empty_looks } = *n;
            NodeCounters { at, container_ns, unused_ns, slept_ns, uncounted, empty_looks, tcp, ring_drops, no_memory }
        });
        let nodes = nodes.collect();
        let cores = cpu.all_ns.iter().zip(&cpu.run_ns).zip(ticks).enumerate().map(|(core, ((all, run), ticks))| {
            // The engine is on the harness's cores, and not in the run's groups; how much on each is not counted.
            let run_ns = run + if Some(core) == plan.cores.emulator() { own.as_nanos() } else { 0 };
            CoreCounters { run_ns, all_ns: *all, ticks }
        });
        let cores = cores.collect();
        self.monitor.push(Snapshot { at: cpu.at, nodes, cores, foreign, core_work, looks });
    }
}

/// How nodes with whole cores have them: those that are slower are held back by the kernel's quota.
fn whole_cores(plan: &Plan) -> Sharing {
    let slower = plan.nodes.iter().find(|(_, node)| node.is_slower_than_its_cores());
    match slower {
        None => Sharing::WholeCores,
        Some((name, _)) => Sharing::Quota(format!(
            "the native variant has nothing slower than a core, and `{name}` is: give its machine the speed 1"
        )),
    }
}

/// The cost of looking at the nodes; nothing, if nobody did.
fn monitoring(seen: &Monitored) -> Option<Monitoring> {
    let Monitored { every, samples, missed, cpu, lasted, coarser, ended } = seen;
    let begun = coarser.first().map(|(at, _)| at.as_secs_f64());
    (*samples > 0).then(|| Monitoring {
        every_s: every.as_secs_f64(),
        samples: *samples,
        missed: *missed,
        cpu_s: cpu.as_secs_f64(),
        lasted_s: lasted.as_secs_f64(),
        coarser: begun.zip(coarser.last().map(|(_, every)| every.as_secs_f64())),
        ended: ended.as_ref().map(|(at, why)| (at.as_secs_f64(), why.clone())),
    })
}

fn crossings(read: &net::Crossings) -> Crossings {
    Crossings {
        stamped: read.stamped(),
        unstamped: read.unstamped,
        late: Spread::of(&read.pushed),
        to_busy: read.lead.len(),
        lead: Spread::of(&read.lead),
        lag: Spread::of(&read.lag),
    }
}
