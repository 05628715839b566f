//! Where a run's directory is, and what happens to an earlier one's.

use std::io;
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
        if Dir::open(&place).and_then(|dir| dir.names()).is_ok_and(|names| !names.is_empty()) {
            return Err(Error::NotEmpty(place));
        }
    } else {
        move_away(&place, variant).map_err(|e| Error::io(&place, "move the earlier run away from", e))?;
    }
    Dir::open_or_make(&place).map_err(|e| Error::io(&place, "create", e))?;
    place.canonicalize().map_err(|e| Error::io(&place, "find", e))
}

/// Gives what is at a default place the first free name beside it. Whoever may change a folder above moves nothing else
/// by that: the one that was found stays open.
fn move_away(place: &Path, variant: Variant) -> io::Result<()> {
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else { return Ok(()) };
    let name = Path::new(name);
    let dir = match Dir::open(parent) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !dir.has(name) {
        return Ok(());
    }
    let mut numbered = (1..).map(|n| PathBuf::from(format!("{variant}.{n}")));
    let free = numbered.find(|free| !dir.has(free)).expect("some number is free");
    dir.rename(name, &free)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_earlier_run_gets_the_first_free_name_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("scaled");
        move_away(&place, Variant::Scaled).unwrap();
        move_away(&dir.path().join("none/scaled"), Variant::Scaled).unwrap();
        for n in 1..4 {
            fs::create_dir(&place).unwrap();
            fs::write(place.join("n"), n.to_string()).unwrap();
            move_away(&place, Variant::Scaled).unwrap();
            assert_eq!(fs::read_to_string(dir.path().join(format!("scaled.{n}/n"))).unwrap(), n.to_string());
        }
        // A link is moved itself, and not what it leads to.
        let kept = dir.path().join("scaled.1");
        symlink(&kept, &place).unwrap();
        move_away(&place, Variant::Scaled).unwrap();
        assert!(kept.is_dir() && dir.path().join("scaled.4").is_symlink());
    }

    #[test]
    fn a_folder_of_runs_behind_a_link_of_another_user_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("victim/scaled")).unwrap();
        symlink("victim", dir.path().join("runs")).unwrap();
        // Only root can give it away.
        if std::os::unix::fs::lchown(dir.path().join("runs"), Some(65534), None).is_ok() {
            move_away(&dir.path().join("runs/scaled"), Variant::Scaled).unwrap_err();
            assert!(dir.path().join("victim/scaled").is_dir());
        }
    }

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
