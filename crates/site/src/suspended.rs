//! A suspended run: what it takes to go on with it another day, kept on the machine that has its nodes' files.

use std::path::PathBuf;

use record::Accuracy;
use scale::{Tdf, VirtualInstant};
use serde::{Deserialize, Serialize};

use crate::calls::Exit;
use crate::setup::CoreChoice;

/// A time of an earlier part of a run, on the host's calendar and on that of its nodes: ns since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The host's dates at its beginning and its end.
    pub real: [u64; 2],
    /// The nodes'.
    pub virt: [u64; 2],
}

/// All that it takes to go on with a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspended {
    /// Its identity, under which its files lie.
    pub id: String,
    /// The experiment's name.
    pub name: String,
    /// The directory of its latest part.
    pub out: PathBuf,
    /// The experiment's file, with every `--set` applied.
    pub experiment: String,
    /// The folder in which that lies.
    pub folder: PathBuf,
    /// The time dilation factor.
    pub tdf: Tdf,
    /// The seed of all chance.
    pub seed: u64,
    /// How exact its results must be.
    pub accuracy: Accuracy,
    /// The user's choice of cores.
    pub cores: CoreChoice,
    /// The virtual time at which its nodes had ended.
    pub at: VirtualInstant,
    /// Events up to then have happened.
    pub happened: VirtualInstant,
    /// Virtual zero as a date: ns since 1970.
    pub zero_unix_ns: u64,
    /// Its parts so far.
    pub parts: Vec<Part>,
    /// Its nodes, in the order of the experiment.
    pub nodes: Vec<SuspendedNode>,
    /// Events by hand, and when they happened.
    pub by_hand: Vec<(VirtualInstant, String)>,
    /// The images that its nodes have as their roots.
    #[serde(default)]
    pub images: Vec<String>,
}

/// A node of a suspended run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedNode {
    /// Whether its program had ended, or was kept from starting, and no event was about to start it again.
    pub ended: bool,
    /// Whether its power was cut.
    pub off: bool,
    /// Whether an event ended it at least once, or kept it from starting.
    pub cut_short: bool,
    /// How its program ended last, if it has.
    pub outcome: Option<(Ended, Exit)>,
}

/// The end of a node, in the words of `result.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// By itself.
    Exited,
    /// By a `stop`, or because the run ended.
    Stopped,
    /// By a `kill`, or by a signal of its own.
    Killed,
}
