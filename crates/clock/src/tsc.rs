//! How fast the processor's time-stamp counter counts.

use std::sync::OnceLock;
use std::time::Duration;

/// How long to look; two readings are paired with the clock to some 0.1 µs, so this is good for 5 ppm.
const LOOK: Duration = Duration::from_millis(20);
const TRIES: usize = 16;

/// Cycles per ns, times 2^32: measured once, so that it is the same for all nodes of a run.
pub(crate) fn cycles_per_ns() -> u64 {
    static MEASURED: OnceLock<u64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let (first_ns, first) = reading();
        std::thread::sleep(LOOK);
        let (last_ns, last) = reading();
        (u128::from(last - first) << 32).div_euclid(u128::from(last_ns - first_ns)) as u64
    })
}

/// The clock, in ns, and the counter, at nearly one instant: the closest of several.
fn reading() -> (u64, u64) {
    let once = || {
        // SAFETY: every x86-64 processor has the instruction, and this process may use it.
        let (before, now, after) =
            unsafe { (core::arch::x86_64::_rdtsc(), host::now().as_nanos(), core::arch::x86_64::_rdtsc()) };
        (after - before, now, before + (after - before) / 2)
    };
    let (_, ns, cycles) = (0..TRIES).map(|_| once()).min().expect("there are tries");
    (ns, cycles)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_counter_counts_some_cycles_a_nanosecond() {
        let cycles = super::cycles_per_ns();
        // 0.5 to 8 GHz.
        assert!((1 << 31..8 << 32).contains(&cycles), "{}", cycles as f64 / f64::from(2).powi(32));
        assert_eq!(cycles, super::cycles_per_ns());
    }
}
