//! `diorama check`: validate an experiment and print what each node and link gets; nothing is started.

use std::path::PathBuf;
use std::process::ExitCode;

use engine::Wanted;

use crate::experiment::{CoreArgs, HardwareArgs, TdfArg, VariantArg, open, parse_override};
use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama check`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The experiment: its folder, its YAML file, or its ns script
    experiment: PathBuf,
    /// Print the plan as plan.json has it
    #[arg(long)]
    json: bool,
    /// Print also which timers of the nodes' kernels are as on the target
    #[arg(long, conflicts_with = "json")]
    verbose: bool,
    /// With which resources it would run
    #[arg(long, value_enum, default_value = "scaled")]
    variant: VariantArg,
    /// Another time dilation factor than the experiment's, or `auto` for the smallest that fits this machine (scaled
    /// variant only)
    #[arg(long, value_name = "N|auto")]
    tdf: Option<TdfArg>,
    /// Change a value of the experiment, such as `machines.server.speed=0.25`
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    cores: CoreArgs,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let experiment = open(args.hardware.describes(&args.experiment, &args.set, args.cores))?;
    let (variant, cores) = (args.variant.into(), args.cores.into());
    let mut wanted = Wanted { experiment: &experiment, variant, tdf: None, cores };
    wanted.tdf = args.tdf.map(|tdf| tdf.of(&wanted)).transpose()?;
    let plan = wanted.plan()?;
    let text = match (args.json, args.verbose) {
        (true, _) => plan.recorded().to_json() + "\n",
        (_, true) => plan.to_verbose_text(&experiment),
        _ => plan.to_text(&experiment),
    };
    terminal::print(text)?;
    Ok(ExitCode::SUCCESS)
}
