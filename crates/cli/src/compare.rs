//! `diorama compare`: how far runs are from a base.

use std::path::PathBuf;
use std::process::ExitCode;

use report::Bound;

use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama compare`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The base: a run directory, or a folder of repetitions (VARIANT with 1, 2, …)
    base: PathBuf,
    /// The others: likewise; each is compared with the base
    #[arg(required = true, value_name = "OTHER")]
    others: Vec<PathBuf>,
    /// Largest error: `5%` for mean and p50, `p90=10%` for one statistic (mean, p50, p90, p99); all must hold
    #[arg(long, value_name = "BOUND")]
    within: Vec<Bound>,
    /// Print JSON: one object, or an array of them for several OTHERs
    #[arg(long)]
    json: bool,
    /// Write a page with distributions, series over time and profiles drawn over one another; it needs no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the verb: 0 within all bounds (or none given), 1 outside, 2 if the runs cannot be compared.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let compared = report::compare(&args.base, &args.others, &args.within).map_err(Failure::input)?;
    if let Some(file) = &args.html {
        let page = compared.page().map_err(Failure::input)?;
        engine::write_file(file, page.as_bytes()).map_err(Failure::cannot_write(file))?;
    }
    terminal::print(if args.json { compared.json() } else { compared.table() })?;
    Ok(ExitCode::from(u8::from(!compared.within())))
}
