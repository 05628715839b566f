//! Table 2: bandwidth.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use net::{Limit, PipeConfig, Queue};
use scale::{Tdf, VirtualRate};
use serde_json::json;

use super::{SIZES, paper};
use crate::cores::Cores;
use crate::net::ROUNDS;
use crate::net::bed::Bed;
use crate::net::traffic::{HEADERS, charged};
use crate::row::short;
use crate::stats::{deviation, median};
use crate::{Error, Row};

/// Bandwidths of the paper and two that were not to be had then, with the sizes that are measured at each and what the
/// error may be, per cent.
const RATES: [(f64, &[usize], f64); 7] = [
    (56e3, &SIZES, 0.1),
    (384e3, &SIZES, 0.1),
    (1.544e6, &SIZES, 0.1),
    (10e6, &SIZES, 0.1),
    (45e6, &[1518], 0.1),
    (100e6, &[1518], 0.1),
    (1e9, &[1518], 0.5),
];
/// How long a bandwidth is measured in a round, real, unless too few frames would come in that time.
const STREAM: Duration = Duration::from_millis(600);
/// Where a frame of the largest size takes longer: so many of them.
const LEAST_FRAMES: f64 = 3.2;
/// The queue of a link whose bandwidth is measured lasts for so long, real, or is a hundred packets.
const STOCK: Duration = Duration::from_millis(10);
/// Offered load, as a multiple of a link's bandwidth.
const OFFERED: f64 = 1.15;

/// Measures the rate that arrives while more is offered than the link carries.
pub fn bandwidths(cores: &Cores, tdf: Tdf) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (bits, sizes, goal) in RATES {
        for bytes in sizes {
            rows.push(bandwidth(cores, tdf, bits, *bytes, goal)?);
        }
    }
    Ok(rows)
}

fn bandwidth(cores: &Cores, tdf: Tdf, bits: f64, bytes: usize, goal: f64) -> Result<Row, Error> {
    let rate = tdf.to_real_rate(VirtualRate::from_bits_per_s(bits));
    // The link must not run dry because its source is late: at 1 Gbit/s a hundred packets last for 1.2 ms.
    let frames = STOCK.as_secs_f64() / rate.transmission(charged(bytes)).as_secs_f64();
    let queue = Queue::DropTail(Limit::Packets((frames as u32).max(100)));
    let config = PipeConfig { rate: Some(rate), queue, ..Default::default() };
    let time = STREAM.max(Duration::from(rate.transmission(charged(1518))).mul_f64(LEAST_FRAMES));
    let mut observed = Vec::new();
    for _ in 0..ROUNDS {
        let bed = Bed::pair(&config, cores, tdf.polling_interval())?;
        let (from, to) = bed.sockets()?;
        to.set_read_timeout(Some(time + Duration::from_secs(1))).map_err(Error::failed)?;
        let roomy = rustix::net::sockopt::set_socket_recv_buffer_size_force(&to, 8 << 20);
        roomy.map_err(|e| Error::machine(format!("a socket's buffer cannot be made larger: {e}")))?;
        let (frames, span) = stream(&bed, &from, &to, charged(bytes), rate.bits_per_s() * OFFERED, time)?;
        observed.push(frames as f64 * charged(bytes) as f64 * 8.0 / tdf.to_virtual(span.into()).as_secs_f64());
    }
    let params = json!({"tdf": tdf, "bytes": bytes, "bits_per_s": bits,
        "sd_bits_per_s": short(deviation(&observed)), "rounds": ROUNDS, "paper": paper::bandwidth(bits, bytes)});
    Ok(Row::new("net_bandwidth", params, median(observed), "bit/s").within(goal, bits))
}

/// Frames that arrived after the first, and the time from the first to the last, while `bits` a second are offered.
fn stream(
    bed: &Bed,
    from: &UdpSocket,
    to: &UdpSocket,
    frame: usize,
    bits: f64,
    time: Duration,
) -> Result<(u64, Duration), Error> {
    let payload = vec![0; frame - HEADERS];
    let frame_bits = frame as f64 * 8.0;
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            bed.join_nodes();
            let (start, mut offered) = (Instant::now(), 0.0);
            while start.elapsed() < time {
                // A few more at once, so that the link is busy from the beginning.
                while offered * frame_bits < start.elapsed().as_secs_f64() * bits + 10.0 * frame_bits {
                    // Frames that do not fit into the socket's buffer are not needed either.
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
        _ => Err(Error::failed("no packet crossed the link")),
    }
}
