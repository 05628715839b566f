//! The life of a run: from the request to the results, and out again by every door.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select};
use model::{Action as EventAction, Experiment, NodeAction, Ready};
use net::PipeChange;
use record::{RunResult, Variant};
use scale::{RealInstant, VirtualDuration, VirtualInstant};

use crate::captures::{Captures, Recording};
use crate::cast::exit_of;
use crate::error::{Error, Result};
use crate::notice::{Notice, Tick};
use crate::observer::Observer;
use crate::plan::Plan;
use crate::registry::{self, Cores, LiveRun, Registration};
use crate::results::{self, Finale};
use crate::rundir::RunDir;
use crate::script::{Action, Cue, Ending, NodeIndex, Part, Script};
use crate::stage::{self, Stage};
use crate::timeline::Timeline;
use crate::versions::Programs;

/// How often a node that is to become ready is looked at, in real time.
const READINESS: Duration = Duration::from_millis(4);
/// How often the display is told where the run is, in real time.
const TICK: Duration = Duration::from_millis(200);
/// How often samples are taken.
const SAMPLE: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);
/// How long nodes may take to heed the end of the run; then they are killed.
const FAREWELL: VirtualDuration = VirtualDuration::from_nanos(1_500_000_000);
/// The most of it, in real time.
const LONGEST_FAREWELL: Duration = Duration::from_secs(60);
/// What they get in real time if the user wants an end, or the harness has failed.
const SHORT_FAREWELL: Duration = Duration::from_millis(1500);
/// How often the user is listened to meanwhile.
const GLANCE: Duration = Duration::from_millis(50);

/// What to run, and where its results go.
pub struct Request<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its plan; what was used is added to it.
    pub plan: Plan,
    /// Those of the plan.
    pub cores: Cores,
    /// Where to write; `None`: `runs/NAME/VARIANT`.
    pub out: Option<PathBuf>,
    /// For everything that is random.
    pub seed: u64,
    /// Whether the nodes stay until an interrupt.
    pub keep: bool,
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
}

/// The directory for the repetitions of a run, chosen as that of a single run is.
pub fn claim_directory(out: Option<&Path>, name: &str, variant: Variant) -> Result<PathBuf> {
    registry::with_live_directories(|live| Ok(record::claim(out, name, variant, live)?))
}

/// Runs an experiment to its end. Whatever happens, nothing of it is left when this returns, and its directory says what did.
pub fn run(request: Request, interrupts: &Receiver<i32>, tell: &mut dyn FnMut(&Notice)) -> Result<Outcome> {
    let (experiment, variant) = (request.experiment, request.plan.variant);
    let registration = Registration::new(request.cores.clone())?;
    let mut dir = registry::with_live_directories(|live| {
        let path = record::claim(request.out.as_deref(), &experiment.name, variant, live)?;
        let dir = RunDir::open(path, experiment.nodes.iter().map(|n| n.name.as_str()))?;
        registration.publish(&LiveRun {
            id: registration.id.clone(),
            name: experiment.name.clone(),
            variant: variant.as_str().into(),
            out: dir.path().to_path_buf(),
            pid: std::process::id(),
        })?;
        Ok(dir)
    })?;
    let unmeasured = results::unmeasured(experiment, &request.plan);
    let outcome = run_in(&mut dir, request, registration, interrupts, tell);
    if let Err(e) = &outcome
        && !dir.files().has_result()
    {
        // What is worse than the error itself is told by it.
        let _ = dir.files().write_result(&RunResult { why: Some(e.to_string()), ..unmeasured });
    }
    outcome
}

