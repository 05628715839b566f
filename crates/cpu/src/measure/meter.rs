//! How fast a core is, measured with the yardstick.

use host::now;
use scale::RealDuration;

use crate::measure::yardstick::{self, CounterRate, Laps};
use crate::{Error, Speed};

/// Measures `core` for that long by computing on it like any program, so beside others it takes longer to say the same:
/// chunks that were interrupted do not count.
///
/// Fails if this process may not use the core, or if all of the time was taken by others.
pub fn measure(core: usize, time: RealDuration) -> Result<Speed, Error> {
    let body = move || -> Result<Option<Speed>, Error> {
        host::pin(core).map_err(Error::io(format!("run on core {core}")))?;
        Ok(of_this_core(time))
    };
    let speed = std::thread::spawn(body).join().expect("the meter does not panic");
    speed?.ok_or_else(|| {
        let what = format!("core {core} was too busy with other programs for its speed to be measured");
        host::Lack::new(what, "stop other work on that core").into()
    })
}

fn of_this_core(time: RealDuration) -> Option<Speed> {
    let (rate, start) = (CounterRate::start(), now());
    let (mut laps, mut took) = (Laps::start(), Vec::new());
    loop {
        took.extend(laps.lap());
        let enough = took.len() >= ENOUGH || now().since(start) >= time + PATIENCE;
        if now().since(start) >= time && enough {
            break;
        }
    }
    let (chunks, cycles) = left_alone(took);
    speed(chunks, cycles, rate.per_us()?)
}

/// How many chunks were left alone, and what they took together. Chunk by chunk that cannot be told where the first
/// ones were interrupted, as beside several programs; of all of them the shortest quarter were not.
fn left_alone(mut took: Vec<u64>) -> (u64, u64) {
    took.sort_unstable();
    let longest = took.get(took.len() / 4).map_or(0, |short| 2 * short);
    let kept = took.into_iter().take_while(|cycles| *cycles < longest);
    kept.fold((0, 0), |(chunks, sum), cycles| (chunks + 1, sum + cycles))
}

/// Fewer chunks than this say nothing.
pub(crate) const LEAST_CHUNKS: u64 = 20;
/// A millisecond's, of which some are left alone on any core.
const ENOUGH: usize = 200;
/// How much longer than asked for it may take on a busy core.
const PATIENCE: RealDuration = RealDuration::from_nanos(2_000_000_000);

/// The speed at which `chunks` of the yardstick take `cycles` of a counter that counts `per_us` in a microsecond.
pub(crate) fn speed(chunks: u64, cycles: u64, per_us: f64) -> Option<Speed> {
    let enough = chunks >= LEAST_CHUNKS && cycles > 0;
    let units = (chunks * yardstick::ROUNDS) as f64;
    enough.then(|| Speed::from_units_per_us(units * per_us / cycles as f64)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_work_by_time() {
        let of = |chunks, cycles| speed(chunks, cycles, 3_000.0);
        let whole = of(1_000, 1_000 * 12_288).unwrap();
        assert!((whole.units_per_us() - 1_000.0).abs() < 1e-9, "4096 rounds in 4.096 µs: {whole}");
        assert_eq!(of(0, 0), None);
        assert_eq!(of(LEAST_CHUNKS - 1, 1_000_000), None, "too few to tell");
        assert_eq!(of(LEAST_CHUNKS, 0), None);
    }

    #[test]
    fn chunks_that_were_interrupted_do_not_count() {
        let took = [9_000_000, 12_000, 12_100, 10_000_000, 12_200, 12_300, 30_000, 8_000_000, 7_000_000].repeat(10);
        assert_eq!(left_alone(took), (40, 10 * 48_600));
        assert_eq!(left_alone(Vec::new()), (0, 0));
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error() {
        let error = measure(9_999, RealDuration::from_nanos(1)).unwrap_err();
        assert!(error.to_string().contains("core 9999"), "{error}");
    }

    #[test]
    fn every_measurement_of_a_core_gives_its_speed() {
        let speed = || measure(0, RealDuration::from_nanos(30_000_000)).unwrap().units_per_us();
        let (a, b) = (speed(), speed());
        assert!((1.0 / 4.0..4.0).contains(&(a / b)), "a neighbour may have come, but not more: {a}, {b}");
    }
}
