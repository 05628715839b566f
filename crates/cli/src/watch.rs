//! `diorama watch`: a run while it goes on, at a terminal.

pub mod draw;
mod keys;
pub mod look;
pub mod picture;
mod screen;

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::terminal;

use look::Look;
use picture::Picture;

/// How wide the picture is where nobody says.
const USUAL_WIDTH: u16 = 100;
/// The narrowest and the widest picture that is printed.
const WIDTHS: [u16; 2] = [20, 500];

/// Arguments of `diorama watch`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The run: its directory, or the name of a live run; the only live run, if none is given
    run: Option<String>,
    /// Print one picture as plain text; as wide as COLUMNS says
    #[arg(long)]
    once: bool,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let dir = match &args.run {
        Some(run) => engine::find_run(run)?,
        None => only_live_run()?,
    };
    let mut look = Look::at(dir)?;
    let mut picture = Picture::default();
    let can_draw =
        stdin().is_terminal() && stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
    if args.once || !can_draw {
        look.look(&mut picture);
        terminal::print(draw::text(&picture, width()))?;
        return Ok(ExitCode::SUCCESS);
    }
    screen::show(look, picture)
}

/// The directory of the only run that is live.
fn only_live_run() -> Result<PathBuf, Failure> {
    let mut live = engine::live_runs();
    match live.len() {
        1 => Ok(live.remove(0).out),
        0 => Err(Failure::input("no run is live; give the directory of one that was")),
        _ => {
            let mut known: Vec<String> =
                live.iter().map(|run| format!("{}/{} ({})", run.name, run.variant, run.out.display())).collect();
            known.sort();
            Err(Failure::input(format!("several runs are live, say which: {}", known.join(", "))))
        }
    }
}

fn width() -> u16 {
    let wanted = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    wanted.unwrap_or(USUAL_WIDTH).clamp(WIDTHS[0], WIDTHS[1])
}
