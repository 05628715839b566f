//! The life of one node: created, started, signalled, joined by other commands, created again, deleted.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host::cgroup;
use host::listening::listens;
use rustix::fs::{CWD, FileType, Gid, Mode, OFlags, Uid, openat};
use rustix::mount::MountFlags;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::bundle;
use crate::container::{Request, Tracked};
use crate::enclosure::{Enclosure, Shared};
use crate::error::{Context, Error};
use crate::mount_namespace::MountNamespace;
use crate::prepare::{self, NodeSpec};
use crate::rootfs::RootFs;
use crate::runtime::Runtime;
use crate::volume::Volume;

/// The descriptors with which a node's program starts; descriptor 0 is `/dev/null`.
#[derive(Debug)]
pub struct Io {
    /// Descriptor 1.
    pub stdout: File,
    /// Descriptor 2.
    pub stderr: File,
    /// Descriptors 3 and up.
    pub preserve: Vec<OwnedFd>,
    /// For a program that waits for a byte, such as from a pipe among `preserve`, before it does anything: the end to
    /// which that byte is written. The container is then started as it is created, and starting the node is to write
    /// the byte, which takes microseconds; without it that is the runtime's, some milliseconds of CPU.
    pub gate: Option<File>,
}

/// A command that joins a running node.
#[derive(Debug)]
pub struct ExecSpec {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Descriptor 0.
    pub stdin: OwnedFd,
    /// Descriptor 1.
    pub stdout: OwnedFd,
    /// Descriptor 2.
    pub stderr: OwnedFd,
    /// Descriptors 3 and up.
    pub preserve: Vec<OwnedFd>,
}

/// A node: a container that is created, running or ended.
#[derive(Debug)]
pub struct Node {
    spec: NodeSpec,
    enclosure: Arc<Shared>,
    runtime: Runtime,
    /// Its view; nothing while it has no power.
    mounted: Option<Mounted>,
    /// How often it has been created again; part of the container's name.
    generation: u32,
    process: Tracked,
    /// See [`Io::gate`]; empty once the node has been started.
    gate: Mutex<Option<File>>,
    /// Whether its processes have been stopped.
    paused: AtomicBool,
    /// The memory that it has for now, in place of its machine's.
    squeezed: Mutex<Option<u64>>,
    execs: AtomicUsize,
    oom_before: u64,
}

/// View of a node.
#[derive(Debug)]
struct Mounted {
    /// Its root before there is a container.
    root: RootFs,
    /// Its disk, if it has one.
    disk: Option<Volume>,
    mounts: Arc<MountNamespace>,
}

impl Node {
    /// Makes a node: its root file system, its bundle, and the container, in which nothing runs yet.
    ///
    /// # Errors
    /// [`Error::Input`] if the root or a file cannot be had, [`Error::Machine`] if the machine lacks something,
    /// [`Error::Node`] with the runtime's words otherwise.
    pub fn create(enclosure: &Enclosure, runtime: &Runtime, mut spec: NodeSpec, io: Io) -> Result<Node, Error> {
        let shared = Arc::clone(&enclosure.shared);
        prepare::unpack(&shared, &mut spec)?;
        let mounted = mount(&shared, &spec, spec.kept.is_none())?;
        let oom_before = cgroup::oom_kills(&spec.cgroup);
        let (process, gate) = create(&shared, &mounted.mounts, runtime, &spec, 0, io)?;
        let (runtime, gate, execs) = (runtime.clone(), Mutex::new(gate), AtomicUsize::new(0));
        let (mounted, paused) = (Some(mounted), AtomicBool::new(false));
        let squeezed = Mutex::default();
        let enclosure = shared;
        let generation = 0;
        Ok(Node { spec, enclosure, runtime, mounted, generation, process, gate, paused, squeezed, execs, oom_before })
    }

    /// Creates many nodes, several at once, in the time that the runtime needs for them on one or two cores.
    ///
    /// # Errors
    /// The first error; the nodes that were made then go with the enclosure.
    pub fn create_all(
        enclosure: &Enclosure,
        runtime: &Runtime,
        specs: Vec<(NodeSpec, Io)>,
    ) -> Result<Vec<Node>, Error> {
        in_parallel(specs, |(spec, io)| Node::create(enclosure, runtime, spec, io))
    }

