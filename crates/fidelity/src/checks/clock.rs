//! Clocks inside the nodes.

use super::Judgement;
use crate::evidence::ClockRate;
use crate::wording::number;

/// How far a node's clock may be off.
pub const CLOCK_PPM: f64 = 100.0;

/// Clocks inside the nodes at most 100 ppm off.
pub fn clock_rate(clock: &ClockRate) -> Judgement {
    let unit = "ppm";
    match clock {
        ClockRate::Native => {
            Judgement::at_most(0.0, CLOCK_PPM, unit, "The run was not dilated: its nodes read the host's clock.".into())
        }
        ClockRate::Measured { ppm, node } => {
            let way = if *ppm < 0.0 { "slow" } else { "fast" };
            let says = format!("The clock in {node} ran {} ppm too {way}.", number(ppm.abs()));
            Judgement::at_most(ppm.abs(), CLOCK_PPM, unit, says)
        }
        ClockRate::Unknown(why) => {
            Judgement::unmeasured(unit, format!("The clocks in the nodes were not measured: {why}."))
        }
    }
}
