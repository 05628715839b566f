//! System calls of programs: how often each followed which, how long they took, what they gave back.

use scale::{RealDuration, VirtualDuration, VirtualInstant};
use serde::{Deserialize, Serialize};

/// The calls of a node, or of a program on a plain machine, as they stand in a record, too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeCalls {
    /// When the intervals end by which [`Step::counts`] are told apart, in virtual ns. The first begins with the run.
    pub intervals_ns: Vec<VirtualInstant>,
    /// The programs that it executed, by name.
    pub programs: Vec<ProgramCalls>,
    /// How many threads and steps were not counted, for want of memory, on the whole machine.
    pub uncounted: u64,
}

/// The calls of all processes of a node that executed files of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramCalls {
    /// The name of the file, of which the kernel keeps 15 bytes.
    pub program: String,
    /// By name.
    pub calls: Vec<CallUse>,
    /// By the names of both.
    pub steps: Vec<Step>,
    /// How often a thread left its core since it waited for something.
    pub voluntary_switches: u64,
    /// How often one was put aside.
    pub involuntary_switches: u64,
    /// Page faults, minor and major.
    pub page_faults: u64,
    /// CPU time of cores of this machine, in real ns.
    pub cpu_real_ns: RealDuration,
    /// How often dilation's image called the kernel in these processes, for itself or on their behalf,
    pub image_calls: u64,
    /// and for how long, in real ns.
    pub image_real_ns: RealDuration,
}

/// One call of a program, in all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallUse {
    /// Its name.
    pub call: String,
    /// How often it was made.
    pub made: u64,
    /// How often it came back.
    pub ended: u64,
    /// How long that took, with all waiting, in virtual ns.
    pub virtual_ns: VirtualDuration,
    /// How often it gave back an error.
    pub errors: u64,
    /// How often dilation's image answered it.
    pub trapped: u64,
    /// How often dilation refused it, as a call that there is not.
    pub refused: u64,
    /// Bytes that it moved, where it says so.
    pub bytes: u64,
    /// How often it moved nothing, 1 byte, 2 to 3, 4 to 7, and so on, where it says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<u32>,
}

/// That a thread made a call after another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The call before; `None` if there was none since the thread began, or executed the program.
    pub from: Option<String>,
    /// The call.
    pub to: String,
    /// How often, interval by interval.
    pub counts: Vec<u64>,
}

impl NodeCalls {
    /// How often its programs called the kernel.
    pub fn made(&self) -> u64 {
        self.programs.iter().map(ProgramCalls::made).sum()
    }

    /// CPU time of its programs, in s of cores of this machine.
    pub fn core_seconds(&self) -> f64 {
        self.programs.iter().map(|program| program.cpu_real_ns.as_secs_f64()).sum()
    }
}

impl ProgramCalls {
    /// How often it called the kernel.
    pub fn made(&self) -> u64 {
        self.calls.iter().map(|call| call.made).sum()
    }
}

impl Step {
    /// How often in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}
