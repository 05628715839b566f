//! The nodes of a live run, as the main loop and `diorama exec` share them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError, RwLock};

use clock::{CpuRate, Injector};
use node::{ExecSpec, Io, Node};
use record::LogStream;

use crate::error::{Error, Result};
use crate::rundir::RunDir;
use crate::script::{Exit, NodeIndex};

/// All nodes, in the order of the experiment.
pub struct Cast {
    nodes: Vec<RwLock<Node>>,
    names: HashMap<String, NodeIndex>,
    /// Dilates what starts; none in a variant that runs in real time.
    dilation: Option<Dilation>,
    /// Which node each container process is, as the run's PID namespace numbers them.
    pids: Mutex<HashMap<i32, NodeIndex>>,
}

/// What is needed to dilate a program that starts in a node.
pub struct Dilation {
    /// The injector of the run.
    pub injector: Injector,
    /// Node by node, how fast CPU clocks run.
    pub rates: Vec<CpuRate>,
}

impl Dilation {
    /// `argv` as it has to be given to the runtime, and the socket that must become its descriptor 3.
    fn admit(&self, node: NodeIndex) -> Result<OwnedFd> {
        Ok(self.injector.admit(self.rates[node])?)
    }
}

/// The command line that dilates `argv`.
pub fn dilated(argv: &[String]) -> Vec<String> {
    [clock::DILATE_EXEC_PATH, "--"].map(String::from).into_iter().chain(argv.iter().cloned()).collect()
}

impl Cast {
    /// The created nodes of a run.
    pub fn new(nodes: Vec<Node>, dilation: Option<Dilation>) -> Cast {
        let names = nodes.iter().enumerate().map(|(i, n)| (n.name().to_string(), i)).collect();
        let pids = nodes.iter().enumerate().map(|(i, n)| (n.pid(), i)).collect();
        Cast { nodes: nodes.into_iter().map(RwLock::new).collect(), names, dilation, pids: Mutex::new(pids) }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Gives `work` a node.
    pub fn with<R>(&self, node: NodeIndex, work: impl FnOnce(&Node) -> R) -> R {
        work(&self.nodes[node].read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The node whose first process this is, if it is one.
    pub fn node_of(&self, pid: i32) -> Option<NodeIndex> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner).get(&pid).copied()
    }

    /// Starts nodes, several at once: most of a start is waiting for the kernel.
    pub fn start(&self, nodes: &[NodeIndex]) -> Result<()> {
        const AT_ONCE: usize = 4;
        let next = std::sync::atomic::AtomicUsize::new(0);
        let worker = || -> Result<()> {
            while let Some(node) = nodes.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                self.with(*node, Node::start)?;
            }
            Ok(())
        };
        if nodes.len() <= 1 {
            return worker();
        }
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE.min(nodes.len())).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().try_for_each(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
        })
    }

    /// Makes a node that has ended ready to be started again.
    pub fn create_again(&self, node: NodeIndex, dir: &RunDir) -> Result<()> {
        let mut slot = self.nodes[node].write().unwrap_or_else(PoisonError::into_inner);
        let io = io_of(dir, slot.name(), self.dilation.as_ref().map(|d| d.admit(node)).transpose()?)?;
        slot.create_again(io)?;
        self.pids.lock().unwrap_or_else(PoisonError::into_inner).insert(slot.pid(), node);
        Ok(())
    }

    /// Runs a command in a node, with the caller's descriptors.
    pub fn exec(&self, name: &str, argv: &[String], stdio: [OwnedFd; 3]) -> Result<node::Exec> {
        let Some(&node) = self.names.get(name) else {
            let mut known: Vec<_> = self.names.keys().map(String::as_str).collect();
            known.sort_unstable();
            return Err(Error::Input(format!("there is no node `{name}`; the run's nodes: {}", known.join(", "))));
        };
        let preserve: Vec<_> = self.dilation.as_ref().map(|d| d.admit(node)).transpose()?.into_iter().collect();
        let argv = if self.dilation.is_some() { dilated(argv) } else { argv.to_vec() };
        let [stdin, stdout, stderr] = stdio;
        self.with(node, |n| {
            if n.try_wait().is_some() {
                return Err(Error::Failed(format!("node {name} has ended, so nothing can run in it")));
            }
            Ok(n.exec(ExecSpec { argv, stdin, stdout, stderr, preserve })?)
        })
    }

    /// The socket for a process of the engine's own that is to run under the run's clock, if it is dilated.
    pub fn admit_outsider(&self) -> Result<Option<OwnedFd>> {
        Ok(self.dilation.as_ref().map(|d| d.injector.admit(CpuRate::NATIVE)).transpose()?)
    }

    /// What the injector has done.
    pub fn injections(&self) -> Option<clock::InjectorCounters> {
        self.dilation.as_ref().map(|d| d.injector.counters())
    }
}

/// The logs of a node and, for a dilated one, the socket to the injector.
pub fn io_of(dir: &RunDir, node: &str, injector: Option<OwnedFd>) -> Result<Io> {
    let log = |stream| dir.files().append_log(node, stream);
    Ok(Io {
        stdout: log(LogStream::Stdout)?,
        stderr: log(LogStream::Stderr)?,
        preserve: injector.into_iter().collect(),
    })
}

/// The socket for the first start of `node`.
pub fn first_admission(dilation: Option<&Dilation>, node: NodeIndex) -> Result<Option<OwnedFd>> {
    dilation.map(|d| d.admit(node)).transpose()
}

/// A wait status in the script's words.
pub fn exit_of(status: std::process::ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match status.code() {
        Some(code) => Exit::Code(code),
        None => Exit::Signal(status.signal().unwrap_or(0)),
    }
}
