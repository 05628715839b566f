//! Table 3: loss.

use std::thread;
use std::time::Duration;

use net::{Loss, PipeConfig};
use scale::{Tdf, VirtualDuration};
use serde_json::json;

use super::{SIZES, paper};
use crate::cores::Cores;
use crate::net::bed::{Bed, pair};
use crate::net::traffic::{HEADERS, blast, charged, received_frames};
use crate::row::short;
use crate::{Error, Row};

/// Loss rates of the paper, per cent.
const LOSSES: [f64; 3] = [0.8, 2.5, 12.0];
/// Bursts, and frames in each, that a loss is measured with: less than an interface's ring holds, then time to read it.
const BURSTS: (usize, usize) = (500, 500);

/// Frames that the receiver's interface missed, of those that came to the link.
pub fn losses(cores: &Cores, tdf: Tdf) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for percent in LOSSES {
        for bytes in SIZES {
            rows.push(loss(cores, tdf, percent, bytes)?);
        }
    }
    Ok(rows)
}

fn loss(cores: &Cores, tdf: Tdf, percent: f64, bytes: usize) -> Result<Row, Error> {
    let p = percent / 100.0;
    let config = PipeConfig { loss: Loss::Random(p), ..Default::default() };
    let bed = Bed::start(pair(&config), cores, tdf.polling_interval(), seed(tdf, percent, bytes))?;
    let (from, _to) = bed.sockets()?;
    let before = received_frames(&bed.spaces[1])?;
    for _ in 0..BURSTS.0 {
        blast(&from, charged(bytes) - HEADERS, BURSTS.1);
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(Duration::from_millis(20));
    let seen = bed.emulator.observe().map_err(Error::failed)?;
    let offered = (seen.pipes[0].counters.packets + seen.pipes[0].counters.lost) as f64;
    let received = (received_frames(&bed.spaces[1])? - before) as f64;
    // 99.9 % of binomial samples are within 3.29 standard deviations.
    let interval = 3.29 * (p * (1.0 - p) / offered).sqrt();
    let params = json!({"tdf": tdf, "loss_percent": percent, "bytes": bytes, "n": offered,
        "interval_percent": short(100.0 * interval), "ring_drops": seen.ring_drops(),
        "paper": paper::loss(percent, bytes)});
    let lost = 100.0 * (1.0 - received / offered);
    Ok(Row::new("net_loss", params, lost, "%").within(100.0 * interval / p, percent))
}

/// Each cell of the table has chances of its own, the same in every run of the benchmark: one seed for all would draw
/// one sample and show it twelve times.
fn seed(tdf: Tdf, percent: f64, bytes: usize) -> u64 {
    tdf.to_real(VirtualDuration::from_nanos(1)).as_nanos() << 32 | ((10.0 * percent) as u64) << 16 | bytes as u64
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
                    seeds.push(seed(Tdf::new(tdf, 1).expect("a factor"), percent, bytes));
                }
            }
        }
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 12);
    }
}
