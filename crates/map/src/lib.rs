//! Which node of an experiment is on which machine of a harness.
//!
//! Pure, but for reading the files that are named: a [`Request`] says what is to be mapped, a [`Harness`] what there
//! is, and [`map`] gives a [`Mapping`], which says what is violated, if anything, and what it costs.

mod anneal;
mod catalog;
mod coarse;
mod emulab;
mod error;
mod exchange;
mod feasibility;
mod first_cut;
mod harness;
mod instance;
mod mapping;
mod plan;
mod request;
mod routes;
mod search;
mod state;
mod user;
mod way;
mod wide_area;

pub use catalog::{catalog_schema, load_harness, load_reachable};
pub use emulab::load_top;
pub use error::Error;
pub use harness::{Cable, Cpu, Feature, Harness, MeasuredPath, Place, TypeSlots};
pub use instance::Terms;
pub use mapping::{Carried, Filled, Mapping, Placed, Score, Violated, Violation};
pub use plan::{map, map_at_smallest_tdf, map_experiment};
pub use request::{Class, Group, Kind, Request, Share, Target, Wanted, WantedLink};
pub use user::harness_of_user;
pub use way::Way;
pub use wide_area::{Compared, Pair, Weights};
