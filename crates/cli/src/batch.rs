//! `diorama batch`: a queue of runs, and whoever makes them.

use std::collections::HashSet;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::{Interrupts, Rights, starts_as_root};
use queue::{Job, Queue, State, Wanted, Worked, ask_to_end};
use serde_json::json;

use crate::failure::Failure;
use crate::terminal;

/// Where the queue is that nobody names.
const QUEUE: &str = "/var/lib/diorama/queue.db";
/// How often is looked for work, where nothing is there to be done, and how often whether somebody has done his.
const LOOK: Duration = Duration::from_millis(200);
/// How often whether runs were cut that others had begun.
const LOOK_FOR_CUT: Duration = Duration::from_secs(2);
/// How much is looked at of what a run wrote, from its end, in bytes.
const LOG: u64 = 1 << 20;
/// The exit code of a worker for whom nothing waits: none that a run has.
const NOTHING: u8 = 10;

/// Arguments of `diorama batch`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Add a run to the queue
    Add(Add),
    /// Print all jobs
    List(List),
    /// Print a job, and the end of what its run wrote
    Show(Show),
    /// Take back a job: one that waits at once, one that runs by asking its run to end
    Cancel(Which),
    /// Make the runs that wait, until none does
    Run(Run),
    /// Make one run, as `batch run` has it done
    #[command(hide = true)]
    Work(Place),
}

#[derive(clap::Args, Debug)]
struct Place {
    /// The queue
    #[arg(long, value_name = "FILE", default_value = QUEUE)]
    queue: PathBuf,
}

impl Place {
    /// Opens the queue, and gives this thread the rights of who called for as long as it is used: where it is his, he
    /// can put anything in the place of it and of its logs.
    fn open(&self) -> Result<(Option<Rights>, Queue), Failure> {
        if self.queue == Path::new(QUEUE) {
            engine::make_state_directory()?;
        }
        let rights = Rights::of_caller(&self.queue);
        let opened =
            Queue::open(&self.queue).and_then(|queue| queue.each(|_| Ok::<_, queue::Error>(())).map(|()| queue));
        match opened {
            // One that somebody has named may be any file of his.
            Err(queue::Error::Damaged { file, what }) if file == Path::new(QUEUE) => {
                engine::set_apart(&file, &what);
                // It would be played back into the next one.
                let journal = PathBuf::from(format!("{QUEUE}-journal"));
                if journal.exists() {
                    engine::set_apart(&journal, "its queue is");
                }
                Ok((rights, Queue::open(&self.queue)?))
            }
            opened => Ok((rights, opened?)),
        }
    }
}

#[derive(clap::Args, Debug)]
struct Add {
    #[command(flatten)]
    place: Place,
    /// Jobs of higher priority go first
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    priority: i64,
    /// Where the results go [default: runs/batch/JOB]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The experiment, and options of `diorama run` for it
    #[arg(value_name = "EXPERIMENT [OPTION]…", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

#[derive(clap::Args, Debug)]
struct List {
    #[command(flatten)]
    place: Place,
    /// For a program
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct Which {
    #[command(flatten)]
    place: Place,
    /// Its number
    job: i64,
}

#[derive(clap::Args, Debug)]
struct Show {
    #[command(flatten)]
    which: Which,
    /// How many lines of its log
    #[arg(long, value_name = "N", default_value_t = 20)]
    lines: usize,
}

#[derive(clap::Args, Debug)]
struct Run {
    #[command(flatten)]
    place: Place,
    /// How many at once; those that find no cores wait for them [default: half of the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    at_once: Option<u32>,
    /// Go on waiting for jobs when none is left
    #[arg(long)]
    stay: bool,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Add(add) => added(&add),
        What::List(list) => listed(&list),
        What::Show(show) => shown(&show),
        What::Cancel(which) => {
            let (_rights, mut queue) = which.place.open()?;
            let was = queue.cancel(which.job)?;
            let says = if was.state == State::Running { "is asked to end" } else { "is cancelled" };
            terminal::print(format_args!("job {} {says}\n", which.job))?;
            Ok(ExitCode::SUCCESS)
        }
        What::Run(run) => made(&run),
        What::Work(place) => worked(&place),
    }
}

fn here() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|e| Failure::input(format!("the current directory cannot be named: {e}")))
}

