//! `diorama map`: find machines of a harness for the nodes of an experiment; nothing is started.

use std::path::PathBuf;
use std::process::ExitCode;

use engine::host_speed::HostSpeed;
use engine::{PLANNED_USABLE, Rights, SMALLEST_SHARE, write_file};
use map::{Mapping, Terms, Weights};

use crate::experiment::{TdfArg, parse_override};
use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama map`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The experiment: its folder or its YAML file; or a topology of Emulab's, whose name ends in .top
    experiment: PathBuf,
    /// The machines that there are: a catalog in YAML, or one of Emulab's, whose name ends in .ptop
    #[arg(long, value_name = "CATALOG")]
    machines: PathBuf,
    /// Another time dilation factor than the experiment's, or `auto` for the smallest at which all fits
    #[arg(long, value_name = "N|auto")]
    tdf: Option<TdfArg>,
    /// Change a value of the experiment, such as `machines.server.speed=0.25`
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
    /// The seed of all chance in the search
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where paths are measured: how much delay, bandwidth and loss count, such as `delay=2,loss=0`
    #[arg(long, value_name = "NAME=WEIGHT,…", value_parser = parse_weights)]
    weights: Option<Weights>,
    /// Write the plan file there
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the plan file
    #[arg(long)]
    json: bool,
}

/// Reads `delay=2,loss=0`.
fn parse_weights(text: &str) -> Result<Weights, String> {
    let mut weights = Weights::default();
    for part in text.split(',') {
        let wrong = || format!("`{part}` is no weight: write delay=N, bandwidth=N or loss=N, each from 0 to 100");
        let (name, value) = part.split_once('=').ok_or_else(wrong)?;
        let value: f64 = value.parse().ok().filter(|v| (0.0..=100.0).contains(v)).ok_or_else(wrong)?;
        match name {
            "delay" => weights.delay = value,
            "bandwidth" => weights.bandwidth = value,
            "loss" => weights.loss = value,
            _ => return Err(wrong()),
        }
    }
    if weights.delay + weights.bandwidth + weights.loss == 0.0 {
        return Err("at least one weight is above 0".into());
    }
    Ok(weights)
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let mapping = mapped(&args)?;
    if let Some(out) = &args.out {
        let failed = |e| Failure::failed(format!("cannot write {}: {e}", out.display()));
        write_file(out, (mapping.to_json() + "\n").as_bytes()).map_err(failed)?;
    }
    terminal::print(if args.json { mapping.to_json() + "\n" } else { mapping.to_text() })?;
    Ok(ExitCode::from(u8::from(!mapping.fits)))
}

fn mapped(args: &Args) -> Result<Mapping, Failure> {
    let wrong = |e: map::Error| Failure::input(e.render());
    let reference = HostSpeed::here().reference().map(|speed| speed.units_per_us());
    let terms = Terms { usable: PLANNED_USABLE, least: SMALLEST_SHARE, reference };
    let is_top = args.experiment.extension().is_some_and(|end| end == "top");
    if is_top && args.tdf.is_some() {
        return Err(Failure::input(
            "--tdf cannot be given with a .top file, which knows no virtual time: leave it out",
        ));
    }
    if is_top && !args.set.is_empty() {
        return Err(Failure::input("--set cannot be given with a .top file: change the file"));
    }
    let experiment = if is_top { None } else { Some(engine::load(&args.experiment, &args.set)?) };
    let harness = {
        let _rights = Rights::of_caller(&args.machines);
        map::load_harness(&args.machines).map_err(wrong)?
    };
    let weights = match (args.weights, harness.paths.is_empty()) {
        (Some(_), true) => {
            let says = "--weights is for catalogs with measured paths, and this one has none: leave it out";
            return Err(Failure::input(says));
        }
        (weights, _) => weights.unwrap_or_default(),
    };
    match experiment {
        None => {
            let rights = Rights::of_caller(&args.experiment);
            let topology = map::load_top(&args.experiment).map_err(wrong)?;
            drop(rights);
            map::map(&topology, &harness, &terms, weights, args.seed)
        }
        Some(experiment) => match args.tdf {
            Some(TdfArg::Auto) => map::map_at_smallest_tdf(&experiment, &harness, &terms, weights, args.seed),
            Some(TdfArg::Given(tdf)) => {
                map::map_experiment(&experiment, Some(tdf), &harness, &terms, weights, args.seed)
            }
            None => map::map_experiment(&experiment, None, &harness, &terms, weights, args.seed),
        },
    }
    .map_err(wrong)
}
