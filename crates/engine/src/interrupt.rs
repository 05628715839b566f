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
    Ok(receive)
}
