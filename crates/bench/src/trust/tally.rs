//! How often verdicts and intervals were right: arithmetic on pairs of runs, nothing else.

use record::Verdict;
use serde::Serialize;

use crate::stats::median;

/// One statistic of one metric, in the tested run and in the one that was left alone. Everything in per cent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    /// Such as `latency p90`.
    pub name: String,
    /// How far the tested run is from the other, of the other's value.
    pub error: f64,
    /// Where that may lie by what both runs state about themselves, had the model no other fault: what they share does
    /// not count. It holds 0 if the two runs agree.
    pub difference: [f64; 2],
    /// Half the width of the interval that the tested run states, of its value.
    pub half_width: f64,
    /// Half the width of the interval that the reference states.
    pub reference_half_width: f64,
    /// How far off the tested run may be and be trustworthy.
    pub accuracy: f64,
}

impl Figure {
    /// Whether the stated intervals explain what was seen.
    fn covered(&self) -> bool {
        self.difference[0] <= 0.0 && 0.0 <= self.difference[1]
    }
}

/// The outcome of a pair.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// The kind of experiment.
    pub kind: &'static str,
    /// The disturbance of the tested run, if any.
    pub trouble: Option<&'static str>,
    /// The tested run's own.
    pub verdict: Verdict,
    /// Every statistic for which both runs state an interval.
    pub figures: Vec<Figure>,
}

/// Whether the tested run was as close to the other as it has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Truth {
    /// All of its figures were.
    Right,
    /// One was not, by more than the other run may itself be off.
    Wrong,
    /// One was not, but that may be the other run's fault; or nothing could be compared.
    Open,
}

impl Outcome {
    /// The truth about the tested run, by the other run.
    pub fn truth(&self) -> Truth {
        let far = |f: &&Figure| f.error.abs() > f.accuracy;
        if self.figures.is_empty() {
            Truth::Open
        } else if self.figures.iter().filter(far).any(|f| f.error.abs() - f.reference_half_width > f.accuracy) {
            Truth::Wrong
        } else if self.figures.iter().any(|f| far(&f)) {
            Truth::Open
        } else {
            Truth::Right
        }
    }

    /// The figure that is furthest off, in terms of what it may be.
    pub fn worst(&self) -> Option<&Figure> {
        let off = |f: &Figure| f.error.abs() / f.accuracy;
        self.figures.iter().max_by(|a, b| off(a).total_cmp(&off(b)))
    }
}

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Part {
    pub n: usize,
    pub of: usize,
}

impl Part {
    fn count<T>(all: impl IntoIterator<Item = T>, counts: impl Fn(&T) -> bool) -> Part {
        all.into_iter()
            .fold(Part::default(), |part, one| Part { n: part.n + usize::from(counts(&one)), of: part.of + 1 })
    }

    /// Not a number if there was nothing to count.
    pub fn percent(self) -> f64 {
        100.0 * self.n as f64 / self.of as f64
    }
}

/// Counts of outcomes, to be printed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tally {
    /// Figures whose difference the stated intervals explain.
    pub covered: Part,
    /// The median half width of what untroubled runs state, per cent; not a number if they state nothing.
    pub half_width: f64,
    /// Runs that are suspect, of those that were right.
    pub false_alarms: Part,
    /// Runs that were wrong, of those that are trustworthy.
    pub misses: Part,
    /// Runs of which nobody can say whether they were right.
    pub open: Part,
}

