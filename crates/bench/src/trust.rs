//! Whether verdicts and intervals can be relied upon: pairs of short runs, half of them troubled on purpose.
//!
//! A pair is two runs of one experiment: one that is left alone, and one that is *tested*: what it says about itself is
//! held against the other. `docs/bench.md` says what is counted.

mod child;
mod figures;
mod kinds;
mod schedule;
mod tally;
mod trouble;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use record::{Variant, Verdict};
use serde_json::json;

use self::child::{End, Job};
pub use self::kinds::Kind;
use self::schedule::Pairing;
use self::tally::{Outcome, Tally};
use self::trouble::Trouble;
use crate::cores::Cores;
use crate::scratch::Scratch;
use crate::{Error, Row};

/// Arguments of the benchmark.
#[derive(Clone, Debug)]
pub struct Trust {
    /// How many pairs of runs; 40 take about three quarters of an hour.
    pub pairs: usize,
    /// The kinds of experiments, at least one; each has its turn.
    pub kinds: Vec<Kind>,
    /// `diorama run --accuracy`; `None` leaves it to each experiment.
    pub accuracy: Option<String>,
    /// A new directory in which every pair's runs stay; `None` removes each pair's when it is counted.
    pub keep: Option<PathBuf>,
}

/// Makes pairs of runs by this program itself, and counts how often they agree within what they state, and how often
/// verdicts were wrong. Needs root and two cores. `notify` hears of every pair when it is done.
///
/// # Errors
///
/// If this machine can make no runs, or `interrupted` says so. Runs that fail are counted and reported instead.
pub fn measure(trust: &Trust, interrupted: &dyn Fn() -> bool, notify: &mut dyn FnMut(&str)) -> Result<Vec<Row>, Error> {
    let cores = Cores::find()?;
    let (troubles, left_out) = Trouble::possible(&cores);
    left_out.iter().for_each(|why| notify(why));
    let scratch = Scratch::new()?;
    if let Some(keep) = &trust.keep {
        std::fs::create_dir(keep).map_err(|e| Error::Input(format!("--keep {}: {e}", keep.display())))?;
    }
    let work = trust.keep.as_deref().unwrap_or(scratch.path());
    let pairings = schedule::pairings(trust.pairs, &trust.kinds, &troubles);
    let mut rows = Vec::new();
    let mut outcomes = Vec::new();
    let mut failed = 0;
    for (number, pairing) in pairings.iter().enumerate() {
        let folder = work.join((number + 1).to_string());
        let what = describe(pairing);
        match pair(pairing, trust, &folder, &cores, interrupted)? {
            Ok(outcome) => {
                let row = row_of(&outcome, pairing);
                notify(&format!("[{} of {}] {what}: {}", number + 1, pairings.len(), told(&outcome)));
                rows.push(row);
                outcomes.push(outcome);
            }
            Err(why) => {
                notify(&format!("[{} of {}] {what}: a run failed: {why}", number + 1, pairings.len()));
                failed += 1;
            }
        }
        if trust.keep.is_none() {
            // Forty of them would fill a small /tmp.
            std::fs::remove_dir_all(&folder).map_err(Error::failed)?;
        }
    }
    rows.extend(parts(&outcomes));
    rows.extend(totals(&Tally::of(&outcomes), outcomes.len(), failed));
    Ok(rows)
}

/// Makes the two runs of a pair; the inner error is what a failed run said.
fn pair(
    pairing: &Pairing,
    trust: &Trust,
    folder: &Path,
    cores: &Cores,
    interrupted: &dyn Fn() -> bool,
) -> Result<Result<Outcome, String>, Error> {
    let experiment = folder.join("experiment");
    pairing.kind.write(&experiment)?;
    let out = |variant: Variant| folder.join(variant.as_str());
    let mut order = [(pairing.tested, pairing.trouble), (pairing.reference(), None)];
    if !pairing.tested_first {
        order.reverse();
    }
    for (variant, trouble) in order {
        let (out, set, accuracy) = (&out(variant), pairing.kind.set(), trust.accuracy.as_deref());
        let job = Job { experiment: &experiment, set, variant, accuracy, out, trouble };
        if let End::Failed(why) = child::run(&job, cores, interrupted)? {
            return Ok(Err(format!("{variant}: {why}")));
        }
    }
    let (verdict, figures) = figures::of(&out(pairing.reference()), &out(pairing.tested))?;
    let trouble = pairing.trouble.map(Trouble::name);
    Ok(Ok(Outcome { kind: pairing.kind.name(), trouble, verdict, figures }))
}

fn describe(pairing: &Pairing) -> String {
    let trouble = pairing.trouble.map_or("left alone", Trouble::name);
    format!("{}, {} run, {trouble}", pairing.kind.name(), pairing.tested)
}

