//! Why the machine did not do what was asked, told by what can be done about it.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// How a container is to be started in which experiments run: with all rights and the machine's own control groups.
pub(crate) const CONTAINER: &str = "`--privileged --cgroupns=host`";

/// A thing that this machine lacks, withholds or already uses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{what}; {help}")]
pub struct Lack {
    /// The thing that is lacking or in use.
    pub what: String,
    /// The command or setting that helps.
    pub help: String,
}

impl Lack {
    /// A lack, and what helps.
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Lack {
        Lack { what: what.into(), help: help.into() }
    }
}

/// A failure of this room. The mechanisms' own errors have the same three kinds.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller asks for something that cannot be.
    #[error("{0}")]
    Input(String),
    /// The machine lacks, withholds or already uses something.
    #[error(transparent)]
    Machine(#[from] Lack),
    /// A system call failed that should not.
    #[error("{what}: {source}")]
    System {
        /// The attempt, as in `cannot make a network namespace`.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    /// A failed system call. Where the reason is one that the user can help, it is a [`Lack`].
    pub fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Error {
        let (what, source) = (what.into(), source.into());
        // Libraries pass on the kind of an error, not always its number.
        let full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let help = match source.raw_os_error() {
            _ if full => "make room (`df -h` and `df -i` show where), then run again".into(),
            Some(libc::EPERM | libc::EACCES) => {
                format!("run as root with all capabilities (`sudo diorama …`); a container needs {CONTAINER}")
            }
            Some(libc::EMFILE | libc::ENFILE) => "raise the limit on open files (`ulimit -Hn 65536`)".into(),
            _ => return Error::System { what, source },
        };
        Lack::new(format!("{what}: {source}"), help).into()
    }

    /// A file operation on `path` that failed: `verb` is `read`, `make`, ….
    pub fn file(verb: &str, path: &Path, source: impl Into<io::Error>) -> Error {
        Error::system(format!("cannot {verb} {}", path.display()), source)
    }
}

/// Adds what was tried to a failed system call.
pub trait Context<T> {
    /// `what` is a clause such as `cannot open /dev/null`.
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|e| Error::system(what(), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_can_help_comes_with_its_help() {
        let of = |errno| Error::system("cannot do it", io::Error::from_raw_os_error(errno));
        for (errno, help) in [(libc::EPERM, "run as root"), (libc::EMFILE, "ulimit -Hn"), (libc::ENOSPC, "df -h")] {
            let error = of(errno);
            assert!(matches!(error, Error::Machine(_)) && error.to_string().contains(help), "{error}");
        }
        assert!(matches!(of(libc::EINVAL), Error::System { .. }));
    }
}
