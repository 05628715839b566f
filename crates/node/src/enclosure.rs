//! The enclosure of a run: everything that must vanish with the engine lives in here.
//!
//! A dedicated thread unshares the mount and PID namespaces and starts PID 1 (see [`crate::init_main`]).
//! Mounts are made and processes are started *from that thread*, so they belong to the enclosure.
//! Linux does not let such a thread create threads, and its `/proc` is not that of the engine.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use host::{Lack, cgroup, descriptors};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chmodat, makedev, mknodat, openat};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;

use crate::error::{Context, Error};
use crate::exits::{Exit, Exits};
use crate::init;
use crate::mount_namespace::MountNamespace;
use crate::spawn::{self, Spawned};

/// A directory whose parents all may enter, over which an enclosure can mount something of its own.
const OPEN_TO_ALL: &str = "/run/diorama";

type Job = Box<dyn FnOnce() + Send>;

/// How to open an [`Enclosure`].
#[derive(Clone, Debug)]
pub struct EnclosureOptions {
    /// A directory of this run alone, on a disk file system; made if it is missing. The nodes' own files are kept in
    /// it. The caller removes it when the enclosure is gone (see [`crate::remove_tree`]).
    pub state: PathBuf,
    /// The program that answers to the verb `__init` by calling [`crate::init_main`]: `/proc/self/exe` in the engine.
    pub init: PathBuf,
    /// The core on which the enclosure's own processes (PID 1, the runtime) run, so that they disturb no node.
    pub core: Option<usize>,
    /// Paths of the host that no node may see, beside those that no node ever sees: the experiment's and the results'
    /// folders.
    pub hide: Vec<PathBuf>,
    /// Whether nodes have user namespaces ([`host::NetNamespace::users`]).
    pub user_namespaces: bool,
}

/// A private mount namespace and PID namespace; dropping it kills every process and removes every mount in it.
#[derive(Debug)]
pub struct Enclosure {
    pub(crate) shared: Arc<Shared>,
    init: Spawned,
    exits: Receiver<Exit>,
    thread: Option<JoinHandle<()>>,
}

/// State that the enclosure and its nodes share.
#[derive(Debug)]
pub(crate) struct Shared {
    jobs: Sender<Option<Job>>,
    pub(crate) exits: Exits,
    /// The mounts that all nodes see copies of.
    home: MountNamespace,
    /// The `/proc` of the host, in which the enclosure's thread is.
    host_proc: OwnedFd,
    /// The `/proc` of the enclosure's PID namespace.
    pub(crate) proc: OwnedFd,
    /// The run's directory on disk.
    pub(crate) state: PathBuf,
    /// A file system in memory that exists in the enclosure only: bundles, layers, the runtime's state.
    pub(crate) staging: PathBuf,
    /// Likewise, for threads outside.
    pub(crate) staging_dir: OwnedFd,
    /// A directory with a `/dev/null` of the run's own.
    devices: OwnedFd,
    pub(crate) hide: Vec<PathBuf>,
    pub(crate) once: crate::host_view::Once,
}

