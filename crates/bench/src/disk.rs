//! How exactly a node's disk keeps to its model, and what a request costs the harness: fio's requests past the page
//! cache, and what the model says of the same ones.

mod cost;
mod fio;
mod modelled;

use std::fs;
use std::path::Path;

use device::{DiskSetup, Disks, Transport};
use disk::Parameters;
use scale::{RealDuration, Tdf};
use serde_json::{Value, json};

use self::fio::{Load, Pattern};
use self::modelled::modelled;
use crate::cores::first_and_last;
use crate::scratch::Scratch;
use crate::{Error, Notify, Row};

/// One for each family of disks.
const DISKS: [&str; 4] = ["hdd-7200", "ssd-sata", "nvme", "gp3"];
const TDFS: [u32; 3] = [1, 10, 50];
/// How much of it is used: the beginning.
const SIZE: u64 = 4 << 30;
/// How many requests of a kind there are, and for how long at most, in real seconds.
const COUNT: u64 = 1_000;
const LIMIT_S: u64 = 4;
/// The loads of which something is measured unless everything is asked for, and at which factors.
const SOME: [(Pattern, u32, u64); 6] = [
    (Pattern::ReadAtRandom, 1, 4 << 10),
    (Pattern::ReadAtRandom, 32, 4 << 10),
    (Pattern::WriteAndFlush, 1, 4 << 10),
    (Pattern::MixedAtRandom, 8, 64 << 10),
    (Pattern::ReadInOrder, 1, 1 << 20),
    (Pattern::WriteInOrder, 8, 1 << 20),
];
const SOME_TDFS: [u32; 2] = [1, 10];

/// How far mean and 99th percentile may be off, per cent: at TDF 1, and from 10 on.
fn goals(tdf: u32) -> (f64, f64) {
    if tdf < 10 { (5.0, 10.0) } else { (1.0, 3.0) }
}

/// Measures requests of a disk, beside those of its model, and their costs. `all` measures all
/// depths, lengths and patterns, and at all factors unless `only` has some. Needs root and fio.
///
/// # Errors
///
/// If there can be no disks here, there is no fio, or a request fails.
pub fn measure(all: bool, only: &[u32], notify: Notify) -> Result<Vec<Row>, Error> {
    let tdfs = factors(all, only);
    let (loads, each) = (loads(all), if all { 30 } else { 1 });
    let minutes = each * tdfs.len() + 1;
    let at: Vec<_> = tdfs.iter().map(u32::to_string).collect();
    let (disks, at, kinds) = (DISKS.len(), at.join(" and "), loads.len());
    notify(&format!("measuring {disks} disks at TDF {at}, {kinds} loads each: this takes some {minutes} minutes"));
    let setup = Setup::here()?;
    // In a run no core sleeps: whoever is woken there is there sooner.
    let _awake = crate::load::Load::awake(&[setup.nodes, setup.harness])?;
    let dir = Scratch::new()?;
    let mut rows = cost::measure(&setup, dir.path())?;
    for name in DISKS {
        for tdf in &tdfs {
            let place = dir.path().join(format!("{name}-{tdf}"));
            rows.extend(of_disk(&setup, name, *tdf, &loads, &place)?);
            let _ = fs::remove_dir_all(place);
        }
    }
    Ok(rows)
}

/// The factors at which is measured, if not those that are asked for.
fn factors(all: bool, only: &[u32]) -> Vec<u32> {
    match (only, all) {
        ([], true) => TDFS.to_vec(),
        ([], false) => SOME_TDFS.to_vec(),
        _ => only.to_vec(),
    }
}

/// The loads, in turns.
fn loads(all: bool) -> Vec<Load> {
    let some = SOME.to_vec();
    let depths_and_lengths = [1, 8, 32].into_iter().flat_map(|depth| [4 << 10, 64 << 10, 1 << 20].map(|n| (depth, n)));
    let every = depths_and_lengths.flat_map(|(depth, n)| Pattern::ALL.map(|pattern| (pattern, depth, n))).collect();
    let chosen: Vec<_> = if all { every } else { some };
    let load = |(pattern, depth, bytes)| Load { pattern, depth, bytes, count: COUNT, limit_s: LIMIT_S };
    chosen.into_iter().map(load).collect()
}

/// Where what runs.
struct Setup {
    nodes: usize,
    harness: usize,
}

impl Setup {
    fn here() -> Result<Setup, Error> {
        let (nodes, last) = first_and_last()?;
        Ok(Setup { nodes, harness: last.unwrap_or(nodes) })
    }

