//! Views of runs: pages for a browser, tables for a terminal, plots.
//!
//! - [`write_report`] makes `report.html` of a run directory.
//! - [`compare`] compares runs with a base, and shows what came of it as a table, as a page or as JSON.
//! - [`junit`] is what continuous integration reads of runs that were made as tests.
//! - [`Capacity`] is a search for the largest value at which something holds.
//! - [`Swept`] is a sweep over parameters: its table, its page, and a file for notebooks.
//!
//! Only what a run has left behind is read here, through `record`; what it means is said by `fidelity`.

mod capacity;
mod comparison;
mod distribution;
mod error;
mod junit;
mod lines;
mod marks;
mod numbers;
mod page;
mod run;
mod sweep;
#[cfg(test)]
mod testing;
mod ticks;
mod usage;

pub use capacity::{Capacity, Tried};
pub use comparison::{Comparisons, compare, compare_series};
pub use error::Error;
pub use fidelity::compare::{Bound, Comparison, MetricComparison, Statistic, Statistics};
pub use fidelity::hold::{Hold, largest_effect, resource};
pub use fidelity::require::{Finding, Requirement};
pub use fidelity::statistics::median;
pub use fidelity::wording::significant;
pub use junit::{Tested, junit};
pub use run::write_report;
pub use sweep::{SweepRun, Swept};
