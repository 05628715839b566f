//! The end of a flow that receives.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::options::Options;
use super::packet::{HEADER, Packet, date};
use super::rows::{self, Seconds, seconds};

/// How often to look whether a second is over while nothing arrives.
const LOOK: Duration = Duration::from_millis(250);

/// The signal that says that the source was stopped: no more is to be expected. SIGUSR1 of Linux.
const STOPPED: i32 = 10;

/// Whether that was said.
static QUIET: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
}

extern "C" fn quiet(_: i32) {
    QUIET.store(true, Ordering::Relaxed);
}

/// Receives until a signal ends it.
pub(super) fn run(words: &[String]) -> Result<(), String> {
    let options = Options::new(words)?;
    // SAFETY: signal(3) of the C library that this is linked with; the handler does nothing but store into an atomic.
    unsafe { signal(STOPPED, quiet) };
    let port: u16 = options.number("port")?;
    let taken = |e: std::io::Error| format!("port {port}: {e}");
    let mut log = Log {
        received: rows::file(options.text("log")?)?,
        delays: rows::file(options.text("delays")?)?,
        arrivals: Arrivals::default(),
    };
    match options.connected()? {
        false => datagrams(&UdpSocket::bind(("0.0.0.0", port)).map_err(taken)?, &mut log),
        true => connections(TcpListener::bind(("0.0.0.0", port)).map_err(taken)?, &mut log),
    }
}

/// Whether a call that receives has nothing to say yet.
fn nothing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn datagrams(socket: &UdpSocket, log: &mut Log) -> Result<(), String> {
    let mut buffer = vec![0; usize::from(u16::MAX) + 1];
    let mut looking = false;
    loop {
        // A program that sleeps until something comes costs nothing.
        if looking != log.arrivals.awaited() {
            looking = !looking;
            socket.set_read_timeout(looking.then_some(LOOK)).map_err(|e| e.to_string())?;
        }
        match socket.recv(&mut buffer) {
            Ok(length) => log.arrived(date(), &buffer[..length])?,
            Err(e) if nothing(e.kind()) => log.look(date())?,
            Err(e) => return Err(e.to_string()),
        }
    }
}

fn connections(listener: TcpListener, log: &mut Log) -> Result<(), String> {
    let (accepted, new) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if accepted.send(stream).is_err() {
                break;
            }
        }
    });
    let mut stream = next(&new, log)?;
    let (mut buffer, mut rest) = (vec![0; 1 << 16], Vec::new());
    loop {
        // The source has connected anew, and may not have been able to say that the earlier connection is over.
        if let Ok(newer) = new.try_recv() {
            (stream, rest) = (newer, Vec::new());
        }
        stream.set_read_timeout(Some(LOOK)).map_err(|e| e.to_string())?;
        match stream.read(&mut buffer) {
            Ok(length @ 1..) => {
                rest.extend_from_slice(&buffer[..length]);
                let now = date();
                let mut at = 0;
                while let Some(packet) = whole(&rest[at..]) {
                    log.arrived(now, packet)?;
                    at += packet.len();
                }
                rest.drain(..at);
            }
            Err(e) if nothing(e.kind()) => log.look(date())?,
            Ok(_) | Err(_) => {
                log.end(date())?;
                (stream, rest) = (next(&new, log)?, Vec::new());
            }
        }
    }
}

fn next(new: &Receiver<TcpStream>, log: &mut Log) -> Result<TcpStream, String> {
    loop {
        if !log.arrivals.awaited() {
            return new.recv().map_err(|e| e.to_string());
        }
        match new.recv_timeout(LOOK) {
            Ok(stream) => return Ok(stream),
            Err(_) => log.look(date())?,
        }
    }
}

/// The first packet of what a connection has brought, if all of it is there.
fn whole(bytes: &[u8]) -> Option<&[u8]> {
    let length = usize::from(Packet::read(bytes)?.length).max(HEADER);
    bytes.get(..length)
}

