//! `diorama bench net`: delay, bandwidth, loss and cost of the emulator, measured through real sockets.
//!
//! The rows are those of Netbed's tables 1 to 3 (OSDI 2002, §5.2). As there, a delay is *adjusted*: what the same path
//! costs without any delay, measured in the same run, is subtracted. Frames of "64" and "1518" bytes count their check
//! sequence, which no software sees: they are charged 60 and 1514 bytes.

mod bed;
mod thousand;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use net::{Loss, PipeChange, PipeConfig};
use scale::{RealDuration, RealRate};
use serde_json::json;

use self::bed::{BareBed, Bed, Filler, blast, received_frames};
use super::Figure;
use crate::failure::Failure;

/// Ethernet, IP and UDP headers.
const HEADERS: usize = 42;
/// Medians of this many.
const ROUNDS: usize = 3;

/// Measures the mechanism here and now.
pub fn measure() -> Result<Vec<Figure>, Failure> {
    let cores = bed::Cores::find()?;
    let mut figures = Vec::new();
    // In a run the nodes' core never sleeps, because every node has its filler; here neither.
    let filler = Filler::start(cores.nodes)?;
    for bytes in [64, 1518] {
        figures.extend(delays(&cores, bytes)?);
    }
    for bits in [384e3, 1.544e6, 10e6, 100e6] {
        figures.push(bandwidth(&cores, bits)?);
    }
    drop(filler);
    for percent in [0.8, 2.5, 12.0] {
        figures.push(loss(&cores, percent)?);
    }
    for bytes in [64, 1518] {
        figures.extend(forwarding(&cores, bytes)?);
    }
    figures.push(uncharged(&cores)?);
    for nodes in [100, 1000] {
        figures.extend(thousand::made_and_removed(nodes, &cores)?);
    }
    Ok(figures)
}

fn charged(bytes: usize) -> usize {
    bytes - 4
}

