//! A tree under systemd, which owns all control groups of its machine and hands parts of them over: a *scope* that is
//! delegated (systemd's "Control Group APIs and Delegation"). It is at the root, beside all slices, so that the weight
//! of a tree counts against everything else on a core.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::files::MEMBERS;
use crate::error::{CONTAINER, Error, Lack};

/// The end of a scope's name.
pub(super) const SUFFIX: &str = ".scope";
/// The group in it of the process without which systemd would take an empty scope back.
const KEEPER: &str = "keeper";
/// How long systemd may take to make one, and to remove one.
const PATIENCE: Duration = Duration::from_secs(10);
const TO_END: Duration = Duration::from_secs(2);

/// Whether systemd runs this machine (sd_booted(3)).
pub(super) fn systemd_runs() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Has systemd make the scope whose group is `top`. It ends with the last process in it, and with this process if that
/// is the only one.
pub(super) fn start(top: &Path) -> Result<(), Error> {
    let name = top.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut keeper = keeper().map_err(|e| Error::system("cannot start `cat`, which keeps a scope", e))?;
    let started = ask(name, keeper.id()).and_then(|()| settle(top, keeper.id()));
    match started {
        // It waits for the end of its input, which comes with that of this process; who removes the scope ends it.
        Ok(()) => std::mem::forget(keeper),
        Err(_) => {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
    }
    started
}

fn keeper() -> std::io::Result<Child> {
    let mut command = Command::new("cat");
    // A group of its own: a terminal's interrupt is not for it.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn()
}

/// Lets systemd remove the scope whose group is `top`, in which there is nothing any more. Whoever removes the group
/// before systemd has heard of that leaves a scope that seems to run for ever. Where it takes long, it is asked to.
pub(super) fn await_end(top: &Path) {
    let deadline = Instant::now() + TO_END;
    while top.exists() {
        if Instant::now() > deadline {
            let name = top.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // Who removes the group then sees whether it helped.
            let _ = call("StopUnit").args(["ss", name, "replace"]).stdin(Stdio::null()).output();
            return;
        }
        sleep(Duration::from_millis(2));
    }
}

/// A call of systemd, to which the types of arguments and these are added.
fn call(method: &str) -> Command {
    let to = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", method];
    let mut call = Command::new("busctl");
    call.args(["--system", "--quiet", "call", "--"]).args(to);
    call
}

fn ask(name: &str, keeper: u32) -> Result<(), Error> {
    let mut call = call("StartTransientUnit");
    call.args(["ssa(sv)a(sa(sv))", name, "fail", "6"]);
    call.args(["PIDs", "au", "1", &keeper.to_string(), "Slice", "s", "-.slice", "Delegate", "b", "true"]);
    call.args(["CPUWeight", "t", "10000", "Description", "s", "a run of diorama"]);
    // However it ends, it is forgotten.
    call.args(["CollectMode", "s", "inactive-or-failed", "0"]);
    let lack = |why: String| {
        let help = "see `systemctl status dbus`; as root, outside any container, `busctl --system status` must answer";
        Error::Machine(Lack::new(format!("systemd gave no control group for a run: {why}"), help))
    };
    let output = call.stdin(Stdio::null()).output().map_err(|e| lack(format!("busctl: {e}")))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(lack(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Waits for the scope, and moves the keeper from its top, which may have no processes of its own.
fn settle(top: &Path, keeper: u32) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    let there = |group: &Path| {
        let members = fs::read_to_string(group.join(MEMBERS)).unwrap_or_default();
        members.lines().any(|pid| pid.parse() == Ok(keeper))
    };
    while !there(top) {
        if Instant::now() > deadline {
            let what = format!("systemd made no control group {} within {} s", top.display(), PATIENCE.as_secs());
            return Err(Error::Machine(Lack::new(what, "see `journalctl -b _PID=1`")));
        }
        sleep(Duration::from_millis(2));
    }
    let home = top.join(KEEPER);
    fs::create_dir(&home).map_err(|source| match source.raw_os_error() {
        // systemd can do there what this process cannot.
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => {
            let what = format!("cannot make control groups in {}: {source}", top.display());
            Error::Machine(Lack::new(what, format!("run on the host itself, or in a container with {CONTAINER}")))
        }
        _ => Error::file("make the control group", &home, source),
    })?;
    let members = home.join(MEMBERS);
    fs::write(&members, keeper.to_string()).map_err(|e| Error::file("write to", &members, e))
}
