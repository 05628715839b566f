//! `diorama sweep`: an experiment over values of its parameters.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::Rights;
use queue::{Axis, Job, Point, Queue, State, Sweep, Wanted};
use record::RunDir;
use report::{SweepRun, Swept};

use crate::batch::make_all;
use crate::failure::Failure;
use crate::terminal;

/// The queue of a sweep, in its directory.
const QUEUE: &str = "queue.db";

/// Arguments of `diorama sweep`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The experiment: its folder, its YAML file, or its ns script
    experiment: PathBuf,
    /// A place of the experiment's file, as --set names it, and the values that it has in turn, such as
    /// `machines.server.speed=0.1,0.2`; also `variant=baseline,scaled`. Given several times: all combinations
    #[arg(long, value_name = "PATH=VALUE,…", required = true)]
    over: Vec<Axis>,
    /// How often each point is run, with seeds counted on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Where the results go: new, empty, or a sweep of the same to go on with [default: runs/NAME/sweep]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Options of `diorama run` for all runs, after `--`, such as `-- --tdf 10`
    #[arg(last = true, value_name = "OPTION")]
    words: Vec<String>,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let interrupts = terminal::interrupts()?;
    let experiment = std::path::absolute(&args.experiment).map_err(Failure::input)?;
    let sweep = Sweep { experiment, over: args.over, repeat: args.repeat, words: args.words };
    let points = sweep.points()?;
    // All of them now: nobody wants to hear of the last one's mistake after hours.
    let mut name = String::new();
    for point in points.iter().filter(|point| point.repetition == 1) {
        if !interrupts.is_empty() {
            return Err(engine::Error::interrupted().into());
        }
        name = crate::run::check_later(&words(&sweep, point))
            .map_err(|e| Failure { message: format!("{}: {}", told(point), e.message), ..e })?
            .name;
    }
    let (out, _rights, mut queue) = queue_in(args.out, &name, "sweep", &sweep)?;
    let dir = std::env::current_dir().map_err(Failure::input)?;
    if queue.count(|_| true)? == 0 {
        let job = |point: &Point| Wanted { dir: dir.clone(), words: words(&sweep, point), priority: 0 };
        // Numbers are given from 1 on, in this order.
        queue.add(points.iter().map(job), |id, _| out.join(&points[id as usize - 1].place))?;
    }
    queue.retry()?;
    let over = |queue: &Queue, job: &Job| {
        let point = &points[job.id as usize - 1];
        let (done, of) = (queue.count(State::is_over)?, points.len());
        let state = match job.state {
            State::Done => "done".into(),
            state => format!("{state}; {} says why", queue.log(job.id).display()),
        };
        terminal::say(format_args!("{name} sweep: {done} of {of}: {}: {state}", told(point)));
        Ok(())
    };
    if !make_all(&mut queue, &interrupts, over)? {
        written(&name, &out, &points, &queue)?;
        engine::warn("the sweep is interrupted; the same command goes on with it");
        return Err(engine::Error::interrupted().into());
    }
    let swept = written(&name, &out, &points, &queue)?;
    terminal::print(format_args!("{}\n", swept.table()))?;
    terminal::print(format_args!("results: {}\n", out.display()))?;
    let failed = queue.count(|state| state != State::Done)? > 0;
    Ok(ExitCode::from(u8::from(failed)))
}

/// Opens the queue of a sweep in its directory, `runs/NAME/KIND` where nobody wants another, and begins it there if
/// that is new or empty. Uses the caller's rights for a directory that he can change.
pub fn queue_in(
    out: Option<PathBuf>,
    name: &str,
    kind: &str,
    sweep: &Sweep,
) -> Result<(PathBuf, Option<Rights>, Queue), Failure> {
    let out = out.unwrap_or_else(|| Path::new("runs").join(name).join(kind));
    let out = std::path::absolute(out).map_err(Failure::input)?;
    let rights = Rights::of_caller(&out);
    if !sweep.is_in(&out)? {
        sweep.begin(&out)?;
    }
    let queue = Queue::open(&out.join(QUEUE))?;
    Ok((out, rights, queue))
}

/// The run of a job, of which there may be no result: it was cut, or has that of an earlier try.
pub fn run_of(out: &Path, job: &Job, settings: Vec<(String, String)>, repetition: u32) -> SweepRun {
    let place = job.out();
    let shown = place.strip_prefix(out).unwrap_or(&place).display().to_string();
    SweepRun { settings, repetition, place: shown, result: RunDir::at(&place).result().ok() }
}

/// A point in words, for messages.
fn told(point: &Point) -> String {
    let settings: Vec<String> = point.settings.iter().map(|(path, value)| format!("{path}={value}")).collect();
    let settings = settings.join(" ");
    if point.repetition > 1 { format!("{settings} ({})", point.repetition) } else { settings }
}

/// The words of `diorama run` for a point.
pub fn words(sweep: &Sweep, point: &Point) -> Vec<String> {
    let mut words = vec![sweep.experiment.to_string_lossy().into_owned()];
    for (path, value) in &point.settings {
        words.extend(match path.as_str() {
            "variant" | "tdf" | "seed" => [format!("--{path}"), value.clone()],
            _ => ["--set".to_owned(), format!("{path}={value}")],
        });
    }
    words.extend(sweep.words.iter().cloned());
    if !words.iter().any(|word| word == "--seed" || word.starts_with("--seed=")) {
        words.extend(["--seed".to_owned(), point.repetition.to_string()]);
    }
    words
}

/// Writes what has come of it so far: a table, a page, and a file for notebooks.
fn written(name: &str, out: &Path, points: &[Point], queue: &Queue) -> Result<Swept, Failure> {
    let jobs = queue.jobs()?;
    let runs = points.iter().zip(&jobs).map(|(point, job)| run_of(out, job, point.settings.clone(), point.repetition));
    let swept = Swept { name: name.to_owned(), runs: runs.collect() };
    for (file, text) in [("table.md", swept.table()), ("sweep.csv", swept.csv()), ("sweep.html", swept.page())] {
        let path = out.join(file);
        engine::write_file(&path, text.as_bytes()).map_err(Failure::cannot_write(&path))?;
    }
    Ok(swept)
}