fn run_in(
    dir: &mut RunDir,
    mut request: Request,
    registration: Registration,
    interrupts: &Receiver<i32>,
    tell: &mut dyn FnMut(&Notice),
) -> Result<Outcome> {
    let asked = host::now();
    let experiment = request.experiment;
    dir.files().write_experiment(&experiment.resolved)?;
    dir.files().write_plan(&request.plan.recorded())?;

    let mut step = |what: String| {
        tell(&Notice::Step(what));
        if interrupts.is_empty() { Ok(()) } else { Err(Error::Interrupted) }
    };
    let mut stage = stage::set(experiment, &request.plan, registration, dir, request.seed, &mut step)?;
    step("starting the nodes".into())?;

    let line = stage.zero();
    let captures = Captures::begin(experiment, &request.plan, &stage.emulator, dir, line)?;
    let observer = Observer::begin(&mut stage, &request.plan, dir, line)?;
    let mut play = Play {
        experiment,
        plan: &request.plan,
        stage: &mut stage,
        dir: &mut *dir,
        line,
        script: script_of(experiment),
        observer,
        captures,
        programs: Programs::default(),
        asked,
        seed: request.seed,
    };
    // What fails from here on costs its own part of the results and no other.
    let mut broken = None;
    let mut ending = play.until_the_end(interrupts, tell).unwrap_or_else(|e| {
        let why = e.to_string();
        broken = Some(e);
        Ending::Broken(why)
    });
    let end = host::now();
    tell(&Notice::Step("collecting the results".into()));
    let Play { mut script, observer, captures, programs, .. } = play;
    if let Some(counters) = stage.cast.injections() {
        tell_injections(dir, line, end, counters);
    }
    let observed = observer.finish(&mut stage, &request.plan);
    let observed = observed.and_then(|o| results::write_totals(dir, &o.network).map(|()| (o.fidelity, o.used)));
    let (fidelity, used) = observed.unwrap_or_else(|e| {
        broken.get_or_insert(e);
        (fidelity::conclude(Vec::new()), Vec::new())
    });
    let recordings = captures.finish(&stage.emulator).unwrap_or_else(|e| {
        broken.get_or_insert(e);
        Vec::new()
    });
    tell_recordings(dir, line, end, &recordings);
    if let (Some(e), Ending::Exited | Ending::Limit | Ending::Late(_)) = (&broken, &ending) {
        ending = Ending::Broken(e.to_string());
    }
    let hasty = matches!(ending, Ending::Interrupted | Ending::Broken(_));
    let keep = request.keep && !hasty && !matches!(ending, Ending::Failed(_));
    if !keep {
        let grace = match hasty {
            true => SHORT_FAREWELL,
            false => LONGEST_FAREWELL.min(line.tdf.to_real(FAREWELL).into()),
        };
        farewell(&stage, &mut script, experiment, grace, interrupts);
    }
    request.plan.versions.extend(programs.versions());
    let finale = Finale { line, end, script: &script, ending: &ending, fidelity, used };
    let written = results::gather(experiment, &request.plan, &stage, dir, finale).and_then(|result| {
        dir.files().write_result(&result)?;
        dir.files().write_plan(&request.plan.recorded())?;
        fidelity::html::write_report(dir.path())?;
        Ok(result)
    });
    // What broke the run, such as a full disk, is the reason for this too.
    let result = match written {
        Ok(result) => result,
        Err(e) => return Err(broken.unwrap_or(e)),
    };
    if keep {
        tell(&Notice::Kept);
        let _ = interrupts.recv();
    }
    drop(stage);
    if ending == Ending::Interrupted {
        return Err(Error::Interrupted);
    }
    match broken {
        Some(e) => Err(e),
        None => Ok(Outcome { dir: dir.path().to_path_buf(), result, recordings }),
    }
}

/// A run between t = 0 and its end.
struct Play<'a> {
    experiment: &'a Experiment,
    plan: &'a Plan,
    stage: &'a mut Stage,
    dir: &'a mut RunDir,
    line: Timeline,
    script: Script,
    observer: Observer,
    captures: Captures,
    programs: Programs,
    asked: RealInstant,
    seed: u64,
}

