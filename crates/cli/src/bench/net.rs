//! `diorama bench net`: delay, bandwidth, loss and cost of the emulator, measured through real sockets.
//!
//! Netbed's tables 1 to 3 come first ([`netbed`]), then what a frame costs.

mod bed;
mod netbed;
mod paper;
pub mod tables;
mod thousand;

use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use net::{MAX_FRAME, PipeConfig};
use scale::{RealDuration, Tdf};
use serde_json::json;

use self::bed::{BareBed, Bed, Filler, received_frames};
use super::{Figure, bounded, median};
use crate::failure::Failure;

/// Ethernet, IP and UDP headers.
const HEADERS: usize = 42;
/// Medians of this many.
const ROUNDS: usize = 3;

/// Measures the mechanism here and now.
pub fn measure() -> Result<Vec<Figure>, Failure> {
    let cores = bed::Cores::find()?;
    eprintln!("measuring on {}: this takes some minutes", machine());
    let mut figures = Vec::new();
    // In a run the nodes' core never sleeps, because every node has its filler; here neither.
    for tdf in [1, 10] {
        let tdf = Tdf::new(tdf, 1).map_err(Failure::failed)?;
        let filler = Filler::start(cores.nodes)?;
        figures.extend(netbed::delays(&cores, tdf)?);
        figures.extend(netbed::bandwidths(&cores, tdf)?);
        drop(filler);
        figures.extend(netbed::losses(&cores, tdf)?);
    }
    for bytes in netbed::SIZES {
        figures.push(forwarding(&cores, bytes)?);
    }
    for snap in [MAX_FRAME, 128] {
        figures.extend(capturing(&cores, snap)?);
    }
    figures.push(uncharged(&cores)?);
    for nodes in [100, 1000] {
        figures.extend(thousand::made_and_removed(nodes, &cores)?);
    }
    Ok(figures)
}

/// What this is measured on.
fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ")).map_or("?", |(_, m)| m);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cpus} CPUs, Linux {}", rustix::system::uname().release().to_string_lossy())
}

fn charged(bytes: usize) -> usize {
    bytes - 4
}

/// To four decimals: more is noise in a table.
fn short(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
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

/// Frames per second from one interface to another: the emulator, and a loop that only reads and writes.
fn forwarding(cores: &bed::Cores, bytes: usize) -> Result<Figure, Failure> {
    /// More than elsewhere, for the two change by themselves by a fifth from one minute to the next.
    const ROUNDS: usize = 5;
    let time = Duration::from_millis(1000);
    let (mut bare, mut emulated, mut cost) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let bare_bed = BareBed::new()?;
        let (from, _to) = bed::sockets(&bare_bed.spaces, bare_bed.addresses())?;
        let before = received_frames(&bare_bed.spaces[1])?;
        // Timed inside: the copying thread may wait for some ms more before it ends.
        let flood = || {
            let start = Instant::now();
            bed::flood(&from, charged(bytes) - HEADERS, time);
            let frames = (received_frames(&bare_bed.spaces[1])? - before) as f64;
            Ok(frames / start.elapsed().as_secs_f64() / 1e3)
        };
        bare.push(bare_bed.copy::<false, _>(cores, flood)?.0);
        let delay = RealDuration::from_nanos(1_000_000);
        let bed = Bed::start(&PipeConfig { delay, ..Default::default() }, cores, None)?;
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
    Ok(Figure {
        name: "net_forwarding_rate".into(),
        params,
        value: emulated,
        unit: "kpackets/s".into(),
        reference: Some(bare),
        error_percent: Some(100.0 * (emulated - bare) / bare),
        goal: Some(0.85 * bare),
        ok: Some(emulated >= 0.85 * bare),
    })
}

/// What recording a frame costs the emulator's thread: the CPU time that it uses for each frame of a stream of bursts, less
/// that for the same stream without a capture. And how late frames are meanwhile.
fn capturing(cores: &bed::Cores, snap: usize) -> Result<[Figure; 2], Failure> {
    let dir = std::env::temp_dir().join(format!("diorama-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(Failure::failed)?;
    let rounds = (0..ROUNDS).map(|_| Ok([captured(cores, None)?, captured(cores, Some((&dir, snap)))?]));
    let rounds: Result<Vec<[Stream; 2]>, Failure> = rounds.collect();
    // What cannot be removed lies where such things are removed one day.
    let _ = std::fs::remove_dir_all(&dir);
    let rounds = rounds?;
    let of = |value: fn(&Stream) -> f64, with: usize| median(rounds.iter().map(|r| value(&r[with])).collect());
    let (cost, late) = (|s: &Stream| s.us_per_frame, |s: &Stream| s.late_us);
    let missed: u64 = rounds.iter().map(|r| r[1].missed).sum();
    let params = json!({"bytes": 1518, "kept": snap, "us_per_frame": short(of(cost, 1)),
        "without_us_per_frame": short(of(cost, 0)), "frames": rounds[0][1].frames, "missed": missed, "rounds": ROUNDS});
    let lateness =
        bounded("net_capture_lateness_p999", json!({"kept": snap, "rounds": ROUNDS}), of(late, 1), "us", 100.0);
    let late = Figure { reference: Some(of(late, 0)), ..lateness };
    let cost = Figure {
        name: "net_capture_cost".into(),
        params,
        value: of(cost, 1) - of(cost, 0),
        unit: "us/frame".into(),
        reference: None,
        error_percent: None,
        goal: None,
        ok: None,
    };
    Ok([cost, late])
}

/// What a stream of bursts was like for the emulator.
struct Stream {
    frames: u64,
    us_per_frame: f64,
    late_us: f64,
    missed: u64,
}

fn captured(cores: &bed::Cores, file: Option<(&Path, usize)>) -> Result<Stream, Failure> {
    let delay = RealDuration::from_nanos(1_000_000);
    let bed = Bed::start(&PipeConfig { delay, ..Default::default() }, cores, None)?;
    let (from, _to) = bed.sockets()?;
    let capture = file.map(|(dir, snap)| bed.capture(dir.join("bench.pcapng"), snap)).transpose()?;
    let before = bed.emulator.observe().map_err(Failure::failed)?;
    for _ in 0..400 {
        bed::blast(&from, charged(1518) - HEADERS, 50);
        std::thread::sleep(Duration::from_millis(1));
    }
    let after = bed.emulator.observe().map_err(Failure::failed)?;
    let frames = after.pipes[0].counters.packets - before.pipes[0].counters.packets;
    let us_per_frame = (after.cpu.as_secs_f64() - before.cpu.as_secs_f64()) * 1e6 / frames.max(1) as f64;
    let late_us = after.lateness.all.value_at_quantile(0.999) as f64 / 1e3;
    let captured = capture.map(|c| c.finish(&bed.emulator).map_err(Failure::failed)).transpose()?.unwrap_or_default();
    Ok(Stream { frames, us_per_frame, late_us, missed: captured.iter().map(|c| c.missed).sum() })
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
