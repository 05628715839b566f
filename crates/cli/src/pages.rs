//! `diorama __pages DIR`: write the manual's pages and the completions of shells, for packages to bring along. No verb
//! for users: `scripts/package` runs it.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use engine::Dir;

use crate::failure::Failure;

/// Where shells look for completions below `share`, with the names that these have there.
const COMPLETIONS: &[(Shell, &str)] = &[
    (Shell::Bash, "bash-completion/completions/diorama"),
    (Shell::Zsh, "zsh/vendor-completions/_diorama"),
    (Shell::Fish, "fish/vendor_completions.d/diorama.fish"),
];

/// Writes them below the directory that the words of the command line name, if that is what they ask for; does not
/// return then.
pub fn write_if_asked(mut words: impl Iterator<Item = String>, command: impl FnOnce() -> Command) -> Option<ExitCode> {
    if words.next()? != "__pages" {
        return None;
    }
    let place = words.next().unwrap_or_else(|| "share".into());
    let cannot = |e| Failure::failed(format!("{place}: cannot write there: {e}"));
    Some(write(Path::new(&place), command()).map_err(cannot).map_or_else(Failure::report, |()| ExitCode::SUCCESS))
}

fn write(place: &Path, command: Command) -> io::Result<()> {
    let share = Dir::open_or_make(place)?;
    let put = |file: &str, text: &[u8]| {
        let (dir, name) = file.rsplit_once('/').unwrap_or(("", file));
        share.make(Path::new(dir))?.create(Path::new(name))?.write_all(text)
    };
    for (shell, file) in COMPLETIONS {
        let mut text = Vec::new();
        clap_complete::generate(*shell, &mut command.clone(), "diorama", &mut text);
        put(file, &text)?;
    }
    let mut built = command.disable_help_subcommand(true);
    built.build();
    let mut pages = Vec::new();
    add_page(&built, &mut pages)?;
    pages.iter().try_for_each(|(name, text)| put(&format!("man/man1/{name}.1"), text))
}

/// The page of a command, and those of its own commands: `diorama-swap-out`.
fn add_page(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_string();
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    pages.push((name, text));
    command.get_subcommands().filter(|inner| !inner.is_hide_set()).try_for_each(|inner| add_page(inner, pages))
}
