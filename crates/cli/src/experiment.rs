//! Arguments of all verbs that take an experiment.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use engine::{CoreChoice, Description, Experiment, Tdf, Wanted};
use record::Variant;

use crate::failure::Failure;

/// `--tdf`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TdfArg {
    /// This one.
    Given(Tdf),
    /// The smallest that fits.
    Auto,
}

impl FromStr for TdfArg {
    type Err = String;

    fn from_str(text: &str) -> Result<TdfArg, String> {
        match text {
            "auto" => Ok(TdfArg::Auto),
            _ => text.parse().map(TdfArg::Given).map_err(|wrong| format!("{wrong}; or write `auto`")),
        }
    }
}

impl TdfArg {
    /// The factor, for a plan of `wanted`.
    pub fn of(self, wanted: &Wanted<'_>) -> Result<Tdf, Failure> {
        match self {
            TdfArg::Given(tdf) => Ok(tdf),
            TdfArg::Auto => Ok(wanted.smallest_tdf()?),
        }
    }
}

/// `--variant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum VariantArg {
    /// TDF and shares of the plan
    Scaled,
    /// TDF 1, every node with its full target share
    Baseline,
    /// TDF 1, links at target rates, all nodes together within the scaled variant's resources
    Naive,
    /// TDF 1, every node with whole cores of its own and the kernel's own clock
    Native,
}

impl From<VariantArg> for Variant {
    fn from(v: VariantArg) -> Variant {
        match v {
            VariantArg::Scaled => Variant::Scaled,
            VariantArg::Baseline => Variant::Baseline,
            VariantArg::Naive => Variant::Naive,
            VariantArg::Native => Variant::Native,
        }
    }
}

/// `--machines`, which holds for ns scripts.
#[derive(clap::Args, Clone, Debug)]
pub struct HardwareArgs {
    /// For an ns script: what the hardware and operating systems that it names are here [default: hardware.yaml beside
    /// the script, in addition to what is built in]
    #[arg(long, value_name = "FILE")]
    machines: Option<PathBuf>,
    /// For an ns script: say of commands that cannot be carried out that they are passed over, and go on
    #[arg(long)]
    lenient: bool,
}

impl HardwareArgs {
    /// The description of an experiment on the command line.
    pub fn describes<'a>(
        &'a self,
        path: &'a Path,
        overrides: &'a [(String, String)],
        cores: CoreArgs,
    ) -> Description<'a> {
        Description { path, overrides, hardware: self.machines.as_deref(), lenient: self.lenient, cores: cores.into() }
    }
}

/// The experiment of a description; what is to be said about it goes to standard error.
pub fn open(description: Description<'_>) -> Result<Experiment, Failure> {
    let opened = description.open()?;
    tell(&opened.notes);
    Ok(opened.experiment)
}

/// Tells what is to be said about a script.
pub fn tell(notes: &[String]) {
    notes.iter().for_each(|note| engine::warn(format_args!("note: {note}")));
}

/// The user's choice of cores.
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