impl Tally {
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Tally {
        let outcomes: Vec<&Outcome> = outcomes.into_iter().collect();
        let figures = || outcomes.iter().flat_map(|o| &o.figures);
        let truth = |truth| outcomes.iter().filter(move |o| o.truth() == truth);
        let quiet = outcomes.iter().filter(|o| o.trouble.is_none());
        let trusted = |o: &&&Outcome| o.verdict == Verdict::Trustworthy;
        // An open pair is no evidence either way.
        let decided_and_trusted = outcomes.iter().filter(trusted).filter(|o| o.truth() != Truth::Open);
        Tally {
            covered: Part::count(figures(), |f| f.covered()),
            half_width: median(quiet.flat_map(|o| &o.figures).map(|f| f.half_width).collect()),
            false_alarms: Part::count(truth(Truth::Right), |o| o.verdict == Verdict::Suspect),
            misses: Part::count(decided_and_trusted, |o| o.truth() == Truth::Wrong),
            open: Part::count(&outcomes, |o| o.truth() == Truth::Open),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure that is off by `error`, where each run states `half_width`.
    fn figure(error: f64, half_width: f64) -> Figure {
        let difference = [error - 2.0 * half_width, error + 2.0 * half_width];
        let name = "latency p50".to_string();
        Figure { name, error, difference, half_width, reference_half_width: half_width, accuracy: 5.0 }
    }

    fn outcome(verdict: Verdict, trouble: Option<&'static str>, figures: &[(f64, f64)]) -> Outcome {
        Outcome { kind: "mixed", trouble, verdict, figures: figures.iter().map(|(e, h)| figure(*e, *h)).collect() }
    }

    use Verdict::{Suspect, Trustworthy};

    #[test]
    fn a_run_is_wrong_if_one_figure_is_off_by_more_than_the_other_run_may_be() {
        let truth = |figures: &[(f64, f64)]| outcome(Trustworthy, None, figures).truth();
        assert_eq!(truth(&[(1.0, 2.0), (-4.9, 2.0)]), Truth::Right);
        assert_eq!(truth(&[(1.0, 2.0), (-8.0, 2.0)]), Truth::Wrong, "the direction does not matter");
        assert_eq!(truth(&[(1.0, 2.0), (6.0, 2.0)]), Truth::Open, "the other run may be 2 % off");
        assert_eq!(truth(&[(6.0, 2.0), (9.0, 2.0)]), Truth::Wrong, "one that is surely off decides");
        assert_eq!(truth(&[]), Truth::Open);
    }

    #[test]
    fn coverage_counts_figures_and_not_runs() {
        let all = [
            outcome(Trustworthy, None, &[(1.0, 1.0), (3.0, 1.0)]),
            outcome(Suspect, Some("stolen-time"), &[(-2.0, 1.0), (20.0, 15.0)]),
        ];
        let tally = Tally::of(&all);
        assert_eq!((tally.covered.n, tally.covered.of), (3, 4));
        assert_eq!(tally.covered.percent(), 75.0);
        assert_eq!(tally.half_width, 1.0, "troubled runs may be wide");
    }

    #[test]
    fn false_alarms_are_of_those_that_were_right_and_misses_of_those_that_are_trusted() {
        let all = [
            outcome(Trustworthy, None, &[(1.0, 1.0)]),
            outcome(Suspect, None, &[(1.0, 1.0)]),
            outcome(Suspect, Some("hog"), &[(4.0, 1.0)]),
            outcome(Suspect, Some("hog"), &[(50.0, 1.0)]),
            outcome(Trustworthy, Some("hog"), &[(9.0, 1.0)]),
            // Nobody can say: counts for nothing.
            outcome(Trustworthy, None, &[(6.0, 2.0)]),
            outcome(Suspect, None, &[(6.0, 2.0)]),
            outcome(Suspect, None, &[]),
        ];
        let tally = Tally::of(&all);
        assert_eq!(tally.false_alarms, Part { n: 2, of: 3 });
        assert_eq!(tally.misses, Part { n: 1, of: 2 });
        assert_eq!(tally.open, Part { n: 3, of: 8 });
    }

    #[test]
    fn of_nothing_nothing_is_known() {
        let tally = Tally::of(&[]);
        assert!(tally.covered.percent().is_nan() && tally.half_width.is_nan() && tally.misses.percent().is_nan());
        assert!(outcome(Suspect, None, &[]).worst().is_none());
    }

    #[test]
    fn the_worst_figure_is_the_one_that_breaks_its_bound_most() {
        let mut loose = figure(12.0, 1.0);
        loose.accuracy = 20.0;
        let of = Outcome { kind: "mixed", trouble: None, verdict: Suspect, figures: vec![loose, figure(-6.0, 1.0)] };
        assert_eq!(of.worst().unwrap().error, -6.0);
    }
}
