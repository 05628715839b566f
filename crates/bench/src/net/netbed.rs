//! Netbed's tables 1 to 3 (White et al., *An Integrated Experimental Environment for Distributed Systems and Networks*,
//! OSDI 2002, §6.1): delay, bandwidth and loss as programs see them.
//!
//! Frames of "64" and "1518" bytes count their check sequence, which no software sees: they are charged 60 and 1514
//! bytes.
//!
//! Everything is in virtual time: the emulator is given what `scale` makes of the link, and what sockets then show is
//! turned back by it.

mod bandwidth;
mod delay;
mod loss;
mod paper;

pub use self::bandwidth::bandwidths;
pub use self::delay::delays;
pub use self::loss::losses;

/// The frame sizes of the paper, check sequence included.
pub const SIZES: [usize; 2] = [64, 1518];
