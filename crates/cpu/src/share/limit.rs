//! One command limited to a fraction of a core, for `diorama dilate --cpu`.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use host::cgroup::Tree;

use crate::{Calibration, CpuGroups, Error, NodeShare, Terms, best_policy};

const NODE: &str = "command";
/// The beginning of such trees' ids, before the number of the process that made them.
const PREFIX: &str = "dilate-";

/// A limit in force. Dropping it lifts the limit and kills what still runs under it.
#[derive(Debug)]
pub struct Limit {
    groups: CpuGroups,
    calibration: Calibration,
    /// Why the limit is coarse, if it is.
    pub coarse: Option<String>,
}

/// The trees of limits whose process is no longer alive; they may be swept.
pub fn stale_limits() -> Result<Vec<Tree>, Error> {
    let dead = |tree: &Tree| {
        let pid = tree.id().strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    Ok(Tree::all()?.into_iter().filter(dead).collect())
}

/// Sets up a limit of `fraction` of `core`, in a tree of its own (`/diorama-dilate-PID`), which is kept from one of
/// `others`, or of any other core where there are none. Takes half a second. Nothing runs under it until a command is
/// [confined](Limit::confine). Needs root.
///
/// `fraction` is above 0 and at most what the core can give (about 0.9); the program needs the hidden verb `__keeper`.
pub fn limit_this(fraction: f64, core: usize, others: &[usize]) -> Result<Limit, Error> {
    let (policy, coarse) = best_policy();
    let id = format!("{PREFIX}{}", std::process::id());
    let share = [NodeShare::new(NODE, core, fraction)];
    let mut groups = CpuGroups::create(&id, &share, policy, Terms::default())?;
    let start = |mut command: Command| {
        if !others.is_empty() {
            host::cores::restrict_command(&mut command, others);
        }
        command.spawn()
    };
    let keeper = groups.keeper().map(start).transpose().map_err(Error::io("start the keeper of its share"))?;
    let calibrations = groups.engage(keeper)?;
    let calibration = calibrations.first().copied().unwrap_or_else(|| Calibration::none(core));
    Ok(Limit { groups, calibration, coarse })
}

impl Limit {
    /// Makes `command`, when it is started, run under the limit and on its core, with everything that it starts.
    pub fn confine(&self, command: &mut Command) -> Result<(), Error> {
        // A process of one thread: entering with its thread is entering with all of it.
        let joiner = self.groups.joiner(NODE)?;
        // SAFETY: between fork and exec this makes system calls on open files only; it takes no lock and allocates
        // nothing.
        unsafe { command.pre_exec(move || joiner.join()) };
        Ok(())
    }

    /// The measurement of the core when the limit was set up.
    pub fn calibration(&self) -> Calibration {
        self.calibration
    }

    /// Lifts the limit, kills what still runs under it and removes the groups.
    pub fn release(self) -> Result<(), Error> {
        self.groups.release()
    }
}
