//! Runs compared with a base, and the forms in which that is shown.

mod network;
mod page;
mod profiles;
mod programs;
mod table;

use std::path::Path;

use fidelity::compare::{self, Bound, Comparison};
use record::Series;

use crate::error::Error;

/// Several series of runs, each compared with the same base.
#[derive(Clone, Debug)]
pub struct Comparisons {
    base: Series,
    others: Vec<(Series, Comparison)>,
}

/// Compares each of `others` with `base`; all are run directories or folders of repetitions.
pub fn compare(base: &Path, others: &[impl AsRef<Path>], bounds: &[Bound]) -> Result<Comparisons, Error> {
    let base = Series::open(base)?;
    let others = others.iter().map(|other| Series::open(other.as_ref())).collect::<Result<_, _>>()?;
    compare_series(base, others, bounds)
}

/// Likewise, of runs that have been read.
pub fn compare_series(base: Series, others: Vec<Series>, bounds: &[Bound]) -> Result<Comparisons, Error> {
    let others = others.into_iter().map(|other| {
        let comparison = compare::compare(&base, &other, bounds)?;
        Ok::<_, Error>((other, comparison))
    });
    let others = others.collect::<Result<_, _>>()?;
    Ok(Comparisons { base, others })
}

impl Comparisons {
    /// In the order of the others.
    pub fn each(&self) -> impl Iterator<Item = &Comparison> {
        self.others.iter().map(|(_, comparison)| comparison)
    }

    /// Whether all of them are within all bounds; so are they if there is none.
    pub fn within(&self) -> bool {
        self.each().all(|comparison| comparison.within)
    }

    /// One table for a terminal.
    pub fn table(&self) -> String {
        table::table(&self.base, &self.pairs())
    }

    /// A page for a browser, with distributions, series over time and profiles of nodes and links drawn over one
    /// another.
    pub fn page(&self) -> Result<String, Error> {
        page::page_of(&self.base, &self.pairs())
    }

    /// One JSON object, or an array of them for several others, with a last newline.
    pub fn json(&self) -> String {
        let text = match self.others.as_slice() {
            [(_, one)] => serde_json::to_string_pretty(one),
            _ => serde_json::to_string_pretty(&self.each().collect::<Vec<_>>()),
        };
        text.expect("a comparison has only string keys") + "\n"
    }

    fn pairs(&self) -> Vec<(&Series, &Comparison)> {
        self.others.iter().map(|(series, comparison)| (series, comparison)).collect()
    }
}

/// Whether a run of the series has packets.
fn observed_packets(series: &Series) -> bool {
    series.runs.values().any(|run| run.packets.is_some())
}

/// A short name for each series: its variant, or its path where two have the same.
fn labels(series: &[&Series]) -> Vec<String> {
    let variant = |s: &Series| s.first().result.variant;
    let label = |s: &&Series| {
        let alike = series.iter().filter(|o| variant(o) == variant(s)).count();
        if alike > 1 { s.path.display().to_string() } else { variant(s).to_string() }
    };
    series.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use record::{RunDir, Variant};

    use super::*;
    use crate::testing::{latencies, run};

    #[test]
    fn several_others_are_an_array_and_one_is_an_object() {
        let dir = tempfile::tempdir().unwrap();
        let written = |name: &str, variant, scale| {
            let path = dir.path().join(name);
            let made = run(name, variant, &latencies(scale), &[]);
            let directory = RunDir::prepare(&path, []).unwrap();
            let samples = |values: &[f64]| -> Vec<_> {
                let sample = |v: &f64| record::Sample { virtual_s: None, value: *v, node: "client".into() };
                values.iter().map(sample).collect()
            };
            for (name, values) in &made.samples {
                directory.write_samples(name, &samples(values.sorted())).unwrap();
            }
            directory.write_result(&made.result).unwrap();
            path
        };
        let base = written("baseline", Variant::Baseline, 1.0);
        let (near, far) = (written("scaled", Variant::Scaled, 1.02), written("naive", Variant::Naive, 2.0));
        let bounds = ["5%".parse().unwrap()];
        let one = compare(&base, &[&near], &bounds).unwrap();
        assert!(one.within() && one.json().starts_with("{\n  \"within\": true"), "{}", one.json());
        let both = compare(&base, &[&near, &far], &bounds).unwrap();
        assert!(!both.within() && both.json().starts_with('['), "{}", both.json());
        assert_eq!(both.each().map(|c| c.within).collect::<Vec<_>>(), [true, false]);
        assert!(compare(&base, &[dir.path().join("absent")], &[]).is_err());
    }
}
