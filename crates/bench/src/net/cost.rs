//! Costs of a frame in the emulator, beside a loop that only reads and writes.

use std::path::Path;
use std::time::{Duration, Instant};

use net::PipeConfig;
use scale::RealDuration;
use serde_json::json;

use super::ROUNDS;
use super::bare::{BareBed, Copied};
use super::bed::Bed;
use super::traffic::{self, HEADERS, blast, charged, flood, received_frames};
use crate::cores::Cores;
use crate::row::short;
use crate::scratch::Scratch;
use crate::stats::median;
use crate::{Error, Row};

/// The delay of the link in all of these, which does not change their costs.
const DELAY: RealDuration = RealDuration::from_nanos(1_000_000);

fn a_link(cores: &Cores) -> Result<Bed, Error> {
    Bed::pair(&PipeConfig { delay: DELAY, ..Default::default() }, cores, None)
}

/// Frames per second from one interface to another: the emulator, and a loop that only reads and writes.
pub fn forwarding(cores: &Cores, bytes: usize) -> Result<Row, Error> {
    /// More than elsewhere, for the two change by themselves by a fifth from one minute to the next.
    const ROUNDS: usize = 5;
    let time = Duration::from_millis(1000);
    let (mut bare, mut emulated, mut cost) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let copied = BareBed::new()?;
        let (from, _to) = traffic::sockets(&copied.spaces, &copied.addresses())?;
        let before = received_frames(&copied.spaces[1])?;
        // Timed inside: the copying thread may wait for some ms more before it ends.
        let send = || {
            let start = Instant::now();
            flood(&from, charged(bytes) - HEADERS, time);
            let frames = (received_frames(&copied.spaces[1])? - before) as f64;
            Ok(frames / start.elapsed().as_secs_f64() / 1e3)
        };
        bare.push(copied.copy::<false, _>(cores, send)?.0);
        let bed = a_link(cores)?;
        let (from, _to) = bed.sockets()?;
        let before = received_frames(&bed.spaces[1])?;
        let start = Instant::now();
        flood(&from, charged(bytes) - HEADERS, time);
        let frames = (received_frames(&bed.spaces[1])? - before) as f64;
        emulated.push(frames / start.elapsed().as_secs_f64() / 1e3);
        cost.push(bed.emulator.observe().map_err(Error::failed)?.cpu.as_secs_f64() * 1e6 / frames);
    }
    let (bare, emulated) = (median(bare), median(emulated));
    let params = json!({"bytes": bytes, "delay_ms": 1, "rounds": ROUNDS, "us_per_frame": short(median(cost))});
    Ok(Row::new("net_forwarding_rate", params, emulated, "kpackets/s").against(bare).goal(0.85 * bare))
}

/// Costs of recording a frame for the emulator's thread: the CPU time that it uses for each frame of a stream of
/// bursts, less that for the same stream without a capture. And how late frames are meanwhile.
pub fn capturing(cores: &Cores, snap: usize) -> Result<[Row; 2], Error> {
    let dir = Scratch::new()?;
    let rounds = (0..ROUNDS).map(|_| Ok([captured(cores, None)?, captured(cores, Some((dir.path(), snap)))?]));
    let rounds: Vec<[Stream; 2]> = rounds.collect::<Result<_, Error>>()?;
    let of = |value: fn(&Stream) -> f64, with: usize| median(rounds.iter().map(|r| value(&r[with])).collect());
    let (cost, late) = (|s: &Stream| s.us_per_frame, |s: &Stream| s.late_us);
    let missed: u64 = rounds.iter().map(|r| r[1].missed).sum();
    let params = json!({"bytes": 1518, "kept": snap, "us_per_frame": short(of(cost, 1)),
        "without_us_per_frame": short(of(cost, 0)), "frames": rounds[0][1].frames, "missed": missed, "rounds": ROUNDS});
    let cost = Row::new("net_capture_cost", params, of(cost, 1) - of(cost, 0), "us/frame");
    let params = json!({"kept": snap, "rounds": ROUNDS});
    let late = Row::new("net_capture_lateness_p999", params, of(late, 1), "us").beside(of(late, 0)).goal(100.0);
    Ok([cost, late])
}

