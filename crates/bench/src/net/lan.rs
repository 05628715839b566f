//! A shared segment beside a switch: making it, what a frame for one member costs, and one for all.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use net::{NetworkSpec, PipeConfig};
use scale::RealDuration;
use serde_json::json;

use super::ROUNDS;
use super::bed::{Bed, lan, star};
use super::traffic::{HEADERS, PORT, blast, charged};
use crate::cores::Cores;
use crate::stats::median;
use crate::{Error, Row};

const DELAY: RealDuration = RealDuration::from_nanos(1_000_000);
/// Bytes of a frame, with its check sequence.
const BYTES: usize = 128;
/// How many bursts there are, a millisecond apart, and how many frames in each, so that no ring ever is full: to one
/// member, and to all.
const BURSTS: usize = 400;
const TO_ONE: usize = 50;
const TO_ALL: usize = 2;

/// For so long members of a LAN report which groups they are in (`mldv2_unsolicited_report_interval`, and some more).
const REPORTS: Duration = Duration::from_millis(1300);

/// Measured with so many members.
///
/// # Errors
///
/// If such a network cannot be made here, or carries nothing.
pub fn beside_a_switch(members: usize, cores: &Cores) -> Result<Vec<Row>, Error> {
    let config = PipeConfig { delay: DELAY, ..Default::default() };
    let (mut lans, mut switches) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        lans.push(measured(lan(members, &config), true, cores)?);
        switches.push(measured(star(members, &config), false, cores)?);
    }
    let of = |all: &[Measured], value: fn(&Measured) -> f64| median(all.iter().map(value).collect());
    let params = json!({"members": members, "rounds": ROUNDS});
    let frames = json!({"members": members, "bytes": BYTES, "rounds": ROUNDS});
    let row = |name, params: &serde_json::Value, unit, value: fn(&Measured) -> f64| {
        Row::new(name, params.clone(), of(&lans, value), unit)
    };
    let (made, one) = (|m: &Measured| m.made_s, |m: &Measured| m.us_to_one);
    Ok(vec![
        row("net_lan_setup_real", &params, "s", made).beside(of(&switches, made)),
        row("net_lan_frame", &frames, "us/frame", one).beside(of(&switches, one)),
        row("net_lan_broadcast_copy", &frames, "us/copy", |m| m.us_to_all).beside(of(&switches, one)),
    ])
}

struct Measured {
    made_s: f64,
    /// CPU time of the emulator.
    us_to_one: f64,
    /// For each copy; nothing, where there is no broadcast.
    us_to_all: f64,
}

fn measured(spec: NetworkSpec, broadcasts: bool, cores: &Cores) -> Result<Measured, Error> {
    let begun = Instant::now();
    let bed = Bed::start(spec, cores, None, 1)?;
    let made_s = begun.elapsed().as_secs_f64();
    let (from, _to) = bed.sockets()?;
    std::thread::sleep(REPORTS);
    let us_to_one = per_delivery(&bed, || blast(&from, charged(BYTES) - HEADERS, TO_ONE))?;
    let us_to_all = match broadcasts {
        true => {
            let speaker =
                bed.spaces[2].enter(|| std::net::UdpSocket::bind(("0.0.0.0", PORT))).map_err(Error::failed)?;
            let speaker = speaker.map_err(Error::failed)?;
            speaker.set_broadcast(true).map_err(Error::failed)?;
            speaker.connect((Ipv4Addr::BROADCAST, PORT)).map_err(Error::failed)?;
            per_delivery(&bed, || blast(&speaker, charged(BYTES) - HEADERS, TO_ALL))?
        }
        false => f64::NAN,
    };
    Ok(Measured { made_s, us_to_one, us_to_all })
}

/// CPU time of the emulator for each frame that it delivers, µs.
fn per_delivery(bed: &Bed, send: impl Fn()) -> Result<f64, Error> {
    let seen = || {
        let seen = bed.emulator.observe().map_err(Error::failed)?;
        // Frames that left the pipes to the nodes: every second one.
        let delivered: u64 = seen.pipes.iter().skip(1).step_by(2).map(|pipe| pipe.counters.packets).sum();
        Ok::<_, Error>((seen.cpu.as_secs_f64(), delivered))
    };
    let before = seen()?;
    for _ in 0..BURSTS {
        send();
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    let after = seen()?;
    match after.1 - before.1 {
        0 => Err(Error::failed("nothing is delivered")),
        delivered => Ok((after.0 - before.0) * 1e6 / delivered as f64),
    }
}
