//! Runs on disk: one run directory, or a `--repeat` folder of them (`VARIANT/1`, `VARIANT/2`, …).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use counters::{NodeCalls, ObservedPackets};
use indexmap::IndexMap;

use crate::bounded;
use crate::dir::{RESULT, RunDir};
use crate::error::{Error, Result};
use crate::result::{RunResult, Status, Verdict};
use crate::samples::{self, Samples};

/// One run: its result and all samples of its metrics.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its directory.
    pub dir: RunDir,
    /// Its `result.json`.
    pub result: RunResult,
    /// In the order of `result.metrics`.
    pub samples: IndexMap<String, Samples>,
    /// The system calls of those nodes of which they were counted, if it was [opened](Run::open) with them.
    pub calls: IndexMap<String, NodeCalls>,
    /// The packets of those nodes of which they were counted, likewise.
    pub packets: Option<ObservedPackets>,
}

impl Run {
    /// Reads a run directory. Samples that are not those that the result summarises are an error.
    pub fn open(dir: &Path) -> Result<Run> {
        Run::whole(&RunDir::at(dir))
    }

    /// Likewise, of a directory that may be open already.
    fn whole(dir: &RunDir) -> Result<Run> {
        let mut run = Run::of(dir)?;
        let mut left = bounded::CALLS;
        for node in run.result.nodes.keys() {
            let Some((of_node, bytes)) = dir.calls_within(node, left)? else { continue };
            left -= bytes;
            run.calls.insert(node.clone(), of_node);
        }
        run.packets = dir.packets()?;
        Ok(run)
    }

