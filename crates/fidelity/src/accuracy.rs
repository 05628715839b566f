//! How far the statistics of a run may be off before it is suspect: `accuracy: 5%`.

use record::Accuracy;

use crate::compare::{Bound, Statistic};

/// The bound where nobody says.
pub const DEFAULT_PERCENT: f64 = 5.0;

/// By how much more a statistic may be off than mean and median if only one percentage is given: tails are known less
/// well from the same samples, and the same disturbance moves them further.
fn allowance(statistic: Statistic) -> f64 {
    match statistic {
        Statistic::Mean | Statistic::P50 => 1.0,
        Statistic::P90 => 2.0,
        Statistic::P99 => 4.0,
    }
}

/// The bounds asked for, a later one coming before an earlier one: one without a statistic is for mean and median,
/// with twice that for the 90th and four times that for the 99th percentile. What none of them names is as by default.
pub fn accuracy(bounds: &[Bound]) -> Accuracy {
    let of = |statistic: Statistic| {
        let named = bounds.iter().rev().find(|b| b.statistic == Some(statistic)).map(|b| b.percent);
        let all = bounds.iter().rev().find(|b| b.statistic.is_none()).map_or(DEFAULT_PERCENT, |b| b.percent);
        named.unwrap_or(all * allowance(statistic))
    };
    let [mean, p50, p90, p99] = Statistic::ALL.map(of);
    Accuracy { mean, p50, p90, p99 }
}

/// The bound for one statistic, per cent.
pub fn asked(accuracy: &Accuracy, statistic: Statistic) -> f64 {
    match statistic {
        Statistic::Mean => accuracy.mean,
        Statistic::P50 => accuracy.p50,
        Statistic::P90 => accuracy.p90,
        Statistic::P99 => accuracy.p99,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_percentage_is_for_all_and_a_statistic_may_have_its_own() {
        let of = |bounds: &[&str]| {
            let bounds: Vec<Bound> = bounds.iter().map(|b| b.parse().unwrap()).collect();
            let Accuracy { mean, p50, p90, p99 } = accuracy(&bounds);
            [mean, p50, p90, p99]
        };
        assert_eq!(of(&[]), [5.0, 5.0, 10.0, 20.0]);
        assert_eq!(of(&["2%"]), [2.0, 2.0, 4.0, 8.0]);
        assert_eq!(of(&["p99=50%", "2%"]), [2.0, 2.0, 4.0, 50.0]);
        assert_eq!(of(&["2%", "p90=5%", "3%", "p90=4%"]), [3.0, 3.0, 4.0, 12.0], "the last word counts");
    }
}