fn added(add: &Add) -> Result<ExitCode, Failure> {
    let dir = here()?;
    crate::run::check_later(&add.words)?;
    let job = Wanted { dir: dir.clone(), words: add.words.clone(), priority: add.priority };
    let out = |id: i64, _: &Wanted| dir.join(add.out.clone().unwrap_or_else(|| format!("runs/batch/{id}").into()));
    let (_rights, mut queue) = add.place.open()?;
    let ids = queue.add([job], out)?;
    ids.iter().try_for_each(|id| terminal::print(format_args!("{id}\n")))?;
    Ok(ExitCode::SUCCESS)
}

fn listed(list: &List) -> Result<ExitCode, Failure> {
    let (_rights, queue) = list.place.open()?;
    if list.json {
        let mut before = "[";
        queue.each(|job| {
            let text = format!("{:#}", as_json(&job)).replace('\n', "\n  ");
            terminal::print(format_args!("{}\n  {text}", std::mem::replace(&mut before, ",")))
        })?;
        terminal::print(if before == "[" { "[]\n" } else { "\n]\n" })?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = format_args!("{:>5}  {:<9}  {:>8}  {:>5}  {:>8}  run\n", "job", "state", "priority", "tries", "took");
    terminal::print(head)?;
    queue.each(|job| {
        let took = took(&job).map_or(String::new(), |s| format!("{s} s"));
        let Job { id, state, tries, wanted, .. } = &job;
        let words = wanted.words.join(" ");
        terminal::print(format_args!("{id:>5}  {state:<9}  {:>8}  {tries:>5}  {took:>8}  {words}\n", wanted.priority))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Seconds from the beginning of its last try to the end, or until now.
fn took(job: &Job) -> Option<i64> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    match job.state {
        State::Waiting => None,
        State::Running => Some(now() - job.times.begun?),
        _ => Some(job.times.over? - job.times.begun?),
    }
}

fn as_json(job: &Job) -> serde_json::Value {
    json!({
        "job": job.id,
        "state": job.state.name(),
        "priority": job.wanted.priority,
        "tries": job.tries,
        "code": job.code,
        "why": job.why,
        "dir": job.wanted.dir,
        "words": job.wanted.words,
        "out": job.out(),
        "added": job.times.added,
        "begun": job.times.begun,
        "over": job.times.over,
    })
}

fn shown(show: &Show) -> Result<ExitCode, Failure> {
    let (_rights, queue) = show.which.place.open()?;
    let job = queue.job(show.which.job)?;
    let mut text = format!(
        "job {}: {}{}\n  diorama run {}\n  in {}\n  results: {}\n  priority {}, begun {} times\n",
        job.id,
        job.state,
        job.why.as_ref().map_or(String::new(), |why| format!(", {why}")),
        job.wanted.words.join(" "),
        job.wanted.dir.display(),
        job.out().display(),
        job.wanted.priority,
        job.tries,
    );
    // One that has not begun has none.
    let log = queue.end_of_log(job.id, LOG).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    for line in &lines[lines.len().saturating_sub(show.lines)..] {
        text += &format!("  | {line}\n");
    }
    terminal::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Starts workers, each of which makes one run: what becomes of this process is nothing to the runs that it has begun.
fn made(run: &Run) -> Result<ExitCode, Failure> {
    let interrupts = terminal::interrupts()?;
    let (_rights, mut queue) = run.place.open()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once = run.at_once.map_or((cores / 2).max(1), |n| n as usize);
    let (mut workers, mut failed): (Vec<Child>, bool) = (Vec::new(), false);
    let mut told = HashSet::new();
    queue.each(|job| {
        told.extend(job.state.is_over().then_some(job.id));
        Ok::<_, Failure>(())
    })?;
    let mut looked_for_cut: Option<Instant> = None;
    loop {
        // Jobs that another runner had begun that was killed, or a worker of this one.
        if looked_for_cut.is_none_or(|at| at.elapsed() >= LOOK_FOR_CUT) {
            queue.find_cut()?;
            looked_for_cut = Some(Instant::now());
        }
        let mut idle = false;
        workers.retain_mut(|worker| match worker.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                idle |= status.code() == Some(NOTHING.into());
                false
            }
            Err(_) => false,
        });
        queue.each(|job| {
            if job.state.is_over() && told.insert(job.id) {
                failed |= job.state == State::Failed;
                let why = job.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
                terminal::say(format_args!("job {} is {}{why} ({})", job.id, job.state, job.out().display()));
            }
            Ok::<_, Failure>(())
        })?;
        if !interrupts.is_empty() {
            workers.iter().for_each(ask_to_end);
            workers.iter_mut().for_each(|worker| drop(worker.wait()));
            return Err(engine::Error::interrupted().into());
        }
        let waiting = queue.count(|state| state == State::Waiting)?;
        if workers.len() < at_once && waiting > 0 && !idle {
            workers.push(worker(&run.place.queue)?);
            continue;
        }
        if workers.is_empty() && waiting == 0 && !run.stay {
            // A job that has just been cut waits again.
            queue.find_cut()?;
            if queue.count(|state| state == State::Waiting)? > 0 {
                continue;
            }
            return Ok(ExitCode::from(u8::from(failed)));
        }
        std::thread::sleep(LOOK);
    }
}

fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|e| Failure::failed(format!("this program cannot be found again: {e}")))
}

