//! The right to the cores of a plan, and which they are where other runs have some.
//!
//! A plan is made for all cores that the process may use. If others have one of them, it is made anew for those that
//! nobody has; where it then does not fit, the run waits or is refused.

use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use host::cores::{by_physical_core, named};
use model::Experiment;
use plan::{Plan, Refusal, Supply};
use record::Variant;
use scale::Tdf;
use site::CoreChoice;

use crate::error::{Error, Result};
use crate::facts::{plan_on, smallest_tdf_on, supply, supply_among, usable_cores};
use crate::interrupt::Interrupts;
use crate::registry::{CoreLocks, Held, in_use, told};

/// How often it is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// The wish for a run, before it has cores.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its variant.
    pub variant: Variant,
    /// Another factor than the experiment's.
    pub tdf: Option<Tdf>,
    /// The user's choice of cores.
    pub cores: CoreChoice,
}

impl Wanted<'_> {
    /// The plan on all cores that this process may use, whoever has them.
    ///
    /// # Errors
    ///
    /// If they are too few, or the experiment cannot be kept to.
    pub fn plan(&self) -> Result<Plan> {
        plan_on(&supply(&self.cores)?, self.experiment, self.variant, self.tdf)
    }

    /// The smallest TDF at which there is a plan on all cores that this process may use, whoever has them.
    ///
    /// # Errors
    ///
    /// If there is none, or the variant runs in real time.
    pub fn smallest_tdf(&self) -> Result<Tdf> {
        if self.variant != Variant::Scaled {
            return Err(plan::Error::from(Refusal::TdfOfVariant(self.variant)).into());
        }
        smallest_tdf_on(&supply(&self.cores)?, self.experiment)
    }

    /// Takes the cores of `plan`, which is [that](Wanted::plan) of the whole machine, or plans anew on those that
    /// nobody has. Where these are too few it waits until others have ended, if `waits` is given, which is told who has
    /// the cores whenever that changes.
    ///
    /// # Errors
    ///
    /// If others have the cores and it is not to wait, naming them; or if it is interrupted.
    pub fn claim(
        &self,
        plan: Plan,
        interrupts: &Interrupts,
        waits: Option<&mut dyn FnMut(&str)>,
    ) -> Result<(Plan, CoreLocks)> {
        let Some(waits) = waits else { return self.claim_now(&plan).map_err(Unclaimed::error) };
        let mut said = String::new();
        loop {
            let busy = match self.claim_now(&plan) {
                Err(Unclaimed::Busy(held, free)) => sentence(&held, &free),
                Err(Unclaimed::Failed(error)) => return Err(error),
                Ok(claimed) => return Ok(claimed),
            };
            if busy != said {
                waits(&busy);
                said = busy;
            }
            match interrupts.recv_timeout(AGAIN) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
            }
        }
    }

    fn claim_now(&self, plan: &Plan) -> Result<(Plan, CoreLocks), Unclaimed> {
        let usable = usable_cores()?;
        let physical = by_physical_core(&usable);
        let both = self.cores.both_threads(physical.len());
        let mut busy = None;
        let claimed = CoreLocks::choose(&usable, |free, held| {
            if plan.cores.all().iter().all(|core| free.contains(core)) {
                return Ok((plan.clone(), plan.cores.all()));
            }
            let left = left_for(&physical, held, both);
            let planned = Supply::of_these(left, &self.cores, both).map_err(Error::from);
            let planned = planned.and_then(|supply| plan_on(&supply, self.experiment, self.variant, self.tdf));
            planned.map(|plan| (plan.clone(), plan.cores.all())).inspect_err(|error| {
                // It has been planned on all of them, so what is in the way now is that some are missing.
                if matches!(error, Error::Plan(_) | Error::Machine { .. }) {
                    busy = Some((held.to_vec(), free.to_vec()));
                }
            })
        });
        match (claimed, busy) {
            (Ok(claimed), _) => Ok(claimed),
            (Err(_), Some((held, free))) => Err(Unclaimed::Busy(held, free)),
            (Err(error), None) => Err(Unclaimed::Failed(error)),
        }
    }
}

/// Why cores were not taken.
enum Unclaimed {
    /// Others have some, and these are free.
    Busy(Vec<Held>, Vec<usize>),
    Failed(Error),
}

