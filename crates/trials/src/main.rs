//! `diorama-trials`: the same experiment as baseline, scaled and naive, again and again, and how far they differ.
//!
//! It does nothing that a user could not do by hand: it drives the `diorama` beside it by its command line and reads
//! the run directories that come of it.

mod behaviours;
mod bench;
mod choice;
mod conformance;
mod cpython;
mod demo;
mod driver;
mod failure;
mod goals;
mod ltp;
mod machine;
mod page;
mod reasons;
mod results;
mod scale_up;
mod shadow;
mod suite;
mod table;
mod way;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser, Debug)]
#[command(name = "diorama-trials", version, about = "Run Diorama's experiments against one another")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Run web-net, tls and web-half as baseline, scaled and naive, and print one table
    Demo(demo::Args),
    /// Measure how close scaled runs come to the baseline, and what each mechanism costs
    Bench(bench::Args),
    /// Run many programs natively, dilated, and under libfaketime: do their waits take what they should?
    Conformance(conformance::Args),
    /// Measure every clock and every kind of wait by small programs, natively and dilated
    Behaviours(behaviours::Args),
    /// Run CPython's own tests natively and dilated: does each case end alike?
    Cpython(cpython::Args),
    /// Run LTP's tests of system calls that have to do with time, natively and dilated: does each end alike?
    Ltp(ltp::Args),
    /// Run the tests of system calls of the simulator Shadow, natively and dilated: does each end alike?
    Shadow(shadow::Args),
    /// Time how long a hundred nodes on a star take to be ready, and to be gone
    ScaleUp(scale_up::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Demo(args) => demo::main(args),
        Verb::Bench(args) => bench::main(args),
        Verb::Conformance(args) => conformance::main(args),
        Verb::Behaviours(args) => behaviours::main(args),
        Verb::Cpython(args) => cpython::main(args),
        Verb::Ltp(args) => ltp::main(args),
        Verb::Shadow(args) => shadow::main(args),
        Verb::ScaleUp(args) => scale_up::main(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
