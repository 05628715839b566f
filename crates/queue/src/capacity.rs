//! The largest value of a parameter at which something holds, by as few runs as can tell.

use std::collections::BTreeMap;
use std::str::FromStr;

/// A parameter and the whole numbers that it may have: `nodes.client.count=10..1400`, `links.0.bandwidth=1..100Mbit/s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// A place of the experiment's file, as `--set` names it, or `tdf`.
    pub path: String,
    /// The smallest value.
    pub from: u64,
    /// The largest value, more than `from`.
    pub to: u64,
    /// Stands behind each value; empty for mere numbers.
    pub unit: String,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Range, String> {
        let wrong = || "write it as PATH=FROM..TO in whole numbers, such as nodes.client.count=10..1000".to_owned();
        let (path, values) = text.split_once('=').filter(|(path, _)| !path.is_empty()).ok_or_else(wrong)?;
        let (from, to) = values.split_once("..").ok_or_else(wrong)?;
        let digits = to.find(|c: char| !c.is_ascii_digit()).unwrap_or(to.len());
        let (to, unit) = to.split_at(digits);
        let from: u64 = from.strip_suffix(unit).unwrap_or(from).parse().map_err(|_| wrong())?;
        let to: u64 = to.parse().map_err(|_| wrong())?;
        match from < to && from > 0 {
            true => Ok(Range { path: path.into(), from, to, unit: unit.into() }),
            false => Err(format!("{from}..{to} has to begin at 1 or more, and to end above that")),
        }
    }
}

impl Range {
    /// A value as the experiment's file has it.
    pub fn shown(&self, value: u64) -> String {
        format!("{value}{}", self.unit)
    }

    /// Whether it is the large values at which something holds: a larger TDF slows nodes less.
    pub fn holds_above(&self) -> bool {
        self.path == "tdf"
    }

    /// Next step of the search. `known` says of values at which it was tried whether it holds there.
    ///
    /// From the smallest value on each is twice the one before until what is found there is another thing: large runs
    /// are dear. Then the interval is halved until it is no longer than `precision` (0 to 1) of its lower end, or 1.
    pub fn next(&self, known: &BTreeMap<u64, bool>, precision: f64) -> Next {
        // Of values near the smallest and near the largest the same question, whichever way it holds.
        let is_low = |value: u64| known.get(&value).map(|holds| *holds != self.holds_above());
        let (mut low, mut value) = (None, self.from);
        let mut high = loop {
            match is_low(value) {
                None => return Next::Try(value),
                Some(false) => break value,
                Some(true) if value == self.to => return Next::Found(Bound { low: Some(value), high: None }),
                Some(true) => (low, value) = (Some(value), value.saturating_mul(2).min(self.to)),
            }
        };
        let Some(mut low) = low else { return Next::Found(Bound { low: None, high: Some(high) }) };
        while high - low > 1 && (high - low) as f64 > precision * low as f64 {
            let middle = low + (high - low) / 2;
            match is_low(middle) {
                None => return Next::Try(middle),
                Some(true) => low = middle,
                Some(false) => high = middle,
            }
        }
        Next::Found(Bound { low: Some(low), high: Some(high) })
    }
}

/// A step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Find out whether it holds at a value.
    Try(u64),
    /// That is it.
    Found(Bound),
}

/// Two values between which it is decided whether something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The largest value that is like the small ones; `None`: already the smallest is not.
    pub low: Option<u64>,
    /// The smallest value that is like the large ones; `None`: not even the largest is.
    pub high: Option<u64>,
}

/// Says what most of so many repetitions say; `None` while that is open.
pub fn majority(said: &[bool], repetitions: u32) -> Option<bool> {
    let enough = repetitions as usize / 2 + 1;
    let of = |what: bool| said.iter().filter(|said| **said == what).count();
    match (of(true) >= enough, of(false) >= enough) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        // Of an even number half may say yes: then it does not hold.
        _ => (said.len() >= repetitions as usize).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(range: &str, precision: f64, holds: impl Fn(u64) -> bool) -> (Bound, Vec<u64>) {
        let range: Range = range.parse().unwrap();
        let mut known = BTreeMap::new();
        let mut tried = Vec::new();
        loop {
            match range.next(&known, precision) {
                Next::Try(value) => {
                    assert!(known.insert(value, holds(value)).is_none() && value <= range.to);
                    tried.push(value);
                }
                Next::Found(bound) => return (bound, tried),
            }
        }
    }

    #[test]
    fn the_bound_is_found_between_two_neighbours() {
        for capacity in [10, 11, 37, 80, 81, 999] {
            let (bound, tried) = found("count=10..1000", 0.0, |value| value <= capacity);
            assert_eq!(bound, Bound { low: Some(capacity), high: Some(capacity + 1) });
            assert!(tried.iter().all(|value| *value <= 2 * capacity), "dear ones are not tried: {tried:?}");
        }
        let (bound, tried) = found("count=10..1000", 0.1, |value| value <= 700);
        let Bound { low: Some(low), high: Some(high) } = bound else { panic!("{bound:?}") };
        assert!(low <= 700 && high > 700 && high - low <= 70 && tried.len() <= 11, "{bound:?} {tried:?}");
    }

    #[test]
    fn ends_are_told() {
        assert_eq!(found("count=10..1000", 0.0, |_| true).0, Bound { low: Some(1000), high: None });
        let (bound, tried) = found("count=10..1000", 0.0, |_| false);
        assert_eq!((bound, tried), (Bound { low: None, high: Some(10) }, vec![10]));
    }

    #[test]
    fn of_the_tdf_it_is_the_smallest() {
        let (bound, _) = found("tdf=1..50", 0.0, |tdf| tdf >= 7);
        assert_eq!(bound, Bound { low: Some(6), high: Some(7) });
        assert_eq!(found("tdf=2..50", 0.0, |_| true).0, Bound { low: None, high: Some(2) });
    }

    #[test]
    fn ranges_are_read_with_units() {
        let range: Range = "links.0.bandwidth=1..100Mbit/s".parse().unwrap();
        assert_eq!((range.from, range.to, range.shown(7).as_str()), (1, 100, "7Mbit/s"));
        assert_eq!("links.0.delay=1ms..9ms".parse::<Range>().unwrap().shown(2), "2ms");
        for wrong in ["count", "count=3", "=1..2", "count=5..5", "count=0..5", "count=a..b", "count=1ms..5s", "c=-1..2"]
        {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn most_repetitions_decide() {
        assert_eq!(majority(&[], 1), None);
        assert_eq!(majority(&[true], 3), None);
        assert_eq!(majority(&[true, true], 3), Some(true));
        assert_eq!(majority(&[true, false, false], 3), Some(false));
        assert_eq!(majority(&[true, false], 2), Some(false));
    }
}
