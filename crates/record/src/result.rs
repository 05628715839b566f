//! `result.json`: what a run was, what it measured and whether to trust it.
//!
//! All times are virtual unless a name says `real`. Maps keep the order in which the experiment named things.

use std::path::{Component, Path, PathBuf};

use indexmap::IndexMap;
use scale::Tdf;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// With which resources the experiment ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// TDF and shares of the plan.
    Scaled,
    /// TDF 1, every node with its full target share.
    Baseline,
    /// TDF 1, links at target rates, all nodes work-conserving within the scaled variant's resources.
    Naive,
    /// TDF 1, every node with whole cores of its own and the kernel's own clock.
    Native,
    /// None of an experiment: a program on a plain machine (`diorama observe`).
    Observed,
}

impl Variant {
    /// The word used on the command line and in `result.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Variant::Scaled => "scaled",
            Variant::Baseline => "baseline",
            Variant::Naive => "naive",
            Variant::Native => "native",
            Variant::Observed => "observed",
        }
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether the experiment did what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It ended as the experiment says.
    Ok,
    /// It did not; `why` says how.
    Failed,
}

/// How a node's program came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// By itself.
    Exited,
    /// The run, or an event, asked it to stop.
    Stopped,
    /// An event, or someone else, killed it.
    Killed,
    /// It outgrew its machine's memory.
    Oom,
}

/// One node at the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeOutcome {
    /// The program's exit code; `None` if it ended by a signal or did not end by itself.
    pub exit: Option<i32>,
    /// How it ended.
    pub ended: Ended,
    /// How long its programs had a core of this machine, t = 0 to the end, in seconds of the core. The same work takes
    /// the same in every variant, so this is neither real nor virtual time. `None` if it was not measured.
    #[serde(default)]
    pub core_seconds: Option<f64>,
}

/// Count, mean and quantiles of at least one sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many samples.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Between which values each statistic lies, lower end first. `None`: too few samples to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// Interval of the mean.
    pub mean: Option<[f64; 2]>,
    /// Interval of the median.
    pub p50: Option<[f64; 2]>,
    /// Interval of the 90th percentile.
    pub p90: Option<[f64; 2]>,
    /// Interval of the 99th percentile.
    pub p99: Option<[f64; 2]>,
}

/// The effect of one check on one metric: by how many per cent the run's value is above the target's, from … to ….
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricEffect {
    /// The observation.
    pub check: CheckName,
    /// On mean and median; without bounds (`null` in the file) if that is not known.
    #[serde(with = "not_known")]
    pub percent: [f64; 2],
    /// On the 90th and the 99th percentile; `None`: the same.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "not_known::if_other")]
    pub tail_percent: Option<[f64; 2]>,
}

/// Ranges without bounds, of which JSON has none.
mod not_known {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(range: &[f64; 2], to: S) -> Result<S::Ok, S::Error> {
        range.iter().all(|end| end.is_finite()).then_some(range).serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<[f64; 2], D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]))
    }

    pub mod if_other {
        use super::{Deserializer, Serializer};

        pub fn serialize<S: Serializer>(range: &Option<[f64; 2]>, to: S) -> Result<S::Ok, S::Error> {
            match range {
                Some(range) => super::serialize(range, to),
                None => to.serialize_none(),
            }
        }

        pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<[f64; 2]>, D::Error> {
            super::deserialize(from).map(Some)
        }
    }
}

/// The parts of an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Uncertainty {
    /// The range that another run of the same length would show if nothing else differed, in the metric's unit (95 %).
    pub sampling: Intervals,
    /// The effect of the model on the metric, by check; those without any are left out.
    pub effects: Vec<MetricEffect>,
    /// By how many per cent the metric changes at most where all work takes 1 % longer.
    pub cpu_sensitivity: f64,
}

