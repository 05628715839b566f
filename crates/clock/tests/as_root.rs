//! All tests of this crate that need root, in one program: to link one for each file takes longer, and what waits in
//! one file leaves the processor to another.

mod addresses;
mod behaviour;
mod changes;
mod common;
mod cpus;
mod files;
mod headers;
mod looks;
mod machines;
mod programs;
mod robustness;
mod sandboxes;
mod settings;
mod sites;
mod tsc;
