//! The pure half: pipes, queues, what befalls packets, routes, and the network that they make.
//!
//! Nothing here makes a system call or reads a clock; time is always passed in. Nothing here may use
//! [`host`](crate::host), which `tests/halves.rs` sees to.

pub(crate) mod address;
pub(crate) mod answers;
pub(crate) mod background;
pub(crate) mod counters;
pub(crate) mod early_frames;
pub(crate) mod flow;
pub(crate) mod frame;
pub(crate) mod headers;
pub(crate) mod icmp;
pub(crate) mod ids;
pub(crate) mod impairments;
pub(crate) mod ipv6;
pub(crate) mod network;
pub(crate) mod passages;
pub(crate) mod pipe;
pub(crate) mod port;
pub(crate) mod prefix;
pub(crate) mod series;
pub(crate) mod sniffer;
pub(crate) mod spec;
pub(crate) mod stamp;
pub(crate) mod stream;
pub(crate) mod tcp_probe;
pub(crate) mod topology;

#[cfg(test)]
mod tests;
