//! Hosts that exist only in the emulator, beside nodes: making them, and what a packet from one costs.

use std::time::{Duration, Instant};

use net::{FlowChange, FlowSpec, Load, NetworkSpec, PipeConfig};
use scale::RealDuration;
use serde_json::json;
use traffic::{Pattern, Shape};

use super::ROUNDS;
use super::bed::{Bed, link, star};
use crate::cores::Cores;
use crate::stats::median;
use crate::{Error, Row};

const NODES: usize = 50;
const HOSTS: usize = 10_000;
/// Between two packets of a host, in seconds.
const INTERVAL: f64 = 1.0;
/// Bytes of a frame.
const BYTES: usize = 542;
const DELAY: RealDuration = RealDuration::from_nanos(1_000_000);
/// For so long there is no traffic, and for so long there is.
const SENDING: Duration = Duration::from_secs(2);

/// Measured with 10,000 hosts beside 50 nodes, to one of which all of them send.
///
/// # Errors
///
/// If such a network cannot be made here, or carries nothing.
pub fn hosts_beside_nodes(cores: &Cores) -> Result<Vec<Row>, Error> {
    let config = PipeConfig { delay: DELAY, ..Default::default() };
    let (mut made, mut alone, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        drop(Bed::start(star(NODES, &config), cores, None, 1)?);
        alone.push(begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        let bed = Bed::start(crowded(&config), cores, None, 1)?;
        made.push(begun.elapsed().as_secs_f64());
        costs.push(us_per_packet(&bed)?);
    }
    let params = json!({"nodes": NODES, "hosts": HOSTS, "rounds": ROUNDS});
    let packets = json!({"nodes": NODES, "hosts": HOSTS, "bytes": BYTES, "pipes": 2, "rounds": ROUNDS});
    Ok(vec![
        Row::new("net_background_setup_real", params, median(made), "s").beside(median(alone)),
        Row::new("net_background_packet", packets, median(costs), "us/packet"),
    ])
}

fn crowded(config: &PipeConfig) -> NetworkSpec {
    let mut spec = star(NODES, config);
    let hosts: Vec<String> = (1..=HOSTS).map(|i| format!("h{i}")).collect();
    spec.links.extend(hosts.iter().map(|host| link(host, "core", config.clone(), config.clone())));
    let ways = hosts.iter().map(|host| (host.clone(), spec.nodes[0].clone())).collect();
    spec.switches.extend(hosts);
    let pattern = Pattern { shape: Shape::Poisson { interval: INTERVAL }, packets: None };
    spec.flows = vec![FlowSpec { name: "all".into(), ways, load: Load { frame: BYTES, pattern }, seed: 1 }];
    spec
}

/// CPU time of the emulator for each packet that arrives, µs; what it takes without any is not counted.
fn us_per_packet(bed: &Bed) -> Result<f64, Error> {
    let to = 1;
    let seen = || {
        let seen = bed.emulator.observe().map_err(Error::failed)?;
        let busy = seen.cpu.as_secs_f64() - seen.spun.as_secs_f64();
        Ok::<_, Error>((busy, seen.pipes[to].counters.packets))
    };
    let quiet = seen()?;
    std::thread::sleep(SENDING);
    let before = seen()?;
    bed.emulator.change_flows(vec![(0, FlowChange::Start)]).map_err(Error::failed)?;
    std::thread::sleep(SENDING);
    let after = seen()?;
    match after.1 - before.1 {
        0 => Err(Error::failed("nothing arrives")),
        arrived => Ok(((after.0 - before.0) - (before.0 - quiet.0)) * 1e6 / arrived as f64),
    }
}
