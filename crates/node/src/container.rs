//! Asking the runtime for a container or a command in one, and following the process that results.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, openat};

use crate::enclosure::{Shared, read_at};
use crate::error::{Context, Error};
use crate::runtime::{self, Runtime};
use crate::spawn::{self, Spawned};

/// A process of a node that the run's PID 1 will reap.
#[derive(Debug)]
pub(crate) struct Tracked {
    /// As the run's PID namespace numbers it.
    pub(crate) pid: i32,
    /// Its directory in the enclosure's `/proc`; none if it had ended before it was opened.
    proc: Option<OwnedFd>,
    enclosure: Arc<Shared>,
    ended: Mutex<Option<ExitStatus>>,
}

impl Tracked {
    /// How the process ended, if it has.
    pub(crate) fn try_wait(&self) -> Option<ExitStatus> {
        self.wait(Some(Duration::ZERO))
    }

    /// Waits until the process has ended, at most for `limit`.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Option<ExitStatus> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.is_none() {
            *ended = self.enclosure.exits.wait(self.pid, limit);
        }
        *ended
    }

    /// Sends a signal; nothing happens if the process has ended.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        let Some(proc) = &self.proc else { return Ok(()) };
        // A directory of /proc stands for its process as a pidfd does, so that a number used again is no danger.
        // SAFETY: the arguments are a descriptor that we own, a number, a null pointer (no siginfo) and no flags.
        let rc = unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, proc.as_raw_fd(), signal, std::ptr::null::<libc::siginfo_t>(), 0)
        };
        match io::Error::last_os_error() {
            e if rc != 0 && e.raw_os_error() != Some(libc::ESRCH) => Err(e),
            _ => Ok(()),
        }
    }

    /// The text of a file of the process's `/proc` directory, such as `net/tcp`.
    pub(crate) fn read(&self, file: &str) -> io::Result<String> {
        let proc = self.proc.as_ref().ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        read_at(proc, file)
    }
}

/// One request to the runtime.
pub(crate) struct Request<'a> {
    pub(crate) enclosure: &'a Arc<Shared>,
    pub(crate) runtime: &'a Runtime,
    /// The node's name, for messages.
    pub(crate) node: &'a str,
    /// The name of the request among those of the node: its log and PID file are called so.
    pub(crate) tag: &'a str,
    /// The container.
    pub(crate) id: String,
}

impl Request<'_> {
    /// Runs a verb that leaves a process behind, which gets `fds` as its descriptors 0, 1, 2, 3…
    pub(crate) fn process(&self, verb: &[&str], fds: Vec<OwnedFd>) -> Result<Tracked, Error> {
        let pid_file = self.file("pid");
        let preserve = (fds.len() - 3).to_string();
        let path = self.enclosure.stage.join(&pid_file).to_string_lossy().into_owned();
        let mut args = verb.to_vec();
        args.extend(["--pid-file", &path, "--preserve-fds", &preserve]);
        self.finish(self.begin(&args, fds)?)?;

        let stage = &self.enclosure.stage_dir;
        let text = read_at(stage, &pid_file).context(|| format!("the runtime did not name {pid_file}"))?;
        let wrong = |_| Error::Node { node: self.node.into(), what: format!("the runtime gave `{text}` as a process") };
        let pid: i32 = text.trim().parse().map_err(wrong)?;
        // Read and not O_PATH: signals are sent through it.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = openat(&self.enclosure.proc, pid.to_string(), flags, Mode::empty()).ok();
        Ok(Tracked { pid, proc, enclosure: Arc::clone(self.enclosure), ended: Mutex::default() })
    }

    /// Runs a verb that only changes the container.
    pub(crate) fn change(&self, verb: &str) -> Result<(), Error> {
        let null = || spawn::null().context(|| "cannot open /dev/null".into());
        self.finish(self.begin(&[verb], vec![null()?, null()?, null()?])?)
    }

    fn file(&self, kind: &str) -> String {
        format!("nodes/{}/{}.{kind}", self.node, self.tag)
    }

    fn begin(&self, verb: &[&str], fds: Vec<OwnedFd>) -> Result<Spawned, Error> {
        let path = |p: &Path| p.to_string_lossy().into_owned();
        let stage = &self.enclosure.stage;
        let mut argv = vec![path(self.runtime.path()), "--root".into(), path(&stage.join("runtime"))];
        argv.extend(["--log".into(), path(&stage.join(self.file("log"))), "--log-format".into(), "json".into()]);
        argv.extend(verb.iter().map(|a| a.to_string()));
        argv.push(self.id.clone());
        let what = format!("cannot start {}", argv[0]);
        let spawn = move || spawn::spawn(&argv, &fds.iter().map(AsFd::as_fd).collect::<Vec<_>>());
        self.enclosure.call(spawn)?.context(|| what)
    }

    fn finish(&self, runtime: Spawned) -> Result<(), Error> {
        let name = self.runtime.name();
        let status = runtime.wait().context(|| format!("cannot wait for {name}"))?;
        if status.success() {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut log = String::new();
        if let Ok(file) = openat(&self.enclosure.stage_dir, self.file("log"), flags, Mode::empty()) {
            let _ = File::from(file).read_to_string(&mut log);
        }
        let why = match runtime::messages(&log) {
            none if none.is_empty() => format!("it ended with {status}"),
            words => words,
        };
        if why.contains("o space left on device") {
            return Err(Error::system(
                format!("node {}: {why}", self.node),
                io::Error::from_raw_os_error(libc::ENOSPC),
            ));
        }
        Err(Error::Node { node: self.node.into(), what: format!("{name}: {why}") })
    }
}
