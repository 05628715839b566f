//! Netbed's tables 1 to 3 (OSDI 2002, §6.1): delay, bandwidth and loss as programs see them.
//!
//! A delay is also *adjusted*: what the same path costs without any delay, measured in the same round, is subtracted. As
//! in the paper the path is never idle: probes follow one another so closely that many are on their way at once. Frames of
//! "64" and "1518" bytes count their check sequence, which no software sees: they are charged 60 and 1514 bytes.
//!
//! Everything is in virtual time: the emulator is given what `scale` makes of the link, and what sockets then show is
//! turned back by it.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use net::{Limit, Loss, PipeChange, PipeConfig, Queue};
use scale::{RealDuration, Tdf, VirtualDuration, VirtualRate};
use serde_json::{Value, json};

use super::bed::{Bed, Cores, blast, received_frames};
use super::{Figure, HEADERS, ROUNDS, charged, close_to, median, paper, short};
use crate::failure::Failure;

/// The frame sizes of the paper, check sequence included.
pub const SIZES: [usize; 2] = [64, 1518];
/// Delays of table 1, one way.
const DELAYS_MS: [u64; 5] = [0, 5, 10, 50, 300];
/// Bandwidths of table 2 and two that were not to be had then, with the sizes that are measured at each and what the error may
/// be, per cent.
const RATES: [(f64, &[usize], f64); 7] = [
    (56e3, &SIZES, 0.1),
    (384e3, &SIZES, 0.1),
    (1.544e6, &SIZES, 0.1),
    (10e6, &SIZES, 0.1),
    (45e6, &[1518], 0.1),
    (100e6, &[1518], 0.1),
    (1e9, &[1518], 0.5),
];
/// Loss rates of table 3, per cent.
const LOSSES: [f64; 3] = [0.8, 2.5, 12.0];

/// What the error of a delay may be in real time, per cent of the round trip.
const DELAY_GOAL: f64 = 0.4;
/// Probes of each size in a round of a delay.
const PROBES: usize = 200;
/// From one probe to the next, real: so short that nothing falls asleep in between, and no part of any delay.
const SPACING: Duration = Duration::from_micros(930);
/// How long a bandwidth is measured in a round, real, unless too few frames would come in that time.
const STREAM: Duration = Duration::from_millis(600);
/// Where a frame of the largest size takes longer: so many of them.
const LEAST_FRAMES: f64 = 3.2;
/// What waits at a link whose bandwidth is measured lasts for so long, real, or is a hundred packets.
const STOCK: Duration = Duration::from_millis(10);
/// What is offered of what a link carries.
const OFFERED: f64 = 1.15;
/// Bursts, and frames in each, that a loss is measured with: less than an interface's ring holds, then time to read it.
const BURSTS: (usize, usize) = (500, 500);

