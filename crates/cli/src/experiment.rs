//! What the verbs that take an experiment have in common.

use engine::CoreChoice;
use record::Variant;

/// `--variant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum VariantArg {
    /// TDF and shares of the plan
    Scaled,
    /// TDF 1, every node with its full target share
    Baseline,
    /// TDF 1, links at target rates, all nodes together within the scaled variant's resources
    Naive,
}

impl From<VariantArg> for Variant {
    fn from(v: VariantArg) -> Variant {
        match v {
            VariantArg::Scaled => Variant::Scaled,
            VariantArg::Baseline => Variant::Baseline,
            VariantArg::Naive => Variant::Naive,
        }
    }
}

/// What the user says of cores.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct CoreArgs {
    /// How many cores the emulator, the injector and the engine have [default: one up to eight cores, two above]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    harness_cores: Option<usize>,
    /// Over how many cores the nodes are spread [default: as few as leave each node room for twice its share, or all]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    node_cores: Option<usize>,
    /// Use both hyper-threads of a physical core; what one does slows the other
    #[arg(long)]
    siblings: bool,
}

impl From<CoreArgs> for CoreChoice {
    fn from(args: CoreArgs) -> CoreChoice {
        CoreChoice { harness: args.harness_cores, nodes: args.node_cores, siblings: args.siblings }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| (1..=usize::from(u16::MAX)).contains(n))
        .ok_or("write a number of cores, 1 or more".into())
}

/// Splits a `--set dotted.path=value`.
pub fn parse_override(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.is_empty() => Ok((path.into(), value.into())),
        _ => Err("write it as PATH=VALUE, such as machines.server.speed=0.25".into()),
    }
}
