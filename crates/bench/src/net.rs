//! Delay, bandwidth, loss and cost of the emulator, measured through real sockets.
//!
//! Netbed's tables 1 to 3 come first, then what a frame costs, then networks of many nodes.

mod background;
mod bare;
mod bed;
mod cost;
mod crowd;
mod lan;
mod netbed;
mod traffic;

use host::Awake;
use net::MAX_FRAME;
use scale::Tdf;

use crate::cores::Cores;
use crate::{Error, Notify, Row};

/// Medians of this many.
const ROUNDS: usize = 3;

/// How exactly the emulator keeps to delay, bandwidth and loss at TDF 1 and 10, beside what Netbed's authors measured;
/// what a frame costs; and how long large networks take to make and to remove. Takes some three minutes; needs root and
/// two cores. The calling thread stays bound to a core afterwards.
///
/// # Errors
///
/// If a network cannot be made here, or does not carry what is sent through it.
pub fn measure(notify: Notify) -> Result<Vec<Row>, Error> {
    let cores = Cores::find()?;
    notify(&format!("measuring on {}: this takes some minutes", machine()));
    let mut rows = Vec::new();
    // In a run the nodes' core never sleeps, because a burner has what they leave; here neither.
    for tdf in [1, 10] {
        let tdf = Tdf::new(tdf, 1).map_err(Error::failed)?;
        let awake = Awake::keep(cores.nodes)?;
        rows.extend(netbed::delays(&cores, tdf)?);
        rows.extend(netbed::bandwidths(&cores, tdf)?);
        drop(awake);
        rows.extend(netbed::losses(&cores, tdf)?);
    }
    for bytes in netbed::SIZES {
        rows.push(cost::forwarding(&cores, bytes)?);
    }
    for snap in [MAX_FRAME, 128] {
        rows.extend(cost::capturing(&cores, snap)?);
    }
    rows.push(cost::observing(&cores)?);
    rows.push(cost::uncharged(&cores)?);
    rows.extend(lan::beside_a_switch(100, &cores)?);
    rows.extend(background::hosts_beside_nodes(&cores)?);
    for nodes in [100, 1000] {
        rows.extend(crowd::made_and_removed(nodes, &cores)?);
    }
    Ok(rows)
}

/// Description of the machine that this is measured on.
fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ")).map_or("?", |(_, m)| m);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cpus} CPUs, Linux {}", rustix::system::uname().release().to_string_lossy())
}
