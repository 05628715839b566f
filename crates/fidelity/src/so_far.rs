//! Checks of a run that goes on, as far as its growing files hold their evidence: how fast cores were, second by
//! second, and how late disks answered. Nothing grows with the run.

use std::collections::BTreeMap;

use record::{CheckName, DiskInterval, SpeedInterval};

use crate::accuracy::DEFAULT_PERCENT;
use crate::checks::longer_at;
use crate::effects::furthest;
use crate::wording::number;

/// Evidence until now.
#[derive(Clone, Debug, Default)]
pub struct SoFar {
    /// By core.
    speeds: BTreeMap<usize, Speeds>,
    disks: Disks,
}

/// Seconds of a core whose speed is known, in which it is held against a reference.
#[derive(Clone, Debug, Default)]
struct Speeds {
    seconds: f64,
    /// Sums over them: the speed, per cent of the reference; by how many per cent the yardstick took longer.
    percent: f64,
    slower: f64,
    /// Sum over all seconds: the part in which nodes were entitled to less than they needed.
    all: f64,
    capped: f64,
}

/// Answers of all disks.
#[derive(Clone, Debug, Default)]
struct Disks {
    requests: u64,
    late: u64,
    /// Sum over the late ones, virtual ms.
    late_ms: f64,
}

/// A check as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Its name.
    pub name: CheckName,
    /// Its value.
    pub value: f64,
    /// The unit of the value.
    pub unit: &'static str,
    /// By how many per cent work takes longer, from … to …; `None` where that is known only at the end.
    pub effect_percent: Option<[f64; 2]>,
    /// Whether that is beyond the accuracy where nobody says one, for operations that are nothing but work.
    pub is_beyond: bool,
    /// A sentence of what was seen.
    pub says: String,
}

impl SoFar {
    /// Takes in a row of `speed.csv`.
    pub fn speed(&mut self, row: &SpeedInterval) {
        let core = self.speeds.entry(row.core).or_default();
        if row.capped.is_finite() {
            core.all += 1.0;
            core.capped += row.capped;
        }
        if let Some(percent) = row.percent_of_reference.filter(|percent| percent.is_finite() && *percent > 0.0) {
            core.seconds += 1.0;
            core.percent += percent;
            core.slower += 100.0 * (100.0 / percent - 1.0);
        }
    }

    /// Takes in a row of `disks.csv`.
    pub fn disk(&mut self, row: &DiskInterval) {
        let requests = [row.reads, row.writes, row.flushes, row.trims].into_iter().fold(0, u64::saturating_add);
        self.disks.requests = self.disks.requests.saturating_add(requests);
        self.disks.late = self.disks.late.saturating_add(row.late);
        if row.late_ms.is_finite() {
            self.disks.late_ms += row.late as f64 * row.late_ms;
        }
    }

    /// The checks of which something is known. `gain`: how far nodes get more time for a slower core, if at all.
    pub fn standing(&self, gain: Option<f64>) -> Vec<Standing> {
        self.core_speed(gain).into_iter().chain(self.disks.standing()).collect()
    }

    /// As the check of this name does it, but for what nodes lacked because all of a core was sold.
    fn core_speed(&self, gain: Option<f64>) -> Option<Standing> {
        let known = self.speeds.iter().filter(|(_, speeds)| speeds.seconds > 0.0);
        let (core, slowest) =
            known.clone().min_by(|(_, a), (_, b)| (a.percent / a.seconds).total_cmp(&(b.percent / b.seconds)))?;
        let ranges = known.map(|(_, speeds)| longer_at(speeds.slower / speeds.seconds, gain));
        let range = ranges.reduce(|[a, b], [c, d]| [a.min(c), b.max(d)])?;
        let value = slowest.percent / slowest.seconds;
        let capped = 100.0 * slowest.capped / slowest.all.max(1.0);
        let mut says = format!(
            "core {core} did {} % of the reference: work takes {} to {} % longer",
            number(value),
            number(range[0]),
            number(range[1])
        );
        if capped > 0.0 {
            says += &format!("; for {} % of the time less than nodes needed was theirs", number(capped));
        }
        Some(Standing {
            name: CheckName::CoreSpeed,
            value,
            unit: "% of the reference",
            effect_percent: Some(range),
            is_beyond: furthest(range).abs() > DEFAULT_PERCENT,
            says: says + ".",
        })
    }
}

