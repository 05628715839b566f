//! What tests of plans have in common.

use std::fs;

use diorama_plan::Supply;
use model::Experiment;
use site::CoreChoice;

/// An experiment from its text, with values that take the place of its own.
pub fn load(yaml: &str, overrides: &[(&str, &str)]) -> Experiment {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("experiment.yaml"), yaml).unwrap();
    let overrides: Vec<_> = overrides.iter().map(|(p, v)| ((*p).to_owned(), (*v).to_owned())).collect();
    model::load(dir.path(), &overrides).unwrap()
}

/// The cores of a machine that has so many.
pub fn machine(cores: usize) -> Supply {
    Supply::of((0..cores).map(|core| vec![core]).collect(), &CoreChoice::default()).unwrap()
}
