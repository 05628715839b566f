//! The experiment as data: what the user wrote, checked, and with every name, glob and count expanded.
//!
//! [`load`] reads an experiment's YAML file in four steps, each a module: the text becomes a tree that remembers where
//! everything stood (`tree`); `--set` changes the tree (`overrides`); its values become the types of the file format
//! (`file`, by way of `de`); and those become an [`Experiment`] (`expand`), in which names are resolved. A mistake at
//! any step becomes a [`Problem`] that points at the place in the file.
//!
//! Nothing is read but that file and, for the paths that it names, whether they exist.

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

pub use error::{Error, Problem};
pub use experiment::{
    Accuracy, Action, Address, Capture, Combine, Congestion, Cpu, Disk, DiskChange, Ends, Event, Experiment, Lan,
    Machine, Metric, Node, NodeAction, Ready, Root, Route, Source, Stream, Unit,
};
pub use file::schema;
pub use link::{Jitter, Link, LinkChange, Pipe, PipeChange};
pub use load::load;
pub use scale::link::{Distribution, GilbertElliott, Limit, Loss, Queue, Red};
pub use units::Speed;
