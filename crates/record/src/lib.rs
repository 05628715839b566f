//! The results of a run: the files of its directory, typed both ways.
//!
//! The engine writes them, the other crates read them, and both do it through [`RunDir`], the only place that knows
//! what a file in a run directory is called. `docs/run-directory.md` describes every file for those who read them with
//! other programs.
//!
//! | type | file |
//! | --- | --- |
//! | [`RunResult`] | `result.json`: what the run was, what it measured, and whether to trust it |
//! | [`Plan`] | `plan.json`: what every node and link got |
//! | [`Event`] | `events.jsonl`: what happened, one JSON object a line |
//! | [`Sample`] | `metrics/NAME.csv`: the samples of a metric |
//! | [`PipeInterval`] | `metrics/pipes.csv`: what each direction of each link did, second by second |
//! | [`SpeedInterval`] | `speed.csv`: how fast the nodes' core was, second by second |
//! | [`PipeTotals`], [`PortTotals`] | `pipes.csv`, `ports.csv`: what links and interfaces did in all |
//!
//! A [`Run`] is a directory read again, a [`Series`] several of them that were made by `diorama run --repeat`, and a
//! [`Following`] one that is read while a run writes to it.
//!
//! Nothing is judged here: verdicts, statistics and comparisons are those of `fidelity`.

mod below;
mod bounded;
mod bounded_log;
mod claim;
mod counters;
mod csv_log;
mod dir;
mod disks;
mod error;
mod events;
mod follow;
mod links;
mod nodes;
pub mod plan;
mod result;
mod runs;
mod samples;
mod speed;

pub use below::{Found, ResultsDir};
pub use bounded_log::{CUT_MARK, LEAST_LOGS, NodeLogs, USUAL_LOGS};
pub use claim::claim;
pub use counters::Counters;
pub use dir::{LogStream, RunDir};
pub use disks::{DiskInterval, DiskLog};
pub use error::{Error, Result};
pub use events::{Event, EventLog, EventReader};
pub use follow::Following;
pub use links::{PipeInterval, PipeIntervalLog, PipeTotals, PortTotals};
pub use nodes::{MOST_OF_NODES, NodeInterval, NodeLog};
pub use plan::Plan;
pub use result::{
    Accuracy, Check, CheckName, CoreSpeed, Ended, Fidelity, Intervals, MetricEffect, MetricRecord, NodeOutcome,
    RunResult, Status, Summary, Uncertainty, Variant, Verdict,
};
pub use runs::{Run, Series};
pub use samples::{Sample, Samples};
pub use speed::{SpeedInterval, SpeedLog};
