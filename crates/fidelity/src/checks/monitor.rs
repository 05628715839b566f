//! The cost of looking at nodes from outside, again and again.

use super::Judgement;
use crate::evidence::Monitoring;
use crate::wording::number;

/// The most of the harness core that looking at nodes may take. What frames are late for it shows in
/// emulator-lateness, and is little, as the emulator goes before; what else has to wait there, such as programs that
/// start and answers of disks, nobody measures.
const MOST: f64 = 5.0;

/// Looks at nodes: which part of the harness core they took.
pub fn monitor(looks: Option<&Monitoring>) -> Judgement {
    let unit = "% of the harness core";
    let Some(looks) = looks.filter(|looks| looks.lasted_s > 0.0) else {
        return Judgement::unmeasured(unit, "Nobody looked at the nodes.".into());
    };
    let Monitoring { every_s, samples, missed, cpu_s, lasted_s, .. } = looks;
    let value = 100.0 * cpu_s / lasted_s;
    let each = 1e6 * cpu_s / (*samples).max(1) as f64;
    let mut says = format!(
        "To look at all nodes every {} virtual s took {} real µs each time, {} % of the harness core.",
        number(*every_s),
        number(each),
        number(value)
    );
    if *missed > 0 {
        says += &format!(" {missed} looks were left out, as there was no time for them: their intervals are longer.");
    }
    if let Some((at_s, every_s)) = looks.coarser {
        let (at_s, every_s) = (number(at_s), number(every_s));
        says += &format!(" The file became long: intervals are longer from {at_s} s on, {every_s} s at last.");
    }
    if let Some((at_s, why)) = &looks.ended {
        says += &format!(" nodes.csv ends at {} s: {why}.", number(*at_s));
    }
    Judgement::at_most(value, MOST, unit, says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Found;

    #[test]
    fn what_looking_costs_is_said_and_judged() {
        let looks = Monitoring { every_s: 0.001, samples: 1_000, cpu_s: 0.1, lasted_s: 10.0, ..Monitoring::default() };
        let judged = monitor(Some(&looks));
        assert_eq!((judged.value, judged.found), (Some(1.0), Found::Effects(Vec::new())));
        let says = "To look at all nodes every 0.001 virtual s took 100 real µs each time, 1 % of the harness core.";
        assert_eq!(judged.says, says);
        assert_eq!(monitor(Some(&Monitoring { cpu_s: 0.7, ..looks.clone() })).found, Found::Unsized);
        assert_eq!((monitor(None).value, monitor(Some(&Monitoring::default())).value), (None, None));
    }

    #[test]
    fn a_series_that_is_not_whole_is_told_of_and_is_no_reason_for_doubt() {
        let ended = Some((3.2, "No space left on device".to_owned()));
        let looks = Monitoring { samples: 9, missed: 2, cpu_s: 0.1, lasted_s: 10.0, ended, ..Monitoring::default() };
        let judged = monitor(Some(&Monitoring { coarser: Some((1.0, 0.4)), ..looks }));
        assert_eq!(judged.found, Found::Effects(Vec::new()));
        for told in ["2 looks were left out", "from 1 s on, 0.4 s at last", "ends at 3.2 s: No space left on device."] {
            assert!(judged.says.contains(told), "{}", judged.says);
        }
    }
}
