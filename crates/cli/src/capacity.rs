//! `diorama capacity`: how large an experiment may become on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::Interrupts;
use queue::{Bound, Job, Next, Queue, Range, State, Sweep, Wanted, majority};
use record::{RunResult, Status, Verdict};
use report::{Capacity, Hold, SweepRun, Swept, Tried, largest_effect, resource};

use crate::batch::make_all;
use crate::failure::Failure;
use crate::sweep::{queue_in, run_of, words};
use crate::terminal;

/// Arguments of `diorama capacity`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The experiment: its folder, its YAML file, or its ns script
    experiment: PathBuf,
    /// A place of the experiment's file, as --set names it, and the whole numbers among which the largest is looked
    /// for, such as `nodes.client.count=10..1000`. With `tdf=1..50` the smallest TDF
    #[arg(long, value_name = "PATH=FROM..TO")]
    vary: Range,
    /// A metric that must stay within so much of what it is at FROM, in place of a trustworthy run: `latency.p90=5%`.
    /// Given several times: all of them
    #[arg(long, value_name = "METRIC[.STATISTIC]=N%")]
    hold: Vec<Hold>,
    /// The TDF of all runs [default: the experiment's]
    #[arg(long, value_name = "N")]
    at_tdf: Option<String>,
    /// How often each value is run at most; most of them decide
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// How far from one another the last value that holds and the first that does not may be, in per cent of it
    #[arg(long, value_name = "N%", default_value = "5%", value_parser = parse_precision)]
    precision: f64,
    /// Where the results go: new, empty, or a search for the same to go on with [default: runs/NAME/capacity]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Options of `diorama run` for all runs, after `--`, such as `-- --variant naive`
    #[arg(last = true, value_name = "OPTION")]
    words: Vec<String>,
}

/// Reads `5%` as 0.05.
fn parse_precision(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|bound: &report::Bound| bound.statistic.is_none()).map(|b| b.percent);
    percent
        .filter(|percent| *percent < 100.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "write 5%; it has to be 0 or more, and less than 100".into())
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let interrupts = terminal::interrupts()?;
    if args.vary.holds_above() && !args.hold.is_empty() {
        let what = "--hold compares with the smallest value, which has the largest error if the TDF is varied";
        return Err(Failure::input(what));
    }
    let experiment = std::path::absolute(&args.experiment).map_err(Failure::input)?;
    let mut more = args.words;
    more.extend(args.at_tdf.iter().flat_map(|tdf| ["--tdf".to_owned(), tdf.clone()]));
    let (range, hold) = (args.vary, args.hold);
    // The runs of a search; another question may be asked of the same ones.
    let runs = Sweep { experiment, over: vec![axis(&range)], repeat: args.repeat, words: more };
    let first = crate::run::check_later(&of_value(&runs, &range, range.from, 1))
        .map_err(|e| Failure { message: format!("{}={}: {}", range.path, range.shown(range.from), e.message), ..e })?;
    let metrics = || first.metrics.iter().map(|metric| metric.name.as_str());
    hold.iter().try_for_each(|hold| hold.check(metrics())).map_err(Failure::input)?;
    let name = first.name.clone();
    let (out, _rights, queue) = queue_in(args.out, &name, "capacity", &runs)?;
    let mut search = Search { name, out, range, hold, runs, queue, refused: BTreeMap::new() };
    let found = loop {
        search.finish_jobs(&interrupts)?;
        let tried = search.tried()?;
        match search.range.next(&search.known(&tried), args.precision) {
            Next::Found(bound) => break search.write(&tried, Some(bound))?,
            Next::Try(value) => {
                search.write(&tried, None)?;
                search.begin(value, tried.get(&value).map_or(0, Vec::len))?;
            }
        }
    };
    terminal::print(format_args!("{}\n{}", found.answer(), found.table()))?;
    terminal::print(format_args!("results: {}\n", search.out.display()))?;
    let holds = found.bound[0].is_some();
    Ok(ExitCode::from(u8::from(!holds)))
}

/// The parameter as an axis of which nothing but the name and the ends is known.
fn axis(range: &Range) -> queue::Axis {
    queue::Axis { path: range.path.clone(), values: vec![range.shown(range.from), range.shown(range.to)] }
}

/// The words of `diorama run` for a repetition of a value.
fn of_value(runs: &Sweep, range: &Range, value: u64, repetition: u32) -> Vec<String> {
    let settings = vec![(range.path.clone(), range.shown(value))];
    words(runs, &queue::Point { settings, repetition, place: PathBuf::new() })
}

