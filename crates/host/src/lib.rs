//! All questions to this machine's kernel, in one place: which cores there are and who runs on them, clocks,
//! scheduling, mounts, network namespaces, descriptors, and the counters of the machine.
//!
//! The mechanisms (`clock`, `net`, `tcp`, `cpu`, `node`) are built on this crate; it knows none of them, and nothing of
//! virtual time. `docs/host.md` says what it answers.

mod awake;
pub mod beneath;
pub mod bpf;
pub mod cgroup;
pub mod cores;
pub mod descriptors;
mod error;
pub mod foreign;
pub mod listening;
pub mod memory;
mod message;
pub mod mounts;
mod namespace;
pub mod node_clock;
pub mod processes;
pub mod reclaim;
pub mod rights;
pub mod room;
pub mod sched;
mod settings;
pub mod slices;
pub mod stat;
pub mod storage;
pub mod tcp;
pub mod terminal;
pub mod time;
pub mod user_limits;
pub mod user_namespace;
pub mod writeback;

pub use awake::Awake;
pub use cores::pin;
pub use error::{Context, Error, Lack};
pub use message::{one_line, visible, warn};
pub use namespace::{NetNamespace, in_netns, move_into_netns, too_few_namespaces};
pub use settings::{Change, Held};
pub use time::now;