impl From<Error> for Unclaimed {
    fn from(error: Error) -> Unclaimed {
        Unclaimed::Failed(error)
    }
}

impl Unclaimed {
    fn error(self) -> Error {
        match self {
            Unclaimed::Failed(error) => error,
            Unclaimed::Busy(held, free) => match in_use(&held) {
                Error::Machine { help, .. } => Error::machine(sentence(&held, &free), help),
                other => other,
            },
        }
    }
}

/// Who has which cores, and what is left.
fn sentence(held: &[Held], free: &[usize]) -> String {
    // Of two cores, one for the nodes and one for the harness, nothing is left that need be said.
    if held.len() + free.len() <= 2 {
        return told(&held[..held.len().min(1)]);
    }
    let left = match free {
        [] => "there are no others".into(),
        [core] => format!("core {core} is too little for this run"),
        _ => format!("{} are too few for this run", named(free)),
    };
    format!("{}; {left}", told(held))
}

/// Processors that others leave free, by physical core: nothing of one of which they have a hyper-thread,
/// unless both may be used.
fn left_for(physical: &[Vec<usize>], held: &[Held], both: bool) -> Vec<Vec<usize>> {
    let is_held = |core: &usize| held.iter().any(|held| held.core == *core);
    let left = physical.iter().filter_map(|threads| {
        let free: Vec<usize> = threads.iter().filter(|core| !is_held(core)).copied().collect();
        (!free.is_empty() && (both || free.len() == threads.len())).then_some(free)
    });
    left.collect()
}

/// A core for one command with a share of it, and the cores that are left to what keeps that share.
///
/// # Errors
///
/// If others have all cores that could be had, naming them.
pub fn claim_one() -> Result<(usize, Vec<usize>, CoreLocks)> {
    let usable = usable_cores()?;
    // Where there is but one, it is that.
    let supply = supply_among(&usable, &CoreChoice::default());
    let candidates = supply.map_or_else(|_| usable.iter().take(1).copied().collect(), |supply| supply.nodes);
    let physical = by_physical_core(&usable);
    let ((core, others), locks) = CoreLocks::choose(&usable, |free, held| {
        let left = left_for(&physical, held, CoreChoice::default().both_threads(physical.len())).concat();
        let core = candidates.iter().find(|core| left.contains(core)).copied();
        let core = core.ok_or_else(|| in_use(&held[..held.len().min(1)]))?;
        let others: Vec<usize> = free.iter().filter(|other| **other != core).copied().collect();
        Ok(((core, others), vec![core]))
    })?;
    Ok((core, others, locks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(cores: &[usize]) -> Vec<Held> {
        cores.iter().map(|core| Held { core: *core, by: "web (scaled), pid 7".into() }).collect()
    }

    #[test]
    fn who_shares_a_physical_core_with_others_has_none() {
        let pairs: Vec<Vec<usize>> = (0..3).map(|core| vec![core, core + 3]).collect();
        assert_eq!(left_for(&pairs, &held(&[0]), false), [[1, 4], [2, 5]]);
        assert_eq!(left_for(&pairs, &held(&[0]), true), [vec![3], vec![1, 4], vec![2, 5]]);
        assert_eq!(left_for(&pairs, &held(&[0, 4, 5]), false), Vec::<Vec<usize>>::new());
        let apart = [vec![0], vec![1], vec![2]];
        assert_eq!(left_for(&apart, &held(&[0, 1]), false), [[2]]);
    }

    #[test]
    fn it_is_told_who_has_the_cores_and_what_is_left() {
        assert_eq!(sentence(&held(&[0, 1]), &[]), "core 0 is in use by web (scaled), pid 7");
        let four = sentence(&held(&[0, 1]), &[2, 3]);
        assert_eq!(four, "cores 0,1 are in use by web (scaled), pid 7; cores 2,3 are too few for this run");
        assert!(sentence(&held(&[0, 1, 2]), &[3]).ends_with("core 3 is too little for this run"));
        assert!(sentence(&held(&[0, 1, 2]), &[]).ends_with("there are no others"));
        let error = Unclaimed::Busy(held(&[0, 1]), vec![]).error();
        let error = site::Error::from(error);
        assert_eq!(error.code(), 3);
        assert!(error.to_string().contains("`--wait` does"), "{error}");
    }
}
