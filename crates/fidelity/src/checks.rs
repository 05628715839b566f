//! One check per promise: what was observed goes in, and what it does to times comes out.
//!
//! Why each effect is as large as it is, and what to do about it, is in `docs/checks.md`.

mod caches;
mod clock;
mod cpu;
mod disk;
mod emulator;
mod foreign;
mod monitor;
mod observation;
mod settings;
mod speed;
mod timers;

use record::CheckName;

pub use self::caches::lost as lost_to_caches;
#[cfg(test)]
pub(crate) use self::speed::core_speed;
pub(crate) use self::speed::longer_at;
pub use self::speed::{GAIN_HIGH, GAIN_LOW};
use crate::effects::Effect;
use crate::evidence::Evidence;
use crate::findings::{Finding, Findings};

/// A check: its name, and the function that makes it.
type Named = (CheckName, fn(&Evidence) -> Judgement);

/// All checks, in the order in which they are recorded.
const CHECKS: [Named; 16] = [
    (CheckName::EmulatorLateness, emulator::lateness),
    (CheckName::RingDrops, emulator::drops),
    (CheckName::ClockRate, |e| clock::clock_rate(&e.clock)),
    (CheckName::CpuEntitlement, |e| cpu::cpu_entitlement(&e.sharing, e.observations)),
    (CheckName::Parallelism, |e| cpu::parallelism(&e.sharing, e.observations)),
    (CheckName::CoreSpeed, |e| speed::core_speed(e.speeds, e.pace)),
    (CheckName::ClockLead, |e| {
        let spinning = e.observations.spinning.as_ref();
        clock::of_host(clock::clock_lead(&e.sharing, e.crossings.as_ref(), spinning, e.tdf), e.host_slices)
    }),
    (CheckName::Steal, |e| cpu::steal(e.observations, e.pace)),
    (CheckName::ForeignLoadNodes, |e| foreign::foreign_load_nodes(e.observations, e.pace)),
    (CheckName::ForeignLoadHarness, |e| foreign::foreign_load_harness(e.observations.foreign_harness.as_ref())),
    (CheckName::Monitor, |e| monitor::monitor(e.monitoring)),
    (CheckName::Observation, |e| observation::observation(e.observation)),
    (CheckName::KernelTimers, |e| {
        timers::kernel_timers(&e.observations.tcp, e.tdf, e.scaled, e.observations.looks_per_s())
    }),
    (CheckName::KernelSettings, |e| settings::kernel_settings(e.untrue_settings)),
    (CheckName::Caches, |e| caches::caches(e.caches, &e.sharing, e.tdf)),
    (CheckName::Disk, |e| {
        let judged = disk::disk(e.disks, e.nodes_without_disk(), e.tdf);
        let judged = disk::read_again(judged, e.disks, e.goes_in_real_time);
        disk::at_other_times(judged, e.disks, e.other_writeback, e.tdf.to_real(e.observations.lasted))
    }),
];

/// The finding of a check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judgement {
    /// The worst value met; `None` if nothing was measured.
    pub value: Option<f64>,
    /// The limit of the value where its effect cannot be sized; else `None`.
    pub limit: Option<f64>,
    /// The unit of value and limit.
    pub unit: &'static str,
    /// Its consequence.
    pub found: Found,
    /// The observation, where and when, in one sentence.
    pub says: String,
}

/// The consequence of what a check saw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// Nothing: it is not modelled or was not measured, so nothing is promised.
    Nothing,
    /// That it does so much to times; nothing at all, if there is none.
    Effects(Vec<Effect>),
    /// That nobody can say what it does to times.
    Unsized,
}

impl Judgement {
    /// It does this to times.
    fn with(value: f64, unit: &'static str, effects: impl IntoIterator<Item = Effect>, says: String) -> Judgement {
        let found = Found::Effects(effects.into_iter().collect());
        // A value that is not a number is no proof of anything.
        match value.is_finite() {
            true => Judgement { value: Some(value), limit: None, unit, found, says },
            false => Judgement { value: None, limit: None, unit, found: Found::Unsized, says },
        }
    }

    /// It does nothing up to a limit, and beyond it nobody knows what.
    fn at_most(value: f64, limit: f64, unit: &'static str, says: String) -> Judgement {
        let found = if value <= limit { Found::Effects(Vec::new()) } else { Found::Unsized };
        Judgement { value: value.is_finite().then_some(value), limit: Some(limit), unit, found, says }
    }

    fn unmeasured(unit: &'static str, says: String) -> Judgement {
        Judgement { value: None, limit: None, unit, found: Found::Nothing, says }
    }

    /// Adds to the sentence what is known of a cause.
    fn add_cause(&mut self, cause: Option<String>) {
        if let Some(cause) = cause {
            self.says = format!("{} {cause}", self.says);
        }
    }

    pub(crate) fn named(self, name: CheckName) -> Finding {
        let Judgement { value, limit, unit, found, says } = self;
        Finding { name, value, limit, unit, found, says }
    }
}

/// Makes all checks, in the order in which they are recorded.
pub fn judge(evidence: &Evidence) -> Findings {
    let findings = CHECKS.iter().map(|(name, check)| check(evidence).named(*name)).collect();
    Findings::new(findings, evidence.usage(), speed::recorded(evidence.speeds, evidence.pace))
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