/// Rows that are written down.
struct Log {
    received: File,
    delays: File,
    arrivals: Arrivals,
}

impl Log {
    fn write(&mut self) -> Result<(), String> {
        let [received, delays] = std::mem::take(&mut self.arrivals.text);
        rows::write(&self.received, &received)?;
        rows::write(&self.delays, &delays)
    }

    fn arrived(&mut self, now: u64, bytes: &[u8]) -> Result<(), String> {
        self.stopped(now)?;
        if let Some(packet) = Packet::read(bytes) {
            self.arrivals.arrived(now, packet, bytes.len());
        }
        self.write()
    }

    fn look(&mut self, now: u64) -> Result<(), String> {
        self.arrivals.look(now);
        self.stopped(now)?;
        self.write()
    }

    fn end(&mut self, now: u64) -> Result<(), String> {
        self.arrivals.end(now);
        self.write()
    }

    fn stopped(&mut self, now: u64) -> Result<(), String> {
        if QUIET.swap(false, Ordering::Relaxed) { self.end(now) } else { Ok(()) }
    }
}

/// Arrivals, second by second.
#[derive(Debug, Default)]
struct Arrivals {
    seconds: Seconds,
    /// The life of the source of which packets are expected, and the one before.
    life: Option<u16>,
    before: Option<u16>,
    /// Whether that life is over.
    over: bool,
    /// The number after the greatest that has arrived of it.
    next: u32,
    /// Packets of the present second.
    packets: u64,
    bytes: u64,
    /// How many should have arrived: by how much `next` grew.
    expected: u64,
    /// The sum of their delays and the greatest, in ns.
    delays: u64,
    longest: u64,
    /// How many rows this life has.
    rows: u64,
    /// Rows to be written: of what was received, and of delays.
    text: [String; 2],
}

impl Arrivals {
    /// Whether something is expected.
    fn awaited(&self) -> bool {
        self.seconds.begun()
    }

    fn arrived(&mut self, now: u64, packet: Packet, length: usize) {
        self.look(now);
        let (of, last) = (Some(packet.life), packet.last);
        if self.life != of && self.before != of {
            (self.before, self.life, self.over) = (self.life, of, false);
            (self.next, self.rows) = (0, 0);
        }
        // Packets that come when the source has been stopped were on their way.
        if self.over {
            return;
        }
        self.seconds.begin(now);
        self.packets += 1;
        self.bytes += length as u64;
        let delay = now.saturating_sub(packet.sent);
        self.delays += delay;
        self.longest = self.longest.max(delay);
        if self.life == of {
            let ahead = packet.number.wrapping_sub(self.next);
            // Half of all numbers are ahead, the others are of packets that others have overtaken.
            if ahead < u32::MAX / 2 {
                self.expected += u64::from(ahead) + 1;
                self.next = packet.number.wrapping_add(1);
            }
        }
        if last {
            self.end(now);
        }
    }

    /// Makes rows of the seconds that are over.
    fn look(&mut self, now: u64) {
        while let Some(start) = self.seconds.over(now) {
            self.row(start, 1.0);
        }
    }

    /// No more is expected. What is left of the present second is no row, but where there is no other.
    fn end(&mut self, now: u64) {
        self.look(now);
        if let Some((start, part)) = self.seconds.end(now)
            && self.rows == 0
            && part > 0.0
        {
            self.row(start, part);
        }
        self.over = true;
        self.clear();
    }

    /// A row of a second of which a part has passed.
    fn row(&mut self, start: u64, part: f64) {
        let lost = self.expected.saturating_sub(self.packets);
        let lost = 100.0 * lost as f64 / self.expected.max(1) as f64;
        let (packets, bits) = (self.packets as f64 / part, self.bytes as f64 * 8.0 / part);
        let _ = writeln!(self.text[0], "{} {packets} {bits} {lost}", seconds(start));
        if self.packets > 0 {
            let mean = self.delays as f64 / self.packets as f64 / 1e6;
            let _ = writeln!(self.text[1], "{} {mean} {}", seconds(start), self.longest as f64 / 1e6);
        }
        self.rows += 1;
        self.clear();
    }

