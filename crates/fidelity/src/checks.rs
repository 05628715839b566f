//! One check per promise: what was observed goes in, a [`Check`] comes out.
//!
//! Why each limit is what it is, and what to do about a breach, is in `docs/fidelity.md`.

mod caches;
mod clock;
mod cpu;
mod emulator;
mod foreign;
mod timers;

use record::{Check, CheckName, Fidelity};

pub use self::caches::{LINE, LINE_SATURATED};
pub use self::cpu::STEAL;
use crate::conclude;
use crate::evidence::Evidence;

/// A check: its name, and the function that makes it.
type Named = (CheckName, fn(&Evidence) -> Judgement);

/// All checks, in the order in which they are recorded.
const CHECKS: [Named; 11] = [
    (CheckName::EmulatorLateness, emulator::lateness),
    (CheckName::RingDrops, emulator::drops),
    (CheckName::ClockRate, |e| clock::clock_rate(&e.clock)),
    (CheckName::CpuEntitlement, |e| {
        cpu::cpu_entitlement(&e.grain, e.observations.entitlement.as_ref(), e.observations.entitled_intervals)
    }),
    (CheckName::CpuGrain, |e| cpu::cpu_grain(&e.grain)),
    (CheckName::Steal, |e| cpu::steal(e.observations.steal.as_ref())),
    (CheckName::ForeignLoadNodes, |e| {
        foreign::foreign_load_nodes(e.observations.foreign_nodes.as_ref(), e.observations.wanted_nodes.as_ref())
    }),
    (CheckName::ForeignLoadHarness, |e| foreign::foreign_load_harness(e.observations.foreign_harness.as_ref())),
    (CheckName::KernelTimers, |e| timers::kernel_timers(&e.observations.tcp, e.tdf, e.scaled)),
    (CheckName::Caches, |e| caches::caches(e.caches.as_ref(), e.observations, e.tdf)),
    (CheckName::Disk, |_| disk()),
];

/// What a check found: a [`Check`] that has no name yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judgement {
    /// The worst value met; `None` if nothing was measured.
    pub value: Option<f64>,
    /// What the value must keep to; `None` if nothing was measured.
    pub limit: Option<f64>,
    /// The unit of value and limit.
    pub unit: &'static str,
    /// `None`: not modelled or not measured, so nothing is promised.
    pub ok: Option<bool>,
    /// What was seen, where and when, in one sentence.
    pub says: String,
}

impl Judgement {
    fn at_most(value: f64, limit: f64, unit: &'static str, says: String) -> Judgement {
        // A value that is not a number is no proof of anything: it fails, and is recorded as none.
        let ok = Some(value <= limit);
        Judgement { value: value.is_finite().then_some(value), limit: Some(limit), unit, ok, says }
    }

    fn unmeasured(unit: &'static str, says: String) -> Judgement {
        Judgement { value: None, limit: None, unit, ok: None, says }
    }

    /// Adds to the sentence of a breach what is known of its cause.
    fn add_cause(&mut self, cause: impl FnOnce() -> Option<String>) {
        if self.ok == Some(false)
            && let Some(cause) = cause()
        {
            self.says = format!("{} {cause}", self.says);
        }
    }

    pub(crate) fn named(self, name: CheckName) -> Check {
        let Judgement { value, limit, unit, ok, says } = self;
        Check { name, value, limit, unit: unit.into(), ok, says }
    }
}

/// All checks, in the order in which they are recorded, and the verdict.
pub fn judge(evidence: &Evidence) -> Fidelity {
    conclude(CHECKS.iter().map(|(name, check)| check(evidence).named(*name)).collect())
}

/// Not modelled yet.
fn disk() -> Judgement {
    Judgement::unmeasured("virtual ms", "Disks are not modelled: reads and writes take real time, undilated.".into())
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