    /// Likewise, but for system calls and packets, of a directory that may be open already.
    pub fn of(dir: &RunDir) -> Result<Run> {
        let result = dir.result()?;
        let mut samples = IndexMap::new();
        let count = result.metrics.values().fold(0usize, |sum, metric| sum.saturating_add(metric.summary.n));
        let most = dir.most(bounded::SAMPLES);
        if count as u64 > most {
            let what = format!("{RESULT} counts {count} samples, and {most} are the most: `measure` less");
            return Err(Error::input(dir.path(), what));
        }
        for (name, metric) in &result.metrics {
            let path = dir.path().join(&metric.file);
            let values = samples::read_values(&path, dir.read(&metric.file)?, metric.summary.n)?;
            let (found, counted) = (values.sorted().len(), metric.summary.n);
            if found != counted {
                let found = if found > counted { format!("more than {counted}") } else { found.to_string() };
                let what = format!("holds {found} samples, but {RESULT} counts {counted} for metric `{name}`");
                return Err(Error::input(&path, what));
            }
            samples.insert(name.clone(), values);
        }
        Ok(Run { dir: dir.clone(), result, samples, calls: IndexMap::new(), packets: None })
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
    /// Opens a run directory or a `--repeat` folder. All runs must have ended well and be of one experiment and
    /// variant.
    pub fn open(path: &Path) -> Result<Series> {
        Series::of(&RunDir::at(path))
    }

    /// Likewise, of a directory that may be open already.
    pub fn of(dir: &RunDir) -> Result<Series> {
        let mut runs = BTreeMap::new();
        if dir.is_there() && !dir.has_result() {
            for (number, dir) in dir.numbered()? {
                runs.insert(number, Run::whole(&dir)?);
            }
        } else {
            // Opening a run that is no directory fails with an error of its own.
            runs.insert(0, Run::whole(dir)?);
        }
        let series = Series { path: dir.path().to_owned(), runs };
        let Some(first) = series.runs.values().next() else {
            // The error of a single run says what is missing.
            return Err(dir.result().expect_err("there is no result"));
        };
        for run in series.runs.values() {
            if run.result.status == Status::Failed {
                let why = run.result.why.as_deref().unwrap_or("it does not say why");
                let what = format!("this run failed, so its numbers mean nothing: {why}");
                return Err(Error::input(run.dir.path(), what));
            }
            let (a, b) = (&first.result, &run.result);
            if (&a.experiment, a.variant, a.tdf) != (&b.experiment, b.variant, b.tdf) {
                let what = format!(
                    "`{}` ({}, TDF {}) lies beside `{}` ({}, TDF {}): a folder of repetitions holds runs of one kind",
                    b.experiment, b.variant, b.tdf, a.experiment, a.variant, a.tdf
                );
                return Err(Error::input(run.dir.path(), what));
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::result::{Fidelity, MetricRecord, Summary, Variant};
    use crate::samples::Sample;

    /// Writes a run with the samples 1, 2 and 3 of one metric.
    fn written(path: PathBuf, variant: Variant, change: impl Fn(&mut RunResult)) -> PathBuf {
        let dir = RunDir::prepare(&path, []).unwrap();
        let sample = |value| Sample { virtual_s: None, value, node: "c".into() };
        let file = dir.write_samples("latency", &[1.0, 2.0, 3.0].map(sample)).unwrap();
        let summary = Summary { n: 3, mean: 2.0, p50: 2.0, p90: 3.0, p99: 3.0 };
        let mut result = RunResult {
            experiment: "web-half".into(),
            variant,
            tdf: scale::Tdf::ONE,
            scaling_factor: 1.0,
            status: Status::Ok,
            why: None,
            virtual_seconds: 10.0,
            real_seconds: 10.0,
            metrics: IndexMap::from([("latency".into(), MetricRecord::new("ms", summary, file))]),
            nodes: IndexMap::new(),
            fidelity: Fidelity {
                verdict: Verdict::Trustworthy,
                accuracy_percent: None,
                why: Vec::new(),
                core_speed: None,
                checks: Vec::new(),
            },
        };
        change(&mut result);
        dir.write_result(&result).unwrap();
        path
    }

    #[test]
    fn a_folder_of_repetitions_is_its_numbered_runs() {
        let dir = tempfile::tempdir().unwrap();
        for (number, verdict) in [("1", Verdict::Trustworthy), ("2", Verdict::Suspect), ("10", Verdict::Trustworthy)] {
            written(dir.path().join(number), Variant::Scaled, |result| result.fidelity.verdict = verdict);
        }
        fs::create_dir(dir.path().join("notes")).unwrap();
        let series = Series::open(dir.path()).unwrap();
        assert_eq!(series.runs.keys().collect::<Vec<_>>(), [&1, &2, &10]);
        assert_eq!((series.verdict(), series.pooled("latency").sorted().len()), (Verdict::Suspect, 9));
        let single = Series::open(&dir.path().join("1")).unwrap();
        assert_eq!((single.runs.len(), single.first().samples["latency"].sorted()), (1, &[1.0, 2.0, 3.0][..]));
    }

    #[test]
    fn what_is_no_series_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |path: &Path| Series::open(path).unwrap_err().to_string();
        let failed = written(dir.path().join("failed"), Variant::Scaled, |result| {
            (result.status, result.why) = (Status::Failed, Some("node web-1 exited with 1".into()));
        });
        let why = "failed: this run failed, so its numbers mean nothing: node web-1";
        assert!(refused(&failed).contains(why), "{}", refused(&failed));
        let miscounted = written(dir.path().join("miscounted"), Variant::Scaled, |result| {
            result.metrics["latency"].summary.n = 4;
        });
        assert!(refused(&miscounted).contains("holds 3 samples, but result.json counts 4"));
        let sampleless = written(dir.path().join("sampleless"), Variant::Scaled, |_| ());
        fs::remove_file(sampleless.join("metrics/latency.csv")).unwrap();
        assert!(refused(&sampleless).contains("latency.csv: cannot read"));
        assert!(refused(&dir.path().join("absent")).contains("there is no such directory"));
        assert!(refused(&sampleless.join("metrics")).contains("holds no result.json"));
        let folder = dir.path().join("repeated");
        written(folder.join("1"), Variant::Scaled, |_| ());
        written(folder.join("2"), Variant::Naive, |_| ());
        assert!(refused(&folder).contains("holds runs of one kind"));
    }
}
