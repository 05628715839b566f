//! How much work the nodes' core did in a microsecond.

use record::CoreSpeed;

use super::Judgement;
use crate::core_speed::SpeedRecord;
use crate::effects::Effect;
use crate::evidence::Pace;
use crate::wording::{number, time};

/// Where the yardstick takes 1 % longer, programs take from this part of it longer
pub const GAIN_LOW: f64 = 0.6;
/// to this. Of eleven programs most follow it by 0.9 to 1.2, and some by less (`docs/cpu.md`).
pub const GAIN_HIGH: f64 = 1.2;

const UNIT: &str = "% of the reference";

/// The core does more or less work in its time than the reference says, whoever it is shared with, and nodes get more
/// or less of its time in return. What is left is what programs follow the yardstick by, more or less than was
/// assumed, and what nodes lacked because all of the core was sold.
pub fn core_speed(speed: Option<&SpeedRecord>, pace: Pace) -> Judgement {
    let Some((speed, average)) = speed.and_then(|s| Some((s, s.units_per_us?))) else {
        return Judgement::unmeasured(UNIT, "How fast the nodes' core was, was not measured.".into());
    };
    let absolute = format!("{} units of work a microsecond", number(average));
    let Some((reference, slower)) = pace.reference.and_then(|r| Some((r, speed.slower_percent(r)?))) else {
        let says = format!("The nodes' core did {absolute}; there is no reference to hold that against.");
        return Judgement { value: Some(average), ..Judgement::unmeasured("units/us", says) };
    };
    let slowest = speed.slowest().map_or(String::new(), |(second, least)| {
        format!(", at the slowest {} %, from {}", number(100.0 * least / reference), time(second.from))
    });
    let mut says = format!(
        "The nodes' core did {absolute}, {} % of the reference of {}{slowest}",
        number(100.0 * average / reference),
        number(reference)
    );
    // Shares of work have given back what a program of this gain lost.
    let given = pace.gain.unwrap_or(0.0);
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
    let ends = [(GAIN_LOW - given) * slower, (GAIN_HIGH - given) * slower];
    let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    let effect = Effect::Work([low, high + speed.lacked_percent]);
    Judgement::with(100.0 * average / reference, UNIT, [effect], says)
}

/// What the record says of it.
pub(super) fn recorded(speed: Option<&SpeedRecord>, pace: Pace) -> Option<CoreSpeed> {
    let units_per_us = speed?.units_per_us?;
    let reference_units_per_us = pace.reference.filter(|_| pace.gain.is_some());
    Some(CoreSpeed { units_per_us, reference_units_per_us })
}
