//! One measured figure.

use serde::Serialize;
use serde_json::Value;

/// One figure of a benchmark, as `--json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The measurement's name; one that ends in `_rate` has a lower bound as its goal, all others an upper bound.
    pub name: String,
    /// The conditions, such as `{"tdf": 10, "bytes": 1518}`.
    pub params: Value,
    /// The measured value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The value that it is compared with, measured in the same run or taken from a paper.
    pub reference: Option<f64>,
    /// 100 (value - reference) / reference.
    pub error_percent: Option<f64>,
    /// The bound it should keep, if there is one.
    pub goal: Option<f64>,
    /// Whether it does.
    pub ok: Option<bool>,
}

impl Row {
    /// A figure by itself.
    pub(crate) fn new(name: &str, params: Value, value: f64, unit: &str) -> Row {
        Row {
            name: name.to_owned(),
            params,
            value,
            unit: unit.to_owned(),
            reference: None,
            error_percent: None,
            goal: None,
            ok: None,
        }
    }

    /// Beside something that it need not be near to, so that the difference is no error.
    pub(crate) fn beside(self, reference: f64) -> Row {
        Row { reference: Some(reference), ..self }
    }

    /// Compared with what it should be near to.
    pub(crate) fn against(self, reference: f64) -> Row {
        let error = percent_off(self.value, reference);
        Row { reference: Some(reference), error_percent: Some(error), ..self }
    }

    /// Judged by a bound. A value that is not a number, because nothing was measured, keeps none.
    pub(crate) fn goal(self, goal: f64) -> Row {
        let ok = if self.name.ends_with("_rate") { self.value >= goal } else { self.value <= goal };
        Row { goal: Some(goal), ok: Some(ok), ..self }
    }

    /// Compared with a reference from which it may be `percent` off, in either direction.
    pub(crate) fn within(self, percent: f64, reference: f64) -> Row {
        let row = self.against(reference);
        let ok = row.error_percent.map(|error| error.abs() <= percent);
        Row { goal: Some(short(reference * (1.0 + percent / 100.0))), ok, ..row }
    }
}

/// How far a value is from its reference, per cent.
pub(crate) fn percent_off(value: f64, reference: f64) -> f64 {
    100.0 * (value - reference) / reference
}

/// To four decimals: more is noise in a table.
pub(crate) fn short(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, value: f64) -> Row {
        Row::new(name, Value::Null, value, "ms")
    }

    #[test]
    fn a_goal_is_an_upper_bound_unless_the_name_says_rate() {
        assert_eq!(row("delay", 3.0).goal(2.0).ok, Some(false));
        assert_eq!(row("delay", 2.0).goal(2.0).ok, Some(true));
        assert_eq!(row("packet_rate", 3.0).goal(2.0).ok, Some(true));
    }

    #[test]
    fn what_was_not_measured_meets_no_goal() {
        for name in ["delay", "packet_rate"] {
            assert_eq!(row(name, f64::NAN).goal(2.0).ok, Some(false));
        }
        assert_eq!(row("delay", f64::NAN).within(5.0, 2.0).ok, Some(false));
    }

    #[test]
    fn within_counts_both_directions() {
        let of = |value| row("delay", value).within(5.0, 20.0);
        assert_eq!((of(19.0).ok, of(21.0).ok), (Some(true), Some(true)));
        assert_eq!((of(18.9).ok, of(21.1).ok), (Some(false), Some(false)));
        assert_eq!((of(19.0).error_percent, of(19.0).goal), (Some(-5.0), Some(21.0)));
    }
}
