//! `diorama serve`: a page on the loopback, for a browser: runs and their reports, comparisons, and live runs.
//!
//! Decisions are apart from sockets: [`door`] says who may come in, [`route`] what is asked for, [`tell`] and
//! [`metrics`] how a live run is told. [`answer`] reads and does, [`listen`] speaks HTTP.

mod answer;
mod door;
mod listen;
mod live;
mod metrics;
mod news;
mod page;
mod results;
mod route;
mod tell;

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::terminal;

use answer::Answers;
use door::{Door, Tokens};

/// The port where nobody says one. It is always the same, for browsers remember by it where nodes were put.
const PORT: u16 = 8737;
/// The exit code of who was told to end.
const INTERRUPTED: u8 = 130;

/// Arguments of `diorama serve`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory of results
    #[arg(default_value = "runs")]
    results: PathBuf,
    /// The port of the loopback; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// An experiment, its folder or its file: the text to begin with that is checked as one types, and the folder in
    /// which its files are [default: the working directory, and no text]
    #[arg(long, value_name = "PATH")]
    experiment: Option<PathBuf>,
}

/// Runs the verb, until it is told to end.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |e: std::io::Error| Failure::failed(format!("{what}: {e}"))
    };
    let answers = Answers::of(args.results, args.experiment)?;
    let interrupts = engine::interrupts().map_err(failed("cannot hear signals"))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).map_err(|e| cannot_listen(args.port, &e))?;
    let port = listener.local_addr().map_err(failed("cannot listen"))?.port();
    let tokens = Tokens::new().map_err(failed("cannot make a token"))?;
    let [all, look] = [&tokens.all, &tokens.look].map(|token| format!("http://127.0.0.1:{port}/{token}/"));
    terminal::print(format!("{all}  may do everything\n{look}  may only look\n"))?;
    listen::until(&interrupts, listener, Door::new(port, tokens), answers).map_err(failed("cannot serve"))?;
    Ok(ExitCode::from(INTERRUPTED))
}

fn cannot_listen(port: u16, error: &std::io::Error) -> Failure {
    let whose = engine::listener(port).map_or_else(String::new, |who| format!(" ({who} has it)"));
    let message = format!("cannot listen at port {port} of 127.0.0.1: {error}{whose}; --port names another");
    Failure { code: 3, message }
}
