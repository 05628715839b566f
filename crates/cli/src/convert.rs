//! `diorama convert`: print the experiment's file that an ns script or a Compose file becomes.

mod images;

use std::path::PathBuf;
use std::process::ExitCode;

use engine::{Rights, Wanted, as_root};
use record::Variant;

use self::images::Images;
use crate::experiment::{CoreArgs, HardwareArgs, tell};
use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama convert`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The ns script, or the Compose file; further Compose files are laid over it
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The profile of a Compose file whose services take part, too: they are left out otherwise
    #[arg(long, value_name = "NAME")]
    profile: Vec<String>,
    /// Where images for a Compose file are: an archive of `docker save` or skopeo, or a folder of such
    #[arg(long, value_name = "PATH")]
    images: Vec<String>,
    /// Fetch images that a Compose file names and that are not here, as `diorama image pull` does
    #[arg(long)]
    pull: bool,
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    cores: CoreArgs,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let is_plain = args.profile.is_empty() && args.images.is_empty() && !args.pull;
    let (text, notes) = match (&args.files[..], is_plain) {
        (files, _) if files.iter().all(|file| compose::is_compose(file)) => of_compose(&args)?,
        ([file], true) => args.hardware.describes(file, &[], args.cores).convert()?,
        ([_], false) => return Err(Failure::input("--profile, --images and --pull are for Compose files")),
        _ => return Err(Failure::input("several files are laid over one another if all are Compose files (*.yaml)")),
    };
    tell(&notes);
    terminal::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// A Compose file says no TDF: it gets the smallest at which its nodes have room on this machine.
fn of_compose(args: &Args) -> Result<(String, Vec<String>), Failure> {
    let wrong = |e: compose::Error| Failure::input(e.render());
    // All of it as who called could read it, his archives of images included; what the machine keeps is root's.
    let _rights = args.files.iter().find_map(|file| Rights::of_caller(file));
    let images = Images::new(&args.files[0], &args.images, args.pull)?;
    let options = compose::Options {
        environment: &|name| std::env::var(name).ok(),
        profiles: &args.profile,
        images: &|wanted| as_root(|| images.find(wanted)),
        accounts: &|root| as_root(|| images.accounts(root)),
    };
    let converted = compose::convert(&args.files, &options).map_err(wrong)?;
    let experiment = converted.load().map_err(wrong)?;
    let wanted = Wanted { experiment: &experiment, variant: Variant::Scaled, tdf: None, cores: args.cores.into() };
    let tdf = as_root(|| wanted.smallest_tdf())?;
    Ok((converted.text(&tdf.to_string()), converted.notes))
}
