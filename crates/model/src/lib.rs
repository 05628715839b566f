//! The experiment as data: what the user wrote, checked, and with every name, glob and count expanded.
//!
//! [`load`] reads an experiment's YAML file in four steps, each a module: the text becomes a tree that remembers where
//! everything stood (`tree`); `--set` changes the tree (`overrides`); its values become the types of the file format
//! (`file`, by way of `de`); and those become an [`Experiment`] (`expand`), in which names are resolved. A mistake at
//! any step becomes a [`Problem`] that points at the place in the file.
//!
//! Nothing is read but that file and, for the paths that it names, whether they exist.

mod chaos;
mod de;
mod emit;
mod error;
mod expand;
mod experiment;
mod file;
mod glob;
mod link;
mod load;
mod names;
mod overrides;
mod paths;
mod topology;
mod tree;
mod units;

/// Other files than experiments, whose mistakes are told with their place, too.
pub mod yaml {
    pub use crate::de::{read, unknown_key};
    pub use crate::emit::quoted;
    pub use crate::error::Problems;
    pub use crate::expand::{Entry, Top, item_span, key_span, select};
    pub use crate::file::schema_of;
    pub use crate::glob::matches;
    pub use crate::load::{Kind, open, read as text};
    pub use crate::names::{did_you_mean, wrong_label, wrong_word};
    pub use crate::tree::{Data, Fault, Key, Span, Value, shorten};
    pub use crate::units::{Bandwidth, Probability, Size, Time};
}

pub use error::{Error, Problem};
pub use experiment::{
    Accuracy, Action, Address, BackgroundFlow, Beside, Boot, Capture, ClockOff, Combine, Condition, Congestion, Cpu,
    Direction, Disk, DiskChange, Ends, Event, Experiment, Flow, FlowAction, Guest, HardwareChange, Idle, Lan, Load,
    Machine, Metric, Node, NodeAction, OfFlow, Partition, Placement, ProgramAction, Ready, Root, Route, Source, Stream,
    Unit,
};
pub use file::schema;
pub use glob::matches;
pub use link::{Jitter, Link, LinkChange, Pipe, PipeChange};
pub use load::{load, load_text, read_event, read_yaml};
pub use names::nearest;
pub use scale::link::{Distribution, GilbertElliott, Limit, Loss, Queue, Red};
pub use units::Speed;
