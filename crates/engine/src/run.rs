//! A run: an experiment from its plan to its results, on a site.

mod aside;
mod core_speed;
mod disks;
mod idle;
mod links;
mod live;
mod observer;
mod results;
mod samples;
mod steps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cpu::Exclusive;
use crossbeam_channel::Receiver;
use fidelity::findings::Findings;
use host::Change;
use model::{Action, Experiment, NodeAction};
use record::{Accuracy, Event, EventLog, RunDir, RunResult};
use scale::{RealDuration, RealInstant, VirtualDuration, VirtualInstant};
use serde_json::json;

pub use self::samples::MetricError;

use self::links::PipeSums;
use self::observer::Observer;
use crate::aside::{Aside, Files};
use crate::by_hand::{self, Requests};
use crate::error::{Error, Result};
use crate::host_speed::HostSpeed;
use crate::images;
use crate::notice::{Notice, warn};
use crate::plan::{CoreChoice, Plan};
use crate::registry::{self, CoreLocks, LiveRun, Registration};
use crate::schedule::{self, Ending, Rules, Schedule};
use crate::site::{
    Closing, Conditions, Continues, DiskConditions, Injections, LocalSite, NodeIndex, Place, Recording, Sample, Setup,
    Site, Stop,
};
use crate::timeline::Timeline;

/// How long nodes may take to heed the end of the run; then they are killed.
const FAREWELL: VirtualDuration = VirtualDuration::from_nanos(1_500_000_000);
/// The most of it, in real time.
const LONGEST_FAREWELL: Duration = Duration::from_secs(60);
/// What they get in real time if the user wants an end, or the harness has failed.
const SHORT_FAREWELL: Duration = Duration::from_millis(1500);
/// How often the user is listened to while a site is waited for.
const GLANCE: Duration = Duration::from_millis(50);

/// What to run, and where its results go.
pub struct Request<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its plan; what was used is added to it.
    pub plan: Plan,
    /// The right to the cores of the plan.
    pub cores: CoreLocks,
    /// Where to write; `None`: `runs/NAME/VARIANT`.
    pub out: Option<PathBuf>,
    /// For everything that is random.
    pub seed: u64,
    /// How exact the results must be for the run to be trustworthy.
    pub accuracy: Accuracy,
    /// Whether the nodes stay until an interrupt.
    pub keep: bool,
    /// What was said of cores, for when the run is put aside and goes on.
    pub choice: CoreChoice,
    /// The run that was put aside with which this one goes on.
    pub earlier: Option<(Aside, Files)>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The run directory.
    pub dir: PathBuf,
    /// What `result.json` says.
    pub result: RunResult,
    /// The captures.
    pub recordings: Vec<Recording>,
    /// If the run was put aside, under which identity, and at which virtual second.
    pub aside: Option<(String, f64)>,
}

/// The directory for the repetitions of a run, chosen as that of a single run is.
pub fn claim_directory(out: Option<&Path>, name: &str, variant: record::Variant) -> Result<PathBuf> {
    registry::with_live_directories(|live| Ok(record::claim(out, name, variant, live)?))
}

/// Runs an experiment on this machine, to its end. Whatever happens, nothing of it is left when this returns, and its
/// directory says what did.
pub fn run(request: Request, interrupts: &Receiver<i32>, tell: &mut dyn FnMut(&Notice)) -> Result<Outcome> {
    run_through(request, interrupts, tell, |site| Box::new(site))
}