/// One metric, summarised; the samples are in `file`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricRecord {
    /// The unit of every number but `n`, as the experiment wrote it.
    pub unit: String,
    /// Count, mean and quantiles.
    #[serde(flatten)]
    pub summary: Summary,
    /// Where the target's own value lies (95 %), in the metric's unit. `None` if that cannot be said, or was not in the
    /// version that wrote it.
    #[serde(default)]
    pub interval: Option<Intervals>,
    /// The parts of the interval.
    #[serde(default)]
    pub uncertainty: Option<Uncertainty>,
    /// The samples' file, relative to the run directory: `metrics/NAME.csv`.
    pub file: PathBuf,
}

impl MetricRecord {
    /// A metric of which it is not known how far it may be off.
    pub fn new(unit: impl Into<String>, summary: Summary, file: impl Into<PathBuf>) -> MetricRecord {
        MetricRecord { unit: unit.into(), summary, interval: None, uncertainty: None, file: file.into() }
    }
}

/// The subject of a check; `docs/checks.md` describes each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckName {
    /// How late frames were delivered.
    EmulatorLateness,
    /// Frames lost between a node and the emulator.
    RingDrops,
    /// How fast the nodes' clocks ran.
    ClockRate,
    /// The CPU that nodes got of what they were entitled to.
    CpuEntitlement,
    /// The CPUs that threads of nodes with several had of those that they wanted.
    Parallelism,
    /// How much work the nodes' core did in a microsecond.
    CoreSpeed,
    /// How far nodes' clocks were from the run's when frames crossed. (Before nodes had clocks of their own, how long
    /// they waited for the core.)
    #[serde(alias = "cpu-grain")]
    ClockLead,
    /// The time that the hypervisor took.
    Steal,
    /// The use and wants of others of the nodes' core.
    ForeignLoadNodes,
    /// The use of the harness core by others.
    ForeignLoadHarness,
    /// The use of the harness core by looks at the nodes.
    Monitor,
    /// The use of nodes' CPU by counting their system calls.
    Observation,
    /// Timers of the kernel's TCP that tick in real time and fired.
    KernelTimers,
    /// Settings of the kernel that programs made and that count in real time.
    KernelSettings,
    /// The cost of coming back to data.
    Caches,
    /// How long disks took.
    Disk,
}

impl CheckName {
    /// The word used in `result.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            CheckName::EmulatorLateness => "emulator-lateness",
            CheckName::RingDrops => "ring-drops",
            CheckName::ClockRate => "clock-rate",
            CheckName::CpuEntitlement => "cpu-entitlement",
            CheckName::Parallelism => "parallelism",
            CheckName::CoreSpeed => "core-speed",
            CheckName::ClockLead => "clock-lead",
            CheckName::Steal => "steal",
            CheckName::ForeignLoadNodes => "foreign-load-nodes",
            CheckName::ForeignLoadHarness => "foreign-load-harness",
            CheckName::Monitor => "monitor",
            CheckName::Observation => "observation",
            CheckName::KernelTimers => "kernel-timers",
            CheckName::KernelSettings => "kernel-settings",
            CheckName::Caches => "caches",
            CheckName::Disk => "disk",
        }
    }
}

impl std::fmt::Display for CheckName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// One thing that was measured during the run and what it may be at most (or, where `says` says so, at least).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Its subject.
    pub name: CheckName,
    /// The worst value met; `None` if nothing was measured.
    pub value: Option<f64>,
    /// The limit of the value; `None` if nothing was measured.
    pub limit: Option<f64>,
    /// The unit of value and limit.
    pub unit: String,
    /// Whether what was seen cannot matter. `None`: not modelled or not measured, so nothing is promised.
    pub ok: Option<bool>,
    /// By how many per cent the model's times are longer than the target's because of it, where it matters most: the
    /// end of the range that is further from 0. `None` if that cannot be said.
    #[serde(default)]
    pub effect_percent: Option<f64>,
    /// From … to … per cent, likewise.
    #[serde(default)]
    pub effect_range_percent: Option<[f64; 2]>,
    /// The observation, where and when, in one sentence.
    pub says: String,
}

