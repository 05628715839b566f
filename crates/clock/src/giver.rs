//! Gives the memfd (clock page and image) to new programs that ask for it.
//!
//! SECCOMP_IOCTL_NOTIF_ADDFD returns only when the asking thread has run and installed the descriptor, and a program in a
//! node may get the CPU only every few milliseconds: the injector must not wait for that. Interrupted by a signal, the
//! ioctl answers the thread with a 0 that is no descriptor. So this is a thread of its own, for each listener, that takes
//! no signals: programs of one command may wait for each other here, but they share a CPU anyway.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};

use crate::notify::{self, Notification};
use crate::{ClockPage, Error};

const STACK: usize = 64 * 1024;

/// A handle to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Giver(mpsc::Sender<Notification>);

impl Giver {
    /// Starts the thread.
    pub fn start(listener: &Arc<OwnedFd>, page: &ClockPage) -> Result<Giver, Error> {
        let (asked, asking) = mpsc::channel();
        let (listener, page) = (listener.clone(), page.clone());
        let serve = move || {
            crate::supervise::block_all();
            for notification in asking {
                answer(&listener, &page, &notification);
            }
        };
        std::thread::Builder::new()
            .name("clock-giver".to_owned())
            .stack_size(STACK)
            .spawn(serve)
            .map_err(Error::system("no thread to give the clock page"))?;
        Ok(Giver(asked))
    }

    /// Answers `notification` when its turn comes.
    pub fn give(&self, notification: Notification) {
        // The thread lives as long as this handle.
        let _ = self.0.send(notification);
    }
}

fn answer(listener: &OwnedFd, page: &ClockPage, n: &Notification) {
    // Anybody may make this call, for what little good it does: the memfd is sealed and read-only.
    let given = notify::give(listener.as_fd(), n.id, page.memfd());
    if let Err(e) = given {
        // Fails if the thread was killed, which needs no answer.
        let _ = notify::refuse(listener.as_fd(), n.id, e.raw_os_error().unwrap_or(libc::ENOSYS));
    }
}