impl Enclosure {
    /// Opens an enclosure.
    ///
    /// # Errors
    /// [`Error::Machine`] if the machine or the user's rights do not allow it.
    pub fn open(options: EnclosureOptions) -> Result<Enclosure, Error> {
        let staging = options.state.join("staging");
        std::fs::create_dir_all(&staging).map_err(|e| Error::file("make", &staging, e))?;
        let state = options.state.canonicalize().map_err(|e| Error::file("find", &options.state, e))?;
        let staging = state.join("staging");
        // Nobody but root may enter the state's directory, and a node's root is nobody there: what it makes its
        // container of lies where all may.
        let open_to_all = options.user_namespaces.then(|| PathBuf::from(OPEN_TO_ALL));
        if let Some(place) = &open_to_all {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(place)
                .map_err(|e| Error::file("make", place, e))?;
            raise_locked_memory();
        }

        let (jobs, queue) = crossbeam_channel::unbounded::<Option<Job>>();
        let (ready, opened) = crossbeam_channel::bounded(1);
        let thread = std::thread::Builder::new()
            .name("enclosure".into())
            .spawn({
                let (init, core, staging) = (options.init.clone(), options.core, staging.clone());
                let open_to_all = open_to_all.clone();
                move || {
                    let inside = enter(&init, core, &staging, open_to_all.as_deref());
                    let entered = inside.is_ok();
                    let _ = ready.send(inside);
                    // Leaving this loop ends the thread, and with it (PDEATHSIG) PID 1.
                    while let (true, Ok(Some(job))) = (entered, queue.recv()) {
                        job();
                    }
                }
            })
            .context(|| "cannot start the enclosure's thread".into())?;
        let inside = opened.recv().map_err(|_| Error::Node {
            node: "(all)".into(),
            what: "the enclosure's thread ended without a word".into(),
        })??;

        let (send, exits) = crossbeam_channel::unbounded();
        let shared = Arc::new(Shared {
            jobs,
            exits: Exits::default(),
            home: inside.home,
            host_proc: inside.host_proc,
            proc: inside.proc,
            state,
            staging: open_to_all.unwrap_or(staging),
            staging_dir: inside.staging,
            devices: inside.devices,
            hide: options.hide,
            once: Default::default(),
        });
        std::thread::Builder::new()
            .name("exits".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.exits.follow(inside.socket, &send)
            })
            .context(|| "cannot start the thread that hears of exits".into())?;
        Ok(Enclosure { shared, init: inside.init, exits, thread: Some(thread) })
    }

    /// Runs `work` on the enclosure's thread: its mounts, its `/proc`, its processes.
    ///
    /// # Errors
    /// If the enclosure is gone, or `work` panicked.
    pub fn call<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, Error> {
        self.shared.call(work)
    }

    /// Starts a helper (such as the keeper of shares) inside the enclosure, in a process group of its own. It dies with
    /// the enclosure; wait for it after dropping the enclosure, or before.
    pub fn spawn(&self, mut command: Command) -> Result<Child, Error> {
        let what = format!("cannot start {command:?}");
        self.call(move || command.process_group(0).spawn())?.context(|| what)
    }

    /// Starts a command in a session of its own, which it could not have later with a group of its own.
    pub fn spawn_in_session(&self, mut command: Command) -> Result<Child, Error> {
        let what = format!("cannot start {command:?}");
        // SAFETY: between fork and exec this makes one system call; it takes no lock and allocates nothing.
        unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
        self.call(move || command.spawn())?.context(|| what)
    }

    /// Every container and executed command that ends, in order. Each exit is received once, whoever receives it.
    pub fn exits(&self) -> &Receiver<Exit> {
        &self.exits
    }

    /// The `/proc` of the enclosure: `openat(proc, "PID/net/snmp")` works from any thread.
    pub fn proc(&self) -> BorrowedFd<'_> {
        self.shared.proc.as_fd()
    }

    /// The text of a file below the enclosure's `/proc`, such as `17/net/netstat`.
    pub fn read_proc(&self, path: &str) -> io::Result<String> {
        descriptors::read_at(self.proc(), path)
    }
}

