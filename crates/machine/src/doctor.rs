//! Offers and lacks of this machine, and what they cost in fidelity.
//!
//! Features that can be tried are tried and not guessed: BPF programs are loaded and let go of again, a namespace gets
//! its settings, a thread becomes a real-time one. Nothing of it stays.

mod kernel;
mod machine;
mod speed;
mod timing;

pub use site::{Finding, State};

/// Looks at the machine, the kernel and how punctual and fast both are; takes some three seconds.
pub fn findings() -> Vec<Finding> {
    let all = [machine::findings(), kernel::findings(), timing::findings(), speed::findings()];
    all.into_iter().flatten().collect()
}