/// The same, where the run does not ask this machine's site itself but what `reach` makes of it, such as a connection.
pub fn run_through(
    request: Request,
    interrupts: &Receiver<i32>,
    tell: &mut dyn FnMut(&Notice),
    reach: impl FnOnce(LocalSite) -> Box<dyn Site>,
) -> Result<Outcome> {
    let (experiment, variant) = (request.experiment, request.plan.variant);
    let files = request.earlier.as_ref().map(|(_, files)| files.clone());
    let registration = Registration::with(request.cores.clone(), files.clone())?;
    let id = request.earlier.as_ref().map_or_else(|| registration.id.clone(), |(aside, _)| aside.id.clone());
    let dir = registry::with_live_directories(|live| {
        let path = record::claim(request.out.as_deref(), &experiment.name, variant, live)?;
        let dir = RunDir::prepare(path, experiment.nodes.iter().map(|n| n.name.as_str()))?;
        registration.publish(&LiveRun {
            id: registration.id.clone(),
            name: experiment.name.clone(),
            variant: variant.as_str().into(),
            out: dir.path().to_path_buf(),
            pid: std::process::id(),
            cores: request.plan.cores.all(),
            images: images::of(experiment),
        })?;
        Ok(dir)
    })?;
    let idle = registration.idle_file();
    let socket = registration.event_socket();
    let by_hand = Requests::at(&socket).map_err(Error::io(socket.display()))?;
    let unmeasured = results::unmeasured(experiment, &request.plan);
    let folder = experiment.dir.clone();
    let mut site = reach(LocalSite::new(Place { registration, folder, results: dir.clone() }));
    let mut aside = PutAside { id, idle, at: None, asked: None };
    let outcome = run_on(&mut *site, request, &dir, by_hand, &mut aside, interrupts, tell);
    // Also if the run has failed, whose reason is then the one that counts.
    let torn_down = site.tear_down();
    let kept = aside.answer(torn_down.as_ref().err());
    let mut outcome = match torn_down {
        Err(e) if outcome.is_ok() => Err(e),
        _ => outcome,
    };
    match (&mut outcome, files) {
        (Ok(outcome), _) if kept.is_some() => outcome.aside = kept,
        // It has come to its end, and with it what it went on with.
        (Ok(_), Some(files)) => files.remove()?,
        (Err(_), Some(_)) if kept.is_none() => warn("the files of the run that was to go on stay as they are now"),
        _ => {}
    }
    if let Err(e) = &outcome
        && !dir.has_result()
    {
        // If this fails too, the error itself is reported all the same.
        let _ = dir.write_result(&RunResult { why: Some(e.to_string()), ..unmeasured });
    }
    outcome
}

/// Runs an experiment on a site. The site is left to be taken down, and its nodes may still run.
fn run_on(
    site: &mut dyn Site,
    request: Request,
    dir: &RunDir,
    mut by_hand: Requests,
    aside: &mut PutAside,
    interrupts: &Receiver<i32>,
    tell: &mut dyn FnMut(&Notice),
) -> Result<Outcome> {
    let asked = host::now();
    dir.write_experiment(&request.experiment.resolved)?;
    dir.write_plan(request.plan.recorded())?;
    let keep = request.keep;
    let mut run = Run::begin(site, request, dir, asked, interrupts, tell)?;

    // What fails from here on costs its own part of the results and no other.
    let mut broken = None;
    let mut ending = run.until_the_end(&mut by_hand, aside, interrupts, tell).unwrap_or_else(|e| {
        let why = e.to_string();
        broken = Some(e);
        Ending::Broken(why)
    });
    let end = host::now();
    let kept_nodes = run.schedule.kept();
    // Nothing happens any more, and who asks is told so.
    drop(by_hand);
    tell(&Notice::Step("collecting the results".into()));
    let closed = run.close(end, &mut broken);
    if let (Some(e), Ending::Exited | Ending::Limit | Ending::Late(_)) = (&broken, &ending) {
        ending = Ending::Broken(e.to_string());
    }
    let hasty = matches!(ending, Ending::Interrupted | Ending::Broken(_));
    let keep = keep && !hasty && !matches!(ending, Ending::Failed(_));
    if !keep {
        let grace = match hasty {
            true => SHORT_FAREWELL,
            false => LONGEST_FAREWELL.min(run.timeline.tdf.to_real(FAREWELL).into()),
        };
        run.farewell(grace, interrupts);
    }
    if ending == Ending::Aside {
        let at = run.timeline.now();
        run.event("aside", None, json!({ "id": aside.id }));
        aside.at = Some(at);
        let written = run.write_aside(&aside.id, run.timeline.at(end), at, kept_nodes);
        if let Err(e) = written {
            broken.get_or_insert(e);
        }
    }
    // What broke the run, such as a full disk, is the reason for this too.
    let (result, unread) = match run.write_results(end, &ending, closed.judged, interrupts) {
        Ok(written) => written,
        Err(e) => return Err(broken.unwrap_or(e)),
    };
    if keep {
        tell(&Notice::Kept);
        let _ = interrupts.recv();
    }
    if ending == Ending::Interrupted || unread {
        return Err(Error::Interrupted);
    }
    match broken {
        Some(e) => Err(e),
        None => Ok(Outcome { dir: dir.path().to_path_buf(), result, recordings: closed.recordings, aside: None }),
    }
}

