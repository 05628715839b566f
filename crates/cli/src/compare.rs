//! `diorama compare`: how far runs are from a base.

use std::path::PathBuf;
use std::process::ExitCode;

use fidelity::compare::{Bound, compare, table};
use fidelity::html;
use record::Series;

use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama compare`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to compare with: a run directory, or a folder of repetitions (VARIANT with 1, 2, …)
    base: PathBuf,
    /// What to compare: likewise; several are compared with the base each
    #[arg(required = true, value_name = "OTHER")]
    others: Vec<PathBuf>,
    /// Largest error: `5%` for mean and p50, `p90=10%` for one statistic (mean, p50, p90, p99); all must hold
    #[arg(long, value_name = "BOUND")]
    within: Vec<Bound>,
    /// Print JSON: one object, or an array of them for several OTHERs
    #[arg(long)]
    json: bool,
    /// Write a page with the distributions drawn over one another; it needs no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the verb: 0 within all bounds (or none given), 1 outside, 2 if the runs cannot be compared.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let base = Series::open(&args.base).map_err(Failure::input)?;
    let others: Vec<Series> =
        args.others.iter().map(|path| Series::open(path)).collect::<Result<_, _>>().map_err(Failure::input)?;
    let comparisons: Vec<_> = others
        .iter()
        .map(|other| compare(&base, other, &args.within))
        .collect::<Result<_, _>>()
        .map_err(Failure::input)?;
    let compared: Vec<_> = others.iter().zip(&comparisons).collect();
    if let Some(file) = &args.html {
        std::fs::write(file, html::comparison(&base, &compared))
            .map_err(|e| Failure::failed(format!("{}: cannot write: {e}", file.display())))?;
    }
    let text = if args.json {
        let text = match &comparisons[..] {
            [one] => serde_json::to_string_pretty(one),
            several => serde_json::to_string_pretty(several),
        };
        text.expect("a comparison has only string keys") + "\n"
    } else {
        table(&base, &compared)
    };
    terminal::print(text)?;
    Ok(ExitCode::from(u8::from(!comparisons.iter().all(|c| c.within))))
}
