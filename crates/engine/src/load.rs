//! From a path on the command line to an experiment.

use std::path::Path;

use model::Experiment;

use crate::error::{Error, Result};

/// Loads an experiment from its folder or its YAML file, with the `(path, value)` of every `--set` applied to it.
///
/// # Errors
///
/// [`Error::Experiment`]: what is wrong with it, each place with its line and a pointer into that line.
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<Experiment> {
    model::load(path, overrides).map_err(|e| Error::Experiment(e.render()))
}