/// What becomes of a run that is put aside.
struct PutAside {
    /// Its identity then.
    id: String,
    /// Where it is written for how long nobody has done anything.
    idle: PathBuf,
    /// When its nodes had ended.
    at: Option<VirtualInstant>,
    /// Who waits for it.
    asked: Option<by_hand::Request>,
}

impl PutAside {
    /// Tells who waits for it what has become of it, now that nothing of the run lives any more; gives identity and
    /// virtual second if it is kept.
    fn answer(self, failure: Option<&Error>) -> Option<(String, f64)> {
        let kept = self.at.map(|at| (self.id, at.as_secs_f64()));
        let outcome = match (failure, &kept) {
            (Some(e), _) => Err(Error::Reported(e.report())),
            (None, Some(kept)) => Ok(kept.clone()),
            (None, None) => Err(Error::SiteLost("the run ended before it was put aside".into())),
        };
        let kept = kept.filter(|_| outcome.is_ok());
        if let Some(asked) = self.asked {
            asked.answer_aside(outcome);
        }
        kept
    }
}

/// A run whose clock has started.
struct Run<'a> {
    experiment: &'a Experiment,
    plan: Plan,
    site: &'a mut dyn Site,
    dir: &'a RunDir,
    events: EventLog,
    timeline: Timeline,
    schedule: Schedule,
    observer: Observer,
    accuracy: Accuracy,
    /// When the user asked for the run.
    asked: RealInstant,
    /// Whether the nodes' cores were theirs alone and are no more.
    cores_lost: bool,
    seed: u64,
    choice: CoreChoice,
    /// What this run goes on with.
    earlier: Option<Aside>,
    /// What has happened by hand, and when; also in earlier parts of the run.
    by_hand: Vec<(VirtualInstant, String)>,
}

/// What the end of counting gave.
struct Closed {
    judged: Judged,
    recordings: Vec<Recording>,
}

/// What the counters of a run say.
struct Judged {
    /// What the checks found; nothing, if they were not made.
    findings: Findings,
    /// CPU time that each node's programs used, in the order of the plan; empty if it is not known.
    used: Vec<RealDuration>,
    /// How busy links were.
    links: PipeSums,
}

impl<'a> Run<'a> {
    /// Sets the site up and starts the clock.
    fn begin(
        site: &'a mut dyn Site,
        request: Request<'a>,
        dir: &'a RunDir,
        asked: RealInstant,
        interrupts: &Receiver<i32>,
        tell: &mut dyn FnMut(&Notice),
    ) -> Result<Run<'a>> {
        let Request { experiment, plan, seed, accuracy, choice, earlier, .. } = request;
        let earlier = earlier.map(|(aside, _)| aside);
        let mut step = |what: String| {
            tell(&Notice::Step(what));
            if interrupts.is_empty() { Ok(()) } else { Err(Error::Interrupted) }
        };
        step(format!("making the network: {} nodes, {} pipes", plan.nodes.len(), plan.pipes.len()))?;
        let continues = earlier.as_ref().map(|earlier| Continues {
            at: earlier.at,
            zero_unix_ns: earlier.zero_unix_ns,
            parts: earlier.parts.clone(),
        });
        site.prepare(Setup { continues, ..plan.setup(experiment, seed) })?;
        step(format!("creating {} containers", plan.nodes.len()))?;
        site.create_nodes()?;
        let cores = if plan.cores.nodes.len() == 1 { "core" } else { "cores" };
        step(format!("calibrating the nodes' {cores} and applying shares"))?;
        let conditions = site.apply_limits()?;
        step("starting the nodes".into())?;
        let at = site.now()?;
        let timeline = Timeline::new(site.start_clock(at)?, plan.tdf);

