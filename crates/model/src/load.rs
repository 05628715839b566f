//! From a path on the command line to an experiment.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::{Error, Problems};
use crate::experiment::{Event, Experiment};
use crate::tree::Value;
use crate::{chaos, de, emit, expand, overrides, paths, tree};

/// The name of the file in an experiment's folder.
const FILE: &str = "experiment.yaml";
/// How long an experiment's file may be, in bytes.
const LONGEST: u64 = 1 << 20;

/// Loads an experiment from its folder or its YAML file, with the `(path, value)` of every `--set` applied to the file
/// before it is checked.
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<Experiment, Error> {
    let (file, dir) = locate(path)?;
    experiment(open(&file, &EXPERIMENT)?, &dir, overrides)
}

fn experiment(
    (mut root, mut problems): (Value, Problems),
    dir: &Path,
    overrides: &[(String, String)],
) -> Result<Experiment, Error> {
    overrides::apply(&mut root, overrides, &mut problems);
    let chaos = chaos::take(&mut root);
    let mut experiment = expand::experiment(&root, dir, &mut problems);
    if let (Some(chaos), Some(quiet)) = (chaos, experiment.as_ref().filter(|_| problems.none())) {
        chaos::draw(&mut root, &chaos, quiet, &mut problems);
        if problems.none() {
            experiment = expand::experiment(&root, dir, &mut problems);
        }
    }
    match experiment {
        Some(experiment) if problems.none() => Ok(Experiment { resolved: emit::document(&root), ..experiment }),
        _ => Err(problems.into_error()),
    }
}

/// The kind of a file, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// With an article, such as `the catalog`.
    pub the: &'static str,
    /// The sentence about it, such as `a catalog is a YAML file`.
    pub is: &'static str,
    /// The help where there is no such file.
    pub missing: &'static str,
    /// How long it may be, in bytes.
    pub longest: u64,
}

const EXPERIMENT: Kind = Kind {
    the: "the experiment",
    is: "an experiment is a YAML file",
    missing: "the folder of an experiment holds a file `experiment.yaml`",
    longest: LONGEST,
};

/// Reads a YAML file as a tree, and begins to note what is wrong with it.
///
/// # Errors
///
/// If there is no such file, or it is no YAML.
pub fn open(file: &Path, kind: &Kind) -> Result<(Value, Problems), Error> {
    parse(&read(file, kind)?, file, kind)
}

fn parse(text: &str, file: &Path, kind: &Kind) -> Result<(Value, Problems), Error> {
    let mut problems = Problems::new(kind.the, file, text);
    match tree::parse(text, 0) {
        Ok((root, faults)) => {
            faults.into_iter().for_each(|(at, what)| problems.add(at, what));
            Ok((root, problems))
        }
        Err((at, what)) => {
            problems.add(at, what);
            Err(problems.into_error())
        }
    }
}

/// Loads an experiment from YAML that a program wrote, for a file that lies in the folder `dir` and is called `name` in
/// messages.
pub fn load_text(text: &str, name: &Path, dir: &Path, overrides: &[(String, String)]) -> Result<Experiment, Error> {
    experiment(parse(text, name, &EXPERIMENT)?, dir, overrides)
}

/// Reads a YAML file of some kind, or the text of one, into types that are not those of an experiment.
///
/// # Errors
///
/// Faults of the file, with line and column.
pub fn read_yaml<T: DeserializeOwned>(path: &Path, text: Option<&str>, kind: &Kind) -> Result<T, Error> {
    let (root, mut problems) = match text {
        Some(text) => parse(text, path, kind)?,
        None => open(path, kind)?,
    };
    let found = de::read(&root).map_err(|(at, what)| problems.add(at, what));
    match found {
        Ok(found) if problems.none() => Ok(found),
        _ => Err(problems.into_error()),
    }
}

/// Reads an event that is to happen at `at` in a run of an experiment: what stands in the experiment's file after
/// `at: …,`, such as `link: A--B, set: { up: false }`. A pattern makes an event for each that it names.
///
/// # Errors
///
/// Faults of the event, in the words in which a file's events are refused.
pub fn read_event(text: &str, at: &str, experiment: &Experiment) -> Result<Vec<Event>, Error> {
    let name = Path::new("the event");
    if text.contains('\n') {
        return Err(Error::Unreadable { path: name.to_owned(), why: "an event is one line".into() });
    }
    let text = format!("{{ {text}, at: {at} }}");
    let mut problems = Problems::new(EXPERIMENT.the, name, &text);
    let mut events = Vec::new();
    match tree::parse(&text, 0) {
        Ok((root, faults)) => {
            faults.into_iter().for_each(|(at, what)| problems.add(at, what));
            events = expand::event(&root, experiment, &mut problems);
        }
        Err((at, what)) => problems.add(at, what),
    }
    if problems.none() { Ok(events) } else { Err(problems.into_error()) }
}

fn locate(path: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let unreadable = |why: String| Error::Unreadable { path: path.to_owned(), why };
    let found = path
        .metadata()
        .map_err(|e| unreadable(format!("{}; name the folder of an experiment or its YAML file", reason(&e))))?;
    if found.is_dir() {
        return Ok((path.join(FILE), path.to_owned()));
    }
    let dir = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    Ok((path.to_owned(), dir.to_owned()))
}

/// Reads a file of text, which must be short enough to be of that kind.
///
/// # Errors
///
/// If there is no such file, or it cannot be one.
pub fn read(file: &Path, kind: &Kind) -> Result<String, Error> {
    let unreadable = |why: String| Error::Unreadable { path: file.to_owned(), why };
    let opened = paths::to_read(file).map_err(|e| unreadable(format!("{}; {}", reason(&e), kind.missing)))?;
    let meta = opened.metadata().map_err(|e| unreadable(reason(&e)))?;
    if !meta.is_file() {
        return Err(unreadable(format!("this is not a file: {}", kind.is)));
    }
    let too_long = || unreadable(format!("the file is longer than {} KiB: {}", kind.longest >> 10, kind.is));
    if meta.len() > kind.longest {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    opened.take(kind.longest + 1).read_to_end(&mut bytes).map_err(|e| unreadable(reason(&e)))?;
    if bytes.len() as u64 > kind.longest {
        return Err(too_long());
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let before = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        unreadable(format!("line {line} is not UTF-8: save the file as UTF-8"))
    })?;
    match text.find('\0') {
        Some(at) => {
            let line = text[..at].matches('\n').count() + 1;
            Err(unreadable(format!("line {line} holds a NUL character: remove it")))
        }
        None => Ok(text),
    }
}

/// The system's reason, without its number.
fn reason(e: &std::io::Error) -> String {
    match e.kind() {
        std::io::ErrorKind::NotFound => "there is no such file or folder".into(),
        std::io::ErrorKind::PermissionDenied => "permission to read it is denied".into(),
        _ => e.to_string(),
    }
}
