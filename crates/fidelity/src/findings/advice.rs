//! Which turns would suit a run better.

use record::{Check, CheckName};
use scale::{Turns, VirtualDuration};

use crate::wording::number;

/// A change of the grain by less than this factor, either way, is not worth a word.
const WORTH_IT: f64 = 1.3;

/// Turns are a compromise: of short ones much is lost to caches, and long ones are waited for. What is lost of a turn
/// falls, and what one waits grows, about in proportion to its length. So if one of the two is more than the run allows
/// for, its sentence goes on to say at which grain they would be alike.
///
/// `of_allowed` is what each check does to the metrics, as a multiple of what may be; `turns` are those of the run.
pub(super) fn on_turns(checks: &mut [Check], of_allowed: &[f64], turns: Turns) {
    let find = |name| checks.iter().position(|c| c.name == name).filter(|i| checks[*i].effect_range_percent.is_some());
    let (Some(caches), Some(grain)) = (find(CheckName::Caches), find(CheckName::CpuGrain)) else { return };
    let (lost, waited) = (of_allowed[caches], of_allowed[grain]);
    if !lost.max(waited).is_finite() || lost.max(waited) <= 1.0 || lost.min(waited) <= 0.0 {
        return;
    }
    let Some(better) = turns.times((lost / waited).sqrt()) else { return };
    let (now, then) = (turns.grain.as_secs_f64(), better.grain.as_secs_f64());
    if (then / now).max(now / then) < WORTH_IT {
        return;
    }
    let (worse, other) = if lost > waited { (caches, CheckName::CpuGrain) } else { (grain, CheckName::Caches) };
    let ms = |grain: VirtualDuration| number(grain.as_secs_f64() * 1e3);
    let says = format!(
        " With `grain: {}ms` instead of {} ms, this and {other} would be about alike.",
        ms(better.grain),
        ms(turns.grain)
    );
    checks[worse].says += &says;
}
