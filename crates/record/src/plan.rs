//! `plan.json`: what every node and every direction of a link got.
//!
//! `target` is what the experiment says, in virtual time; `harness` what this machine did to look like it, in real
//! time.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use indexmap::IndexMap;
use scale::Tdf;
use scale::link::Distribution;
use serde::{Deserialize, Serialize};

use crate::result::{Variant, whole_if_whole};

/// All of `plan.json`. `diorama check --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// With which resources it runs.
    pub variant: Variant,
    /// Real time over virtual time of this run; 1 in every variant but the scaled one.
    #[serde(serialize_with = "whole_if_whole")]
    pub tdf: Tdf,
    /// Nodes per harness machine over nodes per target machine: on one machine, the number of nodes.
    #[serde(serialize_with = "whole_if_whole")]
    pub scaling_factor: f64,
    /// Who runs where.
    pub cores: Cores,
    /// The sum of the shares of all nodes, in cores.
    pub sold: f64,
    /// The timeslice of nodes; missing where they share a pool, and in plans of older versions.
    #[serde(default, alias = "turns", skip_serializing_if = "Option::is_none")]
    pub timeslice: Option<PlannedTimeslice>,
    /// The kind of right that nodes have to the core; missing likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<PlannedCpu>,
    /// The most processes and threads of all nodes together; missing in plans of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// The share of each node, in the order of the experiment.
    pub nodes: IndexMap<String, PlannedNode>,
    /// The properties of each direction of each link, in the order of the experiment: `A--B/ab`, `A--B/ba`, ….
    pub pipes: IndexMap<String, PlannedPipe>,
    /// The programs that nodes used, by path; empty before the run.
    pub versions: BTreeMap<String, String>,
    /// The notes for a reader of the results, because this machine lacks something; a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Plan {
    /// The text of the file, without a last newline.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan has only finite numbers and string keys")
    }
}

/// Which cores of the harness do what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// Hold the nodes; which node is on which is said with the node.
    pub nodes: Vec<usize>,
    /// Hold the emulator (the first), the injector and the engine (all others, or else the same).
    pub harness: Vec<usize>,
}

impl Cores {
    /// That of the emulator, which has it to itself where the harness has several.
    pub fn emulator(&self) -> Option<usize> {
        self.harness.first().copied()
    }

    /// Those of everything else of the harness: all but the emulator's, or else the same.
    pub fn engine(&self) -> &[usize] {
        match &self.harness[..] {
            [_, others @ ..] if !others.is_empty() => others,
            all => all,
        }
    }

    /// All that the run uses.
    pub fn all(&self) -> Vec<usize> {
        [&self.nodes[..], &self.harness].concat()
    }
}

/// The timeslice of nodes on their core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedTimeslice {
    /// By how much the slowest node's clock gets ahead of the run's in one, virtual s.
    #[serde(alias = "grain_s")]
    pub lead_s: f64,
    /// Its length, real s.
    pub real_s: f64,
}

/// The kind of right that nodes have to their core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedCpu {
    /// Of what each node has its share.
    pub mode: CpuMode,
    /// The host's usual speed, in units of the yardstick's work per real µs, to which shares of work are related; null
    /// if it was not known.
    pub reference_units_per_us: Option<f64>,
    /// How far nodes' time follows the core's speed: where the core takes 1 + x times as long for its work as
    /// usual, each gets 1 + gain × x times its share. Null for shares of time.
    pub gain: Option<f64>,
    /// The part of a core that can be sold over what is sold of the fullest: how many times its share each node may get
    /// at once.
    pub headroom: f64,
    /// By how much the kernel's weights, which are integers, make a node's share larger or smaller at most, as a part
    /// of it; missing where the machine has no weights, and in plans of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounding: Option<f64>,
}

fn one() -> u32 {
    1
}

/// Of what a node has a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuMode {
    /// A share of the work that the core usually does.
    Work,
    /// A share of the core's time.
    Time,
}

/// The share of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// The core that it runs on.
    pub core: usize,
    /// How many CPUs it has; one in plans of older versions.
    #[serde(default = "one")]
    pub cpus: u32,
    /// The cores that it has to itself, a CPU each, in the native variant; else none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whole_cores: Vec<usize>,
    /// The fraction of that core that all its CPUs together get, in real time. In the naive variant its weight in the
    /// common pool, in the native variant how much of all its cores it uses at most.
    pub share: f64,
    /// Its memory limit.
    pub memory_bytes: u64,
    /// Its addresses, interface by interface.
    pub addresses: Vec<Ipv4Addr>,
    /// The divisor of its CPU clocks: the speed of its machine where time is dilated, else 1.
    pub cpu_clock_divisor: f64,
    /// Its TCP's congestion control.
    pub congestion: Congestion,
    /// The disk that holds what it writes; missing where that takes the host's time, and in plans of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<PlannedDisk>,
}

impl PlannedNode {
    /// Whether it has cores to itself that it may not use all of.
    pub fn is_slower_than_its_cores(&self) -> bool {
        self.share < self.whole_cores.len() as f64 - 1e-9
    }
}

/// The disk of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedDisk {
    /// The disk of the catalogue that it is like.
    pub like: String,
    /// How large it is.
    pub bytes: u64,
}

