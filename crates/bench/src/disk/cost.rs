//! Costs of a request for the harness: the CPU time of the process that serves disks, beside the same process that does
//! nothing but answer.

use std::fs;
use std::path::Path;

use device::{Disks, Transport};
use scale::Tdf;
use serde_json::json;

use super::fio::{self, Load, Pattern};
use super::{SIZE, Setup};
use crate::{Error, Row};

/// The most that a request should cost, real µs.
const GOAL_US: f64 = 2.0;

/// How requests are served meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Served {
    /// By the model, in the file.
    Modelled,
    /// In the file, at once.
    AtOnce,
    /// Not at all: answered at once.
    Null,
}

/// Requests per second of the harness core, and what one costs, beside a device with nothing behind: over each
/// transport that there is.
pub(super) fn measure(setup: &Setup, place: &Path) -> Result<Vec<Row>, Error> {
    let mut rows = over(Transport::FuseAndLoop, setup, &place.join("fuse"))?;
    if Transport::likely() == Transport::Ublk {
        rows.extend(over(Transport::Ublk, setup, &place.join("ublk"))?);
    }
    Ok(rows)
}

fn over(transport: Transport, setup: &Setup, place: &Path) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (pattern, bytes, depth) in [
        (Pattern::ReadAtRandom, 4096, 1),
        (Pattern::ReadAtRandom, 4096, 32),
        (Pattern::WriteAtRandom, 4096, 32),
        (Pattern::ReadInOrder, 1 << 20, 8),
        (Pattern::WriteInOrder, 1 << 20, 8),
    ] {
        let load = Load { pattern, depth, bytes, count: if bytes > 4096 { 2_000 } else { 20_000 }, limit_s: 5 };
        let cost =
            |served| of(setup, transport, load, served, &place.join(format!("{served:?}-{pattern:?}-{bytes}-{depth}")));
        let (modelled, at_once, null) = (cost(Served::Modelled)?, cost(Served::AtOnce)?, cost(Served::Null)?);
        for (how, us) in [("the model", modelled), ("the file alone", at_once)] {
            let mut params = load.params();
            params["served_by"] = json!(how);
            params["over"] = json!(transport);
            rows.push(Row::new("disk_request_cpu", params.clone(), us, "real us").beside(null).goal(GOAL_US));
            let rate = |us: f64| 1e3 / us;
            let row = Row::new("disk_requests_of_a_core_rate", params, rate(us), "thousand per real s");
            rows.push(row.beside(rate(null)));
        }
    }
    Ok(rows)
}

/// The CPU time of the process for each request, real µs.
fn of(setup: &Setup, over: Transport, load: Load, served: Served, place: &Path) -> Result<f64, Error> {
    let mut disks: Disks = setup.disks("nvme", place, Some(over))?;
    let device = disks.devices().first().ok_or_else(|| Error::failed("there is no device"))?.clone();
    // Requests are measured, not the first writing of a file's blocks.
    let warm = Load { pattern: Pattern::WriteInOrder, bytes: 1 << 20, depth: 8, count: 256, limit_s: 30 };
    let size = 256 << 20;
    debug_assert!(size <= SIZE);
    fio::run(&device, size, warm, setup.nodes, place)?;
    match served {
        Served::Modelled => disks.begin(host::now(), Tdf::ONE)?,
        Served::AtOnce => {}
        Served::Null => disks.null()?,
    }
    let before = disks.count()?.cpu;
    let took = fio::run(&device, size, load, setup.nodes, place)?;
    let spent = disks.count()?.cpu.saturating_sub(before);
    drop(disks);
    // There may not be room for all at once.
    let _ = fs::remove_dir_all(place);
    Ok(spent.as_secs_f64() * 1e6 / took.requests.len() as f64)
}
