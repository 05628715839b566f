//! From what a check saw to what it does to a metric.
//!
//! A check tells its [`Effect`] in the terms of what it watched: work that takes longer, frames that come later.
//! Its effect on a metric depends on how much of an operation is work, how many frames it needs, how long it is.
//! Of that, a run tells only averages, so what comes out is a range that holds the truth, and more than that.
//! `docs/fidelity.md` has the reasoning, `docs/limits.md` the sizes.

use crate::units::Kind;

/// How much longer or shorter the model's times are than the target's, because of one thing that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// Work takes from … to … per cent longer.
    Work([f64; 2]),
    /// Everything takes from … to … per cent longer.
    Everything([f64; 2]),
    /// Each frame comes up to so much later, virtual s.
    EachFrame {
        /// On average.
        mean: f64,
        /// In 99 of 100 cases at most.
        late: f64,
    },
    /// Each request to a disk comes back up to so much later, virtual s.
    EachRequest {
        /// How many there were.
        count: f64,
        /// On average.
        mean: f64,
        /// In 99 of 100 cases at most.
        late: f64,
        /// How long those take, on average, that take the shortest time.
        least: f64,
    },
    /// So often, something took from … to … virtual s longer.
    Firings {
        /// How often.
        count: f64,
        /// How much longer.
        each: [f64; 2],
    },
}

/// A change of times, from … to … per cent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// Of mean and median.
    pub centre: [f64; 2],
    /// Change of the 90th and the 99th percentile.
    pub tail: [f64; 2],
}

impl Change {
    fn both(range: [f64; 2]) -> Change {
        Change { centre: range, tail: range }
    }

    /// Both, one after the other.
    pub fn plus(self, other: Change) -> Change {
        let add = |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]];
        Change { centre: add(self.centre, other.centre), tail: add(self.tail, other.tail) }
    }

    /// Of what may be a factor of two or more nothing is known: it is a bound that tells no size.
    pub fn or_not_known(self) -> Change {
        self.map(|[low, high]| match low >= per_second(NOT_KNOWN) && high <= NOT_KNOWN {
            true => [low, high],
            // Nor is anything of what is no number.
            false => UNKNOWN,
        })
    }

    /// Mean and median change by no more than one range, and the tail by no more than that.
    pub(crate) fn within(self, [least, most]: [f64; 2]) -> Change {
        self.map(|[low, high]| [low.max(least), high.min(most)])
    }

    fn map(self, change: impl Fn([f64; 2]) -> [f64; 2]) -> Change {
        Change { centre: change(self.centre), tail: change(self.tail) }
    }

    /// The change of a metric's value: by how many per cent the run's is above the target's.
    pub fn of_value(self, kind: Kind) -> Change {
        self.map(|[low, high]| match kind {
            _ if !is_known([low, high]) => UNKNOWN,
            Kind::Time { .. } => [low, high],
            Kind::Rate => [per_second(high), per_second(low)],
            Kind::Other => {
                let most = low.abs().max(high.abs());
                [-most, most]
            }
        })
    }
}

/// The change of a rate where times are `percent` longer.
fn per_second(percent: f64) -> f64 {
    100.0 / (1.0 + percent.max(SHORTEST) / 100.0) - 100.0
}

/// No time is shorter than nothing.
pub const SHORTEST: f64 = -99.0;

/// From so many per cent on an effect is [not known](Change::or_not_known).
const NOT_KNOWN: f64 = 100.0;
/// A range of which nothing is known.
const UNKNOWN: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

/// Whether anything is known of a range.
pub fn is_known(range: [f64; 2]) -> bool {
    range.iter().all(|end| end.is_finite())
}

/// The end of a range that is further from 0.
pub fn furthest([low, high]: [f64; 2]) -> f64 {
    if -low > high { low } else { high }
}

/// The parts of a run that its metrics depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// How long it was, virtual s.
    pub virtual_s: f64,
    /// Frames that were delivered.
    pub frames: u64,
    /// The least delay from one node to another, virtual s.
    pub shortest_path_s: Option<f64>,
    /// The part of its CPU that each node used, 0 to 1.
    pub busy: Vec<f64>,
}

/// A metric of times, as far as others depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// How many there would be if they had been taken all over the run, as they were in the part that counts.
    pub n: f64,
    /// How many there are.
    pub samples: usize,
    /// Their mean, virtual s.
    pub mean: f64,
    /// Their 90th percentile, virtual s.
    pub p90: f64,
}

/// A node that used so much of its CPU always wanted it: whoever drives it waits for it, and drives it no harder.
pub(crate) const SATURATED: f64 = 0.95;
/// Beyond this use of a node, queues say more of chance than of its speed.
const BUSIEST: f64 = 0.8;
/// How much more than its work an operation takes longer at a saturated node, at most: users think no longer than they
/// wait.
const THINKING: f64 = 2.0;

