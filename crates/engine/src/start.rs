//! A run on this machine: its registration, its directory, its site, and what is left when it is over.

use std::any::Any;
use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, unbounded};
use host::warn;
use machine::{
    CoreLocks, Files, LiveRun, LocalSite, Place, Progress, Registration, Requests, RunRequest, Visitors,
    with_live_directories,
};
use model::Experiment;
use plan::Plan;
use record::{Accuracy, RunDir, RunResult, Variant};
use run::confirm::Seconds;
use run::{Answer, Asked, Desk, Notice, Outcome, Reception, Suspension, Wish};
use site::{CoreChoice, Error, Opening, Result, SharedDir, Site, Suspended};

use crate::far::{Far, Way};

/// A run that is to be made, and where its results go.
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
    /// The user's choice of cores, for when the run is suspended and goes on.
    pub choice: CoreChoice,
    /// The suspended run with which this one goes on.
    pub earlier: Option<(Suspended, Files)>,
}

/// The directory for the repetitions of a run, chosen as that of a single run is.
pub fn claim_directory(out: Option<&Path>, name: &str, variant: Variant) -> Result<PathBuf> {
    Ok(with_live_directories(|live| Ok(record::claim(out, name, variant, live)?))?)
}

/// The runs that could confirm one of an experiment's scaled variant by `first`, on the same cores.
///
/// # Errors
///
/// Where neither can be planned: why the first cannot.
pub fn seconds(experiment: &Experiment, first: &Plan) -> Result<Seconds> {
    let supply = machine::supply_of_plan(&first.cores);
    let plan = |tdf| Ok(machine::plan_on(&supply, experiment, Variant::Scaled, Some(tdf))?);
    Seconds::of(first.tdf, plan)
}

/// Runs an experiment on this machine, to its end. Whatever happens, nothing of it is left when this returns, and its
/// directory says what did.
pub fn run(request: Request, interrupts: &Receiver<i32>, tell: &mut dyn FnMut(&Notice)) -> Result<Outcome> {
    run_through(request, interrupts, tell, |site| Box::new(site))
}

/// Runs an experiment as [`run()`] does, where the run does not ask this machine's site itself but what `reach` makes
/// of it, such as a connection.
pub fn run_through(
    request: Request,
    interrupts: &Receiver<i32>,
    tell: &mut dyn FnMut(&Notice),
    reach: impl FnOnce(LocalSite) -> Box<dyn Site>,
) -> Result<Outcome> {
    on_site(request, interrupts, tell, true, |place| Ok((reach(LocalSite::new(place)), Box::new(()))))
}

/// Runs an experiment as [`run()`] does, where the site is at the other end of the stream that a command gives. That is
/// this machine, too: see [`Far::must_be_here`].
///
/// # Errors
///
/// As of [`run()`], and if the site cannot be reached, or is elsewhere.
pub fn run_at(
    way: &Way,
    release: &str,
    request: Request,
    interrupts: &Receiver<i32>,
    tell: &mut dyn FnMut(&Notice),
) -> Result<Outcome> {
    let mut far = Far::reach(way, release)?;
    far.must_be_here()?;
    let cores = request.plan.cores.clone();
    // The nodes' cores are not for this process: its site's keeps off them itself.
    let own = host::cores::restrict(cores.engine());
    own.map_err(|e| Error::failed(format_args!("{}: {e}", host::cores::named(cores.engine()))))?;
    on_site(request, interrupts, tell, false, |place| {
        let (folder, results) = (SharedDir::of(&place.folder)?, SharedDir::of(place.results.path())?);
        let (site, far) = far.open(Opening { cores: cores.all(), folder, results })?;
        Ok((site, Box::new((far, place.registration))))
    })
}

/// Whatever a run's site needs, until it has been taken down.
type Held = Box<dyn Any>;

fn on_site(
    request: Request,
    interrupts: &Receiver<i32>,
    tell: &mut dyn FnMut(&Notice),
    may_be_suspended: bool,
    reach: impl FnOnce(Place) -> Result<(Box<dyn Site>, Held)>,
) -> Result<Outcome> {
    let Request { experiment, plan, cores, out, seed, accuracy, keep, choice, earlier } = request;
    let (earlier, files) = earlier.unzip();
    let registration = Registration::with(cores, files.clone())?;
    let (dir, live) = place(&registration, experiment, &plan, out.as_deref())?;
    let nodes = experiment.nodes.iter().map(|node| node.name.clone()).collect();
    let mut desk = desk(&registration, earlier.as_ref(), live, nodes, may_be_suspended)?;
    let unmeasured = run::unmeasured(experiment, &plan);
    let place = Place { registration, folder: experiment.dir.clone(), results: dir.clone() };
    let (last, none) = (dir.clone(), unmeasured.clone());
    machine::setting_up(move || {
        let why = Some("the run was interrupted while it was set up".into());
        drop(last.write_result(&RunResult { why, ..none }));
    });
    let mut progress = place.registration.progress_file();
    let mut tell = move |notice: &Notice| {
        if let Some(now) = where_it_is(notice) {
            progress.write(&now);
        }
        // Its clock goes, and it looks for interrupts from now on.
        if matches!(notice, Notice::Tick(_)) {
            machine::set_up();
        }
        tell(notice);
    };
    let request = run::Request { experiment, plan, seed, accuracy, keep, choice, earlier };
    let (outcome, torn_down) = match reach(place) {
        Ok((mut site, held)) => {
            let outcome = run::conduct(&mut *site, request, &dir, &mut desk, interrupts, &mut tell);
            // Also if the run has failed, whose reason is then the one that counts.
            let torn_down = site.tear_down();
            drop((site, held));
            (outcome.map_err(Error::from), torn_down)
        }
        Err(e) => (Err(e), Ok(())),
    };
    let suspended = desk.settle(torn_down.as_ref().err());
    let outcome = outcome.and_then(|outcome| torn_down.map(|()| Outcome { suspended: suspended.clone(), ..outcome }));
    settle_files(files, outcome.is_ok(), suspended.as_ref())?;
    if let Err(e) = &outcome
        && !dir.has_result()
    {
        // If this fails too, the error itself is reported all the same.
        let _ = dir.write_result(&RunResult { why: Some(e.to_string()), ..unmeasured });
    }
    outcome
}