/// A run that was made.
struct Made {
    job: Job,
    run: SweepRun,
}

/// Runs of which is looked which come next.
struct Search {
    name: String,
    out: PathBuf,
    range: Range,
    hold: Vec<Hold>,
    runs: Sweep,
    queue: Queue,
    /// Values that cannot be planned, and why.
    refused: BTreeMap<u64, String>,
}

impl Search {
    /// Makes all runs that wait, or waits for whoever makes them.
    fn finish_jobs(&mut self, interrupts: &Interrupts) -> Result<(), Failure> {
        let (out, path, name) = (self.out.join("runs"), &self.range.path, &self.name);
        let over = |_: &Queue, job: &Job| {
            let place = job.place.strip_prefix(&out).unwrap_or(&job.place);
            terminal::say(format_args!("{name} capacity: {path}={}: {}", place.display(), job.state));
            Ok(())
        };
        if !make_all(&mut self.queue, interrupts, over)? {
            engine::warn("the search is interrupted; the same command goes on with it");
            return Err(engine::Error::interrupted().into());
        }
        match self.queue.jobs()?.iter().find(|job| job.state == State::Cancelled) {
            Some(job) => {
                Err(Failure::failed(format!("job {} of {} was cancelled", job.id, self.queue.file().display())))
            }
            None => Ok(()),
        }
    }

    /// Adds the next repetition of a value, or notes that there can be no run of it.
    fn begin(&mut self, value: u64, made: usize) -> Result<(), Failure> {
        let words = of_value(&self.runs, &self.range, value, made as u32 + 1);
        // Repetitions differ in the seed only.
        if made == 0
            && let Err(e) = crate::run::check_later(&words)
        {
            self.refused.insert(value, e.message);
            return Ok(());
        }
        let dir = std::env::current_dir().map_err(|e| Failure::input(e.to_string()))?;
        let place = self.out.join("runs").join(value.to_string()).join((made + 1).to_string());
        self.queue.add([Wanted { dir, words, priority: 0 }], |_, _| place.clone())?;
        Ok(())
    }

    /// Runs that were made, by value.
    fn tried(&self) -> Result<BTreeMap<u64, Vec<Made>>, Failure> {
        let mut tried: BTreeMap<u64, Vec<Made>> = BTreeMap::new();
        for job in self.queue.jobs()? {
            let value = job.place.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            let value = value.and_then(|name| name.parse().ok());
            let Some(value) = value else {
                let what = format!("{}: job {} is none of a search", self.queue.file().display(), job.id);
                return Err(Failure::input(what));
            };
            let settings = vec![(self.range.path.clone(), self.range.shown(value))];
            let of_value = tried.entry(value).or_default();
            let run = run_of(&self.out, &job, settings, of_value.len() as u32 + 1);
            of_value.push(Made { job, run });
        }
        Ok(tried)
    }

    /// Of values that are decided: whether it holds there.
    fn known(&self, tried: &BTreeMap<u64, Vec<Made>>) -> BTreeMap<u64, bool> {
        let references = self.references(tried);
        let decided = tried.iter().filter_map(|(value, made)| {
            let said: Vec<bool> = made.iter().map(|made| self.judge(made, &references).0).collect();
            Some((*value, majority(&said, self.runs.repeat)?))
        });
        decided.chain(self.refused.keys().map(|value| (*value, false))).collect()
    }

    /// Values of the metrics that are to be held at the smallest value: medians of its repetitions.
    fn references(&self, tried: &BTreeMap<u64, Vec<Made>>) -> Vec<Option<f64>> {
        let smallest = tried.get(&self.range.from).map_or(&[][..], Vec::as_slice);
        let median = |hold: &Hold| {
            let results = smallest.iter().filter_map(|made| made.run.result.as_ref());
            report::median(results.filter_map(|run| hold.value(run)).collect())
        };
        self.hold.iter().map(median).collect()
    }

    /// Whether it holds in a run, and a sentence on that.
    fn judge(&self, made: &Made, references: &[Option<f64>]) -> (bool, String) {
        let Some(run) = &made.run.result else {
            let why = made.job.why.clone().unwrap_or_else(|| format!("it {}", made.job.state));
            return (false, format!("no result: {why}; {} says more", self.queue.log(made.job.id).display()));
        };
        if run.status == Status::Failed {
            return (false, format!("it failed: {}", run.why.as_deref().unwrap_or("nobody knows why")));
        }
        if self.hold.is_empty() {
            return match run.fidelity.verdict {
                Verdict::Trustworthy => (true, "trustworthy".into()),
                verdict => (false, format!("{verdict}: {}", run.fidelity.reasons().join(" "))),
            };
        }
        let judged = self.hold.iter().zip(references).map(|(hold, reference)| match reference {
            // No run of the smallest value has it.
            None => (false, format!("nothing was measured of `{hold}`")),
            Some(reference) => hold.judge(*reference, run),
        });
        let (held, says): (Vec<bool>, Vec<String>) = judged.unzip();
        (held.iter().all(|held| *held), says.join(", "))
    }