impl Usage {
    /// The use of the busiest node.
    pub(crate) fn busiest(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max).min(1.0)
    }

    /// By how many per cent times like these change at most where all work takes 1 % longer.
    ///
    /// The part of an operation that is work, c, is at most the nodes' busy time over the operations' time. Where
    /// operations queue (M/M/1), one takes 1/(1 − ρ) times its work, and changes by as many per cent as its work.
    pub fn of_times(&self, times: &Times) -> f64 {
        let queueing = self.queueing(Some(times));
        (self.work(times) * queueing).min(1.0) * queueing
    }

    /// The effect on a rate: it changes no more than the time of what it counts.
    pub fn of_rate(&self, times: Option<&Times>) -> f64 {
        let work = times.map_or(self.busiest(), |times| self.work(times));
        (work * self.queueing(times)).min(1.0)
    }

    fn work(&self, times: &Times) -> f64 {
        let all = times.n * times.mean;
        let busy = self.busy.iter().map(|b| b.min(1.0)).sum::<f64>() * self.virtual_s;
        if all > 0.0 { (busy / all).min(1.0) } else { 1.0 }
    }

    fn queueing(&self, times: Option<&Times>) -> f64 {
        let busiest = self.busiest();
        if busiest >= SATURATED {
            return if times.is_some_and(|t| t.samples == 1) { 1.0 } else { THINKING };
        }
        let open = 1.0 / (1.0 - busiest.min(BUSIEST));
        match times {
            // One operation waits for no other; otherwise no more wait than there are (Little's law).
            Some(times) if times.samples == 1 => 1.0,
            Some(times) if self.virtual_s > 0.0 => open.min(1.0 + times.n * times.mean / self.virtual_s),
            _ => open,
        }
    }

    /// Whether what happens by the clock happens as often all the same: it may come later, but no node has more to do
    /// than it can. Time-outs are left out, which stand for what was lost.
    pub fn keeps_pace(&self, effect: &Effect) -> bool {
        match *effect {
            Effect::Work([_, high]) => self.busiest() * (1.0 + high.max(0.0) / 100.0) < SATURATED,
            Effect::EachFrame { .. } | Effect::EachRequest { .. } => self.busiest() < SATURATED,
            Effect::Everything(_) | Effect::Firings { .. } => false,
        }
    }

    /// The effect on operations that take these times, or on whatever the run did if none are known, where
    /// work that takes 1 % longer makes them `sensitivity` per cent longer.
    pub fn change(&self, effect: &Effect, times: Option<&Times>, sensitivity: f64) -> Change {
        match *effect {
            // How much less than that an operation may depend on work is not known: not at all, perhaps.
            Effect::Work([low, high]) => {
                // (Not `min` and `max`, which take what is no number for nothing.)
                let low = if low > 0.0 { 0.0 } else { longer_by_work(low, sensitivity) };
                let high = if high < 0.0 { 0.0 } else { longer_by_work(high, sensitivity) };
                Change::both([low, high])
            }
            Effect::Everything(range) => Change::both(range),
            Effect::EachFrame { mean, late } => {
                let frames = self.frames as f64;
                let by_path = |s: f64| self.shortest_path_s.filter(|path| *path > 0.0).map(|path| s / path);
                let by_frames = |s: f64, whole: f64| (whole > 0.0).then(|| s * frames / whole);
                let (whole, tail) = match times {
                    Some(t) => (t.n * t.mean, t.n * t.p90),
                    None => (self.virtual_s, self.virtual_s),
                };
                let least =
                    |a: Option<f64>, b: Option<f64>| 100.0 * a.into_iter().chain(b).fold(f64::INFINITY, f64::min);
                let [centre, tail] =
                    [least(by_path(mean), by_frames(mean, whole)), least(by_path(late), by_frames(late, tail))];
                Change { centre: [0.0, centre], tail: [0.0, tail] }
            }
            Effect::EachRequest { count, mean, late, least } => {
                let (whole, tail) = match times {
                    Some(t) => (t.n * t.mean, t.n * t.p90),
                    None => (self.virtual_s, self.virtual_s),
                };
                // All that operations wait for may be requests, and it may be all requests; not more than either.
                let longer = |s: f64, whole: f64| match s {
                    s if s > 0.0 => 100.0 * (s / least).min(s * count / whole),
                    _ => 0.0,
                };
                Change { centre: [0.0, longer(mean, whole)], tail: [0.0, longer(late, tail)] }
            }
            Effect::Firings { count: 0.0, .. } => Change::default(),
            Effect::Firings { count, each } => {
                let (whole, tail, n) = match times {
                    Some(t) => (t.n * t.mean, t.p90, t.n),
                    None => (self.virtual_s, self.virtual_s, 1.0),
                };
                let met = (count / (MET * n)).min(1.0);
                Change { centre: each.map(|s| 100.0 * s * count / whole), tail: each.map(|s| 100.0 * (s * met / tail)) }
            }
        }
    }
}

/// By how many per cent operations are longer than on the target if their work is so many `percent` longer, and `part`
/// of what they took in the run was work: no more than if none of that were there. Where they change by more than their
/// work, as queues make them, in proportion.
fn longer_by_work(percent: f64, part: f64) -> f64 {
    if part >= 1.0 {
        return part * percent;
    }
    let more = part * (1.0 - 1.0 / (1.0 + percent.max(SHORTEST) / 100.0));
    100.0 * more / (1.0 - more)
}

/// From this part of all operations on, a firing in each of them is seen in the tail as a whole.
const MET: f64 = 0.05;

#[cfg(test)]
#[path = "effects_tests.rs"]
mod tests;