    /// Starts the node's program.
    pub fn start(&self) -> Result<(), Error> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut gate) = gate else { return self.request("start", self.generation).change("start") };
        match gate.write_all(&[1]) {
            // Who waited is gone, which is heard of as of every end.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done.context(|| format!("node {}: cannot be started", self.name())),
        }
    }

    /// Starts the programs of many nodes, several at once.
    pub fn start_all(nodes: &[Node]) -> Result<(), Error> {
        in_parallel(nodes.iter().collect(), |node: &Node| node.start()).map(drop)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The node's first process, as the run's PID namespace (`Enclosure::proc`) numbers it.
    pub fn pid(&self) -> i32 {
        self.process.pid
    }

    /// Sends a signal to the node's first process; nothing happens if it has ended. SIGKILL ends all of the node.
    pub fn signal(&self, signal: i32) -> Result<(), Error> {
        self.process.signal(signal).context(|| format!("node {}: cannot send signal {signal}", self.name()))?;
        // Whoever is killed must be able to end, and who comes after it finds the same group.
        if signal == libc::SIGKILL && self.is_paused() { self.pause(false) } else { Ok(()) }
    }

    /// Stops all processes of the node where they are, or lets them go on.
    pub fn pause(&self, paused: bool) -> Result<(), Error> {
        cgroup::freeze(&self.spec.cgroup, paused)?;
        self.paused.store(paused, Ordering::Relaxed);
        Ok(())
    }

    /// Lets the node have so much memory from now on, also when it is started again; without a number what its machine
    /// has. Gives back the limit that is in force then: less than what its programs hold cannot be where only version 1
    /// of control groups limits memory.
    pub fn limit_memory(&self, bytes: Option<u64>) -> Result<u64, Error> {
        *self.squeezed.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
        let bytes = bytes.unwrap_or(self.spec.memory_bytes);
        Ok(cgroup::limit_memory(&self.spec.cgroup, bytes)?.unwrap_or(bytes))
    }

    /// Whether its processes have been stopped.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Asks the node to end, as TERM does on a machine: a program that does not handle TERM ends at once.
    ///
    /// The program is the first process of its namespace, which the kernel shields from every signal that it does not
    /// handle but KILL; so KILL takes the place of TERM's default action.
    pub fn terminate(&self) -> Result<(), Error> {
        let wanted = self.spec.stop_signal.unwrap_or(libc::SIGTERM);
        let handled = self.read_proc("status").is_ok_and(|status| heeds(&status, wanted));
        self.signal(if handled { wanted } else { libc::SIGKILL })
    }

    /// How the node's first process ended, if it has.
    pub fn try_wait(&self) -> Option<ExitStatus> {
        self.process.try_wait()
    }

    /// Waits until the node's first process has ended, at most for `limit`.
    pub fn wait(&self, limit: Option<Duration>) -> Option<ExitStatus> {
        self.process.wait(limit)
    }

    /// Whether the kernel's OOM killer ended a process of this node since the node was last created.
    pub fn oom_killed(&self) -> bool {
        cgroup::oom_kills(&self.spec.cgroup) > self.oom_before
    }

    /// Whether a program listens on a TCP port of the node, on any of its addresses. No connection is made.
    pub fn listening(&self, port: u16) -> bool {
        ["net/tcp", "net/tcp6"].iter().any(|file| self.read_proc(file).is_ok_and(|text| listens(&text, port)))
    }

    /// The text of a file of the first process's `/proc` directory, such as `net/netstat` (the node's counters).
    pub fn read_proc(&self, file: &str) -> io::Result<String> {
        self.process.read(file)
    }

    /// Opens a regular file of the node for reading, also after the node has ended.
    pub fn read_file(&self, path: &Path) -> io::Result<File> {
        match &self.mounted {
            Some(mounted) => mounted.root.read(path),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The directory with all that the node has written, for [`crate::save`]: on its disk, where it has one.
    pub fn written(&self) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let disk = match (&self.mounted, self.has_disk()) {
            (None, _) => {
                let what = "has no power, so that nobody reads what it has written".into();
                return Err(Error::Node { node: self.name().into(), what });
            }
            (Some(mounted), true) => mounted.disk.as_ref(),
            (Some(_), false) => None,
        };
        match disk {
            Some(disk) => disk.top(),
            None => {
                let dir = prepare::writes(&self.enclosure, &self.spec);
                openat(CWD, &dir, flags, Mode::empty()).map_err(|e| Error::file("open", &dir, e))
            }
        }
    }

    /// Whether it has a disk of its own.
    pub fn has_disk(&self) -> bool {
        self.spec.disk.is_some()
    }

    /// Ends the node as the loss of power does: all its processes, at once, whatever they wait for.
    pub fn cut_off(&self) -> Result<(), Error> {
        self.signal(libc::SIGKILL)?;
        // The kernel ends the others when the first has ended, which may wait for its disk.
        let of_node = || cgroup::processes(&self.spec.cgroup);
        let pid = |pid: u32| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?);
        let open = |id: u32| Some((id, pidfd_open(pid(id)?, PidfdFlags::empty()).ok()?));
        let open: Vec<_> = of_node().into_iter().filter_map(open).collect();
        // A number may have become another process's, but not one that is in the group once more.
        let still = of_node();
        for (_, process) in open.iter().filter(|(id, _)| still.contains(id)) {
            // One that has ended meanwhile is fine.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        Ok(())
    }

    /// Takes away all that the node sees, its disk's file system with it; what that has not written is lost.
    ///
    /// # Errors
    /// If the node still runs.
    pub fn unmount(&mut self) -> Result<(), Error> {
        self.must_have_ended()?;
        self.mounted = None;
        // The enclosure's thread leaves the node's mounts, if it is the last there.
        self.enclosure.call(|| ())
    }

    /// Mounts its disk, whose file system recovers, and its root again, after [`Node::unmount`].
    pub fn mount_again(&mut self) -> Result<(), Error> {
        if self.mounted.is_none() {
            self.mounted = Some(mount(&self.enclosure, &self.spec, false)?);
        }
        Ok(())
    }

    /// Writes out what the node, or who made it, has written and its disk does not have yet; nothing without a disk.
    pub fn sync_disk(&self) -> Result<(), Error> {
        self.mounted.as_ref().and_then(|mounted| mounted.disk.as_ref()).map_or(Ok(()), Volume::sync)
    }

    /// Runs a command in the node: its namespaces, its cgroup, its capabilities.
    ///
    /// # Errors
    /// [`Error::Node`] if the node has ended, is paused or has no such program.
    pub fn exec(&self, spec: ExecSpec) -> Result<Exec, Error> {
        if self.is_paused() {
            let what = "is paused, and so would be what is run in it: resume it first".into();
            return Err(Error::Node { node: self.name().into(), what });
        }
        let tag = format!("exec-{}", self.execs.fetch_add(1, Ordering::Relaxed));
        let process = bundle::process(&spec.argv, &prepare::environment(&self.spec.env), &self.spec.cwd, (0, 0));
        let text = serde_json::to_string(&process).map_err(io::Error::from);
        let file = self.enclosure.staging.join("nodes").join(self.name()).join(format!("{tag}.json"));
        let (path, text) = (file.clone(), text.context(|| "cannot describe a process".into())?);
        self.enclosure.call(move || std::fs::write(&path, text))?.map_err(|e| Error::file("write", &file, e))?;
        let mut streams = [spec.stdin, spec.stdout, spec.stderr];
        for stream in &mut streams {
            if is_null(stream).context(|| "cannot look at a stream of a command".into())? {
                *stream = self.enclosure.null().context(|| "cannot open /dev/null".into())?;
            }
            give(&self.spec, &*stream)?;
        }
        let fds = streams.into_iter().chain(spec.preserve).collect();
        let verb = ["exec", "--detach", "--process", &file.to_string_lossy()];
        self.request(&tag, self.generation).process(&verb, fds).map(Exec)
    }

    /// Creates the container again after the node has ended; its files are as it left them.
    pub fn create_again(&mut self, io: Io) -> Result<(), Error> {
        self.must_have_ended()?;
        self.mount_again()?;
        self.oom_before = cgroup::oom_kills(&self.spec.cgroup);
        let Some(Mounted { mounts, .. }) = &self.mounted else { return Ok(()) };
        let (process, gate) = create(&self.enclosure, mounts, &self.runtime, &self.spec, self.generation + 1, io)?;
        (self.process, self.gate) = (process, Mutex::new(gate));
        self.generation += 1;
        let squeezed = *self.squeezed.lock().unwrap_or_else(PoisonError::into_inner);
        squeezed.map_or(Ok(()), |bytes| self.limit_memory(Some(bytes)).map(drop))
    }

    fn must_have_ended(&self) -> Result<(), Error> {
        match self.try_wait() {
            Some(_) => Ok(()),
            None => {
                Err(Error::Node { node: self.name().into(), what: "still runs, so it cannot be created again".into() })
            }
        }
    }

    /// Kills the node and unmounts its root, which is nowhere but among its own mounts. What it wrote stays in
    /// the run's state directory.
    pub fn delete(self) -> Result<(), Error> {
        self.signal(libc::SIGKILL)?;
        if self.wait(Some(Duration::from_secs(5))).is_none() {
            return Err(Error::Node { node: self.name().into(), what: "does not end although it was killed".into() });
        }
        let bundle = self.enclosure.staging.join("nodes").join(self.name());
        let enclosure = Arc::clone(&self.enclosure);
        drop(self);
        enclosure.call(move || std::fs::remove_dir_all(&bundle).map_err(|e| Error::file("remove", &bundle, e)))?
    }

    fn request<'a>(&'a self, tag: &'a str, generation: u32) -> Request<'a> {
        request(&self.enclosure, &self.runtime, self.name(), tag, generation)
    }
}

/// A command that joined a node.
#[derive(Debug)]
pub struct Exec(Tracked);

impl Exec {
    /// The process, as the run's PID namespace numbers it.
    pub fn pid(&self) -> i32 {
        self.0.pid
    }

    /// How it ended, if it has.
    pub fn try_wait(&self) -> Option<ExitStatus> {
        self.0.try_wait()
    }

    /// Waits until it has ended, at most for `limit`; none also if the whole enclosure is gone.
    pub fn wait(&self, limit: Option<Duration>) -> Option<ExitStatus> {
        self.0.wait(limit)
    }

    /// Whether how it ends will never be known, because the whole enclosure is gone.
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    /// Sends it a signal; nothing happens if it has ended.
    pub fn signal(&self, signal: i32) -> Result<(), Error> {
        self.0.signal(signal).context(|| format!("cannot send signal {signal} to a command in a node"))
    }

    /// Kills it with those that it has started and that have not left its process group.
    pub fn kill(&self) -> Result<(), Error> {
        self.0.signal_group(libc::SIGKILL).context(|| "cannot kill a command in a node".into())
    }

    /// Sends a signal to it and to those that it has started and that have not left its process group.
    pub fn signal_group(&self, signal: i32) -> Result<(), Error> {
        self.0.signal_group(signal).context(|| format!("cannot send signal {signal} to a command in a node"))
    }
}

/// Mounts what a node sees: for the first time, or what it has left on its disk.
fn mount(shared: &Arc<Shared>, spec: &NodeSpec, first: bool) -> Result<Mounted, Error> {
    let mounts = shared.mounts()?;
    let (root, disk) = shared.call_among(&mounts, {
        let (shared, spec) = (Arc::clone(shared), spec.clone());
        move || prepare::prepare(&shared, &spec, first)
    })??;
    Ok(Mounted { root, disk, mounts })
}

fn create(
    shared: &Arc<Shared>,
    mounts: &Arc<MountNamespace>,
    runtime: &Runtime,
    spec: &NodeSpec,
    generation: u32,
    io: Io,
) -> Result<(Tracked, Option<File>), Error> {
    let name = spec.name.as_str();
    for output in [&io.stdout, &io.stderr] {
        give(spec, output)?;
    }
    let null = shared.null().context(|| "cannot open /dev/null".into())?;
    let fds = [null, io.stdout.into(), io.stderr.into()].into_iter().chain(io.preserve).collect();
    let bundle = shared.staging.join("nodes").join(name);
    let bundle = bundle.to_string_lossy();
    let verb: &[&str] = match io.gate {
        Some(_) => &["run", "--detach", "--bundle", &bundle],
        None => &["create", "--bundle", &bundle],
    };
    let request = Request { mounts: Some(mounts), ..request(shared, runtime, name, "create", generation) };
    let process = request.process(verb, fds)?;
    without_devices(shared, name, &process)?;
    Ok((process, io.gate))
}

/// Takes setuid bits and devices from the root of a node, in which no program runs yet: crun mounts it once more, and
/// leaves out that it was mounted without them.
fn without_devices(shared: &Shared, name: &str, process: &Tracked) -> Result<(), Error> {
    let Some(proc) = process.directory() else { return Ok(()) };
    let mounts = match MountNamespace::of(proc) {
        Ok(mounts) => Arc::new(mounts),
        // One that has ended has no namespaces; its end is told.
        Err(_) if process.try_wait().is_some() => return Ok(()),
        Err(e) => return Err(e),
    };
    let flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
    let remount = move || rustix::mount::mount_remount("/", flags, c"");
    shared.call_among(&mounts, remount)?.context(|| format!("node {name}: cannot take devices from its root"))
}

/// Whether it is the null device, by whatever file.
fn is_null(stream: &OwnedFd) -> io::Result<bool> {
    let found = rustix::fs::fstat(stream)?;
    let is_device = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
    Ok(is_device && found.st_rdev == rustix::fs::makedev(1, 3))
}

/// Lets a node's programs open a pipe or a terminal of theirs once more, by `/dev/stdout`: its owner is the host's
/// root.
fn give(spec: &NodeSpec, stream: impl AsFd) -> Result<(), Error> {
    /// Terminals (`UNIX98_PTY_SLAVE_MAJOR` and those behind it), and the group that they belong to by custom.
    const TERMINALS: std::ops::Range<u32> = 136..144;
    const OF_TERMINALS: u32 = 5;
    let Some(users) = spec.netns.users() else { return Ok(()) };
    let failed = || format!("node {}: cannot give it an output", spec.name);
    let found = rustix::fs::fstat(&stream).context(failed)?;
    let group = match FileType::from_raw_mode(found.st_mode) {
        FileType::Fifo => 0,
        FileType::CharacterDevice if TERMINALS.contains(&rustix::fs::major(found.st_rdev)) => OF_TERMINALS,
        _ => return Ok(()),
    };
    let (user, group) = (Uid::from_raw(users.root()), Gid::from_raw(users.root() + group));
    rustix::fs::fchown(stream, Some(user), Some(group)).context(failed)
}

fn request<'a>(
    enclosure: &'a Arc<Shared>,
    runtime: &'a Runtime,
    node: &'a str,
    tag: &'a str,
    generation: u32,
) -> Request<'a> {
    Request { enclosure, mounts: None, runtime, node, tag, id: format!("{node}.{generation}") }
}

