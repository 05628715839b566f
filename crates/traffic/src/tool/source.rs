//! The end of a flow that sends.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::options::Options;
use super::packet::{HEADER, Packet, date, life};
use super::rows::{self, Seconds, seconds};
use crate::departures::{Departures, Shape};

/// How long to wait before trying again to connect.
const AGAIN: Duration = Duration::from_millis(100);

/// Transport of the packets.
enum Carrier {
    Datagrams(UdpSocket),
    Connection { to: SocketAddr, stream: Option<TcpStream>, greedy: bool },
}

/// Sends until there is nothing more to send, or a signal ends it.
pub(super) fn run(words: &[String]) -> Result<(), String> {
    let options = Options::new(words)?;
    let name = options.text("to")?;
    let to = SocketAddr::new(address(name)?, options.number("port")?);
    let pattern = options.pattern()?;
    let mut carrier = match options.connected()? {
        true => Carrier::Connection { to, stream: None, greedy: pattern.shape == Shape::Greedy },
        false => Carrier::Datagrams(datagrams(to).map_err(|e| format!("a socket to {name}: {e}"))?),
    };
    let mut packet = vec![0; options.number::<usize>("packet")?.max(HEADER)];
    let mut sent = Sent { file: rows::file(options.text("log")?)?, seconds: Seconds::default(), packets: 0, bytes: 0 };
    let mut of = Packet { life: life(), last: false, length: packet.len() as u16, number: 0, sent: 0 };
    // Before the first packet is due.
    carrier.ready(&mut of);
    let begin = Instant::now();
    let mut departures = Departures::new(pattern, options.number("seed")?).peekable();
    while let Some(at) = departures.next() {
        let due = begin + Duration::from_secs_f64(at);
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::sleep(left);
        }
        carrier.ready(&mut of);
        (of.last, of.sent) = (departures.peek().is_none(), date());
        of.write(&mut packet);
        sent.packet(of.sent, packet.len())?;
        carrier.send(&packet);
        of.number = of.number.wrapping_add(1);
    }
    sent.end(date())
}

fn datagrams(to: SocketAddr) -> std::io::Result<UdpSocket> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    Ok(socket)
}

/// The address of a node: `/etc/hosts` of each has all. (The C library's own way needs files that an image may not
/// have, and a static program cannot have itself.)
fn address(name: &str) -> Result<IpAddr, String> {
    let hosts = std::fs::read_to_string("/etc/hosts").map_err(|e| format!("/etc/hosts: {e}"))?;
    in_hosts(&hosts, name).ok_or_else(|| format!("/etc/hosts has no node `{name}`"))
}

fn in_hosts(hosts: &str, name: &str) -> Option<IpAddr> {
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    let of = |line: &str| {
        let (address, names) = line.trim().split_once(char::is_whitespace)?;
        names.split_whitespace().any(|n| n == name).then(|| address.parse().ok())?
    };
    let all: Vec<IpAddr> = lines.filter_map(of).collect();
    all.iter().find(|a| a.is_ipv4()).or(all.first()).copied()
}

impl Carrier {
    /// Connects, where that is needed; what a broken connection had to carry is of an earlier life.
    fn ready(&mut self, of: &mut Packet) {
        let Carrier::Connection { to, stream, greedy } = self else { return };
        while stream.is_none() {
            match TcpStream::connect(*to) {
                Ok(made) => {
                    // Packets leave when they are due, not when there are enough of them.
                    let _ = made.set_nodelay(!*greedy);
                    *stream = Some(made);
                    (of.life, of.number) = (life(), 0);
                }
                Err(_) => std::thread::sleep(AGAIN),
            }
        }
    }

    /// Packets that cannot be sent are lost, as on a network.
    fn send(&mut self, packet: &[u8]) {
        match self {
            Carrier::Datagrams(socket) => {
                let _ = socket.send(packet);
            }
            Carrier::Connection { stream, .. } => {
                if stream.as_mut().is_some_and(|s| s.write_all(packet).is_err()) {
                    *stream = None;
                }
            }
        }
    }
}

/// Packets sent in the present second.
struct Sent {
    file: File,
    seconds: Seconds,
    packets: u64,
    bytes: u64,
}

impl Sent {
    fn packet(&mut self, now: u64, length: usize) -> Result<(), String> {
        self.seconds.begin(now);
        self.end(now)?;
        self.packets += 1;
        self.bytes += length as u64;
        Ok(())
    }

    /// Writes down the seconds that are over.
    fn end(&mut self, now: u64) -> Result<(), String> {
        let mut text = String::new();
        while let Some(start) = self.seconds.over(now) {
            let _ = writeln!(text, "{} {} {}", seconds(start), self.packets, self.bytes * 8);
            (self.packets, self.bytes) = (0, 0);
        }
        rows::write(&self.file, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_in_hosts() {
        let hosts = "127.0.0.1 localhost\n# 10.0.0.9 b\nfd00::2\tb\n10.0.0.2\tb b-eth1 # one\n10.0.1.2 b\nfd00::3 c\n";
        let found = |name| in_hosts(hosts, name).map(|a| a.to_string());
        assert_eq!(found("b").as_deref(), Some("10.0.0.2"));
        assert_eq!(found("c").as_deref(), Some("fd00::3"));
        assert_eq!(found("one"), None);
    }
}