impl Play<'_> {
    fn until_the_end(&mut self, interrupts: &Receiver<i32>, tell: &mut dyn FnMut(&Notice)) -> Result<Ending> {
        let exits = self.stage.exits().clone();
        let usable = self.stage.conditions.usable;
        self.event("zero", None, serde_json::json!({ "usable_fraction_of_core": usable, "seed": self.seed }));
        for refused in self.stage.conditions.not_applied.clone() {
            self.event("kernel-setting-refused", None, serde_json::json!(refused.to_string()));
        }
        let mut next_sample = VirtualInstant::ZERO + SAMPLE;
        let mut told = RealInstant::ZERO;
        let mut all_ready = false;
        loop {
            let now = self.line.now();
            if let Some(ending) = self.act(now)? {
                self.look_at_programs();
                return Ok(ending);
            }
            if self.look_for_readiness() {
                continue;
            }
            if !all_ready && self.script.all_ready() {
                all_ready = true;
                let since = host::now().since(self.asked).as_secs_f64();
                self.look_at_programs();
                self.event("all-ready", None, serde_json::json!({ "real_s_since_command": since }));
            }
            if now >= next_sample {
                self.captures.check()?;
                self.observer.sample(self.stage, self.plan)?;
                self.look_at_programs();
                while next_sample <= now {
                    next_sample = next_sample + SAMPLE;
                }
            }
            let real = host::now();
            if real.since(told) >= TICK.into() {
                told = real;
                tell(&Notice::Tick(self.tick(now)));
            }
            let mut wait = self.line.wait_until(self.script.next_deadline().min(next_sample)).min(TICK);
            if !self.script.awaiting_readiness().is_empty() {
                wait = wait.min(READINESS);
            }
            select! {
                recv(exits) -> exit => match exit {
                    Ok(exit) => self.exited(exit),
                    Err(_) => return Err(Error::Failed("the enclosure of the run ended, and all nodes with it".into())),
                },
                recv(interrupts) -> _ => return Ok(Ending::Interrupted),
                default(wait) => {}
            }
        }
    }

    /// Does what the script says is due.
    fn act(&mut self, now: VirtualInstant) -> Result<Option<Ending>> {
        let mut starts = Vec::new();
        let mut ending = None;
        let actions = self.script.advance(now);
        // First, because the others take their time.
        self.change_links(&actions)?;
        for action in actions {
            match action {
                Action::Start(node) => starts.push(node),
                Action::Restart(node) => {
                    self.stage.cast.create_again(node, self.dir)?;
                    starts.push(node);
                }
                Action::Terminate(node) => {
                    self.event("stop", Some(node), serde_json::Value::Null);
                    self.stage.cast.with(node, |n| n.terminate())?;
                }
                Action::Kill(node) => {
                    self.event("kill", Some(node), serde_json::Value::Null);
                    self.stage.cast.with(node, |n| n.signal(libc::SIGKILL))?;
                }
                Action::Nothing(node, what) => self.event("no-effect", Some(node), serde_json::json!({ "do": what })),
                Action::Link(_) => {}
                Action::End(how) => ending = Some(how),
            }
        }
        if !starts.is_empty() {
            for node in &starts {
                self.event("start", Some(*node), serde_json::Value::Null);
            }
            self.stage.cast.start(&starts)?;
        }
        Ok(ending)
    }

    /// Changes all links that are to be changed, at one instant.
    fn change_links(&mut self, actions: &[Action]) -> Result<()> {
        let mut changed = Vec::new();
        for action in actions {
            let Action::Link(event) = action else { continue };
            let EventAction::Link { link, change } = &self.experiment.events[*event].action else { continue };
            changed.push((&self.experiment.links[*link].name, self.plan.harness_changes(change)));
        }
        let of_pipes =
            changed.iter().flat_map(|(name, both)| self.plan.pipe_ids_of(name).into_iter().zip(both.clone()));
        let of_pipes: Vec<_> = of_pipes.filter(|(_, change)| *change != PipeChange::default()).collect();
        if !of_pipes.is_empty() {
            self.stage.emulator.set(of_pipes)?;
        }
        for (name, [ab, ba]) in changed {
            let mut detail = serde_json::json!({ "link": name, "harness": format!("{ab:?}") });
            if ab != ba {
                detail["harness"] = serde_json::json!({ "ab": format!("{ab:?}"), "ba": format!("{ba:?}") });
            }
            self.record("link", Some(name.clone()), detail);
        }
        Ok(())
    }

    /// Whether a node has become ready just now.
    fn look_for_readiness(&mut self) -> bool {
        let mut any = false;
        for node in self.script.awaiting_readiness() {
            let Some(Ready::Tcp(port)) = self.experiment.nodes[node].ready else { continue };
            if self.stage.cast.with(node, |n| n.listening(port)) {
                self.script.ready(node);
                self.event("ready", Some(node), serde_json::json!({ "tcp": port }));
                any = true;
            }
        }
        any
    }

    fn exited(&mut self, exit: node::Exit) {
        let Some(node) = self.stage.cast.node_of(exit.pid) else { return };
        self.script.exited(node, exit_of(exit.status));
        self.event("exit", Some(node), serde_json::json!({ "status": exit.status.to_string() }));
    }

    /// What a node runs may change; a look that fails is made up for by the next.
    fn look_at_programs(&mut self) {
        let _ = self.programs.look(self.stage.enclosure.proc(), &self.stage.own_programs);
    }

    fn tick(&self, now: VirtualInstant) -> Tick {
        let limit = self.experiment.ends.limit;
        let measured = self.experiment.measure.map(|(_, to)| to).filter(|to| *to > now);
        let expected_end = measured.unwrap_or(limit).min(limit);
        let running = (0..self.stage.cast.len()).filter(|n| self.script.is_running(*n)).count();
        Tick {
            virtual_now: now,
            real: host::now().since(self.line.zero),
            expected_end,
            real_left: self.line.until(expected_end),
            running: (running, self.stage.cast.len()),
        }
    }

    fn event(&mut self, event: &str, node: Option<NodeIndex>, detail: serde_json::Value) {
        let target = node.map(|n| self.experiment.nodes[n].name.clone());
        self.record(event, target, detail);
    }

    fn record(&mut self, event: &str, target: Option<String>, detail: serde_json::Value) {
        self.dir.record(self.line, host::now(), event, target, detail);
    }
}