/// Table 1: round trips of UDP at several delays.
pub fn delays(cores: &Cores, tdf: Tdf) -> Result<Vec<Figure>, Failure> {
    let bed = Bed::start(&PipeConfig::default(), cores, tdf.polling_interval())?;
    let mut all = [0, 1].map(|_| DELAYS_MS.map(|_| Trips::default()));
    for _ in 0..ROUNDS {
        let mut base = [0.0; 2];
        for (place, delay_ms) in DELAYS_MS.into_iter().enumerate() {
            let delay = tdf.to_real(VirtualDuration::from_nanos(delay_ms * 1_000_000));
            bed.set_both(&PipeChange { delay: Some(delay), ..Default::default() })?;
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
    let mut figures = Vec::new();
    for (place, delay_ms) in DELAYS_MS.into_iter().enumerate() {
        for (bytes, of_size) in SIZES.into_iter().zip(&all) {
            figures.push(of_size[place].figure(delay_ms, bytes, tdf));
        }
    }
    let late = bed.emulator.observe().map_err(Failure::failed)?.lateness.all.value_at_quantile(0.999);
    let late = tdf.to_virtual(RealDuration::from_nanos(late)).as_secs_f64() * 1e6;
    figures.push(Figure {
        name: "net_lateness_p999".into(),
        params: json!({"tdf": shown(tdf)}),
        value: late,
        unit: "us".into(),
        reference: None,
        error_percent: None,
        // What a run must keep to be trustworthy.
        goal: Some(100.0),
        ok: Some(late <= 100.0),
    });
    Ok(figures)
}

fn virtual_ms(tdf: Tdf, real: Duration) -> f64 {
    tdf.to_virtual(real.into()).as_secs_f64() * 1e3
}

/// Round trips over one link, in virtual ms.
#[derive(Default)]
struct Trips {
    /// Medians of the rounds.
    observed: Vec<f64>,
    /// The same less the round's at no delay.
    adjusted: Vec<f64>,
    times: Vec<f64>,
}

impl Trips {
    fn figure(&self, delay_ms: u64, bytes: usize, tdf: Tdf) -> Figure {
        let observed = median(self.observed.clone());
        let ideal = 2.0 * delay_ms as f64;
        let mut params = json!({"tdf": shown(tdf), "delay_ms": delay_ms, "bytes": bytes, "observed_ms": short(observed),
            "sd_ms": short(deviation(&self.times)), "n": self.times.len(), "rounds": ROUNDS});
        params["paper"] = paper::delay(delay_ms, bytes);
        if delay_ms == 0 {
            let (name, unit) = ("net_round_trip_base".into(), "ms".into());
            return Figure {
                name,
                params,
                value: observed,
                unit,
                reference: None,
                error_percent: None,
                goal: None,
                ok: None,
            };
        }
        params["observed_error_percent"] = json!(short(100.0 * (observed - ideal) / ideal));
        // The machine's errors are real ones, which dilation divides.
        let allowed = tdf.to_virtual(RealDuration::from_secs_f64(ideal / 1e3 * DELAY_GOAL / 100.0));
        let goal = 100.0 * allowed.as_secs_f64() * 1e3 / ideal;
        close_to("net_round_trip_adjusted", params, median(self.adjusted.clone()), "ms", ideal, goal)
    }
}

/// The factors measured here are whole.
fn shown(tdf: Tdf) -> u64 {
    tdf.ratio().0
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}

/// Round-trip times of probes of both sizes in turn, by size.
fn probe(bed: &Bed, delay: RealDuration) -> Result<[Vec<Duration>; 2], Failure> {
    let (from, to) = bed.sockets()?;
    let patience = Duration::from(delay) * 2 + Duration::from_secs(3);
    for socket in [&from, &to] {
        socket.set_read_timeout(Some(patience)).map_err(Failure::failed)?;
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
            Ok::<_, std::io::Error>(())
        });
        let sender = scope.spawn(|| {
            bed.join_nodes();
            for number in 0..2 * PROBES {
                thread::sleep((SPACING * number as u32).saturating_sub(start.elapsed()));
                let mut message = vec![0; charged(SIZES[number % 2]) - HEADERS];
                message[..8].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_le_bytes());
                from.send(&message)?;
            }
            Ok::<_, std::io::Error>(())
        });
        let mut answer = [0; 2048];
        for _ in 0..2 * PROBES {
            let len = from.recv(&mut answer).map_err(Failure::failed)?;
            let mut sent = [0; 8];
            sent.copy_from_slice(&answer[..8]);
            let time = start.elapsed().saturating_sub(Duration::from_nanos(u64::from_le_bytes(sent)));
            times[usize::from(len != charged(SIZES[0]) - HEADERS)].push(time);
        }
        for thread in [echo, sender] {
            thread.join().map_err(|_| Failure::failed("a prober panicked"))?.map_err(Failure::failed)?;
        }
        Ok::<_, Failure>(())
    })?;
    Ok(times)
}

/// Table 2: what arrives while more is offered than the link carries.
pub fn bandwidths(cores: &Cores, tdf: Tdf) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for (bits, sizes, goal) in RATES {
        for bytes in sizes {
            figures.push(bandwidth(cores, tdf, bits, *bytes, goal)?);
        }
    }
    Ok(figures)
}

fn bandwidth(cores: &Cores, tdf: Tdf, bits: f64, bytes: usize, goal: f64) -> Result<Figure, Failure> {
    let rate = tdf.to_real_rate(VirtualRate::from_bits_per_s(bits));
    // The link must not run dry because its source is late: at 1 Gbit/s a hundred packets last for 1.2 ms.
    let frames = STOCK.as_secs_f64() / rate.transmission(charged(bytes)).as_secs_f64();
    let queue = Queue::DropTail(Limit::Packets((frames as u32).max(100)));
    let config = PipeConfig { rate: Some(rate), queue, ..Default::default() };
    let time = STREAM.max(Duration::from(rate.transmission(charged(1518))).mul_f64(LEAST_FRAMES));
    let mut observed = Vec::new();
    for _ in 0..ROUNDS {
        let bed = Bed::start(&config, cores, tdf.polling_interval())?;
        let (from, to) = bed.sockets()?;
        to.set_read_timeout(Some(time + Duration::from_secs(1))).map_err(Failure::failed)?;
        let roomy = rustix::net::sockopt::set_socket_recv_buffer_size_force(&to, 8 << 20);
        roomy.map_err(|e| Failure::machine(format!("a socket's buffer cannot be made larger: {e}")))?;
        let (frames, span) = stream(&bed, &from, &to, charged(bytes), rate.bits_per_s() * OFFERED, time)?;
        observed.push(frames as f64 * charged(bytes) as f64 * 8.0 / tdf.to_virtual(span.into()).as_secs_f64());
    }
    let params = json!({"tdf": shown(tdf), "bytes": bytes, "bits_per_s": bits, "sd_bits_per_s": short(deviation(&observed)),
        "rounds": ROUNDS, "paper": paper::bandwidth(bits, bytes)});
    Ok(close_to("net_bandwidth", params, median(observed), "bit/s", bits, goal))
}

