//! Who serves: one thread for each that waits.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::wire::Arrival;

/// The longest line that a client says.
const LONGEST_LINE: u64 = 256;
/// Stack of a thread of the server, in bytes: thousands of nodes may wait.
const STACK: usize = 64 << 10;

/// All barriers, by name. One at which all were is there anew for the next time.
#[derive(Default)]
struct Barriers(Mutex<HashMap<String, Barrier>>);

/// A barrier at which somebody waits.
#[derive(Default)]
struct Barrier {
    /// For how many to wait besides who said so.
    others: Option<u32>,
    /// Who waits, and how many of them were not the one who said for how many.
    waiting: Vec<Sender<u8>>,
    came: u32,
    code: u8,
}

/// Serves until a signal ends it.
pub(super) fn run(port: u16) -> Result<u8, String> {
    let listener = TcpListener::bind(("0.0.0.0", port)).map_err(|e| format!("port {port}: {e}"))?;
    serve(&listener)
}

fn serve(listener: &TcpListener) -> Result<u8, String> {
    let all = Arc::new(Barriers::default());
    for stream in listener.incoming() {
        let (stream, all) = (stream.map_err(|e| format!("cannot accept: {e}"))?, all.clone());
        // A client that cannot be served sees its connection end, and says so.
        let _ = std::thread::Builder::new().stack_size(STACK).spawn(move || answer(&stream, &all));
    }
    Ok(0)
}

/// Hears who has come, and answers when all have.
fn answer(mut stream: &TcpStream, all: &Barriers) {
    let mut line = String::new();
    if BufReader::new(stream).take(LONGEST_LINE).read_line(&mut line).is_err() {
        return;
    }
    let told = match Arrival::read(&line) {
        Some(arrival) => match all.arrive(arrival) {
            Ok(released) => {
                released.recv().map_or_else(|_| "? the barrier is gone\n".into(), |code| format!("{code}\n"))
            }
            Err(what) => format!("? {what}\n"),
        },
        None => "? that is no arrival at a barrier\n".into(),
    };
    let _ = stream.write_all(told.as_bytes());
}

impl Barriers {
    /// Counts an arrival; its receiver gets the code when all are there. An error if somebody has named another number.
    fn arrive(&self, arrival: Arrival) -> Result<Receiver<u8>, String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let barrier = all.entry(arrival.name.clone()).or_default();
        match arrival.others {
            Some(_) if barrier.others.is_some() => {
                return Err(format!("somebody has begun the barrier `{}` already, and still waits", arrival.name));
            }
            Some(others) => barrier.others = Some(others),
            None => barrier.came += 1,
        }
        let (sender, receiver) = channel();
        barrier.waiting.push(sender);
        barrier.code = barrier.code.max(arrival.code);
        if barrier.others.is_some_and(|others| barrier.came >= others)
            && let Some(whole) = all.remove(&arrival.name)
        {
            // Who has gone meanwhile is told nothing.
            whole.waiting.iter().for_each(|waiting| {
                let _ = waiting.send(whole.code);
            });
        }
        Ok(receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(all: &Barriers, name: &str, others: Option<u32>, code: u8) -> Receiver<u8> {
        all.arrive(Arrival { name: name.into(), others, code }).unwrap()
    }

    #[test]
    fn all_go_on_when_the_last_has_come_whoever_that_is() {
        let all = Barriers::default();
        // Those who wait may come before the one who says for how many.
        let first = arrive(&all, "a", None, 0);
        let begins = arrive(&all, "a", Some(2), 3);
        assert!(first.try_recv().is_err() && begins.try_recv().is_err());
        let other = arrive(&all, "b", Some(0), 0);
        assert_eq!(other.try_recv(), Ok(0), "a barrier of one holds nobody up");
        let last = arrive(&all, "a", None, 1);
        assert_eq!([first, begins, last].map(|r| r.try_recv()), [Ok(3); 3], "the greatest code is told to all");
        // The next time it is a new one.
        let again = arrive(&all, "a", Some(1), 0);
        assert!(again.try_recv().is_err());
        assert!(all.arrive(Arrival { name: "a".into(), others: Some(1), code: 0 }).unwrap_err().contains("`a`"));
        assert_eq!(arrive(&all, "a", None, 0).try_recv(), Ok(0));
    }
}
