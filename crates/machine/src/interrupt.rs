//! INT, TERM and HUP: requests to end, received between two steps of a run, so that everything is torn down in order.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Signals within this time are one request: both the kernel and the shell send one when a terminal closes.
const ONE_REQUEST: Duration = Duration::from_millis(300);

/// While a run is set up, it has so long to end in order; then the process ends, whatever it waits for.
const SETTING_UP: Duration = Duration::from_millis(700);

/// So long it is waited for what is left to be removed.
const SWEEPING: Duration = Duration::from_millis(900);

/// The word by which the process becomes one that removes what is left.
pub(crate) const SWEEP: &str = "__sweep";
/// The exit code of a run that was asked to end.
const INTERRUPTED: i32 = 130;

/// The last act of a process that ends while it sets a run up.
type LastWords = Box<dyn FnOnce() + Send>;

/// Whether a run is being set up; and if so, with which last words.
static SETTING: Mutex<Option<LastWords>> = Mutex::new(None);

/// From now on a run is set up: an experiment is read, an image fetched or unpacked, cores are waited for, nodes made.
/// All this waits for files, other processes and the kernel, and looks for no interrupt meanwhile, so a signal that
/// asks to end has the process end within 2 s, after `last_words`, and remove what is left.
pub fn setting_up(last_words: impl FnOnce() + Send + 'static) {
    *SETTING.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(last_words));
}

/// The run goes on by itself: it looks for interrupts, and is torn down in order.
pub fn set_up() {
    *SETTING.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

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
            if first.is_none() {
                // If there can be no thread, a second signal still ends the process.
                let _ = thread::Builder::new().name("set-up".into()).spawn(end_setting_up);
            }
            let since = first.get_or_insert_with(Instant::now).elapsed();
            if send.try_send(signal).is_err() && signal != SIGHUP && since > ONE_REQUEST {
                std::process::exit(INTERRUPTED);
            }
        }
    })?;
    // Only that thread is to be interrupted: system calls of all others (this one, and those that it will start) would
    // fail with EINTR wherever a signal happened to find them.
    mask(libc::SIG_BLOCK, &heeded)?;
    Ok(receive)
}

/// The process that has ended while it set a run up becomes this: it has a process of its own remove what the kernel
/// does not, and ends when that is done, or takes too long for who waits. `is_sweeper`: it is that process.
pub(crate) fn sweep_and_exit(is_sweeper: bool) -> ! {
    if is_sweeper {
        crate::sweep::sweep();
        std::process::exit(0);
    }
    let until = Instant::now() + SWEEPING;
    let mut sweeper = Command::new("/proc/self/exe");
    sweeper.args([SWEEP, "all"]).process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // If there can be none, the next command does it.
    if let Ok(mut sweeper) = sweeper.spawn() {
        while Instant::now() < until && matches!(sweeper.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
    }
    std::process::exit(INTERRUPTED);
}

/// Ends the process if it still sets a run up when the time for that is over.
fn end_setting_up() {
    thread::sleep(SETTING_UP);
    let last_words = SETTING.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(last_words) = last_words {
        last_words();
        // All other threads end here, and with them the run that they were making: it dies with the thread that made
        // it. What is left then is for whoever is no part of it.
        let _failed = Command::new("/proc/self/exe").arg(SWEEP).exec();
        std::process::exit(INTERRUPTED);
    }
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
