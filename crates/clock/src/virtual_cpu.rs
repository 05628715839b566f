//! The CPU that a dilated program believes to have.

use scale::{CpuPace, Tdf};

use crate::layout::AFFINITY_WORDS;
use crate::{Error, tsc};

/// How the CPU clocks and the time-stamp counter of a program relate to the host's, and where its threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualCpu {
    pub(crate) pace: CpuPace,
    /// Cycles of the time-stamp counter per virtual ns, times 2^32; 0 leaves the instructions that read it alone.
    pub(crate) tsc_cycles: u64,
    /// All threads of a program share one core.
    pub(crate) one_core: bool,
    /// How many CPUs a program sees, numbered from 0; 0: those of the host.
    pub(crate) cpus: u32,
}

impl VirtualCpu {
    /// The most CPUs that a program may be shown.
    pub const MOST_CPUS: u32 = (AFFINITY_WORDS * 64) as u32;

    /// CPU time is what the kernel says: a virtual CPU of speed 1.
    pub const NATIVE: VirtualCpu = VirtualCpu { pace: CpuPace::NATIVE, tsc_cycles: 0, one_core: false, cpus: 0 };

    /// The clocks of a virtual CPU of `speed`, a fraction of one core of this host, to the nearest billionth.
    ///
    /// # Errors
    /// [`Error::Speed`] for a speed that is not between 0.001 and 1000.
    pub fn speed(speed: f64) -> Result<VirtualCpu, Error> {
        let pace = CpuPace::of_speed(speed).ok_or(Error::Speed(speed))?;
        Ok(VirtualCpu { pace, ..VirtualCpu::NATIVE })
    }

    /// The clocks of a process that is dilated but has the whole core: a core that is TDF times as fast.
    pub fn undivided(tdf: Tdf) -> VirtualCpu {
        VirtualCpu { pace: CpuPace::undivided(tdf), ..VirtualCpu::NATIVE }
    }

    /// The time-stamp counter too shows virtual time, at the processor's own frequency: `rdtsc` and `rdtscp` are
    /// answered from the clock, and every clock that is read costs a system call.
    pub fn with_dilated_tsc(self) -> VirtualCpu {
        VirtualCpu { tsc_cycles: tsc::cycles_per_ns(), ..self }
    }

    /// All threads of a program are on one core and stay there, whichever it is: more of its calls can then be answered
    /// without a signal (`guest/sites.c`).
    pub fn on_one_core(self) -> VirtualCpu {
        VirtualCpu { one_core: true, ..self }
    }

    /// A program sees so many CPUs, numbered from 0, wherever its threads run: up to [`VirtualCpu::MOST_CPUS`].
    pub fn with_cpus(self, count: u32) -> VirtualCpu {
        VirtualCpu { cpus: count.min(VirtualCpu::MOST_CPUS), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_that_makes_no_sense_is_refused() {
        assert!(matches!(VirtualCpu::speed(0.0), Err(Error::Speed(_))));
        assert!(matches!(VirtualCpu::speed(f64::NAN), Err(Error::Speed(_))));
        assert_eq!(VirtualCpu::undivided(Tdf::ONE), VirtualCpu::NATIVE);
    }
}
