//! The processes that keep the shares while a run lasts: burners, what ends slices, and what follows who sleeps and how
//! fast a core is.

pub(crate) mod burners;
pub(crate) mod controller;
pub(crate) mod counters;
pub(crate) mod helper;
pub(crate) mod reschedule;
pub(crate) mod shared_array;
