//! The harness file of a command line: the one that is named, or that of the user's configuration.

use std::path::{Path, PathBuf};

use engine::Rights;
use engine::far::Way;

use crate::failure::Failure;

/// The machines of a harness file, and the commands that lead to them. None is named: the one that the user's
/// configuration names.
pub fn machines(file: Option<&Path>) -> Result<Vec<Way>, Failure> {
    let wrong = |e: map::Error| Failure::input(e.render());
    let file = match file {
        Some(file) => file.to_owned(),
        None => {
            let directory = configuration()?;
            let _rights = Rights::of_caller(&directory);
            map::harness_of_user(&directory).map_err(wrong)?
        }
    };
    let harness = {
        let _rights = Rights::of_caller(&file);
        map::load_reachable(&file).map_err(wrong)?
    };
    let way = |place: map::Place| Some(Way { name: place.name, argv: place.way?.argv() });
    Ok(harness.places.into_iter().filter_map(way).collect())
}

/// The one machine of a harness file.
pub fn only_machine(file: &Path) -> Result<Way, Failure> {
    match <[Way; 1]>::try_from(machines(Some(file))?) {
        Ok([way]) => Ok(way),
        Err(several) => Err(Failure::input(format!(
            "{}: a run takes place on one machine yet, and here are {}: leave one",
            file.display(),
            several.len()
        ))),
    }
}

/// The user's configuration directory.
fn configuration() -> Result<PathBuf, Failure> {
    let directory = |variable, below: &str| {
        let path = PathBuf::from(std::env::var_os(variable)?);
        // The XDG specification has other paths ignored.
        path.is_absolute().then(|| path.join(below))
    };
    let found = directory("XDG_CONFIG_HOME", "diorama").or_else(|| directory("HOME", ".config/diorama"));
    found.ok_or_else(|| Failure::input("there is no configuration without $HOME: name the file, --harness FILE"))
}
