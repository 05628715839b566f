//! Parts of a node's TCP that take programs in the kernel to run in virtual time.
//!
//! A node's TCP is the host kernel's and ticks in real time. Most of its timers are settings of a network namespace or
//! follow from round-trip times that are already dilated. Two are neither, and each has a BPF program here:
//!
//! - [`Cubic`]: congestion control that grows with the time since the last congestion. The program is CUBIC itself,
//!   written from RFC 9438, with a clock divided by the TDF; a run registers it under a name of its own.
//! - [`InitialTimeout`]: the retransmission time-out of a connection that has not measured a round trip yet.
//!
//! Both end with the value that stands for them, and so with the process, however that ends: nothing is pinned.

mod cubic;
mod error;
mod timeout;

use self::error::error;

pub use cubic::Cubic;
pub use error::Error;
pub use timeout::InitialTimeout;

use std::sync::OnceLock;

/// Which of the programs this machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offers {
    /// [`Cubic`].
    pub cubic: bool,
    /// [`InitialTimeout`].
    pub initial_timeout: bool,
}

impl Offers {
    /// Both of them.
    pub const ALL: Offers = Offers { cubic: true, initial_timeout: true };
    /// Neither.
    pub const NONE: Offers = Offers { cubic: false, initial_timeout: false };

    /// Offers of this machine, tried once per process. Without root nothing can be tried: then a kernel that
    /// describes its types is taken to offer both.
    pub fn here() -> Offers {
        static FOUND: OnceLock<Offers> = OnceLock::new();
        *FOUND.get_or_init(|| match rustix::process::geteuid().is_root() {
            true => Offers {
                cubic: Cubic::register(scale::Tdf::ONE).is_ok(),
                initial_timeout: InitialTimeout::attach(scale::Tdf::ONE, &[0]).is_ok(),
            },
            false if std::path::Path::new("/sys/kernel/btf/vmlinux").exists() => Offers::ALL,
            false => Offers::NONE,
        })
    }
}
