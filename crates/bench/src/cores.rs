//! Where threads of a benchmark run, as in a run: what stands in for nodes on one core, the mechanism on another.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use host::Awake;
use host::sched::LightSession;
use rustix::process::Signal;

use crate::Error;

/// The hidden verb of what keeps cores awake; their numbers follow.
const AWAKE: &str = "__awake";

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

/// A process that keeps cores from falling asleep for as long as this lives, and gives way to everything else on them:
/// also to the kernel's own threads, which serve devices.
pub(crate) struct KeptAwake(Child);

impl KeptAwake {
    pub fn keep(cores: &[usize]) -> Result<KeptAwake, Error> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(AWAKE).args(cores.iter().map(usize::to_string));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(Error::failed)?;
        let mut kept = KeptAwake(child);
        let out = kept.0.stdout.as_mut().ok_or_else(|| Error::failed("a process has no output"))?;
        let mut begun = [0];
        match out.read_exact(&mut begun) {
            Ok(()) => Ok(kept),
            Err(e) => Err(Error::failed(format!("what keeps cores awake has not begun: {e}"))),
        }
    }
}

impl Drop for KeptAwake {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keeps cores awake until it is killed, and never returns, if the arguments of this process (without the program's
/// name) ask for it.
pub(crate) fn become_awake(mut arguments: impl Iterator<Item = String>) {
    if arguments.next().as_deref() != Some(AWAKE) {
        return;
    }
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let _light = LightSession::begin();
    let kept = arguments.filter_map(|core| core.parse().ok()).map(Awake::keep).collect::<Result<Vec<_>, _>>();
    let told = match &kept {
        Ok(_) => std::io::stdout().write_all(b"+").and_then(|()| std::io::stdout().flush()),
        Err(e) => writeln!(std::io::stderr(), "diorama: {e}"),
    };
    while kept.is_ok() && told.is_ok() {
        std::thread::park();
    }
    std::process::exit(1)
}
