//! INT and TERM: a wish to end, heard between two steps of a run, so that everything is torn down in order.

use std::io;
use std::thread;

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Hears INT, TERM and HUP from now on. A second one ends the process at once; the kernel then removes all that lives,
/// and the next command what does not.
pub fn listen() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let (send, receive) = bounded(1);
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if send.try_send(signal).is_err() {
                std::process::exit(130);
            }
        }
    })?;
    // Only that thread is to be interrupted: system calls of all others (this one, and those that it will start) would
    // fail with EINTR wherever a signal happened to find them.
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before anything reads it; the other calls only read it.
    let rc = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut())
    };
    if rc != 0 {
        return Err(io::Error::from_raw_os_error(rc));
    }
    Ok(receive)
}