fn worker(queue: &Path) -> Result<Child, Failure> {
    let mut command = Command::new(this_program()?);
    // The terminal's Ctrl-C is for who waits for it, which asks it to end.
    command.args(["batch", "work", "--queue"]).arg(queue).process_group(0);
    starts_as_root(&mut command);
    command.spawn().map_err(|e| Failure::failed(format!("no worker can be started: {e}")))
}

fn worked(place: &Place) -> Result<ExitCode, Failure> {
    let interrupts = terminal::interrupts()?;
    let (_rights, mut queue) = place.open()?;
    let worked = make_one(&mut queue, &interrupts)?;
    Ok(ExitCode::from(if worked == Worked::Nothing { NOTHING } else { 0 }))
}

/// Makes all runs that wait in a queue, and waits for those that somebody else makes; whether all are over, for an
/// interruption ends it before.
pub fn make_all(
    queue: &mut Queue,
    interrupts: &Interrupts,
    mut over: impl FnMut(&Queue, &Job) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    while interrupts.is_empty() {
        match make_one(queue, interrupts)? {
            Worked::Over(job) => over(queue, &job)?,
            Worked::Again(_) => (),
            Worked::Nothing if queue.count(|state| !state.is_over())? == 0 => return Ok(true),
            // Whoever else works on it makes the last.
            Worked::Nothing => std::thread::sleep(LOOK),
        }
    }
    Ok(false)
}

/// Makes the next run that waits in a queue.
fn make_one(queue: &mut Queue, interrupts: &Interrupts) -> Result<Worked, Failure> {
    let program = this_program()?;
    let run = |job: &Job| {
        let mut command = Command::new(&program);
        let words = job.wanted.words.iter().filter(|word| *word != "--wait");
        command.arg("run").args(words).arg("--wait").arg("--out").arg(job.out()).process_group(0);
        starts_as_root(&mut command);
        command
    };
    Ok(queue.work(run, || !interrupts.is_empty())?)
}
