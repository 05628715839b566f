//! Measuring a node's clock from inside it.

use std::io::{BufRead, BufReader, Read, Write};

use scale::{RealDuration, RealInstant, Tdf};

use crate::Error;

/// One reading of a dilated process's clocks at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The host's `CLOCK_MONOTONIC`.
    pub real: RealInstant,
    /// The node's `CLOCK_MONOTONIC`, in virtual ns. Its origin is that of the host's boot, not virtual zero.
    pub virtual_ns: u64,
}

/// `dilate-exec --probe` running dilated in a node, asked over its standard input and output.
///
/// Start it as `dilate-exec -- dilate-exec --probe`. It sleeps until asked, and ends when its input is closed. It reads
/// the kernel's own clock (whose address a dilated process knows) right before and after the dilated one, so scheduling
/// cannot disturb the pairing.
#[derive(Debug)]
pub struct Prober<W: Write, R: Read> {
    input: W,
    output: BufReader<R>,
}

impl<W: Write, R: Read> Prober<W, R> {
    /// Takes the two ends of the pipes to a running prober.
    pub fn new(input: W, output: R) -> Self {
        Prober { input, output: BufReader::new(output) }
    }

    /// Asks for one reading; waits until the node is scheduled.
    pub fn read(&mut self) -> Result<ClockReading, Error> {
        let what = "the clock prober does not answer";
        self.input.write_all(b"\n").and_then(|()| self.input.flush()).map_err(Error::system(what))?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(Error::system(what))?;
        let reading = line.trim().split_once(' ').and_then(|(real, virtual_)| {
            Some(ClockReading { real: RealInstant::from_nanos(real.parse().ok()?), virtual_ns: virtual_.parse().ok()? })
        });
        reading.ok_or(Error::Prober(line))
    }
}

/// How far off the rate of a node's clock was between two readings, in ppm of the rate that `tdf` promises; positive if
/// it ran fast. Zero if no time passed. A nanosecond of rounding and some 50 ns of reading are in it.
pub fn clock_error_ppm(first: ClockReading, last: ClockReading, tdf: Tdf) -> f64 {
    let promised = tdf.to_virtual(last.real.since(first.real));
    if last.real.since(first.real) == RealDuration::ZERO || promised.as_nanos() == 0 {
        return 0.0;
    }
    let passed = last.virtual_ns.saturating_sub(first.virtual_ns) as f64;
    1e6 * (passed - promised.as_nanos() as f64) / promised.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_gains_a_millisecond_in_ten_seconds_is_100_ppm_fast() {
        let tdf: Tdf = "10".parse().unwrap();
        let at = |real, virtual_ns| ClockReading { real: RealInstant::from_nanos(real), virtual_ns };
        let first = at(5_000_000_000, 3_000_000_000);
        let error = |last| clock_error_ppm(first, last, tdf);
        assert_eq!(error(at(105_000_000_000, 13_001_000_000)), 100.0);
        assert_eq!(error(at(105_000_000_000, 13_000_000_000)), 0.0);
        assert_eq!(error(at(105_000_000_000, 12_999_000_000)), -100.0);
        assert_eq!(error(first), 0.0);
    }

    #[test]
    fn an_answer_that_is_no_reading_is_an_error() {
        let mut prober = Prober::new(Vec::new(), &b"12 34\nnonsense\n"[..]);
        assert_eq!(prober.read().unwrap().virtual_ns, 34);
        assert!(matches!(prober.read(), Err(Error::Prober(_))));
        assert!(matches!(prober.read(), Err(Error::Prober(_))));
    }
}