/// To four decimals: more is noise in a table.
fn short(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A figure that should be within `goal_percent` of its reference.
fn close_to(
    name: &str,
    params: serde_json::Value,
    value: f64,
    unit: &str,
    reference: f64,
    goal_percent: f64,
) -> Figure {
    let error = 100.0 * (value - reference) / reference;
    Figure {
        name: name.into(),
        params,
        value,
        unit: unit.into(),
        reference: Some(reference),
        error_percent: Some(error),
        goal: Some(short(reference * (1.0 + goal_percent / 100.0))),
        ok: Some(error.abs() <= goal_percent),
    }
}

/// Round-trip times by UDP echo over one link, at several delays, less the time at delay 0.
fn delays(cores: &bed::Cores, bytes: usize) -> Result<Vec<Figure>, Failure> {
    let bed = Bed::start(&PipeConfig::default(), cores)?;
    let mut samples: Vec<(u64, Vec<f64>)> = [0, 5, 10, 50].map(|d| (d, Vec::new())).into();
    let payload = charged(bytes) - HEADERS;
    for _ in 0..ROUNDS {
        for (delay_ms, times) in &mut samples {
            bed.set_both(&PipeChange {
                delay: Some(RealDuration::from_nanos(*delay_ms * 1_000_000)),
                ..Default::default()
            })?;
            let count = [200, 60, 30, 12][[0, 5, 10, 50].iter().position(|d| d == delay_ms).unwrap_or(0)];
            times.extend(bed.round_trips(payload, count)?);
        }
    }
    let reference = median(samples.remove(0).1);
    let figure = |(delay_ms, times): (u64, Vec<f64>)| {
        let ideal = 2.0 * delay_ms as f64;
        let observed = median(times.clone());
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let deviation = (times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / (times.len() - 1) as f64).sqrt();
        let params = json!({"delay_ms": delay_ms, "bytes": bytes, "observed_ms": short(observed),
            "sd_ms": short(deviation), "zero_delay_ms": short(reference), "n": times.len()});
        close_to("net_round_trip_adjusted", params, observed - reference, "ms", ideal, 0.4)
    };
    let mut figures: Vec<Figure> = samples.into_iter().map(figure).collect();
    let late = bed.emulator.observe().map_err(Failure::failed)?.lateness.all.value_at_quantile(0.999) as f64 / 1e3;
    figures.push(Figure {
        name: "net_lateness_p999".into(),
        params: json!({"bytes": bytes}),
        value: late,
        unit: "us".into(),
        reference: None,
        error_percent: None,
        // What a run at TDF 1 must keep to be trustworthy.
        goal: Some(100.0),
        ok: Some(late <= 100.0),
    });
    Ok(figures)
}

/// Packets of 1518 bytes counted over time at the receiver, while the sender offers more than the link carries.
fn bandwidth(cores: &bed::Cores, bits: f64) -> Result<Figure, Failure> {
    let config = PipeConfig { rate: Some(RealRate::from_bits_per_s(bits)), ..Default::default() };
    let mut observed = Vec::new();
    let time = Duration::from_secs(2);
    for _ in 0..ROUNDS {
        let bed = Bed::start(&config, cores)?;
        let (from, to) = bed.sockets()?;
        let frame_bits = charged(1518) as f64 * 8.0;
        let payload = vec![0; charged(1518) - HEADERS];
        let (first, last, frames) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let start = Instant::now();
                let mut offered = 0.0;
                while start.elapsed() < time {
                    // 1.3 times the rate, and a few more so that the queue fills at once.
                    while offered * frame_bits < start.elapsed().as_secs_f64() * bits * 1.3 + 10.0 * frame_bits {
                        // What does not fit into the socket's buffer is not needed either.
                        let _ = from.send(&payload);
                        offered += 1.0;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let start = Instant::now();
            let mut seen: Option<(Instant, Instant, u64)> = None;
            while start.elapsed() < time && to.recv(&mut [0; 2048]).is_ok() {
                let now = Instant::now();
                seen = Some(seen.map_or((now, now, 0), |(first, _, n)| (first, now, n + 1)));
            }
            seen
        })
        .ok_or_else(|| Failure::failed("no packet crossed the link"))?;
        observed.push(frames as f64 * frame_bits / (last - first).as_secs_f64());
    }
    let params = json!({"bytes": 1518, "bits_per_s": bits, "rounds": ROUNDS});
    Ok(close_to("net_bandwidth", params, median(observed), "bit/s", bits, 0.1))
}

/// Frames that the receiver's interface missed, of those that the emulator saw.
fn loss(cores: &bed::Cores, percent: f64) -> Result<Figure, Failure> {
    let p = percent / 100.0;
    let bed = Bed::start(&PipeConfig { loss: Loss::Random(p), ..Default::default() }, cores)?;
    let (from, _to) = bed.sockets()?;
    let before = received_frames(&bed.spaces[1])?;
    for _ in 0..500 {
        // Less than the interface's ring holds, then time to read it.
        blast(&from, 20, 500);
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(20));
    let seen = bed.emulator.observe().map_err(Failure::failed)?;
    let offered = (seen.pipes[0].counters.packets + seen.pipes[0].counters.lost) as f64;
    let received = (received_frames(&bed.spaces[1])? - before) as f64;
    let observed = 1.0 - received / offered;
    // 99.9 % of binomial samples are within 3.29 standard deviations.
    let interval = 3.29 * (p * (1.0 - p) / offered).sqrt();
    let params = json!({"loss_percent": percent, "n": offered, "ring_drops": seen.ring_drops()});
    Ok(close_to("net_loss", params, 100.0 * observed, "%", percent, 100.0 * interval / p))
}

/// Frames per second from one interface to another: the emulator, and a loop that only reads and writes.
fn forwarding(cores: &bed::Cores, bytes: usize) -> Result<Vec<Figure>, Failure> {
    let time = Duration::from_millis(1000);
    let (mut bare, mut emulated, mut cost) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let bare_bed = BareBed::new()?;
        let (from, _to) = bed::sockets(&bare_bed.spaces, bare_bed.addresses())?;
        let before = received_frames(&bare_bed.spaces[1])?;
        let flood = || {
            bed::flood(&from, charged(bytes) - HEADERS, time);
            received_frames(&bare_bed.spaces[1])
        };
        let start = Instant::now();
        let (after, _) = bare_bed.copy::<false, _>(cores, flood)?;
        bare.push((after - before) as f64 / start.elapsed().as_secs_f64() / 1e3);
        let delay = RealDuration::from_nanos(1_000_000);
        let bed = Bed::start(&PipeConfig { delay, ..Default::default() }, cores)?;
        let (from, _to) = bed.sockets()?;
        let before = received_frames(&bed.spaces[1])?;
        let start = Instant::now();
        bed::flood(&from, charged(bytes) - HEADERS, time);
        let frames = (received_frames(&bed.spaces[1])? - before) as f64;
        emulated.push(frames / start.elapsed().as_secs_f64() / 1e3);
        cost.push(bed.emulator.observe().map_err(Failure::failed)?.cpu.as_secs_f64() * 1e6 / frames);
    }
    let (bare, emulated) = (median(bare), median(emulated));
    let params = json!({"bytes": bytes, "delay_ms": 1, "rounds": ROUNDS, "us_per_frame": short(median(cost))});
    Ok(vec![Figure {
        name: "net_forwarding_rate".into(),
        params,
        value: emulated,
        unit: "kpackets/s".into(),
        reference: Some(bare),
        error_percent: Some(100.0 * (emulated - bare) / bare),
        goal: Some(0.85 * bare),
        ok: Some(emulated >= 0.85 * bare),
    }])
}

/// What delivering a frame of a bulk transfer takes: the receiver's TCP runs inside the write and is charged to no node.
/// The reference is a frame of the same size that UDP drops at once. Both through the bare loop, which can be timed.
fn uncharged(cores: &bed::Cores) -> Result<Figure, Failure> {
    let (mut tcp, mut udp) = (Vec::new(), Vec::new());
    let time = Duration::from_secs(1);
    let per_frame = |copied: bed::Copied| copied.writing.as_secs_f64() * 1e6 / copied.frames as f64;
    for _ in 0..ROUNDS {
        let bare = BareBed::new()?;
        let transfer = || bed::tcp(&bare.spaces, bare.addresses(), time);
        tcp.push(per_frame(bare.copy::<true, _>(cores, transfer)?.1));
        let bare = BareBed::new()?;
        let (from, _to) = bed::sockets(&bare.spaces, bare.addresses())?;
        let flood = || {
            bed::flood(&from, charged(1518) - HEADERS, time);
            Ok(())
        };
        udp.push(per_frame(bare.copy::<true, _>(cores, flood)?.1));
    }
    Ok(Figure {
        name: "net_delivery_tcp".into(),
        params: json!({"reference": "UDP to a full socket", "bytes": 1518, "rounds": ROUNDS}),
        value: median(tcp),
        unit: "us/frame".into(),
        reference: Some(median(udp)),
        error_percent: None,
        goal: None,
        ok: None,
    })
}

/// A socket with a time-out, so that a broken network ends the benchmark and does not hang it.
fn patient(socket: UdpSocket) -> Result<UdpSocket, Failure> {
    socket.set_read_timeout(Some(Duration::from_secs(3))).map_err(Failure::failed)?;
    Ok(socket)
}
