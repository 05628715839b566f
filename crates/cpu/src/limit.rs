//! One command limited to a fraction of a core, for `diorama dilate --cpu`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::{Calibration, CpuGroups, Error, NodeShare, best_policy};

const NODE: &str = "command";

/// A limit in force. Dropping it lifts the limit and kills what still runs under it.
#[derive(Debug)]
pub struct Limit {
    groups: CpuGroups,
    calibration: Calibration,
    /// Why the limit is coarse, if it is.
    pub coarse: Option<String>,
}

/// Sets up a limit of `fraction` of `core`, in a tree of its own (`/diorama-dilate-PID`). Takes half a second. Nothing runs
/// under it until a command is [confined](Limit::confine). Needs root.
///
/// `fraction` is above 0 and at most what the core can give (about 0.9); the program needs the hidden verb `__fillers`.
pub fn limit_this(fraction: f64, core: usize) -> Result<Limit, Error> {
    let (policy, coarse) = best_policy();
    let id = format!("dilate-{}", std::process::id());
    let mut groups = CpuGroups::create(&id, core, &[NodeShare { name: NODE.into(), share: fraction }], policy)?;
    let helper = groups.helper().map(|mut command| command.spawn());
    let helper = helper.transpose().map_err(Error::io("start the fillers"))?;
    let calibration = groups.engage(helper)?;
    Ok(Limit { groups, calibration, coarse })
}

impl Limit {
    /// Makes `command`, when it is started, run under the limit and on its core, with everything that it starts.
    pub fn confine(&self, command: &mut Command) -> Result<(), Error> {
        // A process of one thread: entering with its thread is entering with all of it.
        let doors = self.groups.doors(NODE)?;
        // SAFETY: between fork and exec this makes system calls on open files only; it takes no lock and allocates nothing.
        unsafe { command.pre_exec(move || doors.enter()) };
        Ok(())
    }

    /// What was measured when the limit was set up.
    pub fn calibration(&self) -> Calibration {
        self.calibration
    }

    /// Lifts the limit, kills what still runs under it and removes the groups.
    pub fn release(self) -> Result<(), Error> {
        self.groups.release()
    }
}
