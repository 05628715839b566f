//! The groups of a run: what each core sells, how it is divided by weights, where each node's group is.

pub(crate) mod core_plan;
mod division;
mod exclusive;
pub(crate) mod groups;
mod joiner;
pub(crate) mod layout;
mod limit;
mod policy;
mod reservation;
mod terms;

pub use self::division::rounding;
pub use self::exclusive::{Exclusive, why_shared};
pub use self::groups::{CpuGroups, CpuMeters};
pub use self::joiner::NodeJoiner;
pub use self::limit::{Limit, limit_this, stale_limits};
pub use self::policy::best_policy;
pub use self::reservation::{PLANNED_USABLE, USUALLY_USABLE};
pub use self::terms::{DEFAULT_GAIN, DEFAULT_SLICE, Pace, Terms};
