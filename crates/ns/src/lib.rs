//! The language of ns and Netbed: scripts in Tcl that describe an experiment.
//!
//! A script is a program, so it is run: in a Tcl of its own (`tclsh`), a safe interpreter in a process without rights.
//! The objects of ns in it (`prelude.tcl`) do nothing but write down each call with its line. What the calls mean is
//! decided here (`script`, pure), by way of what hardware and operating systems are called here (`hardware`), and
//! becomes the text of an experiment's file (`yaml`), each line of which knows the line of the script that it comes
//! from. The experiment is what `model` reads from that text: so what `diorama convert` prints is what `diorama run`
//! runs, and what is wrong with it is said of the script.

mod calls;
mod error;
mod hardware;
mod script;
mod tb;
mod tclsh;
mod units;
mod yaml;

use std::path::{Path, PathBuf};

use model::Experiment;

pub use error::{Error, Note, Place};
pub use tb::{COMMANDS, Command, Fate};

/// Whether a path is that of an ns script, by its name.
pub fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "ns" || e == "tcl")
}

/// A script that has been run and understood.
#[derive(Clone, Debug)]
pub struct Converted {
    path: PathBuf,
    folder: PathBuf,
    yaml: yaml::Yaml,
    /// Differences from the script.
    pub notes: Vec<Note>,
    /// Lines that the script printed.
    pub printed: Vec<String>,
}

/// Runs a script and makes an experiment's file of what it describes. `hardware` is the file that says what hardware
/// and operating systems are here; without it, `hardware.yaml` beside the script, if there is one. Where `lenient`,
/// commands of Emulab's that cannot be carried out are noted and passed over; else they are mistakes.
///
/// # Errors
///
/// Faults of the script, each place with its line; or that there is no Tcl here.
pub fn convert(path: &Path, hardware: Option<&Path>, lenient: bool) -> Result<Converted, Error> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let record = tclsh::run(path)?;
    let script = script::read(&record.calls, lenient).map_err(Error::Script)?;
    archives(&script, &folder)?;
    let hardware = hardware::Hardware::read(&folder, hardware)?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = script::label(&path.file_stem().unwrap_or_default().to_string_lossy());
    let name = if name.is_empty() { "experiment" } else { &name };
    let source = yaml::Source { script: &script, hardware: &hardware, name, file: &file, tdf: "1" };
    let (yaml, notes) = yaml::file(&source).map_err(Error::Script)?;
    Ok(Converted { path: path.to_owned(), folder, yaml, notes, printed: script.printed })
}

/// Fails if an archive that is to be unpacked is not beside the script.
fn archives(script: &script::Script, folder: &Path) -> Result<(), Error> {
    let mut missing: Vec<Note> = Vec::new();
    for (_, (file, place)) in script.nodes.iter().flat_map(|n| &n.tarfiles) {
        let name = yaml::last(file);
        let what = format!("there is no `{name}` in the folder of the script: put the archive there");
        let note = Note { place: place.clone(), what };
        if !folder.join(name).is_file() && !missing.contains(&note) {
            missing.push(note);
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Error::Script(missing)) }
}

impl Converted {
    /// The experiment, with the `(path, value)` of every `--set` applied to its file.
    ///
    /// # Errors
    ///
    /// Faults of the experiment, each place with the line of the script.
    pub fn load(&self, overrides: &[(String, String)]) -> Result<Experiment, Error> {
        let shown = self.path.with_extension("yaml");
        let read = model::load_text(&self.yaml.text, &shown, &self.folder, overrides).map_err(|e| {
            let note = |p: &model::Problem| {
                let place = self.yaml.origins.get(p.line().wrapping_sub(1)).cloned().flatten();
                let own = !p.place().starts_with("--set");
                let what = match own {
                    true => p.to_string(),
                    false => format!("{}: {p}", p.place()),
                };
                Note { place: place.filter(|_| own), what }
            };
            match e.problems() {
                [] => Error::Hardware(e),
                problems => Error::Script(problems.iter().map(note).collect()),
            }
        });
        let mut experiment = read?;
        let of_nodes = experiment.nodes.iter_mut().map(|node| &mut node.place);
        for place in of_nodes.chain(&mut experiment.link_places) {
            let of_text = place.as_ref().map(|(_, line)| line.wrapping_sub(1));
            let own = of_text.and_then(|line| self.yaml.origins.get(line)?.as_ref());
            *place = own.map(|place| (place.file.clone(), place.line as usize));
        }
        Ok(experiment)
    }

    /// The experiment's file, with this time dilation factor.
    pub fn text(&self, tdf: &str) -> String {
        self.yaml.text.replacen("\ntdf: 1\n", &format!("\ntdf: {tdf}\n"), 1)
    }
}