/// Costs of noting what happens to a frame for the emulator's thread, likewise.
pub fn observing(cores: &Cores) -> Result<Row, Error> {
    let rounds = (0..ROUNDS).map(|_| {
        let bed = a_link(cores)?;
        let without = streamed(&bed)?;
        let bed = a_link(cores)?;
        let passages = bed.emulator.watch(&[0, 1]).map_err(Error::failed)?;
        let with = streamed(&bed)?;
        Ok([without, Stream { missed: passages.missed(), ..with }])
    });
    let rounds: Vec<[Stream; 2]> = rounds.collect::<Result<_, Error>>()?;
    let of = |with: usize| median(rounds.iter().map(|r| r[with].us_per_frame).collect());
    let missed: u64 = rounds.iter().map(|r| r[1].missed).sum();
    let params = json!({"bytes": 1518, "us_per_frame": short(of(1)), "without_us_per_frame": short(of(0)),
        "frames": rounds[0][1].frames, "missed": missed, "rounds": ROUNDS});
    Ok(Row::new("net_observe_cost", params, of(1) - of(0), "us/frame"))
}

/// Measurements of the emulator during a stream of bursts.
struct Stream {
    frames: u64,
    us_per_frame: f64,
    late_us: f64,
    missed: u64,
}

fn captured(cores: &Cores, file: Option<(&Path, usize)>) -> Result<Stream, Error> {
    let bed = a_link(cores)?;
    let capture = file.map(|(dir, snap)| bed.capture(dir.join("bench.pcapng"), snap)).transpose()?;
    let stream = streamed(&bed)?;
    let captured = capture.map(|c| c.finish(&bed.emulator).map_err(Error::failed)).transpose()?.unwrap_or_default();
    Ok(Stream { missed: captured.iter().map(|c| c.missed).sum(), ..stream })
}

fn streamed(bed: &Bed) -> Result<Stream, Error> {
    let (from, _to) = bed.sockets()?;
    let before = bed.emulator.observe().map_err(Error::failed)?;
    for _ in 0..400 {
        blast(&from, charged(1518) - HEADERS, 50);
        std::thread::sleep(Duration::from_millis(1));
    }
    let after = bed.emulator.observe().map_err(Error::failed)?;
    let frames = after.pipes[0].counters.packets - before.pipes[0].counters.packets;
    let us_per_frame = (after.cpu.as_secs_f64() - before.cpu.as_secs_f64()) * 1e6 / frames.max(1) as f64;
    let late_us = after.lateness.all.value_at_quantile(0.999) as f64 / 1e3;
    Ok(Stream { frames, us_per_frame, late_us, missed: 0 })
}

/// Time to deliver a frame of a bulk transfer: the receiver's TCP runs inside the write and is charged to no
/// node. The reference is a frame of the same size that UDP drops at once. Both through the bare loop, which can be
/// timed.
pub fn uncharged(cores: &Cores) -> Result<Row, Error> {
    let (mut tcp, mut udp) = (Vec::new(), Vec::new());
    let time = Duration::from_secs(1);
    let per_frame = |copied: Copied| copied.writing.as_secs_f64() * 1e6 / copied.frames as f64;
    for _ in 0..ROUNDS {
        let bare = BareBed::new()?;
        let transfer = || traffic::tcp(&bare.spaces, &bare.addresses(), time);
        tcp.push(per_frame(bare.copy::<true, _>(cores, transfer)?.1));
        let bare = BareBed::new()?;
        let (from, _to) = traffic::sockets(&bare.spaces, &bare.addresses())?;
        let send = || {
            flood(&from, charged(1518) - HEADERS, time);
            Ok(())
        };
        udp.push(per_frame(bare.copy::<true, _>(cores, send)?.1));
    }
    let params = json!({"reference": "UDP to a full socket", "bytes": 1518, "rounds": ROUNDS});
    Ok(Row::new("net_delivery_tcp", params, median(tcp), "us/frame").beside(median(udp)))
}
