//! The nodes of a live run, as the run's calls and its visitors share them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use node::{ExecSpec, Io, Node, NodeSpec};
use scale::RealDuration;
use site::{
    Base, Command, CutLog, Execution, How, Injections, NodeIndex, NodeSetup, ProgramChange, ProgramDeed, Root, Source,
    Start, Written,
};

use super::clock::{Dilation, waiting};
use super::guests::{self, GuestPort};
use super::logs::Logs;
use super::{Place, Prepared};
use crate::error::{Error, Result};
use crate::images;

/// How many containers are started at once: most of a start is waiting for the kernel.
const AT_ONCE: usize = 4;
/// How long a node may take to end that has been killed.
const LONGEST_END: Duration = Duration::from_secs(5);
/// The most that is kept of what a command wrote.
const LONGEST_OUTPUT: u64 = 1 << 20;

/// All nodes, in the order of the plan.
pub struct Nodes {
    nodes: Vec<RwLock<Node>>,
    /// Dilates what starts; none in a variant that runs in real time.
    dilation: Option<Arc<Dilation>>,
    /// Which node each container process is, as the run's PID namespace numbers them.
    pids: Pids,
    /// Programs beside the nodes' own, by node and name.
    programs: Mutex<HashMap<(NodeIndex, String), node::Exec>>,
    /// The roots that their own files lie over.
    bases: Vec<Base>,
    /// Their logs.
    logs: Logs,
    /// By node, the interfaces of a guest; none of those that are containers.
    guests: Vec<Option<Arc<[GuestPort]>>>,
    /// Commands from outside: how many have begun, and have ended.
    begun: AtomicU64,
    ended: Arc<AtomicU64>,
}

/// The nodes by the numbers of their first processes, as the run's PID namespace numbers them.
pub type Pids = Arc<Mutex<HashMap<i32, NodeIndex>>>;

/// A command that goes on.
pub struct Running {
    exec: node::Exec,
    limit: RealDuration,
    stdout: File,
    stderr: File,
}

impl Running {
    /// Waits for the end of the command; kills one that takes too long.
    pub fn wait(self) -> Result<Execution> {
        let Running { exec, limit, stdout, stderr } = self;
        let status = exec.wait(Some(limit.into())).or_else(|| {
            let _ = exec.kill();
            exec.wait(Some(Duration::from_secs(1)))
        });
        let status = status.ok_or_else(|| Error::SiteLost("a command in a node does not end".into()))?;
        let read = |mut file: File| -> io::Result<Vec<u8>> {
            file.seek(SeekFrom::Start(0))?;
            let mut bytes = Vec::new();
            file.take(LONGEST_OUTPUT).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let (stdout, stderr) = (read(stdout).map_err(output_failed)?, read(stderr).map_err(output_failed)?);
        Ok(Execution { exit: status.into(), stdout, stderr })
    }
}

fn output_failed(source: io::Error) -> Error {
    Error::Io { what: "the output of a command".into(), source }
}

/// A command from outside that goes on, until this is dropped.
pub struct Session(Arc<AtomicU64>);

impl Drop for Session {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Nodes {
    /// Creates the containers of a run.
    pub fn create(prepared: &Prepared, place: &Place) -> Result<Nodes> {
        let Prepared { setup, dilation, .. } = prepared;
        let folder = place.folder.canonicalize().map_err(Error::io(place.folder.display()))?;
        let names = setup.nodes.iter().map(|node| node.name.as_str());
        let logs = Logs::begin(&place.results, names, setup.logs, setup.log_rate)?;
        let (mut specs, mut guests) = (Vec::new(), Vec::new());
        for (index, node) in setup.nodes.iter().enumerate() {
            let guest_ports = node.guest.as_ref().map(|_| prepared.network.guest_ports(index));
            let io = io_of(logs.ends(index)?, admission(dilation.as_deref(), index)?, guest_ports.as_deref())?;
            guests.push(guest_ports);
            let kept = place.registration.kept_nodes().map(|dir| dir.join(&node.name));
            specs.push((NodeSpec { kept, ..spec_of(index, node, prepared, &folder)? }, io));
        }
        let nodes = Node::create_all(&prepared.enclosure, &prepared.runtime, specs)?;
        let pids = Arc::new(Mutex::new(nodes.iter().enumerate().map(|(i, n)| (n.pid(), i)).collect()));
        let nodes = nodes.into_iter().map(RwLock::new).collect();
        let begun = AtomicU64::new(0);
        let bases = setup.nodes.iter().map(|node| images::base_of(&node.root, |source| here(source, &place.folder)));
        let bases = bases.collect();
        Ok(Nodes {
            nodes,
            bases,
            logs,
            guests,
            dilation: dilation.clone(),
            pids,
            programs: Mutex::default(),
            begun,
            ended: Arc::default(),
        })
    }

