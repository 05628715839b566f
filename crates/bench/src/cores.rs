//! Where threads of a benchmark run, as in a run: what stands in for nodes on one core, the mechanism on another.

use crate::Error;

/// Which core does what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    /// Senders and receivers, as the nodes of a run.
    pub nodes: usize,
    /// The emulator.
    pub harness: usize,
}

impl Cores {
    /// The first two cores that this process may use, as a run has them whose nodes are on one: hyper-threads of one
    /// physical core only where there is no other.
    pub fn find() -> Result<Cores, Error> {
        let usable = host::cores::usable().map_err(Error::machine)?;
        let physical = host::cores::by_physical_core(&usable);
        match (&physical[..], &usable[..]) {
            ([first, second, ..], _) => Ok(Cores { nodes: first[0], harness: second[0] }),
            (_, [nodes, harness, ..]) => Ok(Cores { nodes: *nodes, harness: *harness }),
            _ => Err(Error::machine("the network cannot be measured on one core; allow this command two (taskset)")),
        }
    }
}

/// The first core that this process may use, and the last if there is another.
pub(crate) fn first_and_last() -> Result<(usize, Option<usize>), Error> {
    match host::cores::usable().map_err(Error::machine)?[..] {
        [] => Err(Error::machine("this process may use no core")),
        [only] => Ok((only, None)),
        [first, .., last] => Ok((first, Some(last))),
    }
}

/// Binds the calling thread to a core that this process may use, which cannot fail.
pub(crate) fn pin(core: usize) {
    let _ = host::pin(core);
}
