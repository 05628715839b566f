//! How much work the nodes' cores did in a microsecond.

use record::CoreSpeed;

use super::Judgement;
use crate::core_speed::SpeedRecord;
use crate::effects::Effect;
use crate::evidence::Pace;
use crate::statistics::extremes;
use crate::wording::{number, time};

/// Where the yardstick takes 1 % longer, programs take from this part of it longer
pub const GAIN_LOW: f64 = 0.6;
/// to this. Of eleven programs most follow it by 0.9 to 1.2, and some by less (`docs/cpu.md`).
pub const GAIN_HIGH: f64 = 1.2;

const UNIT: &str = "% of the reference";

/// A core does more or less work in its time than the reference says, whoever it is shared with, and nodes get more
/// or less of its time in return. What is left is what programs follow the yardstick by, more or less than was
/// assumed, and what nodes lacked because all of the core was sold. Where nodes have several cores, anything from the
/// least of one of them to the most of another is possible, and the core is told on which they were slowest.
pub fn core_speed(speeds: &[(usize, SpeedRecord)], pace: Pace) -> Judgement {
    let of = |(core, speed): &(usize, SpeedRecord)| {
        let whose = if speeds.len() > 1 { format!("core {core}") } else { "the nodes' core".into() };
        of_core(&whose, speed, speed.units_per_us?, pace)
    };
    let judged: Vec<OfCore> = speeds.iter().filter_map(of).collect();
    let Some(slowest) = judged.iter().min_by(|a, b| a.value.total_cmp(&b.value)) else {
        return Judgement::unmeasured(UNIT, "How fast the nodes' core was, was not measured.".into());
    };
    let says = match judged.len() {
        1 => capitalised(&slowest.says),
        _ => format!("Of the nodes' cores the slowest: {}", slowest.says),
    };
    let ranges: Option<Vec<[f64; 2]>> = judged.iter().map(|core| core.range).collect();
    let Some(ranges) = ranges else {
        return Judgement { value: Some(slowest.value), ..Judgement::unmeasured("units/us", says) };
    };
    Judgement::with(slowest.value, UNIT, [Effect::Work(extremes(ranges.into_iter().flatten()))], says)
}

/// The facts of one core.
struct OfCore {
    /// Its speed in per cent of the reference, or without one in units per microsecond.
    value: f64,
    /// By how many per cent work took longer there, if there is a reference.
    range: Option<[f64; 2]>,
    says: String,
}

fn of_core(whose: &str, speed: &SpeedRecord, average: f64, pace: Pace) -> Option<OfCore> {
    let absolute = format!("{} units of work a microsecond", number(average));
    let Some((reference, slower)) = pace.reference.and_then(|r| Some((r, speed.slower_percent(r)?))) else {
        let says = format!("{whose} did {absolute}; there is no reference to hold that against.");
        return Some(OfCore { value: average, range: None, says });
    };
    let slowest = speed.slowest().map_or(String::new(), |(second, least)| {
        format!(", at the slowest {} %, from {}", number(100.0 * least / reference), time(second.from))
    });
    let mut says = format!(
        "{whose} did {absolute}, {} % of the reference of {}{slowest}",
        number(100.0 * average / reference),
        number(reference)
    );
    says += &match pace.gain {
        Some(_) => format!("; nodes got {} times their time for it", number(speed.owed)),
        None => "; nodes got no more time for it (`cpu: time`)".into(),
    };
    if speed.capped > 0.0 {
        says += &format!(
            ", which for {} % of the time was less than they needed, {} % in all: too much of the core is sold",
            number(100.0 * speed.capped),
            number(speed.lacked_percent)
        );
    }
    says += ".";
    let [low, high] = longer_at(slower, pace.gain);
    Some(OfCore { value: 100.0 * average / reference, range: Some([low, high + speed.lacked_percent]), says })
}

/// By how many per cent work takes longer, from … to …, where the yardstick takes so much longer: shares of work have
/// given back what a program of this `gain` lost.
pub(crate) fn longer_at(slower: f64, gain: Option<f64>) -> [f64; 2] {
    let given = gain.unwrap_or(0.0);
    let ends = [(GAIN_LOW - given) * slower, (GAIN_HIGH - given) * slower];
    [ends[0].min(ends[1]), ends[0].max(ends[1])]
}

fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The recorded value: of several cores the mean.
pub(super) fn recorded(speeds: &[(usize, SpeedRecord)], pace: Pace) -> Option<CoreSpeed> {
    let known: Vec<f64> = speeds.iter().filter_map(|(_, speed)| speed.units_per_us).collect();
    let reference_units_per_us = pace.reference.filter(|_| pace.gain.is_some());
    let units_per_us = known.iter().sum::<f64>() / known.len() as f64;
    (!known.is_empty()).then_some(CoreSpeed { units_per_us, reference_units_per_us })
}
