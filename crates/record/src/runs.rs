//! Runs on disk: one run directory, or a `--repeat` folder of them (`VARIANT/1`, `VARIANT/2`, …).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use crate::dir::{RESULT, RunDir};
use crate::error::{Error, Result};
use crate::result::{RunResult, Status, Verdict};
use crate::samples::{self, Samples};

/// One run: its result and all samples of its metrics.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its directory.
    pub dir: PathBuf,
    /// Its `result.json`.
    pub result: RunResult,
    /// In the order of `result.metrics`.
    pub samples: IndexMap<String, Samples>,
}

impl Run {
    /// Reads a run directory. Samples that are not those that the result summarises are an error.
    pub fn open(dir: &Path) -> Result<Run> {
        let result = RunDir::at(dir).result()?;
        let mut samples = IndexMap::new();
        for (name, metric) in &result.metrics {
            let path = dir.join(&metric.file);
            let values = samples::read_values(&path)?;
            if values.sorted().len() != metric.summary.n {
                let what = format!(
                    "holds {} samples, but {RESULT} counts {} for metric `{name}`",
                    values.sorted().len(),
                    metric.summary.n
                );
                return Err(Error::input(&path, what));
            }
            samples.insert(name.clone(), values);
        }
        Ok(Run { dir: dir.to_owned(), result, samples })
    }
}

/// One run, or several of the same kind.
#[derive(Clone, Debug)]
pub struct Series {
    /// As it was named on the command line.
    pub path: PathBuf,
    /// By the number of the repetition; a single run has number 0.
    pub runs: BTreeMap<u32, Run>,
}

impl Series {
    /// Opens a run directory or a `--repeat` folder. All runs must have ended well and be of one experiment and variant.
    pub fn open(path: &Path) -> Result<Series> {
        let mut runs = BTreeMap::new();
        if RunDir::at(path).has_result() || !path.is_dir() {
            runs.insert(0, Run::open(path)?);
        } else {
            for (number, dir) in repetitions(path)? {
                runs.insert(number, Run::open(&dir)?);
            }
        }
        let series = Series { path: path.to_owned(), runs };
        let Some(first) = series.runs.values().next() else {
            // The error of a single run says what is missing.
            return Err(RunDir::at(path).result().expect_err("there is no result"));
        };
        for run in series.runs.values() {
            if run.result.status == Status::Failed {
                let why = run.result.why.as_deref().unwrap_or("it does not say why");
                return Err(Error::input(&run.dir, format!("this run failed, so its numbers mean nothing: {why}")));
            }
            let (a, b) = (&first.result, &run.result);
            if (&a.experiment, a.variant, a.tdf) != (&b.experiment, b.variant, b.tdf) {
                let what = format!(
                    "`{}` ({}, TDF {}) lies beside `{}` ({}, TDF {}): a folder of repetitions holds runs of one kind",
                    b.experiment, b.variant, b.tdf, a.experiment, a.variant, a.tdf
                );
                return Err(Error::input(&run.dir, what));
            }
        }
        Ok(series)
    }

    /// The first run; there is always one.
    pub fn first(&self) -> &Run {
        self.runs.values().next().expect("a series is never empty")
    }

    /// Suspect if any of the runs is.
    pub fn verdict(&self) -> Verdict {
        let suspect = self.runs.values().any(|r| r.result.fidelity.verdict == Verdict::Suspect);
        if suspect { Verdict::Suspect } else { Verdict::Trustworthy }
    }

    /// All samples of a metric over all runs.
    pub fn pooled(&self, metric: &str) -> Samples {
        let all = self.runs.values().filter_map(|run| run.samples.get(metric));
        Samples::new(all.flat_map(|s| s.sorted().iter().copied()).collect()).expect("each run's samples are finite")
    }
}

/// The sub-directories of `path` that are named by a number and nothing else.
fn repetitions(path: &Path) -> Result<BTreeMap<u32, PathBuf>> {
    let failed = |e| Error::io(path, "list", e);
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        if let Some(number) = number
            && entry.path().is_dir()
        {
            found.insert(number, entry.path());
        }
    }
    Ok(found)
}
