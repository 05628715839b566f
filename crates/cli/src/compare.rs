//! `diorama compare`

/// Arguments of `diorama compare`.
#[derive(clap::Args, Debug)]
pub struct Args {}

/// Runs the verb.
pub fn main(_args: Args) -> Result<std::process::ExitCode, crate::failure::Failure> {
    Err(crate::failure::Failure::machine("not built yet"))
}
