//! A run: an experiment from its plan to its results, over sites.
//!
//! [`conduct`] is the main path. It knows a site by its interface only (`crates/site`), and no mechanism.

mod accuracy;
mod begin;
mod close;
mod conditions;
pub mod confirm;
mod core_speed;
mod disks;
mod end;
mod error;
mod faults;
mod guests;
mod idle;
mod links;
mod live;
mod notice;
mod observer;
mod outside_requests;
mod readiness;
mod results;
mod samples;
pub mod schedule;
mod shutdown;
mod steps;
mod suspend;

use std::path::PathBuf;
use std::time::Duration;

use crossbeam_channel::Receiver;
use model::{Action, Experiment, NodeAction, Partition};
use plan::Plan;
use record::{Accuracy, Event, EventLog, RunDir, RunResult};
use scale::{RealInstant, VirtualInstant};
use site::{CoreChoice, NodeIndex, Recording, Site, Suspended, Timeline};

pub use self::accuracy::asked as accuracy;
use self::end::End;
pub use self::error::{Error, Result};
pub use self::notice::{Notice, Tick};
use self::observer::Observer;
pub use self::outside_requests::{Answer, Asked, Desk, Reception, Suspension, Wish};
use self::readiness::Readiness;
pub use self::results::unmeasured;
pub use self::samples::MetricError;
use self::schedule::{Rules, Schedule};

/// How often the user is listened to while a site is waited for.
const GLANCE: Duration = Duration::from_millis(50);

/// A run that is to be made.
pub struct Request<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its plan; what was used is added to it.
    pub plan: Plan,
    /// For everything that is random.
    pub seed: u64,
    /// How exact the results must be for the run to be trustworthy.
    pub accuracy: Accuracy,
    /// Whether the nodes stay until an interrupt.
    pub keep: bool,
    /// The user's choice of cores, for when the run is suspended and goes on.
    pub choice: CoreChoice,
    /// The suspended run with which this one goes on.
    pub earlier: Option<Suspended>,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The run directory.
    pub dir: PathBuf,
    /// Its record in `result.json`.
    pub result: RunResult,
    /// The captures.
    pub recordings: Vec<Recording>,
    /// Where it is found again, if it was suspended.
    pub suspended: Option<Suspension>,
}

/// Runs an experiment on a site, and writes its results into `dir`. The site is left to be taken down, and its nodes
/// may still run.
///
/// # Errors
///
/// If the run could not be brought to its end, or was interrupted; what could be written of it is there all the same.
pub fn conduct(
    site: &mut dyn Site,
    request: Request,
    dir: &RunDir,
    desk: &mut Desk,
    interrupts: &Receiver<i32>,
    tell: &mut dyn FnMut(&Notice),
) -> Result<Outcome> {
    let asked = host::now();
    dir.write_experiment(&request.experiment.resolved)?;
    dir.write_plan(request.plan.recorded())?;
    let keep = request.keep;
    let mut run = Run::begin(site, request, dir, desk, asked, interrupts, tell)?;

    let mut end = End::of(run.until_the_end(desk, interrupts, tell));
    let nodes = run.schedule.suspended();
    desk.close();
    tell(&Notice::Step("collecting the results".into()));
    // A failure from here on costs its own part of the results and no other.
    let closed = run.close(&mut end);
    end.conclude();
    let stays = keep && end.is_regular();
    if !stays {
        run.shut_down(end.grace(run.timeline.tdf), interrupts);
    }
    run.suspend_at(&mut end, nodes, desk);
    let (result, unread) = match run.write_results(&end, closed.judged, interrupts) {
        Ok(written) => written,
        // The first failure, such as a full disk, is the reason for this too.
        Err(e) => return Err(end.broken.unwrap_or(e)),
    };
    if stays {
        tell(&Notice::Kept);
        let _ = interrupts.recv();
    }
    end.result(unread)?;
    Ok(Outcome { dir: dir.path().to_path_buf(), result, recordings: closed.recordings, suspended: None })
}

/// A run whose clock has started.
struct Run<'a> {
    experiment: &'a Experiment,
    plan: Plan,
    site: &'a mut dyn Site,
    /// Where the site's events arrive.
    events_of_site: Receiver<site::Event>,
    dir: &'a RunDir,
    events: EventLog,
    timeline: Timeline,
    schedule: Schedule,
    readiness: Readiness,
    observer: Observer,
    accuracy: Accuracy,
    /// When the user asked for the run.
    asked: RealInstant,
    /// Whether the nodes' cores were theirs alone and are no more.
    cores_lost: bool,
    seed: u64,
    choice: CoreChoice,
    /// The suspended run that this one goes on with.
    earlier: Option<Suspended>,
    /// Events by hand, and when they happened; also in earlier parts of the run.
    by_hand: Vec<(VirtualInstant, String)>,
    /// The partitions that there are.
    partitions: Vec<Partition>,
}

impl Run<'_> {
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
        Action::Clock { .. } => schedule::Event::Clock(index),
        Action::Hardware { .. } => schedule::Event::Hardware(index),
        Action::Partition { .. } => schedule::Event::Partition(index),
        Action::Heal => schedule::Event::Heal,
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

/// An event of a node, as the schedule has it.
fn of_node(node: NodeIndex, act: NodeAction) -> schedule::Event {
    match act {
        NodeAction::Kill => schedule::Event::Kill(node),
        NodeAction::Stop => schedule::Event::Stop(node),
        NodeAction::Start => schedule::Event::Start(node),
        NodeAction::PowerOff => schedule::Event::PowerOff(node),
        NodeAction::PowerOn => schedule::Event::PowerOn(node),
        NodeAction::Pause => schedule::Event::Pause(node),
        NodeAction::Resume => schedule::Event::Resume(node),
    }
}