/// Records how many programs were dilated, and how many were kept from running because they could not be.
fn tell_injections(dir: &mut RunDir, line: Timeline, end: RealInstant, counters: clock::InjectorCounters) {
    let detail = serde_json::json!({ "programs_dilated": counters.injected, "programs_refused": counters.refused });
    dir.record(line, end, "end", None, detail);
}

/// Records what the captures hold.
fn tell_recordings(dir: &mut RunDir, line: Timeline, end: RealInstant, recordings: &[Recording]) {
    for Recording { link, file, frames, missed } in recordings {
        let detail = serde_json::json!({ "file": file, "frames": frames, "missed": missed });
        dir.record(line, end, "capture", Some(link.clone()), detail);
    }
}

/// Asks what still runs to end, as the shutdown of a machine does, and waits a little: for `grace`, or until an interrupt.
fn farewell(stage: &Stage, script: &mut Script, experiment: &Experiment, grace: Duration, interrupts: &Receiver<i32>) {
    let running: Vec<_> = (0..experiment.nodes.len()).filter(|n| script.is_running(*n)).collect();
    for node in &running {
        let _ = stage.cast.with(*node, |n| n.terminate());
    }
    let end = Instant::now() + grace;
    for node in running {
        let status = loop {
            let left = match interrupts.is_empty() {
                true => end.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            let status = stage.cast.with(node, |n| n.wait(Some(left.min(GLANCE))));
            if status.is_some() || left.is_zero() {
                break status;
            }
        };
        script.stopped(node, status.map(exit_of));
    }
}

fn script_of(experiment: &Experiment) -> Script {
    let parts = experiment.nodes.iter().enumerate().map(|(index, n)| Part {
        after: n.after.clone(),
        awaited: experiment.ends.exited.contains(&index),
        has_ready: n.ready.is_some(),
    });
    let cues = experiment.events.iter().enumerate().map(|(index, event)| {
        let cue = match &event.action {
            EventAction::Link { .. } => Cue::Link(index),
            EventAction::Node { node, act: NodeAction::Kill } => Cue::Kill(*node),
            EventAction::Node { node, act: NodeAction::Stop } => Cue::Stop(*node),
            EventAction::Node { node, act: NodeAction::Start } => Cue::Start(*node),
        };
        (event.at, cue)
    });
    Script::new(parts.collect(), cues.collect(), experiment.ends.limit)
}
