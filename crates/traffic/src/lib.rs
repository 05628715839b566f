//! Traffic: when packets leave, and the program in nodes that sends and receives them.
//!
//! [`Pattern`] says what a flow is like, and [`Departures`] when its packets leave: constant bit rate, Poisson, bursts
//! with pauses between them, or as fast as the transport takes them. That is pure: seeded, and without a clock.
//! [`Source`] and [`Sink`] are the two ends of a flow as command lines of [`PROGRAM`], an ordinary program that reads
//! its clock, sleeps and sends, and is dilated in a node like any other. `docs/traffic.md` says what they write down.

mod departures;
mod ends;
mod tool;

pub use departures::{Departures, Pattern, Shape};
pub use ends::{Sink, Source, Transport, delays_log, received_log, sent_log};
pub use tool::run;

/// The program of both ends, static, as a file's content.
pub const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/traffic"));

/// Where a node finds it.
pub const PROGRAM_PATH: &str = "/.diorama/traffic";

/// The least that a packet carries, in bytes: what [`PROGRAM`] writes into each.
pub const LEAST_PACKET: u32 = tool::HEADER as u32;

/// The most that a packet carries over UDP, in bytes (RFC 768, over IPv4).
pub const LARGEST_PACKET: u32 = 65_507;
