//! How exact the results of a run must be to be trustworthy.

use fidelity::accuracy::accuracy;
use fidelity::compare::{Bound, Statistic};
use model::Experiment;
use record::Accuracy;

use crate::error::{Error, Result};

/// The range of what may be asked for, in percent.
const POSSIBLE: std::ops::RangeInclusive<f64> = 0.1..=100.0;

/// The accuracy that an experiment asks for, or `given` in its place: each for one statistic, or for all
/// ([`fidelity::accuracy`] says how much more tails may be off).
///
/// # Errors
///
/// If one is out of range.
pub fn asked(experiment: &Experiment, given: &[Bound]) -> Result<Accuracy> {
    let model::Accuracy { all, mean, p50, p90, p99 } = experiment.accuracy;
    let bound = |statistic, percent: Option<f64>| percent.map(|percent| Bound { statistic, percent });
    let mut bounds: Vec<Bound> = bound(None, all).into_iter().collect();
    let of_one = Statistic::ALL.into_iter().zip([mean, p50, p90, p99]);
    bounds.extend(of_one.filter_map(|(statistic, percent)| bound(Some(statistic), percent)));
    if let Some(Bound { percent, .. }) = given.iter().find(|b| !POSSIBLE.contains(&b.percent)) {
        return Err(Error::Usage(format!(
            "--accuracy {percent}%: write a percentage from {}% to {}%, such as 5% or p99=20%",
            POSSIBLE.start(),
            POSSIBLE.end()
        )));
    }
    // A bound that is given for all takes the place of all that the experiment says.
    if given.iter().any(|b| b.statistic.is_none()) {
        bounds.clear();
    }
    bounds.extend_from_slice(given);
    Ok(accuracy(&bounds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(written: &str, given: &[&str]) -> Result<[f64; 4]> {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "name: x\ntdf: 1\n{written}\nmachines: {{ m: {{ speed: 1, memory: 64MiB }} }}\n\
             nodes: {{ a: {{ machine: m, run: x }} }}\nends: {{ limit: 1s }}\n"
        );
        std::fs::write(dir.path().join("experiment.yaml"), text).unwrap();
        let experiment = model::load(dir.path(), &[]).unwrap();
        let given: Vec<Bound> = given.iter().map(|text| text.parse().unwrap()).collect();
        asked(&experiment, &given).map(|a| [a.mean, a.p50, a.p90, a.p99])
    }

    #[test]
    fn the_command_line_comes_before_the_experiment_and_that_before_the_default() {
        assert_eq!(of("", &[]).unwrap(), [5.0, 5.0, 10.0, 20.0]);
        assert_eq!(of("accuracy: 3%", &[]).unwrap(), [3.0, 3.0, 6.0, 12.0]);
        assert_eq!(of("accuracy: { mean: 2%, p99: 20% }", &[]).unwrap(), [2.0, 5.0, 10.0, 20.0]);
        assert_eq!(of("accuracy: { mean: 2%, p99: 20% }", &["p99=30%"]).unwrap(), [2.0, 5.0, 10.0, 30.0]);
        assert_eq!(of("accuracy: { mean: 2%, p99: 20% }", &["p90=15%", "10%"]).unwrap(), [10.0, 10.0, 15.0, 40.0]);
    }

    #[test]
    fn what_nobody_can_keep_to_is_refused() {
        for given in ["0%", "p90=101%", "mean=0.01%"] {
            let error = site::Error::from(of("", &[given]).unwrap_err());
            assert!(error.code() == 2 && error.to_string().contains("from 0.1% to 100%"), "{error}");
        }
    }
}
