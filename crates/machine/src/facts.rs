//! Facts of this machine that a plan is made with: its cores, how fast one of them usually is, what its kernel offers.

use host::cgroup;
use host::cores::by_physical_core;
use model::Experiment;
use plan::{Facts, Plan, Supply};
use record::Variant;
use record::plan::Cores;
use scale::Tdf;
use site::CoreChoice;
use tcp::Offers;

use crate::error::{Error, Result};
use crate::guests;
use crate::host_speed::HostSpeed;

/// The cores that this process may use.
pub fn usable_cores() -> Result<Vec<usize>> {
    host::cores::usable().map_err(Error::io("sched_getaffinity"))
}

/// Those of them that a plan may use.
///
/// # Errors
///
/// If they are too few.
pub fn supply(choice: &CoreChoice) -> Result<Supply> {
    supply_among(&usable_cores()?, choice)
}

/// Those among `usable` that a plan may use.
///
/// # Errors
///
/// If they are too few.
pub fn supply_among(usable: &[usize], choice: &CoreChoice) -> Result<Supply> {
    Ok(Supply::of(by_physical_core(usable), choice)?)
}

/// Exactly those of another plan, over all of which nodes are spread, as they are there.
pub fn supply_of_plan(cores: &Cores) -> Supply {
    Supply::of_plan(cores, by_physical_core)
}

/// The facts that a variant of an experiment is planned with, on these cores. Where the machine's usual speed is needed
/// and not known, it is measured, which takes a second.
fn facts(cores: &Supply, experiment: &Experiment, variant: Variant) -> Result<Facts> {
    let core = cores.nodes.first().copied().unwrap_or(0);
    let reference = match plan::needs_usual_speed(experiment, variant) {
        true => Some(HostSpeed::here().reference_or_measured(core)?),
        false => None,
    };
    let (weights, processes) = (cgroup::weights(), Some(host::processes::most_of_a_run()));
    Ok(Facts { offers: Offers::here(), cores: cores.clone(), reference, weights, processes })
}

/// The plan of a variant of an experiment on these cores of this machine. `tdf` takes the place of the experiment's, in
/// the scaled variant only.
///
/// # Errors
///
/// If the machine could not keep to it.
pub fn plan_on(cores: &Supply, experiment: &Experiment, variant: Variant, tdf: Option<Tdf>) -> Result<Plan> {
    guests::check(experiment)?;
    Ok(Plan::with(&facts(cores, experiment, variant)?, experiment, variant, tdf)?)
}

/// The smallest TDF at which the scaled variant of an experiment can be planned on these cores of this machine.
///
/// # Errors
///
/// If there is none.
pub fn smallest_tdf_on(cores: &Supply, experiment: &Experiment) -> Result<Tdf> {
    Ok(Plan::smallest_tdf(&facts(cores, experiment, Variant::Scaled)?, experiment)?)
}
