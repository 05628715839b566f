//! From a path on the command line to an experiment.

use std::path::Path;

use host::rights::Rights;
use machine::{Wanted, must_be_kept};
use model::Experiment;
use ns::Converted;
use plan::Refusal;
use record::Variant;
use scale::Tdf;
use site::{CoreChoice, Error, Result};

/// How often a TDF is looked for that fits; the first that is found fits in all cases known.
const TRIES: usize = 8;

/// An experiment as the user named it.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// Its folder, its YAML file, or its ns script.
    pub path: &'a Path,
    /// The `(path, value)` of every `--set`.
    pub overrides: &'a [(String, String)],
    /// For a script: the file that says what hardware and operating systems are here.
    pub hardware: Option<&'a Path>,
    /// For a script: whether commands that cannot be carried out are passed over.
    pub lenient: bool,
    /// The user's choice of cores.
    pub cores: CoreChoice,
}

/// An experiment, with what is to be said about its description.
#[derive(Debug)]
pub struct Opened {
    /// The experiment.
    pub experiment: Experiment,
    /// Notes on what a script asks for and is different here, and what it prints.
    pub notes: Vec<String>,
}

/// Loads an experiment from its folder or its YAML file, with the `(path, value)` of every `--set` applied to it.
///
/// # Errors
///
/// If it is wrong: each place with its line and a pointer into that line.
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<Experiment> {
    let rights = Rights::of_caller(path);
    let experiment = model::load(path, overrides).map_err(|e| Error::input(e.render()))?;
    drop(rights);
    must_be_kept(&experiment)?;
    Ok(experiment)
}

/// The text of an experiment that is not as it must be.
#[derive(Clone, Debug, PartialEq)]
pub struct Unfit {
    /// Each place with its line and a pointer into that line.
    pub told: String,
    /// The places: line and column, counted from 1, and what is wrong there.
    pub places: Vec<(usize, usize, String)>,
}

/// Loads an experiment from its text, as if that were the file `experiment.yaml` in the folder `dir`. What it names is
/// looked at with the rights of who called, also where the folder is root's: the text is not.
///
/// # Errors
///
/// If it is wrong.
pub fn load_text(text: &str, dir: &Path) -> std::result::Result<Experiment, Unfit> {
    let unfit = |told: String| Unfit { told, places: Vec::new() };
    if let Some(at) = text.find('\0') {
        let line = text[..at].matches('\n').count() + 1;
        return Err(unfit(format!("line {line} holds a NUL character: remove it")));
    }
    let rights = Rights::of_caller_anywhere();
    let loaded = model::load_text(text, Path::new("experiment.yaml"), dir, &[]);
    drop(rights);
    let experiment = loaded.map_err(|e| Unfit {
        told: e.render(),
        places: e.problems().iter().map(|at| (at.line(), at.column(), at.to_string())).collect(),
    })?;
    must_be_kept(&experiment).map_err(|e| unfit(e.to_string()))?;
    Ok(experiment)
}

impl Description<'_> {
    /// The experiment. A script says no TDF: it gets the smallest that fits this machine, unless `--set` says one.
    ///
    /// # Errors
    ///
    /// If it is wrong: each place with its line.
    pub fn open(&self) -> Result<Opened> {
        if !ns::is_script(self.path) {
            let experiment = load(self.path, self.overrides)?;
            return Ok(Opened { notes: experiment.notes.clone(), experiment });
        }
        let converted = self.script()?;
        let (experiment, _) = self.at_its_tdf(&converted)?;
        must_be_kept(&experiment)?;
        let notes = notes(&converted).into_iter().chain(experiment.notes.clone()).collect();
        Ok(Opened { experiment, notes })
    }

    /// The text of the experiment's file that a script becomes, with what is to be said about it.
    ///
    /// # Errors
    ///
    /// As for [`Description::open`].
    pub fn convert(&self) -> Result<(String, Vec<String>)> {
        if !ns::is_script(self.path) {
            let shown = self.path.display();
            return Err(Error::input(format_args!("{shown} is no ns script: the name of one ends in .ns or .tcl")));
        }
        let converted = self.script()?;
        let (_, tdf) = self.at_its_tdf(&converted)?;
        Ok((converted.text(&tdf.to_string()), notes(&converted)))
    }

    /// Runs the script, which is read as who called could read it.
    fn script(&self) -> Result<Converted> {
        // The file of hardware may be his where the script is root's.
        let _rights = Rights::of_caller(self.path).or_else(|| Rights::of_caller(self.hardware?));
        ns::convert(self.path, self.hardware, self.lenient).map_err(of_script)
    }

    fn at_its_tdf(&self, converted: &Converted) -> Result<(Experiment, Tdf)> {
        let load = |set: &[(String, String)]| {
            let _rights = Rights::of_caller(self.path);
            converted.load(set).map_err(of_script)
        };
        let experiment = load(self.overrides)?;
        if self.overrides.iter().any(|(path, _)| path == "tdf") {
            let tdf = experiment.tdf;
            return Ok((experiment, tdf));
        }
        let tdf = smallest_tdf(&experiment, self.cores)?;
        let mut set = vec![("tdf".to_owned(), tdf.to_string())];
        set.extend(self.overrides.iter().cloned());
        Ok((load(&set)?, tdf))
    }
}

/// The smallest TDF at which the nodes have room on the cores of this machine. What else may stand in the way of a run
/// is left to its plan.
fn smallest_tdf(experiment: &Experiment, cores: CoreChoice) -> Result<Tdf> {
    let mut tdf = Tdf::ONE;
    for _ in 0..TRIES {
        let wanted = Wanted { experiment, variant: Variant::Scaled, tdf: Some(tdf), cores };
        match wanted.plan() {
            Err(machine::Error::Plan(plan::Error::Refused(refusal))) => match *refusal {
                Refusal::TooMuchCpu { fits: Some(fits), .. } if fits > tdf => tdf = fits,
                _ => return Ok(tdf),
            },
            Err(other) => return Err(other.into()),
            Ok(_) => return Ok(tdf),
        }
    }
    Ok(tdf)
}

fn notes(converted: &Converted) -> Vec<String> {
    let printed = converted.printed.iter().map(|line| format!("the script says: {line}"));
    printed.chain(converted.notes.iter().map(ToString::to_string)).collect()
}

fn of_script(error: ns::Error) -> Error {
    match error {
        ns::Error::Machine { what, help } => Error::machine(what, help),
        other => Error::input(other),
    }
}