/// Whether the numbers of a run may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All intervals lie within the accuracy that was asked for.
    Trustworthy,
    /// At least one does not, or it cannot be said.
    Suspect,
}

impl Verdict {
    /// The word used in `result.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Trustworthy => "trustworthy",
            Verdict::Suspect => "suspect",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// How far a statistic may be off, per cent of it, either way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// The mean.
    #[serde(serialize_with = "whole_if_whole")]
    pub mean: f64,
    /// The median.
    #[serde(serialize_with = "whole_if_whole")]
    pub p50: f64,
    /// The 90th percentile.
    #[serde(serialize_with = "whole_if_whole")]
    pub p90: f64,
    /// The 99th percentile.
    #[serde(serialize_with = "whole_if_whole")]
    pub p99: f64,
}

/// How fast the nodes' core was, in units of the yardstick's work per microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreSpeed {
    /// On average over the run.
    pub units_per_us: f64,
    /// The reference of shares of work. `None`: nothing (`cpu: time`).
    pub reference_units_per_us: Option<f64>,
}

/// The verdict and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    /// Follows from intervals and checks.
    pub verdict: Verdict,
    /// Within which all intervals must lie. `None` in runs of versions that judged by breaches alone.
    #[serde(default)]
    pub accuracy_percent: Option<Accuracy>,
    /// Why the run is suspect, a sentence each; empty if it is trustworthy.
    #[serde(default)]
    pub why: Vec<String>,
    /// How fast the nodes' core was; `None` if it was not measured.
    #[serde(default)]
    pub core_speed: Option<CoreSpeed>,
    /// In the order of `docs/checks.md`.
    pub checks: Vec<Check>,
}

impl Fidelity {
    /// The check of that name, if it was made.
    pub fn check(&self, name: CheckName) -> Option<&Check> {
        self.checks.iter().find(|c| c.name == name)
    }

    /// Why the run is suspect, a sentence each; of a version that judged by breaches alone, what those say.
    pub fn reasons(&self) -> Vec<String> {
        match self.why.is_empty() {
            true => self.breaches().map(|c| format!("{}: {}", c.name, c.says)).collect(),
            false => self.why.clone(),
        }
    }

    /// The checks that do not hold.
    pub fn breaches(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|c| c.ok == Some(false))
    }
}

/// All of `result.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The experiment's name.
    pub experiment: String,
    /// With which resources it ran.
    pub variant: Variant,
    /// Real over virtual time.
    #[serde(serialize_with = "whole_if_whole")]
    pub tdf: Tdf,
    /// Nodes per harness machine over nodes per target machine.
    #[serde(serialize_with = "whole_if_whole")]
    pub scaling_factor: f64,
    /// Whether it ended as the experiment says.
    pub status: Status,
    /// Why it failed.
    pub why: Option<String>,
    /// Virtual time from t = 0 to the end.
    pub virtual_seconds: f64,
    /// Real time from t = 0 to the end.
    pub real_seconds: f64,
    /// Those with at least one sample, in the order of the experiment.
    pub metrics: IndexMap<String, MetricRecord>,
    /// In the order of the experiment.
    pub nodes: IndexMap<String, NodeOutcome>,
    /// Whether to trust the numbers.
    pub fidelity: Fidelity,
}

impl RunResult {
    /// From the text of the file `path`.
    pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<RunResult> {
        let result: RunResult =
            serde_json::from_slice(text).map_err(|e| Error::input(path, format!("not the result of a run: {e}")))?;
        for (name, metric) in &result.metrics {
            let inside = metric.file.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
            if !inside {
                let what = format!(
                    "the samples of metric `{name}` must lie inside the run directory, not at `{}`",
                    metric.file.display()
                );
                return Err(Error::input(path, what));
            }
        }
        Ok(result)
    }

    /// The text of the file.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a result has only finite numbers and string keys") + "\n"
    }
}

