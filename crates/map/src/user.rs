//! The harness of a user who names none: `harness:` in `config.yaml` of his configuration directory.

use std::path::{Path, PathBuf};

use model::read_yaml;
use model::yaml::Kind;
use serde::Deserialize;

use crate::error::Error;

/// Its name in the directory.
const FILE: &str = "config.yaml";

const CONFIGURATION: Kind = Kind {
    the: "your configuration",
    is: "it is a YAML file, such as `harness: lab.yaml`",
    missing: "write `harness: FILE` into it, or name the file: `--harness FILE`",
    longest: 1 << 20,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    harness: PathBuf,
}

/// The harness file that the user's configuration in `directory` names, from there.
///
/// # Errors
///
/// [`Error::File`]: there is no configuration, or what is wrong with it, with line and column.
pub fn harness_of_user(directory: &Path) -> Result<PathBuf, Error> {
    let file: File = read_yaml(&directory.join(FILE), None, &CONFIGURATION)?;
    Ok(directory.join(file.harness))
}
