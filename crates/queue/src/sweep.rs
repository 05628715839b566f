//! Runs over the values of some parameters: their cross product.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use host::beneath::Dir;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// A parameter and its values: `machines.server.speed=0.1,0.2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// A place of the experiment's file, as `--set` names it.
    pub path: String,
    /// At least one, in the order in which they were given.
    pub values: Vec<String>,
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Axis, String> {
        let wrong = || "write it as PATH=VALUE,VALUE…, such as machines.server.speed=0.1,0.2".to_owned();
        let (path, values) = text.split_once('=').filter(|(path, _)| !path.is_empty()).ok_or_else(wrong)?;
        let values: Vec<String> = values.split(',').map(str::to_owned).collect();
        if values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        match values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
            Some((_, twice)) => Err(format!("`{twice}` is there twice")),
            None => Ok(Axis { path: path.into(), values }),
        }
    }
}

/// Values that a sweep is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The experiment, absolute.
    pub experiment: PathBuf,
    /// The parameters, the slowest first.
    pub over: Vec<Axis>,
    /// How often each point is run.
    pub repeat: u32,
    /// Further words for each run.
    pub words: Vec<String>,
}

/// The most runs of a sweep: a week of runs of six seconds. All are known, and their words checked, before the first.
pub const MOST_RUNS: u128 = 100_000;

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Parameters and values, in the order of the axes.
    pub settings: Vec<(String, String)>,
    /// Which of the repetitions it is, from 1 on.
    pub repetition: u32,
    /// Where its results go, below the sweep's directory.
    pub place: PathBuf,
}

impl Sweep {
    /// All runs: point by point, or repetition by repetition, so that what drifts on the machine meets all points.
    ///
    /// # Errors
    ///
    /// If there are more than 100,000, a week of runs of six seconds.
    pub fn points(&self) -> Result<Vec<Point>> {
        let of_axes = self.over.iter().map(|axis| axis.values.len() as u128);
        let runs = of_axes.fold(u128::from(self.repeat), u128::saturating_mul);
        if runs > MOST_RUNS {
            let what = format!(
                "the sweep has {runs} runs, and may have {MOST_RUNS}: give fewer values, or a smaller --repeat"
            );
            return Err(Error::Input(what));
        }
        let mut settings: Vec<Vec<(String, String)>> = vec![Vec::new()];
        for axis in &self.over {
            let with = |so_far: &Vec<(String, String)>, value: &String| {
                let mut more = so_far.clone();
                more.push((axis.path.clone(), value.clone()));
                more
            };
            settings = settings.iter().flat_map(|s| axis.values.iter().map(move |v| with(s, v))).collect();
        }
        let of = |repetition: u32| {
            let all = settings.iter().enumerate();
            all.map(move |(number, settings)| Point {
                settings: settings.clone(),
                repetition,
                place: Path::new("runs").join(format!("{}", number + 1)).join(repetition.to_string()),
            })
        };
        Ok((1..=self.repeat).flat_map(of).collect())
    }

    /// As it is kept beside its results.
    pub fn to_json(&self) -> String {
        let over: Vec<Value> = self.over.iter().map(|a| json!({"path": a.path, "values": a.values})).collect();
        let all = json!({"experiment": self.experiment, "over": over, "repeat": self.repeat, "words": self.words});
        format!("{all:#}\n")
    }

    /// Whether the sweep that a directory holds is this one: false if it holds none.
    ///
    /// # Errors
    ///
    /// If it holds another one, or something else.
    pub fn is_in(&self, dir: &Path) -> Result<bool> {
        let file = dir.join(FILE);
        let folder = match Dir::open(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            folder => folder.map_err(Error::file(dir, "cannot open"))?,
        };
        let own = self.to_json();
        // Of another's, no more is read than tells that it is another's.
        let read = |file: std::fs::File| {
            let mut text = Vec::new();
            file.take(own.len() as u64 + 1).read_to_end(&mut text).map(|_| text)
        };
        match folder.read(Path::new(FILE)).and_then(read) {
            Ok(text) if text == own.as_bytes() => Ok(true),
            Ok(_) => {
                let what = "it holds another sweep: give the same words to go on with that, or another --out";
                Err(Error::Input(format!("{}: {what}", dir.display())))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if folder.names().is_ok_and(|names| !names.is_empty()) {
                    let what = "it is not empty, and holds no sweep: name another directory with --out";
                    return Err(Error::Input(format!("{}: {what}", dir.display())));
                }
                Ok(false)
            }
            Err(e) => Err(Error::file(&file, "cannot read")(e)),
        }
    }

    /// Begins it in a directory.
    pub fn begin(&self, dir: &Path) -> Result<()> {
        let folder = Dir::open_or_make(dir).map_err(Error::file(dir, "cannot make the directory"))?;
        let written = folder.replace(Path::new(FILE), self.to_json().as_bytes());
        written.map_err(Error::file(&dir.join(FILE), "cannot write"))
    }
}

/// Values that a sweep is over, in its directory.
const FILE: &str = "sweep.json";

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(over: &[&str], repeat: u32) -> Sweep {
        let over = over.iter().map(|axis| axis.parse().unwrap()).collect();
        Sweep { experiment: "/lab".into(), over, repeat, words: Vec::new() }
    }

    #[test]
    fn every_value_meets_every_other_and_repetitions_go_round() {
        let points = sweep(&["tdf=2,4", "links.0.delay=1ms,5ms,9ms"], 2).points().unwrap();
        let shown = |p: &Point| {
            let values: Vec<&str> = p.settings.iter().map(|(_, value)| value.as_str()).collect();
            format!("{} {} {}", values.join(" "), p.repetition, p.place.display())
        };
        let all: Vec<String> = points.iter().map(shown).collect();
        assert_eq!(all.len(), 12);
        assert_eq!(all[..2], ["2 1ms 1 runs/1/1", "2 5ms 1 runs/2/1"]);
        assert_eq!(all[6], "2 1ms 2 runs/1/2");
        let refused = sweep(&["tdf=2,4", "links.0.delay=1ms,5ms,9ms"], u32::MAX).points().unwrap_err();
        assert_eq!((refused.code(), refused.to_string().contains("25769803770 runs")), (2, true), "{refused}");
        assert_eq!(all[11], "4 9ms 2 runs/6/2");
    }

    #[test]
    fn what_is_no_axis_is_told() {
        for (text, says) in
            [("tdf", "write it as"), ("=1", "write it as"), ("a=1,,2", "write it as"), ("a=1,1", "twice")]
        {
            assert!(text.parse::<Axis>().unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn a_directory_holds_one_sweep() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (sweep(&["tdf=2,4"], 1), sweep(&["tdf=2,5"], 1));
        let out = dir.path().join("out");
        assert!(!one.is_in(&out).unwrap());
        one.begin(&out).unwrap();
        assert!(one.is_in(&out).unwrap());
        assert!(other.is_in(&out).unwrap_err().to_string().contains("another sweep"));
        assert!(one.is_in(dir.path()).unwrap_err().to_string().contains("holds no sweep"));
    }
}
