//! The block devices of nodes: what is asked of a disk is done in a file, and answered when the disk's model says.
//!
//! - [`queue`] is pure: a disk's requests, by the model and in real time, which is always an argument; so is [`undo`]:
//!   what a power cut takes back;
//! - everything else is real: a process of its own (`diorama __disks`, [`disks_main`]) serves block devices, over one
//!   [`Transport`] or the other; [`Disks`] is that process, as who makes a run sees it.
//!
//! `docs/disk.md` says how it works, and how exact it is.

mod blk_queue;
mod blocks;
pub mod drift;
mod error;
mod files;
mod follow;
mod handle;
mod image;
mod loop_devices;
pub mod queue;
mod request_trace;
mod requirements;
mod ring;
mod round_trip;
mod server;
mod shared;
mod timer;
mod transport;
mod ublk;
pub mod undo;
mod wire;

pub use error::Error;
pub use handle::{Counted, Disks};
pub use image::{QUIET, remove_devices};
pub use loop_devices::await_unmounted;
pub use request_trace::Watched;
pub use requirements::lacks;
pub use server::disks_main;
pub use transport::Transport;
pub use wire::{Change, Cut, DiskSetup};
