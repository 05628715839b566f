//! Damaged state: set apart under a name of its own, told, listed by `diorama swap list`, and removable.
//!
//! A file that cannot be read any more is not written over, for somebody may be able to mend it; and it is not in the
//! way of what is written in its place.

use std::fs;
use std::path::{Path, PathBuf};

use host::warn;

use crate::error::{Error, Result};
use crate::places::STATE;

/// The end of the names of what is set apart.
pub(crate) const APART: &str = ".damaged";
/// How many damaged ones of a name are kept.
const MOST: usize = 100;

/// Whether something of this name is set apart.
pub(crate) fn is_apart(name: &str) -> bool {
    let (_, end) = name.rsplit_once('.').unwrap_or_default();
    end.strip_prefix(&APART[1..]).is_some_and(|n| n.is_empty() || n.parse::<usize>().is_ok_and(|n| n > 1))
}

/// Puts a file or a directory apart, and says so; where it is then. One that cannot be moved stays where it is.
pub fn set_apart(path: &Path, why: &str) -> PathBuf {
    let named = |n: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(if n > 1 { format!("{APART}{n}") } else { APART.to_owned() });
        PathBuf::from(name)
    };
    let free = (1..MOST).map(named).find(|apart| apart.symlink_metadata().is_err());
    match free.filter(|apart| fs::rename(path, apart).is_ok()) {
        Some(apart) => {
            warn(format_args!("{} is damaged ({why}); it is kept as {}", path.display(), apart.display()));
            apart
        }
        None => path.to_owned(),
    }
}

/// The files of this machine's state that are set apart, by name.
pub(crate) fn files() -> Vec<String> {
    files_in(Path::new(STATE))
}

fn files_in(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let mut names: Vec<String> = files.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| is_apart(name));
    names.sort();
    names
}

/// Removes one of them; whether there was one.
pub(crate) fn remove_file(name: &str) -> Result<bool> {
    if !files().iter().any(|known| known == name) {
        return Ok(false);
    }
    let file = Path::new(STATE).join(name);
    fs::remove_file(&file).map_err(Error::file(&file, "remove")).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_damaged_takes_the_place_of_another() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("speed.json");
        for n in ["1", "2", "3"] {
            fs::write(&file, n).unwrap();
            set_apart(&file, "it is no JSON");
        }
        assert_eq!(files_in(place.path()), ["speed.json.damaged", "speed.json.damaged2", "speed.json.damaged3"]);
        assert_eq!(fs::read_to_string(place.path().join("speed.json.damaged2")).unwrap(), "2");
        for other in ["speed.json", ".damaged.json", "damaged", "a.damaged1", "a.damagedx"] {
            assert!(!is_apart(other), "{other}");
        }
    }
}