/// A pair's outcome, in half a sentence.
fn told(outcome: &Outcome) -> String {
    let worst = outcome.worst().map_or("nothing can be compared".into(), |f| {
        let [low, high] = f.difference;
        format!("{} {:+.1} % off ({low:+.1} to {high:+.1} %)", f.name, f.error)
    });
    format!("{}; {worst}", outcome.verdict)
}

fn row_of(outcome: &Outcome, pairing: &Pairing) -> Row {
    let params = json!({
        "kind": outcome.kind, "trouble": outcome.trouble, "tested": pairing.tested, "verdict": outcome.verdict,
        "truth": outcome.truth(), "figures": outcome.figures,
    });
    Row::new("trust_pair", params, outcome.worst().map_or(f64::NAN, |f| f.error.abs()), "%, worst figure")
}

/// Counts of the outcomes by kind of experiment and by trouble, without goals: they are of a handful of pairs.
fn parts(outcomes: &[Outcome]) -> Vec<Row> {
    let mut by: BTreeMap<(&str, &str), Vec<&Outcome>> = BTreeMap::new();
    for outcome in outcomes {
        by.entry(("kind", outcome.kind)).or_default().push(outcome);
        by.entry(("trouble", outcome.trouble.unwrap_or("none"))).or_default().push(outcome);
    }
    let row = |((of, name), outcomes): ((&str, &str), Vec<&Outcome>)| {
        let pairs = outcomes.len();
        let suspect = outcomes.iter().filter(|o| o.verdict == Verdict::Suspect).count();
        let tally = Tally::of(outcomes);
        let params = json!({
            of: name, "pairs": pairs, "suspect": suspect, "covered": tally.covered,
            "false_alarms": tally.false_alarms, "misses": tally.misses, "open": tally.open,
        });
        Row::new("trust_part_coverage_rate", params, tally.covered.percent(), "% of figures")
    };
    by.into_iter().map(row).collect()
}

fn totals(tally: &Tally, pairs: usize, failed: usize) -> Vec<Row> {
    let counts = |part: tally::Part| json!({"pairs": pairs, "n": part.n, "of": part.of});
    let of_open = json!({"pairs": pairs, "failed": failed, "n": tally.open.n, "of": tally.open.of});
    vec![
        Row::new("trust_coverage_rate", counts(tally.covered), tally.covered.percent(), "% of figures").goal(95.0),
        Row::new("trust_half_width", json!({"pairs": pairs}), tally.half_width, "%, median, left alone").goal(3.0),
        Row::new("trust_false_alarms", counts(tally.false_alarms), tally.false_alarms.percent(), "% of right runs")
            .goal(10.0),
        Row::new("trust_misses", counts(tally.misses), tally.misses.percent(), "% of trustworthy runs").goal(1.0),
        Row::new("trust_undecided", of_open, tally.open.percent(), "% of pairs"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::tally::Figure;

    fn outcome(trouble: Option<&'static str>, verdict: Verdict, error: f64) -> Outcome {
        let figure = Figure {
            name: "latency p50".into(),
            error,
            difference: [error - 2.0, error + 2.0],
            half_width: 1.0,
            reference_half_width: 1.0,
            accuracy: 5.0,
        };
        Outcome { kind: "mixed", trouble, verdict, figures: vec![figure] }
    }

    #[test]
    fn goals_are_those_of_calibration() {
        let all = [outcome(None, Verdict::Trustworthy, 1.0), outcome(Some("stolen-time"), Verdict::Suspect, 9.0)];
        let rows = totals(&Tally::of(&all), 2, 0);
        let ok: Vec<_> = rows.iter().map(|r| (r.name.as_str(), r.value, r.ok)).collect();
        let expected = [
            ("trust_coverage_rate", 50.0, Some(false)),
            ("trust_half_width", 1.0, Some(true)),
            ("trust_false_alarms", 0.0, Some(true)),
            ("trust_misses", 0.0, Some(true)),
            ("trust_undecided", 0.0, None),
        ];
        assert_eq!(ok, expected);
        let nothing = totals(&Tally::of(&[]), 0, 2);
        assert!(nothing[..4].iter().all(|row| row.ok == Some(false)), "what was not measured meets no goal");
    }

    #[test]
    fn pairs_are_told_and_counted_by_kind_and_trouble() {
        let all = [outcome(None, Verdict::Trustworthy, 1.0), outcome(Some("stolen-time"), Verdict::Suspect, -9.0)];
        assert_eq!(told(&all[1]), "suspect; latency p50 -9.0 % off (-11.0 to -7.0 %)");
        let rows = parts(&all);
        let of: Vec<_> = rows.iter().map(|r| (r.params["kind"].as_str(), r.params["trouble"].as_str())).collect();
        assert_eq!(of, [(Some("mixed"), None), (None, Some("none")), (None, Some("stolen-time"))]);
        assert_eq!((rows[0].value, rows[1].value, rows[2].value), (50.0, 100.0, 0.0));
    }
}