        let mut events = dir.event_log()?;
        let mut event = |event: &str, detail| {
            let _ = events.write(&event_at(timeline, host::now(), event, None, detail));
        };
        event("zero", zero_detail(&conditions, seed));
        if let Some(Aside { id, out, .. }) = &earlier {
            event("goes-on", json!({ "id": id, "after": out }));
        }
        for refused in &conditions.not_applied {
            event("kernel-setting-refused", json!(refused.to_string()));
        }
        let links = PipeSums::begin(plan.pipes.len(), experiment.measure);
        let mut observer = Observer::begin(&plan, conditions, dir, timeline, links)?;
        observer.add(&plan, site.sample()?)?;
        let (schedule, by_hand) = match &earlier {
            Some(earlier) => (schedule_of(experiment).go_on(earlier.happened, &earlier.nodes), earlier.by_hand.clone()),
            None => (schedule_of(experiment), Vec::new()),
        };
        let cores_lost = false;
        let mut run = Run {
            experiment,
            plan,
            site,
            dir,
            events,
            timeline,
            schedule,
            observer,
            accuracy,
            asked,
            cores_lost,
            seed,
            choice,
            earlier,
            by_hand,
        };
        run.restore()?;
        Ok(run)
    }

    /// Notes, once, that the nodes' cores are no longer theirs alone. The run goes on: what others do on them is
    /// counted.
    fn note_lost_cores(&mut self, sample: &Sample) {
        if let Some(why) = sample.cores_lost.as_ref().filter(|_| !self.cores_lost) {
            self.cores_lost = true;
            warn(format_args!("the nodes' cores are open to other programs from now on: the kernel says `{why}`"));
            self.event("cores-lost", None, json!({ "kernel": why }));
        }
    }

    /// Ends counting, and makes the checks of what was counted. What fails is `broken`, and leaves the rest as it is.
    fn close(&mut self, end: RealInstant, broken: &mut Option<Error>) -> Closed {
        let mut closed = Closed {
            judged: Judged { findings: Findings::default(), used: Vec::new(), links: PipeSums::begin(0, None) },
            recordings: Vec::new(),
        };
        let closing = match self.site.finish() {
            Ok(closing) => closing,
            Err(e) => {
                broken.get_or_insert(e);
                return closed;
            }
        };
        let Closing { sample, clock_error_ppm, caches, injections, recordings } = closing;
        if let Some(Injections { dilated, refused, .. }) = &injections {
            let detail = json!({ "programs_dilated": dilated, "programs_refused": refused });
            self.record(end, "end", None, detail);
        }
        let judged = sample.map_err(Error::Reported).and_then(|sample| {
            self.note_lost_cores(&sample);
            results::write_pipes(self.dir, &sample.network)?;
            self.observer.finish(&self.plan, sample, clock_error_ppm, &caches, injections.as_ref())
        });
        self.keep_speed(end);
        match judged {
            Ok(judged) => closed.judged = judged,
            Err(e) => drop(broken.get_or_insert(e)),
        }
        match recordings {
            Ok(recordings) => closed.recordings = recordings,
            Err(told) => drop(broken.get_or_insert(Error::Reported(told))),
        }
        for Recording { link, file, frames, missed } in &closed.recordings {
            let detail = json!({ "file": file, "frames": frames, "missed": missed });
            self.record(end, "capture", Some(link.clone()), detail);
        }
        closed
    }

    /// Keeps what the core did, for the runs after this one. A run does not fail for that.
    fn keep_speed(&mut self, end: RealInstant) {
        match HostSpeed::here().add(&self.observer.speeds_seen()) {
            Ok(Some(reference)) => {
                self.record(end, "host-usual", None, json!({ "reference_units_per_us": reference }));
            }
            Ok(None) => {}
            Err(e) => warn(format_args!("the host's usual speed is not kept: {e}")),
        }
    }

    /// Asks what still runs to end, as the shutdown of a machine does, and waits a little: for `grace`, or until an
    /// interrupt.
    fn farewell(&mut self, grace: Duration, interrupts: &Receiver<i32>) {
        let mut running: Vec<_> = (0..self.experiment.nodes.len()).filter(|n| self.schedule.is_running(*n)).collect();
        for node in &running {
            let _ = self.site.stop(*node, Stop::Ask);
        }
        let end = Instant::now() + grace;
        while !running.is_empty() {
            let left = match interrupts.is_empty() {
                true => end.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            let Ok(exits) = self.site.exits(left.min(GLANCE).into()) else { break };
            for exit in &exits {
                running.retain(|n| *n != exit.node);
                self.schedule.stopped(exit.node, Some(exit.exit));
            }
            if exits.is_empty() && left.is_zero() {
                break;
            }
        }
        for node in running {
            self.schedule.stopped(node, None);
        }
    }

    /// Records what happened to a node, or to the run.
    fn event(&mut self, event: &str, node: Option<NodeIndex>, detail: serde_json::Value) {
        let target = node.map(|n| self.experiment.nodes[n].name.clone());
        self.record(host::now(), event, target, detail);
    }

    /// Records what happened at a real instant, to the node or link `target`. A line that cannot be written must not
    /// stop a run in its middle: if it cannot, writing the results at its end fails too.
    fn record(&mut self, at: RealInstant, event: &str, target: Option<String>, detail: serde_json::Value) {
        let _ = self.events.write(&event_at(self.timeline, at, event, target, detail));
    }
}