    /// Notes that a command from outside has begun.
    pub fn session(&self) -> Session {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Session(self.ended.clone())
    }

    /// How many commands from outside have begun, and how many of them go on.
    pub fn commands(&self) -> [u64; 2] {
        let ended = self.ended.load(Ordering::Relaxed);
        let begun = self.begun.load(Ordering::Relaxed);
        [begun, begun.saturating_sub(ended)]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Gives `work` a node.
    pub fn with<R>(&self, node: NodeIndex, work: impl FnOnce(&Node) -> R) -> R {
        work(&self.nodes[node].read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes out what the nodes' disks do not have yet.
    pub fn sync_disks(&self) -> Result<()> {
        (0..self.len()).try_for_each(|node| Ok(self.with(node, Node::sync_disk)?))
    }

    /// Kills the nodes that have a disk, and waits until they have ended: only then can it be unmounted.
    pub fn end_those_with_disks(&self) {
        let with_disk = || (0..self.len()).filter(|node| self.with(*node, Node::has_disk));
        for node in with_disk() {
            let _ = self.with(node, |n| n.signal(libc::SIGKILL));
        }
        for node in with_disk() {
            self.with(node, |n| n.wait(Some(LONGEST_END)));
        }
    }

    /// The nodes by the numbers of their first processes, for who hears of the ends of processes.
    pub fn pids(&self) -> Pids {
        Arc::clone(&self.pids)
    }

    /// Starts nodes, several at once.
    pub fn start(&self, nodes: &[Start]) -> Result<()> {
        for start in nodes.iter().filter(|s| s.how != How::First) {
            self.create_again(start.node)?;
        }
        let next = AtomicUsize::new(0);
        let worker = || -> Result<()> {
            while let Some(start) = nodes.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.with(start.node, Node::start)?;
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

    /// Waits until a node has ended that has been killed.
    pub fn await_end(&self, node: NodeIndex) {
        self.with(node, |n| n.wait(Some(LONGEST_END)));
    }

    /// Takes away what a node sees that has ended.
    pub fn unmount(&self, node: NodeIndex) -> Result<()> {
        Ok(self.nodes[node].write().unwrap_or_else(PoisonError::into_inner).unmount()?)
    }

    /// Mounts it again.
    pub fn mount_again(&self, node: NodeIndex) -> Result<()> {
        Ok(self.nodes[node].write().unwrap_or_else(PoisonError::into_inner).mount_again()?)
    }

    /// Makes a node that has ended ready to be started again.
    fn create_again(&self, node: NodeIndex) -> Result<()> {
        let mut slot = self.nodes[node].write().unwrap_or_else(PoisonError::into_inner);
        let io =
            io_of(self.logs.ends(node)?, admission(self.dilation.as_deref(), node)?, self.guests[node].as_deref())?;
        slot.create_again(io)?;
        self.pids.lock().unwrap_or_else(PoisonError::into_inner).insert(slot.pid(), node);
        Ok(())
    }

    /// The directory with what a node has written, and what that lies over.
    pub fn written(&self, node: NodeIndex) -> Result<(OwnedFd, Base)> {
        Ok((self.with(node, Node::written)?, self.bases[node].clone()))
    }

    /// Starts a command in a node that runs, with these descriptors 0, 1 and 2.
    pub fn exec(&self, node: NodeIndex, argv: &[String], stdio: [OwnedFd; 3]) -> Result<node::Exec> {
        if self.guests[node].is_some() {
            return Err(Error::IsGuest(self.with(node, |n| n.name().into())));
        }
        let preserve: Vec<_> = admission(self.dilation.as_deref(), node)?.into_iter().collect();
        let argv = self.dilation.as_ref().map_or_else(|| argv.to_vec(), |dilation| dilation.command(argv));
        let [stdin, stdout, stderr] = stdio;
        self.with(node, |n| {
            if n.try_wait().is_some() {
                return Err(Error::NodeEnded(n.name().into()));
            }
            Ok(n.exec(ExecSpec { argv, stdin, stdout, stderr, preserve })?)
        })
    }

    /// Whether a program beside a node's own runs.
    pub fn is_program_running(&self, program: &(NodeIndex, String)) -> bool {
        let programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.get(program).is_some_and(|exec| exec.try_wait().is_none() && !exec.is_lost())
    }

    /// Starts a program beside a node's own, starts it anew, or sends it a signal; whether there was anything to do.
    pub fn change_program(&self, change: &ProgramChange) -> Result<bool> {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (change.node, change.program.clone());
        let running = programs.get(&key).filter(|exec| exec.try_wait().is_none() && !exec.is_lost());
        match (&change.what, running) {
            (ProgramDeed::Signal(signal), Some(exec)) => {
                exec.signal_group(*signal)?;
                Ok(true)
            }
            (ProgramDeed::Run(argv), None) | (ProgramDeed::Again(argv), Some(_)) => {
                if let Some(exec) = running {
                    exec.signal_group(rustix::process::Signal::TERM.as_raw())?;
                }
                let null = host::descriptors::null().map_err(Error::io("/dev/null"))?;
                let [stdout, stderr] = self.logs.ends(change.node)?;
                let exec = match self.exec(change.node, argv, [null, stdout.into(), stderr.into()]) {
                    Err(Error::NodeEnded(_) | Error::IsGuest(_)) => return Ok(false),
                    other => other?,
                };
                programs.insert(key, exec);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Begins a command in a node, whose end is to be [waited for](Running::wait).
    pub fn begin(&self, command: &Command) -> Result<Running> {
        let memory =
            || -> io::Result<File> { Ok(rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)?.into()) };
        let (stdout, stderr) = (memory().map_err(output_failed)?, memory().map_err(output_failed)?);
        let copy = |file: &File| file.try_clone().map(OwnedFd::from).map_err(output_failed);
        let null = host::descriptors::null().map_err(Error::io("/dev/null"))?;
        let exec = self.exec(command.node, &command.argv, [null, copy(&stdout)?, copy(&stderr)?])?;
        Ok(Running { exec, limit: command.limit, stdout, stderr })
    }

    /// Takes in what nodes have printed; what was cut out of their logs.
    pub fn settle_logs(&self) -> Result<Vec<CutLog>> {
        self.logs.settle()
    }

    /// Reads output of a node, from a place on.
    pub fn read(&self, node: NodeIndex, what: &Written, offset: u64, limit: u64) -> Result<Option<Vec<u8>>> {
        let read = match what {
            Written::File(path) => self.with(node, |n| n.read_file(Path::new(path))).and_then(|mut file| {
                let mut bytes = Vec::new();
                file.seek(SeekFrom::Start(offset))?;
                file.take(limit).read_to_end(&mut bytes).map(|_| bytes)
            }),
            Written::Log(stream) => self.logs.read(node, *stream, offset, limit),
            Written::LogEnd(stream) => self.logs.end_of(node, *stream, limit),
        };
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => {
                let name = self.with(node, |n| n.name().to_string());
                let what = match what {
                    Written::File(path) => format!("node {name}: {path}"),
                    Written::Log(_) | Written::LogEnd(_) => format!("the log of node {name}"),
                };
                Err(Error::Io { what, source })
            }
        }
    }

    /// Programs that were dilated, or could not be; none in real time.
    pub fn injections(&self) -> Option<Injections> {
        self.dilation.as_ref().map(|d| d.injections())
    }
}

fn spec_of(index: NodeIndex, node: &NodeSetup, prepared: &Prepared, folder: &Path) -> Result<NodeSpec> {
    let Prepared { dilation, network, namespaces, shares, disks, .. } = prepared;
    let here = |source: &Source| here(source, folder);
    let gate = gate_of(dilation.is_some());
    let (argv, files, texts) = match &node.guest {
        None => {
            let files = node.files.iter().map(|(to, from)| (PathBuf::from(to), from.clone()));
            (node.argv.clone(), files.collect(), Vec::new())
        }
        Some(guest) => {
            let argv = guests::arguments(node, guest, &network.guest_ports(index), gate + 1);
            (argv, guests::files(node, guest), vec![guests::hosts(&network.hosts()[index])])
        }
    };
    let overhead = if node.guest.is_some() { guest::OVERHEAD_BYTES } else { 0 };
    Ok(NodeSpec {
        name: node.name.clone(),
        root: match &node.root {
            Root::Host => node::Root::Host,
            Root::Directory(dir) => node::Root::Dir(here(dir)),
            Root::OciArchive(file) => node::Root::OciArchive(here(file)),
            Root::Image(name) => match prepared.images.get(name) {
                Some(image) => node::Root::Image(image.unpacked().clone()),
                None => return Err(images::missing(name, "")),
            },
        },
        argv: match dilation {
            Some(dilation) => dilation.waiting(gate, &argv),
            None => waiting(gate, &argv),
        },
        env: node.env.iter().map(|(k, v)| format!("{k}={v}")).collect(),
        cwd: node.cwd.clone().unwrap_or_else(|| "/".into()),
        user: node.user,
        hostname: node.hostname.clone(),
        stop_signal: node.stop_signal,
        hosts: network.hosts()[index].clone(),
        files: files.iter().map(|(to, from)| (to.clone(), here(from))).collect(),
        texts,
        tools: tools_of(node),
        memory_bytes: node.memory_bytes + overhead,
        core: node.core,
        whole_cores: node.whole_cores.clone(),
        cpus: cpus_seen(node, dilation.is_none()),
        cgroup: shares.container_path(&node.name),
        netns: namespaces.of(index).clone(),
        disk: disks.as_ref().and_then(|disks| disks.of(index)),
        kept: None,
    })
}

/// The numbers of its CPUs as files show them. In real time the kernel itself answers those who ask for theirs, by the
/// numbers of the cores: so do the files, where those are one or follow one another.
fn cpus_seen(node: &NodeSetup, in_real_time: bool) -> Range<usize> {
    let follow = node.whole_cores.windows(2).all(|pair| pair[1] == pair[0] + 1);
    match in_real_time && follow && (node.cpus == 1 || !node.whole_cores.is_empty()) {
        true => node.core..node.core + node.cpus as usize,
        false => 0..node.cpus as usize,
    }
}

/// Where something is that the experiment names.
fn here(source: &Source, folder: &Path) -> PathBuf {
    match source {
        Source::Experiment(path) => folder.join(path),
        Source::Machine(path) => path.clone(),
    }
}

/// Programs of ours that are seen in a node, and where.
fn tools_of(node: &NodeSetup) -> Vec<(PathBuf, &'static [u8])> {
    let traffic = node.traffic.then(|| (traffic::PROGRAM_PATH.into(), traffic::PROGRAM));
    let barriers = barrier::PATHS.into_iter().filter(|_| node.barriers).map(|path| (path.into(), barrier::PROGRAM));
    [(clock::DILATE_EXEC_PATH.into(), clock::DILATE_EXEC)].into_iter().chain(traffic).chain(barriers).collect()
}

/// The socket to the injector for a program that starts in a node; none in real time.
fn admission(dilation: Option<&Dilation>, node: NodeIndex) -> Result<Option<OwnedFd>> {
    dilation.map(|d| d.admit(node)).transpose()
}

/// The descriptor on which a node's program waits for its start: after the socket to the injector.
fn gate_of(is_dilated: bool) -> usize {
    if is_dilated { 4 } else { 3 }
}

/// Descriptors of a node: its logs, for a dilated one the socket to the injector, the pipe that it waits for, and the
/// interfaces of a guest.
fn io_of([stdout, stderr]: [File; 2], injector: Option<OwnedFd>, guest: Option<&[GuestPort]>) -> Result<Io> {
    let (waits, gate) = io::pipe().map_err(Error::io("a pipe"))?;
    let wires = guests::wires(guest.unwrap_or_default()).map_err(Error::io("an interface of a guest"))?;
    let preserve = injector.into_iter().chain([waits.into()]).chain(wires).collect();
    Ok(Io { stdout, stderr, preserve, gate: Some(OwnedFd::from(gate).into()) })
}
