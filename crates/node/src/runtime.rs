//! The OCI runtime that makes containers: crun, or else runc.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use host::Lack;

use crate::error::Error;

/// An installed OCI runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    path: PathBuf,
    version: String,
}

/// The runtimes that are known to work, best first: crun needs a third of runc's time.
const KNOWN: [&str; 2] = ["crun", "runc"];

impl Runtime {
    /// The best runtime installed.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is none.
    pub fn detect() -> Result<Runtime, Error> {
        Runtime::available().into_iter().next().ok_or_else(|| {
            Lack::new("no OCI runtime is installed (neither crun nor runc)", "install one: `apt-get install crun`")
                .into()
        })
    }

    /// All runtimes installed, best first.
    pub fn available() -> Vec<Runtime> {
        KNOWN.iter().filter_map(|name| Runtime::find(name)).collect()
    }

    fn find(name: &str) -> Option<Runtime> {
        let path = std::env::var_os("PATH")?;
        let places = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/bin"].map(PathBuf::from));
        let path = places.map(|dir| dir.join(name)).find(|p| is_program(p))?;
        // It would make a directory of its own where a variable says, which may be anybody's.
        let output = Command::new(&path).arg("--version").env_clear().output().ok().filter(|o| o.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next()?.split_whitespace().last()?.into();
        Some(Runtime { path, version })
    }

    /// `crun` or `runc`.
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(OsStr::to_str).unwrap_or_default()
    }

    /// Whether it makes nodes that have user namespaces. runc sets their limits from outside, for which the machine's
    /// root needs CAP_SYS_RESOURCE, and has it nowhere but on a whole machine.
    pub fn makes_user_namespaces(&self) -> bool {
        self.name() == "crun"
    }

    /// Its version, such as `1.8.1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where it is installed.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The runtime's log (one JSON object a line): the messages of errors.
pub(crate) fn messages(log: &str) -> String {
    let message = |line: &str| -> Option<String> {
        let entry: serde_json::Value = serde_json::from_str(line).ok()?;
        let serious = entry["level"].as_str().is_none_or(|l| l == "error" || l == "fatal");
        serious.then(|| entry["msg"].as_str().map(Into::into))?
    };
    log.lines().filter_map(message).collect::<Vec<_>>().join("; ")
}
