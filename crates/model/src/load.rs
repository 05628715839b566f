//! From a path on the command line to an experiment.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, Problems};
use crate::experiment::Experiment;
use crate::{emit, expand, overrides, tree};

/// What the file in an experiment's folder is called.
const FILE: &str = "experiment.yaml";
/// How long an experiment's file may be, in bytes.
const LONGEST: u64 = 1 << 20;

/// Loads an experiment from its folder or its YAML file, with the `(path, value)` of every `--set` applied to the file
/// before it is checked.
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<Experiment, Error> {
    let (file, dir) = locate(path)?;
    let text = read(&file)?;
    let mut problems = Problems::new(&file, &text);
    let mut root = match tree::parse(&text, 0) {
        Ok((root, faults)) => {
            faults.into_iter().for_each(|(at, what)| problems.add(at, what));
            root
        }
        Err((at, what)) => {
            problems.add(at, what);
            return Err(problems.into_error());
        }
    };
    overrides::apply(&mut root, overrides, &mut problems);
    let experiment = expand::experiment(&root, &dir, &mut problems);
    match experiment {
        Some(experiment) if problems.none() => Ok(Experiment { resolved: emit::document(&root), ..experiment }),
        _ => Err(problems.into_error()),
    }
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

fn read(file: &Path) -> Result<String, Error> {
    let unreadable = |why: String| Error::Unreadable { path: file.to_owned(), why };
    let meta = file
        .metadata()
        .map_err(|e| unreadable(format!("{}; the folder of an experiment holds a file `{FILE}`", reason(&e))))?;
    // Opening a FIFO would wait for ever.
    if !meta.is_file() {
        return Err(unreadable("this is not a file: an experiment is a YAML file".into()));
    }
    let too_long =
        || unreadable(format!("the file is longer than {} KiB: an experiment is a page or two", LONGEST / 1024));
    if meta.len() > LONGEST {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    let opened = File::open(file).and_then(|f| f.take(LONGEST + 1).read_to_end(&mut bytes));
    opened.map_err(|e| unreadable(reason(&e)))?;
    if bytes.len() as u64 > LONGEST {
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

/// What the system says, without its number.
fn reason(e: &std::io::Error) -> String {
    match e.kind() {
        std::io::ErrorKind::NotFound => "there is no such file or folder".into(),
        std::io::ErrorKind::PermissionDenied => "permission to read it is denied".into(),
        _ => e.to_string(),
    }
}