/// What is told of the clocks' start: of several cores the least that is usable of one, and of each.
fn zero_detail(conditions: &Conditions, seed: u64) -> serde_json::Value {
    let least = conditions.cores.iter().map(|core| core.usable).fold(1.0, f64::min);
    let shared = match &conditions.exclusive {
        Exclusive::Taken { .. } => None,
        Exclusive::Shared { because } => Some(because),
    };
    let exclusive = shared.is_none();
    let mut detail =
        json!({ "usable_fraction_of_core": least, "seed": seed, "exclusive": exclusive, "shared": shared });
    let changed = |Change { setting, before, during }: &Change| {
        let [before, during] = [before, during].map(|time| time.as_secs_f64());
        json!({ "name": setting, "before_s": before, "during_s": during })
    };
    if let Some(change) = &conditions.host_setting {
        detail["host_setting"] = changed(change);
    }
    if conditions.cores.len() > 1 {
        let by_core: BTreeMap<String, f64> =
            conditions.cores.iter().map(|core| (core.core.to_string(), core.usable)).collect();
        detail["usable_fraction_by_core"] = json!(by_core);
    }
    if let Some(DiskConditions { over, because, writeback }) = &conditions.disks {
        let settings: Vec<_> = writeback.iter().flatten().map(changed).collect();
        let other = writeback.as_ref().err().map(|other| &other.because);
        detail["disks"] =
            json!({ "over": over, "because": because, "host_settings": settings, "other_writeback": other });
    }
    match &conditions.idle_memory {
        Ok(none) if none.is_empty() => {}
        Ok(changes) => {
            detail["idle_memory"] = json!({ "host_settings": changes.iter().map(changed).collect::<Vec<_>>() })
        }
        Err(because) => detail["idle_memory"] = json!({ "because": because }),
    }
    detail
}

fn event_at(
    timeline: Timeline,
    at: RealInstant,
    event: &str,
    target: Option<String>,
    detail: serde_json::Value,
) -> Event {
    Event {
        virtual_s: Some(timeline.at(at).as_secs_f64()),
        real_s: at.since(timeline.zero).as_secs_f64(),
        event: event.into(),
        target,
        detail,
    }
}

fn schedule_of(experiment: &Experiment) -> Schedule {
    let rules = experiment.nodes.iter().enumerate().map(|(index, n)| Rules {
        after: n.after.clone(),
        awaited: experiment.ends.exited.contains(&index),
        has_ready: n.ready.is_some(),
    });
    let what = |index: usize, event: &model::Event| match &event.action {
        Action::Link { .. } => schedule::Event::Link(index),
        Action::Disk { .. } => schedule::Event::Disk(index),
        Action::Flow { .. } => schedule::Event::Flow(index),
        Action::Program { .. } => schedule::Event::Program(index),
        Action::Node { node, act } => of_node(*node, *act),
        Action::End => schedule::Event::End,
    };
    let events = || experiment.events.iter().enumerate();
    let timed = events().filter(|(_, event)| event.after.is_none()).map(|(i, event)| (event.at, what(i, event)));
    let waiting =
        events().filter_map(|(i, event)| Some((event.after?, event.at.since(VirtualInstant::ZERO), what(i, event))));
    Schedule::new(rules.collect(), timed.collect(), experiment.ends.limit).waiting(waiting.collect())
}

/// What is done to a node, as the schedule has it.
fn of_node(node: NodeIndex, act: NodeAction) -> schedule::Event {
    match act {
        NodeAction::Kill => schedule::Event::Kill(node),
        NodeAction::Stop => schedule::Event::Stop(node),
        NodeAction::Start => schedule::Event::Start(node),
        NodeAction::PowerOff => schedule::Event::PowerOff(node),
        NodeAction::PowerOn => schedule::Event::PowerOn(node),
    }
}