/// A notice as who watches the run gets it.
fn where_it_is(notice: &Notice) -> Option<Progress> {
    match notice {
        Notice::Step(step) => Some(Progress { step: Some(step.clone()), ..Progress::default() }),
        Notice::Tick(tick) => Some(Progress {
            step: None,
            virtual_s: Some(tick.virtual_now.as_secs_f64()),
            end_s: tick.expected_end.map(|(end, _)| end.as_secs_f64()),
            left_real_s: tick.expected_end.map(|(_, left)| left.as_secs_f64()),
            running: Some(tick.running.0),
        }),
        Notice::Kept => Some(Progress { step: Some("its nodes are kept".into()), ..Progress::default() }),
    }
}

/// Chooses the directory of a run, and makes the run known by it.
fn place(
    registration: &Registration,
    experiment: &Experiment,
    plan: &Plan,
    out: Option<&Path>,
) -> Result<(RunDir, LiveRun)> {
    let placed = with_live_directories(|live| {
        let path = record::claim(out, &experiment.name, plan.variant, live)?;
        let dir = RunDir::prepare(path, experiment.nodes.iter().map(|n| n.name.as_str()))?;
        let live = LiveRun {
            id: registration.id.clone(),
            name: experiment.name.clone(),
            variant: plan.variant.as_str().into(),
            out: dir.path().to_path_buf(),
            pid: std::process::id(),
            cores: plan.cores.all(),
            images: plan::images(experiment),
        };
        registration.publish(&live)?;
        Ok((dir, live))
    })?;
    Ok(placed)
}

/// The desk of a run, at which `diorama event`, `swap out`, `exec` and `image save` ask.
fn desk(
    registration: &Registration,
    earlier: Option<&Suspended>,
    live: LiveRun,
    nodes: Vec<String>,
    may_be_suspended: bool,
) -> Result<Desk> {
    let (tell, asked) = unbounded();
    let pass_on = move |request: machine::Request<RunRequest>| {
        let wish = match &request.what {
            RunRequest::Event(event) => Wish::Event(event.clone()),
            RunRequest::SwapOut if may_be_suspended => Wish::Suspend,
            RunRequest::SwapOut => {
                let what = "a run over a harness cannot be suspended yet: its files belong to the site";
                return request.answer(Err(Error::failed(what)));
            }
        };
        let answer = Box::new(move |outcome: Result<Answer>| match outcome {
            Ok(Answer::Happened(at)) => request.answer(Ok(at)),
            Ok(Answer::Suspended(Suspension { id, at })) => request.answer_suspended(id, at),
            Err(e) => request.answer(Err(e)),
        });
        // Of a run that is over, nobody hears it, and the connection ends.
        drop(tell.send(Asked { wish, answer }));
    };
    let socket = registration.event_socket();
    let listen = Requests::listen(&socket, pass_on);
    let listener = listen.map_err(|e| Error::failed(format_args!("{}: {e}", socket.display())))?;
    // One that goes on with another keeps its identity.
    let id = earlier.map_or(&registration.id, |earlier| &earlier.id).clone();
    let door = registration.control_socket();
    let reception: Reception = Box::new(move |visits| {
        let failed = |e| Error::failed(format_args!("{}: {e}", door.display()));
        Ok(Box::new(Visitors::receive(&door, live, nodes, visits).map_err(failed)?))
    });
    Ok(Desk::new(id, registration.idle_file(), asked, listener, reception))
}

/// Removes the files that a run went on with, if it has come to its end; if it failed, they stay.
fn settle_files(files: Option<Files>, ended_well: bool, suspended: Option<&Suspension>) -> Result<()> {
    match files {
        Some(files) if ended_well && suspended.is_none() => Ok(files.remove()?),
        Some(_) if suspended.is_none() => {
            warn("the files of the run that was to go on stay as they are now");
            Ok(())
        }
        _ => Ok(()),
    }
}