    /// Writes what has come of it so far: a table, a page, a file for notebooks and one for programs.
    fn write(&self, tried: &BTreeMap<u64, Vec<Made>>, bound: Option<Bound>) -> Result<Capacity, Failure> {
        let references = self.references(tried);
        let mut values: BTreeMap<u64, Tried> = BTreeMap::new();
        for (value, made) in tried {
            let said: Vec<(bool, String)> = made.iter().map(|made| self.judge(made, &references)).collect();
            let held = said.iter().filter(|(holds, _)| *holds).count();
            let most = held * 2 > said.len();
            let says = said.into_iter().find(|(holds, _)| *holds == most).map_or(String::new(), |(_, says)| says);
            let cores = made.iter().filter_map(|made| cores_used(made.run.result.as_ref()?)).next();
            values.insert(*value, Tried { value: self.range.shown(*value), held: [held, made.len()], cores, says });
        }
        for (value, why) in &self.refused {
            let shown = self.range.shown(*value);
            values.insert(*value, Tried { value: shown, held: [0, 0], cores: None, says: why.clone() });
        }
        let runs = tried.values().flatten().map(|made| made.run.clone());
        let swept = Swept { name: self.name.clone(), runs: runs.collect() };
        // The side on which it holds is the upper one of TDFs.
        let (holds, not) = match (bound, self.range.holds_above()) {
            (None, _) => (None, None),
            (Some(bound), false) => (bound.low, bound.high),
            (Some(bound), true) => (bound.high, bound.low),
        };
        let what: Vec<String> = self.hold.iter().map(ToString::to_string).collect();
        let found = Capacity {
            path: self.range.path.clone(),
            holds: if what.is_empty() { "trustworthy".into() } else { what.join(", ") },
            bound: [holds, not].map(|value| value.map(|value| self.range.shown(value))),
            ended_by: not.map_or(String::new(), |value| self.cause(value, tried, &references)),
            tried: values.into_values().collect(),
            swept,
        };
        for (file, text) in [
            ("table.md", format!("{}\n\n{}", found.answer(), found.table())),
            ("capacity.html", found.page()),
            ("capacity.csv", found.swept.csv()),
            ("capacity.json", format!("{:#}\n", found.to_json())),
        ] {
            let path = self.out.join(file);
            engine::write_file(&path, text.as_bytes()).map_err(Failure::cannot_write(&path))?;
        }
        Ok(found)
    }

    /// Names the resource wanting at the first value at which it does not hold, with the evidence of a run there.
    fn cause(&self, value: u64, tried: &BTreeMap<u64, Vec<Made>>, references: &[Option<f64>]) -> String {
        if let Some(why) = self.refused.get(&value) {
            return format!("the plan: {why}");
        }
        let made = tried.get(&value).map_or(&[][..], Vec::as_slice);
        let judged = made.iter().map(|made| (made, self.judge(made, references)));
        let Some((made, (_, says))) = judged.into_iter().find(|(_, (holds, _))| !holds) else { return String::new() };
        match made.run.result.as_ref().filter(|run| run.status == Status::Ok).and_then(largest_effect) {
            Some((check, percent)) if percent >= 1.0 => {
                format!("{} ({check}, up to {percent:.1} %): {says}", resource(check))
            }
            _ => says,
        }
    }
}

/// Cores of this machine that the nodes of a run used all the time, on average; `None` if it does not say so.
fn cores_used(run: &RunResult) -> Option<f64> {
    let seconds: Vec<f64> = run.nodes.values().filter_map(|node| node.core_seconds).collect();
    (!seconds.is_empty() && run.real_seconds > 0.0).then(|| seconds.iter().sum::<f64>() / run.real_seconds)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_precision_is_a_part() {
        assert_eq!(super::parse_precision("5%"), Ok(0.05));
        assert_eq!(super::parse_precision("0%"), Ok(0.0));
        assert!(["5", "-1%", "100%", "NaN%"].iter().all(|text| super::parse_precision(text).is_err()));
    }
}