/// Does `work` for each item, a few at a time, in threads of its own; gives the results in order, or the first error.
pub fn in_parallel<T: Send, R: Send, E: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    /// A runtime mostly waits for the kernel: more than this many at once gain nothing (measured).
    const AT_ONCE: usize = 4;
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || {
        let mut done = Vec::new();
        while let Some((place, item)) = next() {
            let result = work(item);
            let failed = result.is_err();
            done.push((place, result));
            if failed {
                break;
            }
        }
        done
    };
    let mut done: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        let join = |w: std::thread::ScopedJoinHandle<'_, _>| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
        workers.into_iter().flat_map(join).collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Whether the process with this `/proc/PID/status` catches or ignores a signal.
fn heeds(status: &str, signal: i32) -> bool {
    let has = |field: &str| {
        let mask = status.lines().find_map(|l| l.strip_prefix(field))?;
        Some(u64::from_str_radix(mask.trim(), 16).ok()? & (1 << (signal - 1)) != 0)
    };
    has("SigCgt:") == Some(true) || has("SigIgn:") == Some(true)
}

#[cfg(test)]
mod tests {
    use super::heeds;

    #[test]
    fn a_caught_signal_is_told_from_one_with_its_default_action() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000004002\n";
        assert!(heeds(status, 15) && heeds(status, 2) && heeds(status, 13));
        assert!(!heeds(status, 1) && !heeds(status, 9));
    }
}