    fn clear(&mut self) {
        (self.packets, self.bytes, self.expected, self.delays, self.longest) = (0, 0, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn packet(life: u16, number: u32, sent: u64) -> Packet {
        Packet { life, last: false, length: 100, number, sent }
    }

    fn numbers(text: &str) -> Vec<Vec<f64>> {
        text.lines().map(|l| l.split(' ').map(|w| w.parse().unwrap()).collect()).collect()
    }

    #[test]
    fn a_row_tells_what_arrived_in_a_second_and_what_did_not() {
        let mut a = Arrivals::default();
        // Ten each second from 5.2 s on; the fourth is lost, the sixth overtakes the fifth.
        for number in [0, 1, 2, 5, 4, 6, 7, 8, 9, 10, 11] {
            let now = 5200 + 100 * u64::from(number);
            a.arrived((now + u64::from(number == 4) * 101) * MS, packet(1, number, (now - 7) * MS), 100);
        }
        let rows = numbers(&a.text[0]);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0], [5.2, 9.0, 7200.0, 10.0]);
        let delays = numbers(&a.text[1]);
        assert!((delays[0][1] - (7.0 * 9.0 + 101.0) / 9.0).abs() < 1e-6, "{delays:?}");
        assert_eq!(delays[0][2], 108.0);
        // Nothing for two seconds: that is told, but no delays.
        a.look(8300 * MS);
        assert_eq!(numbers(&a.text[0])[1], [6.2, 2.0, 1600.0, 0.0]);
        assert_eq!(numbers(&a.text[0])[2], [7.2, 0.0, 0.0, 0.0]);
        assert_eq!(a.text[1].lines().count(), 2);
    }

    #[test]
    fn a_source_that_was_stopped_is_not_waited_for_and_may_come_again() {
        let mut a = Arrivals::default();
        for number in 0..15 {
            a.arrived((1000 + 100 * u64::from(number)) * MS, packet(1, number, 0), 100);
        }
        a.end(2450 * MS);
        assert!(!a.awaited());
        // Packets that were on their way.
        a.arrived(2500 * MS, packet(1, 15, 0), 100);
        a.look(9000 * MS);
        assert_eq!(a.text[0].lines().count(), 1, "{}", a.text[0]);
        // The next life begins with the loss of its first two.
        a.arrived(10_500 * MS, packet(2, 2, 0), 100);
        a.arrived(11_500 * MS, packet(2, 3, 0), 100);
        let rows = numbers(&a.text[0]);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[1][0], rows[1][1]), (10.5, 1.0));
        assert!((rows[1][3] - 200.0 / 3.0).abs() < 1e-9, "{rows:?}");
    }

    #[test]
    fn what_is_over_within_a_second_has_a_row_all_the_same() {
        let mut a = Arrivals::default();
        for number in 0..5 {
            let packet = Packet { last: number == 4, ..packet(1, number, 0) };
            a.arrived((1000 + 100 * u64::from(number)) * MS, packet, 1000);
        }
        assert!(!a.awaited());
        assert_eq!(numbers(&a.text[0]), [[1.0, 12.5, 100_000.0, 0.0]]);
    }

    #[test]
    fn packets_of_a_connection_are_cut_where_they_say() {
        let mut bytes = vec![0; 40];
        Packet { life: 1, last: false, length: 30, number: 0, sent: 0 }.write(&mut bytes);
        assert_eq!(whole(&bytes).map(<[u8]>::len), Some(30));
        assert_eq!(whole(&bytes[..29]), None);
        assert_eq!(whole(&bytes[..10]), None);
    }
}