/// The congestion control of a node's TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    Cubic,
    /// NewReno (RFC 6582).
    Reno,
}

/// The properties of one direction of a link, on the target in virtual time, and on the harness in real time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedPipe {
    /// The nodes or switches that send into it and receive from it; missing in plans of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<[String; 2]>,
    /// As the experiment says.
    pub target: PipeValues,
    /// As the emulator does it.
    pub harness: PipeValues,
    /// The longest IP packet, in bytes.
    pub mtu: u16,
    /// Whether nodes send bursts of several segments into it (segmentation offload).
    pub tso: bool,
}

/// The properties of a pipe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PipeValues {
    /// Bandwidth; null if transmission takes no time.
    pub bits_per_s: Option<f64>,
    /// Propagation delay, on average, s.
    pub delay_s: f64,
    /// Probability of loss in the long run, 0 to 1.
    pub loss: f64,
    /// Packets that may wait; null if bytes are counted.
    pub queue_packets: Option<u32>,
    /// Bytes that may wait, if they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    /// How packets are dropped before the queue is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red: Option<RedValues>,
    /// How the delay varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterValues>,
    /// Which packets are lost, if not each with the same probability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_model: Option<LossModel>,
    /// Probability of duplication, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicate: f64,
    /// Probability of corruption, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrupt: f64,
}

/// Random early detection; thresholds count what the queue's limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RedValues {
    /// Average length from which on packets are dropped at random.
    pub min: u64,
    /// Average length from which on all are dropped.
    pub max: u64,
    /// Probability of dropping just below `max`, 0 to 1.
    pub max_p: f64,
    /// Weight of each new length in the average.
    pub weight: f64,
    /// Size of a typical packet, bytes.
    pub packet_bytes: u64,
    /// Whether the probability grows on to 1 between `max` and twice that.
    pub gentle: bool,
}

/// Variation of the delay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterValues {
    /// Its distribution.
    pub distribution: Distribution,
    /// The largest deviation of a uniform distribution, the standard deviation of any other, s.
    pub spread_s: f64,
    /// Whether packets may overtake one another.
    pub reorder: bool,
}

/// Losses that are not independent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossModel {
    /// In bursts.
    GilbertElliott {
        /// Probability of passing from the good state to the bad one.
        p: f64,
        /// Probability of passing from the bad state to the good one.
        r: f64,
        /// Probability of loss in the good state.
        good: f64,
        /// Probability of loss in the bad state.
        bad: f64,
    },
    /// One of so many packets.
    Every(u64),
    /// The packets with these ordinal numbers.
    Packets(Vec<u64>),
}

/// For keys that are only there where they are used; serde hands over a reference.
fn is_zero(p: &f64) -> bool {
    *p == 0.0
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::RunDir;

    #[test]
    fn the_emulator_has_a_core_to_itself_where_there_are_several() {
        let of = |harness: &[usize]| {
            let cores = Cores { nodes: vec![0], harness: harness.to_vec() };
            (cores.emulator(), cores.engine().to_vec())
        };
        assert_eq!(of(&[1]), (Some(1), vec![1]));
        assert_eq!(of(&[1, 2]), (Some(1), vec![2]));
        assert_eq!(of(&[4, 2, 3]), (Some(4), vec![2, 3]));
        assert_eq!(of(&[]), (None, vec![]));
    }

    /// A plan with everything in it.
    const GOLDEN: &str = include_str!("../tests/golden/plan.json");

    #[test]
    fn the_golden_plan_survives_a_round_trip_byte_for_byte() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, file) = (RunDir::at(temp.path()), temp.path().join("plan.json"));
        assert_eq!(dir.plan().unwrap(), None, "a run that came without its plan");
        fs::write(&file, GOLDEN).unwrap();
        let plan = dir.plan().unwrap().unwrap();
        let pipe = &plan.pipes["a--s/ab"];
        assert_eq!(pipe.target.jitter.unwrap().distribution, Distribution::Normal);
        assert!(matches!(pipe.harness.loss_model, Some(LossModel::GilbertElliott { .. })) && pipe.target.red.is_some());
        assert_eq!(plan.pipes["b--s/ba"].target.loss_model, Some(LossModel::Packets(vec![2, 7])));
        assert_eq!(plan.timeslice, Some(PlannedTimeslice { lead_s: 0.0012, real_s: 0.0001 }));
        assert_eq!(plan.cpu.map(|c| (c.mode, c.reference_units_per_us)), Some((CpuMode::Work, Some(812.25))));
        assert_eq!(plan.cpu.and_then(|c| c.rounding), Some(0.0025));
        assert_eq!((plan.nodes["a"].congestion, plan.warnings.len()), (Congestion::Reno, 1));
        dir.write_plan(&plan).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), GOLDEN);
        // As it was called before.
        fs::write(&file, GOLDEN.replace("timeslice", "turns").replace("lead_s", "grain_s")).unwrap();
        assert_eq!(dir.plan().unwrap().unwrap(), plan);
        fs::write(&file, GOLDEN.replace("reno", "vegas")).unwrap();
        let error = dir.plan().unwrap_err().to_string();
        assert!(error.contains("plan.json: not a plan: unknown variant `vegas`"), "{error}");
    }
}
