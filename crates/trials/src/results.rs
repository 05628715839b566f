//! Where the trials' results lie: `runs/NAME`, an earlier one moved to `runs/NAME.1` and so on.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The experiments of this repository, from where make is run.
const EXPERIMENTS: &str = "experiments";

/// The folder of an experiment of this repository.
pub fn experiment(name: &str) -> Result<PathBuf, Failure> {
    let folder = Path::new(EXPERIMENTS).join(name);
    if folder.join("experiment.yaml").is_file() {
        return Ok(folder);
    }
    let known = fs::read_dir(EXPERIMENTS).into_iter().flatten().flatten();
    let mut known: Vec<String> = known.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    known.sort();
    Err(Failure::input(match known.is_empty() {
        true => "there is no folder `experiments` here: run this in Diorama's own directory".into(),
        false => format!("there is no experiment `{name}` in `{EXPERIMENTS}`; there are {}", known.join(", ")),
    }))
}

/// An empty `PARENT/NAME`; whatever had that name is now `NAME.1`, or the first free number.
pub fn fresh(parent: &Path, name: &str) -> Result<PathBuf, Failure> {
    let directory = parent.join(name);
    let io = |e: std::io::Error| Failure::failed(format!("cannot make {}: {e}", directory.display()));
    if directory.exists() {
        let free = (1..).map(|n| parent.join(format!("{name}.{n}"))).find(|path| !path.exists());
        fs::rename(&directory, free.expect("there are more numbers than directories")).map_err(io)?;
    }
    fs::create_dir_all(&directory).map_err(io)?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_result_is_kept_under_a_number() {
        let parent = tempfile::tempdir().unwrap();
        for round in ["first", "second", "third"] {
            let directory = fresh(parent.path(), "demo").unwrap();
            assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
            fs::write(directory.join("round"), round).unwrap();
        }
        let round = |name: &str| fs::read_to_string(parent.path().join(name).join("round")).unwrap();
        assert_eq!([round("demo.1"), round("demo.2"), round("demo")], ["first", "second", "third"]);
    }
}