impl Drop for Enclosure {
    fn drop(&mut self) {
        let _ = self.shared.jobs.send(None);
        let _ = self.init.kill();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // The kernel ends PID 1 only after every process below it, which takes seconds on a busy machine, and after
        // every helper has been waited for, which may be the caller's next step: do not wait for ever.
        let end = Instant::now() + Duration::from_secs(20);
        while matches!(self.init.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Shared {
    /// See [`Enclosure::call`].
    pub(crate) fn call<R: Send + 'static>(
        self: &Arc<Shared>,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Error> {
        let shared = Arc::clone(self);
        self.send(move || shared.home.enter().map(|()| work()))?
    }

    /// Calls a function among the mounts of a node.
    pub(crate) fn call_among<R: Send + 'static>(
        &self,
        mounts: &Arc<MountNamespace>,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Error> {
        let mounts = Arc::clone(mounts);
        self.send(move || mounts.enter().map(|()| work()))?
    }

    /// The run's own `/dev/null`, for reading and writing: who has a descriptor of the host's, and is root in a node,
    /// can change its mode, for all programs of the host.
    pub(crate) fn null(&self) -> io::Result<OwnedFd> {
        Ok(openat(&self.devices, "null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// A mount namespace for a node.
    pub(crate) fn mounts(self: &Arc<Shared>) -> Result<Arc<MountNamespace>, Error> {
        let shared = Arc::clone(self);
        self.call(move || MountNamespace::copy(&shared.host_proc))?.map(Arc::new)
    }

    /// Runs `work` on the enclosure's thread, in whatever namespace that is.
    fn send<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, Error> {
        let gone = || Error::System { what: "the enclosure of the run".into(), source: io::Error::other("is gone") };
        let (send, receive) = crossbeam_channel::bounded(1);
        let job: Job = Box::new(move || {
            // A panic must not end the thread, and with it every node; the caller sees the closed channel.
            if let Ok(result) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
                let _ = send.send(result);
            }
        });
        self.jobs.send(Some(job)).map_err(|_| gone())?;
        receive.recv().map_err(|_| gone())
    }
}

/// Makes a file system in memory with a `/dev/null`, and opens it.
fn devices_in(place: &Path) -> Result<OwnedFd, Error> {
    let failed = |e: rustix::io::Errno| Error::file("make a /dev/null in", place, e);
    std::fs::create_dir(place).map_err(|e| Error::file("make", place, e))?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    rustix::mount::mount("diorama", place, "tmpfs", flags, Some(c"mode=0755,size=64k")).map_err(failed)?;
    let open = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let devices = openat(CWD, place, open, Mode::empty()).map_err(failed)?;
    let everybodys = Mode::from_raw_mode(0o666);
    mknodat(&devices, "null", FileType::CharacterDevice, everybodys, makedev(1, 3)).map_err(failed)?;
    // A mode regardless of the umask.
    chmodat(&devices, "null", everybodys, AtFlags::empty()).map_err(failed)?;
    Ok(devices)
}

/// Lets this process, and nodes with it, lock as much memory as it may. In a user namespace CAP_IPC_LOCK does not
/// count.
fn raise_locked_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let none = Rlimit { current: None, maximum: None };
    // Without CAP_SYS_RESOURCE: up to what is allowed.
    if setrlimit(Resource::Memlock, none).is_err() {
        let most = getrlimit(Resource::Memlock).maximum;
        let _ = setrlimit(Resource::Memlock, Rlimit { current: most, maximum: most });
    }
}

/// Handles that the enclosure's thread gives out once it is inside.
struct Inside {
    init: Spawned,
    socket: OwnedFd,
    home: MountNamespace,
    host_proc: OwnedFd,
    proc: OwnedFd,
    staging: OwnedFd,
    devices: OwnedFd,
}

/// Moves the calling thread into new namespaces and starts their PID 1.
fn enter(init: &Path, core: Option<usize>, staging: &Path, open_to_all: Option<&Path>) -> Result<Inside, Error> {
    if let Some(core) = core {
        host::pin(core).context(|| format!("cannot run on core {core}"))?;
    }
    let directory = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let host_proc = openat(CWD, "/proc", directory, Mode::empty()).context(|| "cannot open /proc".into())?;
    // SAFETY: the flags unshare nothing that another thread of this process relies on sharing: the
    // working directory and root (implied by NEWNS) are never changed by this program.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWPID) }
        .context(|| "cannot make a mount and a PID namespace".into())?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(|e| match e {
        rustix::io::Errno::INVAL => Error::Machine(Lack::new(
            "`/` is no mount point here, as in a chroot, so the nodes' mounts cannot be kept apart from others'",
            "make it one: `mount --bind DIR DIR` before `chroot DIR`",
        )),
        e => Error::system("cannot make the enclosure's mounts private", e),
    })?;
    cgroup::hide_second_version()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("diorama", staging, "tmpfs", flags, Some(c"mode=0755"))
        .map_err(|e| Error::file("mount a file system in memory at", staging, e))?;
    if let Some(place) = open_to_all {
        rustix::mount::mount_bind(staging, place).map_err(|e| Error::file("mount at", place, e))?;
    }
    let devices = devices_in(&staging.join("devices"))?;

    let (ours, theirs) = descriptors::socket_pair().context(|| "cannot make the reaper's socket".into())?;
    let null = descriptors::null().context(|| "cannot open /dev/null".into())?;
    let stderr = io::stderr();
    let argv = [init.to_string_lossy().into_owned(), "__init".into()];
    let init = spawn::spawn(&argv, &[null.as_fd(), null.as_fd(), stderr.as_fd(), theirs.as_fd()])
        .context(|| format!("cannot start the first process of the run ({})", argv[0]))?;
    drop(theirs);

    let mut record = [0; 8];
    let told =
        io::Read::read(&mut File::from(ours.try_clone().context(|| "cannot copy a socket".into())?), &mut record);
    match (told, init::decode(&record)) {
        (Ok(8), (0, 0)) => {}
        (Ok(8), (_, errno)) => {
            let e = io::Error::from_raw_os_error(errno);
            return Err(Error::system("the first process of the run cannot mount /proc", e));
        }
        _ => {
            let what = format!("the first process of the run ({} __init) ended at once", argv[0]);
            return Err(Error::System { what, source: io::ErrorKind::UnexpectedEof.into() });
        }
    }
    let proc = openat(CWD, "/proc", directory, Mode::empty()).context(|| "cannot open the run's /proc".into())?;
    let staging = openat(CWD, staging, directory, Mode::empty()).map_err(|e| Error::file("open", staging, e))?;
    Ok(Inside { init, socket: ours, home: MountNamespace::current(&host_proc)?, host_proc, proc, staging, devices })
}
