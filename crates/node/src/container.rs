//! Asking the runtime for a container or a command in one, and following the process that results.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host::descriptors::{null, read_at};
use rustix::fs::{Dir, Mode, OFlags, openat};

use crate::enclosure::Shared;
use crate::error::{Context, Error};
use crate::mount_namespace::MountNamespace;
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

    /// Its directory in the enclosure's `/proc`; none if it had ended before that was opened.
    pub(crate) fn directory(&self) -> Option<&OwnedFd> {
        self.proc.as_ref()
    }

    /// Whether how it ends will never be known, because the enclosure is gone, and it with that.
    pub(crate) fn is_lost(&self) -> bool {
        self.enclosure.exits.over() && self.try_wait().is_none()
    }

    /// Sends a signal; nothing happens if the process has ended.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        self.proc.as_ref().map_or(Ok(()), |proc| send(proc, signal))
    }

    /// Sends a signal to the process, and to those of the process group that the runtime has given it.
    pub(crate) fn signal_group(&self, signal: i32) -> io::Result<()> {
        let Some((_, group, session)) = self.read("stat").ok().as_deref().and_then(standing) else {
            return self.signal(signal);
        };
        // The runtime makes a session for a command. One that is led from outside is not the command's own.
        if group == 0 || group != session {
            return self.signal(signal);
        }
        // A group is known by number only where its namespace is; so its members are looked for, once more after they
        // have been killed, for one may just have started another.
        let rounds = if signal == libc::SIGKILL { 8 } else { 1 };
        for _ in 0..rounds {
            let mut met = false;
            for entry in Dir::read_from(&self.enclosure.proc)?.flatten() {
                if !entry.file_name().to_bytes().iter().all(u8::is_ascii_digit) {
                    continue;
                }
                let Ok(member) = openat(&self.enclosure.proc, entry.file_name(), PROCESS, Mode::empty()) else {
                    continue;
                };
                let state = read_at(&member, "stat").ok().as_deref().and_then(standing);
                if state.is_some_and(|(alive, of, _)| alive && of == group) {
                    met = true;
                    send(&member, signal)?;
                }
            }
            if !met {
                break;
            }
        }
        Ok(())
    }

    /// The text of a file of the process's `/proc` directory, such as `net/tcp`.
    pub(crate) fn read(&self, file: &str) -> io::Result<String> {
        let proc = self.proc.as_ref().ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        read_at(proc, file)
    }
}

/// A process's directory in `/proc`. Read and not O_PATH: signals are sent through it.
const PROCESS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Sends a signal to the process whose directory in `/proc` this is; nothing happens if it has ended.
fn send(proc: &OwnedFd, signal: i32) -> io::Result<()> {
    // Such a directory stands for its process as a pidfd does, so that a number used again is no danger.
    // SAFETY: the arguments are a descriptor that we own, a number, a null pointer (no siginfo) and no flags.
    let rc = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, proc.as_raw_fd(), signal, std::ptr::null::<libc::siginfo_t>(), 0)
    };
    match io::Error::last_os_error() {
        e if rc != 0 && e.raw_os_error() != Some(libc::ESRCH) => Err(e),
        _ => Ok(()),
    }
}

/// Of a process, by its `/proc/PID/stat`: whether it lives, its process group and its session.
fn standing(stat: &str) -> Option<(bool, u32, u32)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let alive = !matches!(fields.next()?, "Z" | "X");
    let mut numbers = fields.skip(1).map_while(|field| field.parse().ok());
    Some((alive, numbers.next()?, numbers.next()?))
}

/// One request to the runtime.
pub(crate) struct Request<'a> {
    pub(crate) enclosure: &'a Arc<Shared>,
    /// The mounts that the runtime sees; none: those of the enclosure.
    pub(crate) mounts: Option<&'a Arc<MountNamespace>>,
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
        let path = self.enclosure.staging.join(&pid_file).to_string_lossy().into_owned();
        let mut args = verb.to_vec();
        args.extend(["--pid-file", &path, "--preserve-fds", &preserve]);
        self.finish(self.begin(&args, fds)?)?;

        let staging = &self.enclosure.staging_dir;
        let text = read_at(staging, &pid_file).context(|| format!("the runtime did not name {pid_file}"))?;
        let wrong = |_| Error::Node { node: self.node.into(), what: format!("the runtime gave `{text}` as a process") };
        let pid: i32 = text.trim().parse().map_err(wrong)?;
        let proc = openat(&self.enclosure.proc, pid.to_string(), PROCESS, Mode::empty()).ok();
        Ok(Tracked { pid, proc, enclosure: Arc::clone(self.enclosure), ended: Mutex::default() })
    }

    /// Runs a verb that only changes the container.
    pub(crate) fn change(&self, verb: &str) -> Result<(), Error> {
        let null = || null().context(|| "cannot open /dev/null".into());
        self.finish(self.begin(&[verb], vec![null()?, null()?, null()?])?)
    }

    fn file(&self, kind: &str) -> String {
        format!("nodes/{}/{}.{kind}", self.node, self.tag)
    }

    fn begin(&self, verb: &[&str], fds: Vec<OwnedFd>) -> Result<Spawned, Error> {
        let path = |p: &Path| p.to_string_lossy().into_owned();
        let staging = &self.enclosure.staging;
        let mut argv = vec![path(self.runtime.path()), "--root".into(), path(&staging.join("runtime"))];
        argv.extend(["--log".into(), path(&staging.join(self.file("log"))), "--log-format".into(), "json".into()]);
        argv.extend(verb.iter().map(|a| a.to_string()));
        argv.push(self.id.clone());
        let what = format!("cannot start {}", argv[0]);
        let spawn = move || spawn::spawn(&argv, &fds.iter().map(AsFd::as_fd).collect::<Vec<_>>());
        let spawned = match self.mounts {
            Some(mounts) => self.enclosure.call_among(mounts, spawn),
            None => self.enclosure.call(spawn),
        };
        spawned?.context(|| what)
    }

    fn finish(&self, runtime: Spawned) -> Result<(), Error> {
        let name = self.runtime.name();
        let status = runtime.wait().context(|| format!("cannot wait for {name}"))?;
        if status.success() {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut log = String::new();
        if let Ok(file) = openat(&self.enclosure.staging_dir, self.file("log"), flags, Mode::empty()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_be_called_what_it_likes() {
        assert_eq!(standing("12 (a) R 1 2) S 1 32 31 0 -1"), Some((true, 32, 31)));
        assert_eq!(standing("12 (sh) Z 1 0 0 0 -1"), Some((false, 0, 0)));
        assert_eq!(standing("12 (sh"), None);
    }
}
