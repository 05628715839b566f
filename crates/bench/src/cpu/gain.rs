//! How far a program follows the yardstick: how much longer it takes when the core becomes slower.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cpu::{CpuGroups, NodeShare, Policy, Terms};
use scale::RealDuration;
use serde_json::json;

use crate::cores::first_and_last;
use crate::row::short;
use crate::stats::{Line, line, median};
use crate::{Error, Notify, Row};

/// The command runs in a node that has half of the core; the other half is the yardstick's, slice by slice.
const SHARE: f64 = 0.5;
const SLICE: RealDuration = RealDuration::from_nanos(1_000_000);
const NODE: &str = "command";
/// For how long the command is repeated, and how often at least.
const TIME: Duration = Duration::from_secs(60);
const LEAST: usize = 12;
/// If the slowest tenth of the runs had a core less than this much slower than the fastest had, they tell nothing.
const SPREAD: f64 = 1.04;

/// Runs the command again and again beside the yardstick, for a minute and at least a dozen times. It should do the
/// same work each time, and take a tenth of a second to some seconds of CPU time. Needs root.
///
/// The gain is the slope of its CPU time on the time of a round, both relative to the fastest tenth: where a round
/// takes 1 + x of its usual time, the command takes 1 + gain × x of its own.
///
/// # Errors
///
/// If the command cannot be run or fails, or if shares cannot be enforced here.
pub fn measure(command: &[OsString], notify: Notify) -> Result<Vec<Row>, Error> {
    let [program, arguments @ ..] = command else {
        return Err(Error::Input("a command to measure is missing: `bench cpu --gain -- COMMAND…`".into()));
    };
    let (core, _) = first_and_last()?;
    let share = [NodeShare::new(NODE, core, SHARE)];
    let id = format!("bench-{}", std::process::id());
    let terms = Terms { slice: SLICE, pace: None };
    let mut groups = CpuGroups::create(&id, &share, Policy::Slots, terms)?;
    let keeper = groups.keeper().map(|mut command| command.spawn()).transpose().map_err(Error::failed)?;
    groups.engage(keeper)?;
    let runs = repeat(&mut groups, program, arguments);
    groups.release()?;
    let runs = runs?;

    let slowest_first = |of: fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        values
    };
    let rounds = slowest_first(|run| run.round_us);
    let tenth = runs.len() / 10;
    let (slow, usual) = (rounds[tenth], rounds[runs.len() - 1 - tenth]);
    let points: Vec<(f64, f64)> = runs.iter().map(|run| (run.round_us / usual, run.cpu_s)).collect();
    let fitted = line(&points);
    // CPU time of the command on a core at its usual speed.
    let cpu_s = fitted.map_or(f64::NAN, |fit| fit.at(1.0));
    let told = fitted.filter(|_| slow / usual >= SPREAD);
    if told.is_none() {
        notify(&format!(
            "the core's speed changed by only {:.1} % while the command ran: its gain cannot be told",
            100.0 * (slow / usual - 1.0)
        ));
    }
    let params = json!({
        "runs": runs.len(),
        "cpu_s": short(cpu_s),
        "standard_error": told.map(|Line { slope_error, .. }| short(slope_error / cpu_s)),
        "correlation": told.map(|fit| short(fit.correlation)),
        "slowdown": short(slow / usual),
    });
    let gain = told.map_or(f64::NAN, |fit| fit.slope / cpu_s);
    let mut rows = vec![Row::new("gain", params, gain, "of the yardstick's slowdown")];
    for (assumed, name) in [(0.0, "spread-by-time"), (cpu::DEFAULT_GAIN, "spread-by-work")] {
        let corrected: Vec<f64> =
            points.iter().map(|(slowness, cpu_s)| cpu_s / (1.0 + assumed * (slowness - 1.0))).collect();
        let spread = 100.0 * half_width(&corrected) / median(corrected);
        rows.push(Row::new(name, json!({"gain": assumed}), spread, "%, half of the middle nine tenths"));
    }
    Ok(rows)
}

/// One run of the command.
#[derive(Debug)]
struct Run {
    cpu_s: f64,
    /// Microseconds of a round of the yardstick meanwhile.
    round_us: f64,
}

fn repeat(groups: &mut CpuGroups, program: &OsString, arguments: &[OsString]) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    let core = groups.cores().first().copied().unwrap_or(0);
    let start = Instant::now();
    while start.elapsed() < TIME || runs.len() < LEAST {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let joiner = groups.joiner(NODE)?;
        // SAFETY: between fork and exec this makes system calls on open files only; it takes no lock and allocates
        // nothing.
        unsafe { command.pre_exec(move || joiner.join()) };
        let before = groups.sample()?;
        let status = command.status().map_err(|e| Error::Input(format!("cannot run {}: {e}", program.display())))?;
        let after = groups.sample()?;
        if !status.success() {
            return Err(Error::failed(format!("{} failed: {status}", program.display())));
        }
        let work = after.work_of(core).zip(before.work_of(core));
        let round_us = work.and_then(|(after, before)| after.speed_since(before));
        // A command that is over within a window of the meter is not one to measure.
        let Some(speed) = round_us else { continue };
        let cpu_s = (after.nodes[0].container_ns - before.nodes[0].container_ns) as f64 / 1e9;
        runs.push(Run { cpu_s, round_us: 1.0 / speed.units_per_us() });
        if start.elapsed() > 10 * TIME {
            break;
        }
    }
    if runs.len() < LEAST {
        return Err(Error::failed(format!(
            "only {} runs of the command could be measured: let it do less",
            runs.len()
        )));
    }
    Ok(runs)
}

/// Half of the distance between the 5th and the 95th percentile.
fn half_width(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let outer = sorted.len() / 20;
    (sorted[sorted.len() - 1 - outer] - sorted[outer]) / 2.0
}
