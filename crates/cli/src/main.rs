//! `diorama`: a distributed system as an accurate scale model.

mod batch;
mod bench;
mod capacity;
mod check;
mod columns;
mod compare;
mod convert;
mod dilate;
mod doctor;
mod event;
mod events;
mod exec;
mod experiment;
mod explain;
mod failure;
mod harness;
mod image;
mod logs;
mod map;
mod new;
mod observe;
mod pages;
mod progress;
mod ps;
mod run;
mod serve;
mod site;
mod swap;
mod sweep;
mod terminal;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[derive(Parser, Debug)]
#[command(name = "diorama", version, long_version = env!("DIORAMA_VERSION"))]
#[command(about = "Test a distributed system as an accurate scale model")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Run an experiment and record what happened
    Run(run::Args),
    /// Validate an experiment and print its plan; nothing is started
    Check(check::Args),
    /// Find machines of a harness for the nodes of an experiment; nothing is started
    Map(map::Args),
    /// Keep a queue of runs, and make them one after the other
    Batch(batch::Args),
    /// Run an experiment over values of its parameters, and put what comes of it together
    Sweep(sweep::Args),
    /// Find the largest value of a parameter at which runs are trustworthy, or a metric is as in small ones
    Capacity(capacity::Args),
    /// Print the live runs of this machine
    Ps(ps::Args),
    /// Print the experiment's file that an ns script or a Compose file becomes
    Convert(convert::Args),
    /// Run a command inside a live node, dilated, in the node's share
    Exec(exec::Args),
    /// Have something happen in a live run: to a link, a node or a disk
    Event(event::Args),
    /// Suspend a live run, list those that were, and go on with one
    Swap(swap::Args),
    /// Save the files of a node as an image, list those that are kept, and remove one
    Image(image::Args),
    /// Write an experiment to start from
    New(new::Args),
    /// Print what the documentation says of a check, a key or a metric
    Explain(explain::Args),
    /// Print what the nodes of a run wrote
    Logs(logs::Args),
    /// Print what happened in a run, or happens in a live one
    Events(events::Args),
    /// Watch a run at the terminal: its nodes, links and events, and how far it is
    Watch(watch::Args),
    /// Show runs, comparisons and live runs to a browser, on this machine's loopback
    Serve(serve::Args),
    /// Compare two runs, or two folders of runs
    Compare(compare::Args),
    /// Count the system calls of a program on a plain machine, for `compare`
    Observe(observe::Args),
    /// Run one command under time dilation
    Dilate(dilate::Args),
    /// Measure how accurate and how fast a mechanism is, here and now
    Bench(bench::Args),
    /// Say what this machine, or each of a harness, offers and lacks, and what that costs in fidelity
    Doctor(doctor::Args),
    /// Be one machine's side for a coordinator elsewhere, on standard input and output
    Site(site::Args),
}

fn main() -> ExitCode {
    engine::become_helper(std::env::args().skip(1));
    ::bench::become_helper(std::env::args().skip(1));
    if let Some(code) = pages::write_if_asked(std::env::args().skip(1), Cli::command) {
        return code;
    }
    let verb = match Cli::try_parse() {
        Ok(cli) => cli.verb,
        Err(e) => return misused(&e),
    };
    // Any verb removes the remains of killed runs first. (`run` does it when it hears signals.)
    if !matches!(verb, Verb::Run(_)) {
        engine::sweep();
    }
    let outcome = match verb {
        Verb::Run(args) => run::main(args),
        Verb::Check(args) => check::main(args),
        Verb::Map(args) => map::main(args),
        Verb::Batch(args) => batch::main(args),
        Verb::Sweep(args) => sweep::main(args),
        Verb::Capacity(args) => capacity::main(args),
        Verb::Ps(args) => ps::main(args),
        Verb::Convert(args) => convert::main(args),
        Verb::Exec(args) => exec::main(args),
        Verb::Event(args) => event::main(args),
        Verb::Swap(args) => swap::main(args),
        Verb::Image(args) => image::main(args),
        Verb::New(args) => new::main(args),
        Verb::Explain(args) => explain::main(args),
        Verb::Logs(args) => logs::main(args),
        Verb::Events(args) => events::main(args),
        Verb::Watch(args) => watch::main(args),
        Verb::Serve(args) => serve::main(args),
        Verb::Compare(args) => compare::main(args),
        Verb::Observe(args) => observe::main(args),
        Verb::Dilate(args) => dilate::main(args),
        Verb::Bench(args) => bench::main(args),
        Verb::Doctor(args) => doctor::main(args),
        Verb::Site(args) => site::main(args),
    };
    outcome.unwrap_or_else(failure::Failure::report)
}

/// Prints what is wrong with the command line, or the help that was asked for.
fn misused(e: &clap::Error) -> ExitCode {
    let _ = e.print();
    // A script must be able to tell it from a 2 of the command that `dilate` runs.
    let dilates = std::env::args().nth(1).as_deref() == Some("dilate");
    match e.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if dilates => ExitCode::from(125),
        code => ExitCode::from(code as u8),
    }
}
