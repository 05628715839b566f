//! Table 1: delay.
//!
//! A delay is also *adjusted*: what the same path costs without any delay, measured in the same round, is subtracted.
//! As in the paper the path is never idle: probes follow one another so closely that many are on their way at once.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use net::{PipeChange, PipeConfig};
use scale::{RealDuration, Tdf, VirtualDuration};
use serde_json::json;

use super::{SIZES, paper};
use crate::cores::Cores;
use crate::net::ROUNDS;
use crate::net::bed::Bed;
use crate::net::traffic::{HEADERS, charged};
use crate::row::{percent_off, short};
use crate::stats::{deviation, median};
use crate::{Error, Row};

/// Delays of the paper, one way.
const DELAYS_MS: [u64; 5] = [0, 5, 10, 50, 300];
/// The largest error of a delay in real time, per cent of the round trip.
const GOAL: f64 = 0.4;
/// Probes of each size in a round of a delay.
const PROBES: usize = 200;
/// From one probe to the next, real: so short that nothing falls asleep in between, and no part of any delay.
const SPACING: Duration = Duration::from_micros(930);

/// Round trips of UDP at several delays.
pub fn delays(cores: &Cores, tdf: Tdf) -> Result<Vec<Row>, Error> {
    let bed = Bed::pair(&PipeConfig::default(), cores, tdf.polling_interval())?;
    let mut all = [0, 1].map(|_| DELAYS_MS.map(|_| Trips::default()));
    for _ in 0..ROUNDS {
        let mut base = [0.0; 2];
        for (place, delay_ms) in DELAYS_MS.into_iter().enumerate() {
            let delay = tdf.to_real(VirtualDuration::from_nanos(delay_ms * 1_000_000));
            bed.set_all(&PipeChange { delay: Some(delay), ..Default::default() })?;
            for (size, times) in probe(&bed, delay)?.into_iter().enumerate() {
                let times: Vec<f64> = times.into_iter().map(|t| virtual_ms(tdf, t)).collect();
                let observed = median(times.clone());
                if delay_ms == 0 {
                    base[size] = observed;
                }
                let trips = &mut all[size][place];
                trips.observed.push(observed);
                trips.adjusted.push(observed - base[size]);
                trips.times.extend(times);
            }
        }
    }
    let mut rows = Vec::new();
    for (place, delay_ms) in DELAYS_MS.into_iter().enumerate() {
        for (bytes, of_size) in SIZES.into_iter().zip(&all) {
            rows.push(of_size[place].row(delay_ms, bytes, tdf));
        }
    }
    let late = bed.emulator.observe().map_err(Error::failed)?.lateness.all.value_at_quantile(0.999);
    let late = tdf.to_virtual(RealDuration::from_nanos(late)).as_secs_f64() * 1e6;
    // A trustworthy run keeps within this.
    rows.push(Row::new("net_lateness_p999", json!({"tdf": tdf}), late, "us").goal(100.0));
    Ok(rows)
}

fn virtual_ms(tdf: Tdf, real: Duration) -> f64 {
    tdf.to_virtual(real.into()).as_secs_f64() * 1e3
}

/// Round trips over one link, in virtual ms.
#[derive(Default)]
struct Trips {
    /// Medians of the rounds.
    observed: Vec<f64>,
    /// Its round trips, less those of the round at no delay.
    adjusted: Vec<f64>,
    times: Vec<f64>,
}

impl Trips {
    fn row(&self, delay_ms: u64, bytes: usize, tdf: Tdf) -> Row {
        let observed = median(self.observed.clone());
        let ideal = 2.0 * delay_ms as f64;
        let mut params = json!({"tdf": tdf, "delay_ms": delay_ms, "bytes": bytes, "observed_ms": short(observed),
            "sd_ms": short(deviation(&self.times)), "n": self.times.len(), "rounds": ROUNDS});
        params["paper"] = paper::delay(delay_ms, bytes);
        if delay_ms == 0 {
            return Row::new("net_round_trip_base", params, observed, "ms");
        }
        params["observed_error_percent"] = json!(short(percent_off(observed, ideal)));
        // The machine's errors are real ones, which dilation divides.
        let allowed = tdf.to_virtual(RealDuration::from_secs_f64(ideal / 1e3 * GOAL / 100.0));
        let goal = 100.0 * allowed.as_secs_f64() * 1e3 / ideal;
        Row::new("net_round_trip_adjusted", params, median(self.adjusted.clone()), "ms").within(goal, ideal)
    }
}

/// Round-trip times of probes of both sizes in turn, by size.
fn probe(bed: &Bed, delay: RealDuration) -> Result<[Vec<Duration>; 2], Error> {
    let (from, to) = bed.sockets()?;
    let patience = Duration::from(delay) * 2 + Duration::from_secs(3);
    for socket in [&from, &to] {
        socket.set_read_timeout(Some(patience)).map_err(Error::failed)?;
    }
    let start = Instant::now();
    let mut times = [Vec::new(), Vec::new()];
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            bed.join_nodes();
            let mut buffer = [0; 2048];
            for _ in 0..2 * PROBES {
                let len = to.recv(&mut buffer)?;
                to.send(&buffer[..len])?;
            }
            Ok::<_, io::Error>(())
        });
        let sender = scope.spawn(|| {
            bed.join_nodes();
            for number in 0..2 * PROBES {
                thread::sleep((SPACING * number as u32).saturating_sub(start.elapsed()));
                let mut message = vec![0; charged(SIZES[number % 2]) - HEADERS];
                message[..8].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_le_bytes());
                from.send(&message)?;
            }
            Ok::<_, io::Error>(())
        });
        let mut answer = [0; 2048];
        for _ in 0..2 * PROBES {
            let len = from.recv(&mut answer).map_err(lost)?;
            let mut sent = [0; 8];
            sent.copy_from_slice(&answer[..8]);
            let time = start.elapsed().saturating_sub(Duration::from_nanos(u64::from_le_bytes(sent)));
            times[usize::from(len != charged(SIZES[0]) - HEADERS)].push(time);
        }
        for thread in [echo, sender] {
            thread.join().map_err(|_| Error::failed("a prober panicked"))?.map_err(Error::failed)?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(times)
}

/// A probe that has not come back in the time that a socket waits for it is lost, for the link loses none.
fn lost(e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::WouldBlock => Error::failed(
            "a probe of a link without loss did not come back: measure on a machine that does nothing else",
        ),
        _ => Error::failed(e),
    }
}
