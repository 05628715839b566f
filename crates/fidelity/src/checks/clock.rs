//! Clocks inside the nodes.

use super::Judgement;
use crate::effects::Effect;
use crate::evidence::ClockRate;
use crate::wording::number;

/// Clocks inside the nodes: all times are wrong by as much as they are.
pub fn clock_rate(clock: &ClockRate) -> Judgement {
    let unit = "ppm";
    match clock {
        ClockRate::Native => {
            Judgement::with(0.0, unit, [], "The run was not dilated: its nodes read the host's clock.".into())
        }
        ClockRate::Measured { ppm, node } => {
            let way = if *ppm < 0.0 { "slow" } else { "fast" };
            let says = format!("The clock in {node} ran {} ppm too {way}.", number(ppm.abs()));
            let percent = ppm.abs() / 1e4;
            Judgement::with(ppm.abs(), unit, [Effect::Everything([-percent, percent])], says)
        }
        ClockRate::Unknown(why) => {
            Judgement::unmeasured(unit, format!("The clocks in the nodes were not measured: {why}."))
        }
    }
}