/// Writes 10 and not 10.0, as a person would.
pub(crate) fn whole_if_whole<T: Serialize, S: serde::Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    let value = serde_json::to_value(value).ok().and_then(|value| value.as_f64()).unwrap_or(f64::NAN);
    if value.fract() == 0.0 && value.abs() < 1e15 { to.serialize_i64(value as i64) } else { to.serialize_f64(value) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::RunDir;

    /// A result with everything in it.
    const GOLDEN: &str = include_str!("../tests/golden/result.json");

    #[test]
    fn the_golden_result_survives_a_round_trip_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("result.json");
        fs::write(&file, GOLDEN).unwrap();
        let result = RunDir::at(dir.path()).result().unwrap();
        assert_eq!(result.metrics.keys().collect::<Vec<_>>(), ["requests", "latency"], "order of the experiment");
        assert_eq!(
            result.nodes["web-1"],
            NodeOutcome { exit: None, ended: Ended::Oom, core_seconds: Some(2.991234567) }
        );
        assert_eq!(result.fidelity.checks[2].ok, None);
        assert_eq!(result.metrics["requests"].uncertainty, None);
        let latency = &result.metrics["latency"];
        assert_eq!(latency.interval.unwrap().p99, Some([9.5, 14.5]));
        assert_eq!(latency.uncertainty.as_ref().unwrap().effects[1].tail_percent, Some([0.0, 1.5]));
        RunDir::at(dir.path()).write_result(&result).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), GOLDEN);
    }

    #[test]
    fn what_is_not_known_of_an_effect_is_null() {
        let unknown = [f64::NEG_INFINITY, f64::INFINITY];
        let check = CheckName::ClockLead;
        for (percent, tail_percent, json) in [
            (unknown, None, r#"{"check":"clock-lead","percent":null}"#),
            ([0.0, 1.5], Some(unknown), r#"{"check":"clock-lead","percent":[0.0,1.5],"tail_percent":null}"#),
            ([0.0, 1.5], Some([0.0, 2.0]), r#"{"check":"clock-lead","percent":[0.0,1.5],"tail_percent":[0.0,2.0]}"#),
        ] {
            let effect = MetricEffect { check, percent, tail_percent };
            assert_eq!(serde_json::to_string(&effect).unwrap(), json);
            assert_eq!(serde_json::from_str::<MetricEffect>(json).unwrap(), effect);
        }
        let before = r#"{"check":"cpu-grain","percent":[0.0,1.5]}"#;
        assert_eq!(serde_json::from_str::<MetricEffect>(before).unwrap().check, check, "as it was called before");
    }

    #[test]
    fn a_result_of_a_version_without_intervals_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("result.json"), include_str!("../tests/golden/result-before-intervals.json"))
            .unwrap();
        let result = RunDir::at(dir.path()).result().unwrap();
        assert_eq!((result.metrics["latency"].interval, result.metrics["latency"].summary.p50), (None, 4.25));
        assert_eq!(result.fidelity.checks[0].effect_range_percent, None);
        assert_eq!((result.fidelity.accuracy_percent, result.fidelity.why.len()), (None, 0));
    }

    #[test]
    fn what_is_not_a_run_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = |dir: &Path| RunDir::at(dir).result().unwrap_err().to_string();
        let absent = error(&dir.path().join("absent"));
        assert!(absent.contains("absent: there is no such directory"), "{absent}");
        assert!(error(dir.path()).contains("holds no result.json"), "{}", error(dir.path()));
        fs::write(dir.path().join("result.json"), GOLDEN.replace("\"scaled\"", "\"warped\"")).unwrap();
        let unknown = error(dir.path());
        assert!(unknown.contains("result.json: not the result of a run: unknown variant `warped`"), "{unknown}");
    }

    #[test]
    fn samples_outside_the_run_directory_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["/etc/shadow", "../other/metrics/latency.csv"] {
            fs::write(dir.path().join("result.json"), GOLDEN.replace("metrics/latency.csv", path)).unwrap();
            let error = RunDir::at(dir.path()).result().unwrap_err().to_string();
            assert!(error.contains("must lie inside the run directory"), "{error}");
        }
    }
}