impl Disks {
    fn standing(&self) -> Option<Standing> {
        let percent = 100.0 * self.late as f64 / self.requests as f64;
        let by = self.late_ms / self.late.max(1) as f64;
        (self.requests > 0).then(|| Standing {
            name: CheckName::Disk,
            value: percent,
            unit: "% of requests",
            effect_percent: None,
            is_beyond: false,
            says: format!(
                "{} of {} requests were not done when their models said so, {} virtual ms late on average.",
                self.late,
                self.requests,
                number(by)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use scale::VirtualInstant;

    use super::*;
    use crate::checks::core_speed;
    use crate::core_speed::{SpeedRecord, SpeedSecond};
    use crate::evidence::Pace;

    fn row(virtual_s: f64, core: usize, percent: Option<f64>) -> SpeedInterval {
        SpeedInterval {
            virtual_s,
            core,
            units_per_us: percent.map(|percent| 8.0 * percent),
            percent_of_reference: percent,
            k: 1.0,
            capped: 0.0,
        }
    }

    #[test]
    fn a_core_stands_as_the_check_at_the_end_says() {
        let mut so_far = SoFar::default();
        let seconds: Vec<(f64, f64)> = vec![(0.0, 100.0), (1.0, 50.0), (2.0, 80.0)];
        seconds.iter().for_each(|(at, percent)| so_far.speed(&row(*at, 3, Some(*percent))));
        so_far.speed(&row(3.0, 3, None));
        let at = |s: f64| VirtualInstant::from_nanos((s * 1e9) as u64);
        let second = |(s, percent): &(f64, f64)| SpeedSecond {
            from: at(*s),
            to: at(s + 1.0),
            units_per_us: Some(8.0 * percent),
            k: 1.0,
            capped: 0.0,
        };
        let record = SpeedRecord {
            units_per_us: Some(600.0),
            owed: 1.0,
            lacked_percent: 0.0,
            capped: 0.0,
            seconds: seconds.iter().map(second).collect(),
        };
        for gain in [None, Some(0.9)] {
            let standing = so_far.standing(gain);
            let judged = core_speed(&[(3, record.clone())], Pace { reference: Some(800.0), gain });
            let range = standing[0].effect_percent.unwrap();
            let same = format!("Effects([Work([{:?}, {:?}])])", range[0], range[1]);
            assert_eq!(format!("{:?}", judged.found), same, "{standing:?}");
            assert_eq!((standing.len(), standing[0].is_beyond), (1, true));
        }
    }

    #[test]
    fn nothing_stands_before_anything_is_known_and_a_usual_core_is_within() {
        let mut so_far = SoFar::default();
        so_far.speed(&row(0.0, 0, None));
        so_far.speed(&row(1.0, 0, Some(f64::NAN)));
        assert_eq!(so_far.standing(None), []);
        so_far.speed(&row(2.0, 0, Some(99.0)));
        let standing = so_far.standing(None);
        assert!(!standing[0].is_beyond && standing[0].value == 99.0, "{standing:?}");
    }

    #[test]
    fn late_answers_of_disks_are_counted() {
        let mut so_far = SoFar::default();
        for late in [1, 0, 3] {
            so_far.disk(&DiskInterval {
                from_s: 0.0,
                to_s: 1.0,
                node: "db".into(),
                reads: 80,
                writes: 15,
                flushes: 4,
                trims: 1,
                read_bytes: 0,
                written_bytes: 0,
                utilisation: 0.5,
                queue_mean: 1.0,
                latency_ms: Some(1.0),
                late,
                late_ms: 0.5,
            });
        }
        let standing = so_far.standing(None);
        assert_eq!(
            standing[0].says,
            "4 of 300 requests were not done when their models said so, 0.5 virtual ms late on average."
        );
        assert!((standing[0].value - 4.0 / 3.0).abs() < 1e-9 && !standing[0].is_beyond);
    }
}
