//! The half that touches the machine: interfaces in nodes' namespaces, the real-time thread, and files of captures.

pub(crate) mod capture;
pub(crate) mod clocks;
pub(crate) mod crossings;
pub(crate) mod emulator;
mod event_loop;
mod histogram;
mod interface;
mod ipv6;
pub(crate) mod lateness;
mod netlink;
pub(crate) mod observation;
pub(crate) mod passages;
pub(crate) mod queues;
mod realtime;
mod rules;
pub(crate) mod tap;
mod throttle;
pub(crate) mod traffic;
mod wire;
