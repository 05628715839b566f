//! `diorama-trials scale-up`: many nodes on a star, from the command to all ready, and to all gone.

use std::fs;
use std::path::Path;
use std::time::Instant;

use record::{RunDir, Variant};

use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::results;

/// Arguments of `diorama-trials scale-up`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: u32,
    /// Fail if they are not all ready so many real seconds after the command, or not all gone so many after their end
    #[arg(long, value_name = "SECONDS")]
    within: Option<f64>,
}

/// A star of nodes that do nothing for one virtual second. Together they take half a core whatever their number.
fn experiment(nodes: u32) -> String {
    let speed = 5.0 / f64::from(nodes);
    format!(
        "name: star-{nodes}\n\
         tdf: 10\n\
         machines:\n  \
           small: {{ cpus: 1, speed: {speed:.4}, memory: 32MiB }}\n\
         nodes:\n  \
           node: {{ count: {nodes}, machine: small, run: sleep 1 }}\n\
         switches: [core]\n\
         links:\n  \
           - {{ from: \"node-*\", to: core, bandwidth: 10Mbit/s, delay: 1ms }}\n\
         ends: {{ exited: [\"node-*\"], limit: 30s }}\n"
    )
}

/// Runs the star and prints both times.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let out = results::fresh(Path::new("runs"), &format!("star-{}", args.nodes))?;
    let file = out.join("experiment.yaml");
    fs::write(&file, experiment(args.nodes))
        .map_err(|e| Failure::failed(format!("cannot write {}: {e}", file.display())))?;
    let run = out.join(Variant::Scaled.as_str());
    let began = Instant::now();
    let result = driver.run(&file, Variant::Scaled, &run, false)?;
    let whole = began.elapsed().as_secs_f64();
    let told = RunDir::at(&run).events().map_err(Failure::failed)?;
    let ready = told
        .iter()
        .find(|e| e.event == "all-ready")
        .and_then(|e| Some((e.real_s, e.detail["real_s_since_command"].as_f64()?)));
    let Some((at, since_command)) = ready else {
        return Err(Failure::failed(format!("{} does not say when all nodes were ready", run.display())));
    };
    let down = whole - since_command - (result.real_seconds - at);
    println!("{} nodes on a star, on {}", args.nodes, Machine::here());
    println!("  from the command to all ready: {since_command:.2} s");
    println!("  torn down, results written:    {down:.2} s after the last node ended");
    println!("  verdict: {}", result.fidelity.verdict);
    result.fidelity.breaches().for_each(|check| println!("    {}: {}", check.name, check.says));
    match args.within {
        Some(most) if since_command.max(down) > most => Err(Failure::failed(format!("that is more than {most} s"))),
        _ => Ok(()),
    }
}
