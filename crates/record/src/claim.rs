//! Where a run's directory is, and what happens to an earlier one's.

use std::fs;
use std::path::{Path, PathBuf};

use host::beneath::Dir;

use crate::error::{Error, Result};
use crate::result::Variant;

/// Makes the directory of a run, or of its repetitions, and gives its absolute path: `out`, or `runs/NAME/VARIANT`.
///
/// An earlier default directory moves to the first free `VARIANT.N`; an `out` that holds something is refused, for it
/// may be anything. So is what a live run writes to: `live` are the directories of all of them, absolute.
pub fn claim(out: Option<&Path>, name: &str, variant: Variant, live: &[PathBuf]) -> Result<PathBuf> {
    let place = out.map_or_else(|| Path::new("runs").join(name).join(variant.as_str()), Path::to_path_buf);
    // One that does not exist has no real path, and no live run in it.
    if let Ok(real) = place.canonicalize()
        && let Some(by) = live.iter().find(|other| other.starts_with(&real))
    {
        return Err(Error::InUse { path: place, by: by.clone() });
    }
    if out.is_some() {
        if fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::NotEmpty(place));
        }
    } else if fs::symlink_metadata(&place).is_ok() {
        let free = (1..)
            .map(|n| place.with_file_name(format!("{variant}.{n}")))
            .find(|p| fs::symlink_metadata(p).is_err())
            .expect("some number is free");
        let moved = fs::rename(&place, &free);
        moved.map_err(|e| Error::io(&place, format!("move the earlier run to {}", free.display()), e))?;
    }
    Dir::open_or_make(&place).map_err(|e| Error::io(&place, "create", e))?;
    place.canonicalize().map_err(|e| Error::io(&place, "find", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_something_in_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(claim(Some(dir.path()), "x", Variant::Scaled, &[]).is_ok());
        fs::write(dir.path().join("mine"), "precious").unwrap();
        let error = claim(Some(dir.path()), "x", Variant::Scaled, &[]).unwrap_err();
        assert!(matches!(error, Error::NotEmpty(_)));
        assert!(error.to_string().contains("not empty"), "{error}");
    }

    #[test]
    fn the_directory_of_a_live_run_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let live = [dir.path().canonicalize().unwrap().join("1")];
        let error = claim(Some(dir.path()), "x", Variant::Scaled, &live).unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        // Its neighbour, whose name begins alike, is another.
        let neighbour = dir.path().with_extension("other");
        assert!(claim(Some(&neighbour), "x", Variant::Scaled, &live).is_ok());
        fs::remove_dir(neighbour).unwrap();
    }
}