/// Frames that arrived after the first, and the time from the first to the last, while `bits` a second are offered.
fn stream(
    bed: &Bed,
    from: &UdpSocket,
    to: &UdpSocket,
    frame: usize,
    bits: f64,
    time: Duration,
) -> Result<(u64, Duration), Failure> {
    let payload = vec![0; frame - HEADERS];
    let frame_bits = frame as f64 * 8.0;
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            bed.join_nodes();
            let (start, mut offered) = (Instant::now(), 0.0);
            while start.elapsed() < time {
                // A few more at once, so that the link is busy from the beginning.
                while offered * frame_bits < start.elapsed().as_secs_f64() * bits + 10.0 * frame_bits {
                    // What does not fit into the socket's buffer is not needed either.
                    let _ = from.send(&payload);
                    offered += 1.0;
                }
                thread::sleep(Duration::from_micros(500));
            }
        });
        let start = Instant::now();
        let mut seen: Option<(Instant, Instant, u64)> = None;
        while start.elapsed() < time && to.recv(&mut [0; 2048]).is_ok() {
            let now = Instant::now();
            seen = Some(seen.map_or((now, now, 0), |(first, _, n)| (first, now, n + 1)));
        }
        seen
    });
    match seen {
        Some((first, last, frames)) if frames > 0 => Ok((frames, last - first)),
        _ => Err(Failure::failed("no packet crossed the link")),
    }
}

/// Table 3: frames that the receiver's interface missed, of those that came to the link.
pub fn losses(cores: &Cores, tdf: Tdf) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for percent in LOSSES {
        for bytes in SIZES {
            figures.push(loss(cores, tdf, percent, bytes)?);
        }
    }
    Ok(figures)
}

fn loss(cores: &Cores, tdf: Tdf, percent: f64, bytes: usize) -> Result<Figure, Failure> {
    let p = percent / 100.0;
    let config = PipeConfig { loss: Loss::Random(p), ..Default::default() };
    let bed = Bed::seeded(&config, cores, tdf.polling_interval(), loss_seed(tdf, percent, bytes))?;
    let (from, _to) = bed.sockets()?;
    let before = received_frames(&bed.spaces[1])?;
    for _ in 0..BURSTS.0 {
        blast(&from, charged(bytes) - HEADERS, BURSTS.1);
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(Duration::from_millis(20));
    let seen = bed.emulator.observe().map_err(Failure::failed)?;
    let offered = (seen.pipes[0].counters.packets + seen.pipes[0].counters.lost) as f64;
    let received = (received_frames(&bed.spaces[1])? - before) as f64;
    // 99.9 % of binomial samples are within 3.29 standard deviations.
    let interval = 3.29 * (p * (1.0 - p) / offered).sqrt();
    let params: Value = json!({"tdf": shown(tdf), "loss_percent": percent, "bytes": bytes, "n": offered,
        "interval_percent": short(100.0 * interval), "ring_drops": seen.ring_drops(), "paper": paper::loss(percent, bytes)});
    Ok(close_to("net_loss", params, 100.0 * (1.0 - received / offered), "%", percent, 100.0 * interval / p))
}

/// Each cell of the table has chances of its own, the same in every run of the benchmark: one seed for all would draw one sample and
/// show it twelve times.
fn loss_seed(tdf: Tdf, percent: f64, bytes: usize) -> u64 {
    shown(tdf) << 32 | ((10.0 * percent) as u64) << 16 | bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_cells_of_the_table_of_losses_share_their_chances() {
        let mut seeds = Vec::new();
        for tdf in [1, 10] {
            for percent in LOSSES {
                for bytes in SIZES {
                    seeds.push(loss_seed(Tdf::new(tdf, 1).expect("a factor"), percent, bytes));
                }
            }
        }
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 12);
    }
}
