//! Work inside another network namespace.

use std::os::fd::BorrowedFd;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Error;

/// Runs `work` on a thread of its own that has entered `netns`; the caller stays where it is.
pub(crate) fn inside<T: Send>(
    netns: BorrowedFd,
    what: &str,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let enter = || {
        move_into_link_name_space(netns, Some(LinkNameSpaceType::Network)).map_err(|e| match e {
            rustix::io::Errno::PERM => Error::Machine {
                what: format!("{what}: not allowed to enter a network namespace"),
                help: "run as root".into(),
            },
            e => Error::system(format!("{what}: cannot enter its network namespace"))(e.into()),
        })?;
        work()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netns".into()).spawn_scoped(scope, enter);
        let thread = thread.map_err(Error::system(format!("{what}: cannot start a thread")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
