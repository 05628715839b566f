//! INT, TERM and HUP: requests to end, received between two steps of a run, so that everything is torn down in order.

use std::io;
use std::mem::MaybeUninit;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Signals within this time are one request: both the kernel and the shell send one when a terminal closes.
const ONE_REQUEST: Duration = Duration::from_millis(300);

/// Where requests to end arrive.
pub type Interrupts = Receiver<i32>;

/// Receives INT, TERM and HUP from now on, but for those that this process was started to ignore (`nohup`, a script's
/// `&`). A second INT or TERM ends the process at once; the kernel then removes all that lives, and the next command
/// what does not.
pub fn listen() -> io::Result<Interrupts> {
    let heeded: Vec<i32> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)).collect();
    let mut signals = Signals::new(&heeded)?;
    let (send, receive) = bounded(1);
    let to_hear = heeded.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        // Whoever started this process may have had them blocked, which is inherited.
        let _ = mask(libc::SIG_UNBLOCK, &to_hear);
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            let since = first.get_or_insert_with(Instant::now).elapsed();
            if send.try_send(signal).is_err() && signal != SIGHUP && since > ONE_REQUEST {
                std::process::exit(130);
            }
        }
    })?;
    // Only that thread is to be interrupted: system calls of all others (this one, and those that it will start) would
    // fail with EINTR wherever a signal happened to find them.
    mask(libc::SIG_BLOCK, &heeded)?;
    Ok(receive)
}

/// Blocks or unblocks signals for the calling thread.
fn mask(how: i32, signals: &[i32]) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before anything reads it; the other calls change or only read it.
    let rc = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut())
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(rc)) }
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; the old one is written into `action`, for which zeros are a value too.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
