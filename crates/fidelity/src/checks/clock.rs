//! Clocks inside the nodes: how fast they run, and how far they are from one another.

use scale::{RealDuration, Tdf};

use super::Judgement;
use crate::effects::Effect;
use crate::evidence::{ClockRate, Crossings, Sharing, Spread};
use crate::observations::Spinning;
use crate::wording::number;

/// For how long a burst may run unhindered where nobody can say what that does, real ms,
const BURST: f64 = 0.3;
/// and for how long one may under CFS quota: until the next tick.
const TICK: f64 = 4.0;

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

/// How far nodes' own clocks were from the run's when frames crossed. A frame that is behind enters its links after
/// others that were sent later and seen earlier: by so much it comes too late. (What is seen so late that it should
/// have arrived is late on delivery, and counts as that: emulator-lateness.) By how much its receiver's clock was ahead
/// is told only: a program that computes and then looks for frames sees none of it. But one that looks again and again
/// without waiting, by calls that dilation does not have wait for the run's clock, sees each frame as much later.
pub fn clock_lead(
    sharing: &Sharing,
    crossings: Option<&Crossings>,
    spinning: Option<&Spinning>,
    tdf: Tdf,
) -> Judgement {
    let unit = "virtual ms";
    let seen = match (sharing, crossings) {
        (Sharing::Pool, _) => {
            return Judgement::unmeasured(unit, "Nodes of the naive variant have no clocks of their own.".into());
        }
        (Sharing::WholeCores, _) => {
            let says = "Nodes have cores of their own and the kernel's clock: none is ahead or behind.";
            return Judgement::with(0.0, unit, [], says.into());
        }
        (Sharing::Quota(why), _) => {
            let says = format!(
                "CPU shares were kept by CFS quota, which lets a burst run unhindered until the next 4 ms tick, and \
                 nodes had no clocks of their own: {why}."
            );
            return Judgement::at_most(TICK, BURST, "real ms", says);
        }
        (Sharing::Slots(_), None) => {
            return Judgement::unmeasured(unit, "No node had a clock of its own and an interface.".into());
        }
        (Sharing::Slots(_), Some(seen)) if seen.stamped + seen.unstamped == 0 => {
            return Judgement::unmeasured(unit, "No frame passed from node to node.".into());
        }
        (Sharing::Slots(_), Some(seen)) => seen,
    };
    let seconds = |real: RealDuration| tdf.to_virtual(real).as_secs_f64();
    let ms = |real: RealDuration| number(1e3 * seconds(real));
    // Uses the mean in the tail, too: an operation has many frames, and few of them are as late as the p99.
    let mean = seconds(seen.late.mean);
    let mut effects = vec![Effect::EachFrame { mean, late: mean }];
    let mut says = format!(
        "99 % of frames entered their links at most {} virtual ms later than {} of them said, which bore their node's \
         clock, since frames that were sent later had entered: {} on average",
        ms(seen.late.p99),
        seen.stamped,
        ms(seen.late.mean)
    );
    if seen.unstamped > 0 {
        says += &format!(" ({} bore none)", seen.unstamped);
    }
    if seen.to_busy > 0 {
        let each = |of: &Spread| format!("{} (mean), {} (p50) and {} (p99)", ms(of.mean), ms(of.p50), ms(of.p99));
        says += &format!(
            "; clocks of nodes with something to do were {} virtual ms ahead of the run's when they were handed one \
             of {} frames, which they saw that much late if they looked just then, and {} behind",
            each(&seen.lead),
            seen.to_busy,
            each(&seen.lag)
        );
    }
    if let Some(Spinning { node, looks, ahead }) = spinning {
        let mean = seconds(*ahead);
        effects.push(Effect::EachFrame { mean, late: mean });
        says += &format!(
            "; {node} looked {looks} times at sockets that do not block, one look after the other, and found nothing: \
             what came then it saw {} virtual ms late on average, by which its clock was ahead (a look by poll, select \
             or epoll would have waited)",
            ms(*ahead)
        );
    }
    Judgement::with(1e3 * seconds(seen.late.p99), unit, effects, says + ".")
}

/// Likewise, where nodes' slices were those of all programs: who works beside the run is to know.
pub fn of_host(mut judged: Judgement, slices: Option<[RealDuration; 2]>) -> Judgement {
    if let Some([during, before]) = slices.map(|slices| slices.map(|slice| number(slice.as_secs_f64() * 1e3))) {
        judged.says += &format!(
            " All programs of this machine had slices of {during} ms meanwhile, in place of {before} ms: its kernel \
             has none per task."
        );
    }
    judged
}
