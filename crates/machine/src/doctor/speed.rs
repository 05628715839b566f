//! How fast the nodes' core is, now and usually, and what that leaves to be sold of it.

use cpu::{DEFAULT_GAIN, PLANNED_USABLE, Policy, Speed};
use scale::Timeslice;

use super::Finding;
use crate::host_speed::{self, HostSpeed, Known};

/// A speed below this part of the usual one is not chance: measurements scatter by a few per cent.
const SLOW: f64 = 0.9;

pub(super) fn findings() -> Vec<Finding> {
    // The nodes' core of a run is the first that this process may use.
    let core = host::cores::usable().ok().and_then(|cores| cores.first().copied()).unwrap_or(0);
    let windows = match host_speed::measured(core) {
        Ok(windows) => windows,
        Err(e) => return vec![Finding::degraded("core speed", "unknown", e.to_string()), slices()],
    };
    let host = HostSpeed::here();
    // Without root it cannot be kept, which is then said.
    let _ = host.add(&windows);
    let now = host_speed::median_of(&windows);
    let mut all = now.map_or_else(Vec::new, |now| speed(now, &host.known()));
    all.push(slices());
    all
}

/// The core's speed, and what it means for shares of work.
fn speed(now: Speed, known: &Known) -> Vec<Finding> {
    let found = now.to_string();
    let (reference, best) = match known {
        Known::Speeds { reference, best } => (*reference, *best),
        Known::Nothing => {
            let says = "what is usual on this host is not kept: run `diorama doctor` as root once";
            return vec![Finding::ok("core speed", found, says)];
        }
        Known::Unreadable(why) => {
            let says = format!("{why}, so each run's shares are related to what it measures itself: run it as root");
            return vec![Finding::degraded("core speed", found, says)];
        }
    };
    let part = now.units_per_us() / reference.units_per_us();
    let of_usual = format!("{:.0} % of what is usual here, {reference} (at its best {best})", part * 100.0);
    let speed = match part < SLOW {
        true => {
            let says =
                format!("{of_usual}: somebody else uses this core; nodes get more time for it, where there is room");
            Finding::degraded("core speed", found, says)
        }
        false => Finding::ok("core speed", found, of_usual),
    };
    let times = 1.0 + DEFAULT_GAIN * (1.0 / part.min(1.0) - 1.0);
    let room = Finding::ok(
        "room",
        format!("{:.2} of the core", PLANNED_USABLE / times),
        format!(
            "may be sold while nodes need {times:.2} times their shares, as they do at this speed; `diorama check` \
             says what a plan sells"
        ),
    );
    vec![speed, room]
}

/// How long slices can be.
fn slices() -> Finding {
    match cpu::best_policy().0 {
        Policy::Slots => Finding::ok(
            "slices",
            format!("{} to {}", Timeslice::SHORTEST, Timeslice::LONGEST),
            "on the nodes' core; a plan chooses by the shortest path, `lead` in an experiment bounds them",
        ),
        _ => Finding::degraded("slices", "none", "shares are not kept in slices here: see CPU shares"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn units(units: f64) -> Speed {
        Speed::from_units_per_us(units).unwrap()
    }

    #[test]
    fn a_core_that_is_shared_is_said_to_be() {
        let known = Known::Speeds { reference: units(1000.0), best: units(1300.0) };
        let of = |now: f64| speed(units(now), &known);
        let (quiet, busy) = (of(950.0), of(500.0));
        assert_eq!((quiet[0].state, busy[0].state), (State::Ok, State::Degraded));
        let says = "95 % of what is usual here, 1000.0 units/us (at its best 1300.0 units/us)";
        assert_eq!(quiet[0].says, says);
        assert!(busy[0].says.contains("somebody else uses this core"), "{}", busy[0].says);
        // Twice as slow: 1 + gain times the shares, of 0.9.
        let times = 1.0 + DEFAULT_GAIN;
        assert_eq!(busy[1].found, format!("{:.2} of the core", 0.9 / times));
        assert!(busy[1].says.contains(&format!("{times:.2} times")), "{}", busy[1].says);
        assert_eq!(of(1010.0)[1].found, "0.90 of the core", "no more than what may be sold");
    }

    #[test]
    fn a_speed_that_is_not_known_is_said_so() {
        assert!(speed(units(900.0), &Known::Nothing)[0].says.contains("as root once"));
        let finding = &speed(units(900.0), &Known::Unreadable("speed.json cannot be read".into()))[0];
        assert!(finding.state == State::Degraded && finding.says.starts_with("speed.json cannot be read"));
    }
}
