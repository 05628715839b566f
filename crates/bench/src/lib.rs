//! How accurate and how fast each mechanism is, on this machine and now: what `diorama bench` prints.
//!
//! A benchmark drives one mechanism by itself, without an experiment, and gives [`Row`]s: what it measured, beside a
//! reference of the same minute or of a paper, and the goal if there is one. A missed goal is a row that says so, not
//! an [`Error`]. `docs/bench.md` says what each row means. One has this program make whole runs: [`trust`], which says
//! how often verdicts are right.
//!
//! The network, the CPU, disks and trust need root; the network and trust two cores as well.

mod clock;
mod cores;
mod cpu;
mod disk;
mod error;
mod load;
mod net;
mod row;
mod scratch;
mod stats;
mod text;
mod trust;

pub use self::clock::measure as clock;
pub use self::cpu::gain::measure as gain;
pub use self::cpu::measure as cpu;
pub use self::cpu::speed::measure as speed;
pub use self::disk::measure as disk;
pub use self::error::Error;
pub use self::net::measure as net;
pub use self::row::Row;
pub use self::text::text;
pub use self::trust::{Kind as TrustKind, Trust, measure as trust};

/// Called with a sentence for each thing that the reader of the rows must know and cannot see in them.
pub type Notify = fn(&str);

/// Becomes what computes in a node of [`cpu`], or what keeps cores awake, and never returns, if the arguments of this
/// process (without the program's name) ask for that. Called before anything else.
pub fn become_helper(arguments: impl Iterator<Item = String>) {
    load::become_load(arguments);
}

/// The rows as `--json` prints them, without a final line end.
pub fn json(rows: &[Row]) -> Result<String, Error> {
    serde_json::to_string_pretty(rows).map_err(Error::failed)
}