    /// One disk, whose requests are served on the harness core; over the best transport, if none is named.
    fn disks(&self, name: &str, place: &Path, over: Option<Transport>) -> Result<Disks, Error> {
        let changes = serde_json::Map::from_iter([("capacity-bytes".to_string(), json!(SIZE))]);
        let parameters = Parameters::like(name, &changes).map_err(Error::failed)?;
        let setup =
            DiskSetup { name: name.into(), parameters, seed: 1, may_lose_power: false, durable: false, clock: None };
        // A child runs where it was started.
        crate::cores::pin(self.harness);
        let process = Disks::command().spawn().map_err(Error::failed);
        crate::cores::pin(self.nodes);
        Ok(Disks::make(process?, place, &[setup], over, Some(self.nodes))?)
    }
}

fn of_disk(setup: &Setup, name: &str, tdf: u32, loads: &[Load], place: &Path) -> Result<Vec<Row>, Error> {
    let factor = Tdf::new(tdf.into(), 1).map_err(Error::failed)?;
    let mut disks = setup.disks(name, place, None)?;
    let device = disks.devices().first().ok_or_else(|| Error::failed("there is no device"))?.clone();
    disks.begin(host::now(), factor)?;
    let way = json!({ "disk": name, "tdf": tdf, "over": disks.transport() });
    let mut rows = vec![Row::new("disk_on_its_way", way, disks.spent().as_nanos() as f64 / 1e3, "real us")];
    for load in loads {
        disks.watch(0)?;
        let before = disks.count()?.disks[0];
        let took = fio::run(&device, SIZE, *load, setup.nodes, place)?;
        let (requests, flushes) = modelled(&disks.watch(0)?, *load);
        let after = disks.count()?.disks[0];
        let late = after.all(|kind| kind.late) - before.all(|kind| kind.late);
        let mut params = load.params();
        for (key, value) in [("disk", json!(name)), ("tdf", json!(tdf)), ("late", json!(late))] {
            params[key] = value;
        }
        let virtual_ms = |real_ns: f64| {
            let real = RealDuration::from_nanos(real_ns.round() as u64);
            factor.to_virtual(real).as_secs_f64() * 1e3
        };
        let ends_seen = took.requests.len().saturating_sub(load.unseen());
        let seen: Vec<f64> = took.requests[..ends_seen].iter().map(|ns| virtual_ms(*ns)).collect();
        let says: Vec<f64> = requests.iter().map(|s| s * 1e3).collect();
        params["n"] = json!(seen.len());
        rows.extend(compared("disk_request", &params, tdf, (mean(&seen), p99(&seen)), (mean(&says), p99(&says))));
        let (count, flush_mean, flush_p99) = took.flushes;
        if count > 0 && !flushes.is_empty() {
            params["n"] = json!(count);
            let says: Vec<f64> = flushes.iter().map(|s| s * 1e3).collect();
            let seen = (virtual_ms(flush_mean), virtual_ms(flush_p99));
            rows.extend(compared("disk_flush", &params, tdf, seen, (mean(&says), p99(&says))));
        }
    }
    Ok(rows)
}

/// Mean and 99th percentile beside the model's.
fn compared(name: &str, params: &Value, tdf: u32, seen: (f64, f64), says: (f64, f64)) -> [Row; 2] {
    let (goal, goal_p99) = goals(tdf);
    let row = |name: &str, value| Row::new(name, params.clone(), value, "virtual ms");
    [row(name, seen.0).within(goal, says.0), row(&format!("{name}_p99"), seen.1).within(goal_p99, says.1)]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The value that 99 of 100 do not exceed.
fn p99(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() as f64 * 0.99).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_each_depth_length_and_pattern() {
        assert_eq!((loads(true).len(), loads(false).len()), (54, 6));
        assert_eq!((factors(true, &[]), factors(false, &[])), (vec![1, 10, 50], vec![1, 10]));
        assert_eq!(factors(true, &[50]), [50]);
    }

    #[test]
    fn quantiles_are_of_the_sorted_values() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!((mean(&values), p99(&values)), (100.5, 198.0));
        assert_eq!(p99(&[3.0]), 3.0);
        assert!(p99(&[]).is_nan() && mean(&[]).is_nan());
    }

    #[test]
    fn goals_are_wider_without_dilation() {
        assert_eq!((goals(1), goals(10), goals(50)), ((5.0, 10.0), (1.0, 3.0), (1.0, 3.0)));
    }
}
