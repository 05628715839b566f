//! A network of many nodes: how long it takes to make and to remove, and how exact it is when all of them send.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use host::NetNamespace;
use net::PipeConfig;
use rustix::time::{ClockId, clock_gettime};
use scale::RealDuration;
use serde_json::json;

use super::ROUNDS;
use super::bed::{Bed, star};
use super::traffic::PORT;
use crate::cores::{Cores, pin};
use crate::row::short;
use crate::stats::median;
use crate::{Error, Row};

/// Packets per second from all nodes together.
const RATE: u64 = 60_000;
/// Of each of the two links that a packet passes.
const DELAY: RealDuration = RealDuration::from_nanos(5_000_000);
/// Of a packet from one node to another.
const IDEAL_NS: u64 = 2 * DELAY.as_nanos();
/// Twice as many as are on their way at once.
const UNDERWAY: u64 = 2 * IDEAL_NS * RATE / 1_000_000_000;
const SENDING: Duration = Duration::from_secs(3);

/// Nodes around one switch.
struct Crowd(Bed);

impl Crowd {
    fn gather(nodes: usize, cores: &Cores) -> Result<Crowd, Error> {
        let config = PipeConfig { delay: DELAY, ..Default::default() };
        Ok(Crowd(Bed::start(star(nodes, &config), cores, None, 0)?))
    }

    /// A socket in every node, which notes when the kernel got each packet.
    fn sockets(&self) -> Result<Vec<UdpSocket>, Error> {
        let socket = |space: &NetNamespace| -> io::Result<UdpSocket> {
            let made = space.enter(|| UdpSocket::bind(("0.0.0.0", PORT)));
            let socket = made.map_err(io::Error::other)??;
            socket.set_nonblocking(true)?;
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 1 << 20)?;
            // The first question turns the stamps on, and has no answer yet.
            let _ = stamp(&socket);
            Ok(socket)
        };
        self.0.spaces.iter().map(|space| socket(space).map_err(Error::machine)).collect()
    }

    /// Every node sends in turn, each time to another one, `RATE` packets in each second. What must have arrived by
    /// then is received in between, as programs do: packets that pile up would fill the caches that real ones do not.
    fn exchange(&self, sockets: &[UdpSocket]) -> Result<Received, Error> {
        let nodes = sockets.len() as u64;
        let ends = |packet: u64| {
            let (from, turn) = (packet % nodes, packet / nodes);
            (from as usize, ((from + 1 + turn * 37 % (nodes - 1)) % nodes) as usize)
        };
        let mut received = Received::default();
        let (start, mut sent) = (Instant::now(), 0u64);
        while start.elapsed() < SENDING {
            let due = start.elapsed().as_nanos() as u64 * RATE / 1_000_000_000;
            while sent < due {
                let (from, to) = ends(sent);
                // A frame that the kernel refuses is missed at the other end.
                let _ = sockets[from].send_to(&real_time().to_le_bytes(), (self.0.addresses[to], PORT));
                if let Some(earlier) = sent.checked_sub(UNDERWAY) {
                    received.from(&sockets[ends(earlier).1])?;
                }
                sent += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(100));
        sockets.iter().try_for_each(|socket| received.from(socket))?;
        Ok(received)
    }
}

/// Frames received, and the sum of the errors of their delays, relative to the delay.
#[derive(Default)]
struct Received {
    packets: u64,
    errors: f64,
}

impl Received {
    /// Takes what a socket has.
    fn from(&mut self, socket: &UdpSocket) -> Result<(), Error> {
        let mut buffer = [0; 8];
        while let Ok(8) = socket.recv(&mut buffer) {
            let arrived = stamp(socket).map_err(Error::failed)?;
            let delay = arrived.saturating_sub(u64::from_le_bytes(buffer));
            self.errors += delay.abs_diff(IDEAL_NS) as f64 / IDEAL_NS as f64;
            self.packets += 1;
        }
        Ok(())
    }

    /// The mean error of the delays, per cent; not a number, and so no goal met, if nothing has come.
    fn error_percent(&self) -> f64 {
        100.0 * self.errors / self.packets as f64
    }
}

/// Makes the network, and removes it.
pub fn made_and_removed(nodes: usize, cores: &Cores) -> Result<Vec<Row>, Error> {
    let (mut made, mut gone, mut traffic) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let start = Instant::now();
        let crowd = Crowd::gather(nodes, cores)?;
        made.push(start.elapsed().as_secs_f64());
        if nodes >= 1000 && round == 0 {
            traffic = busy(&crowd, cores)?;
        }
        let start = Instant::now();
        drop(crowd);
        gone.push((wait_for_the_kernel() - start).as_secs_f64());
    }
    // The goal of 1,000 nodes in 10 s, and of as much for each of fewer.
    let goal = nodes as f64 / 100.0;
    let params = json!({"nodes": nodes, "rounds": ROUNDS});
    let row = |name, values| Row::new(name, params.clone(), median(values), "s").goal(goal);
    let mut rows = vec![row("net_setup_real", made), row("net_teardown_real", gone)];
    rows.extend(traffic);
    Ok(rows)
}

/// Namespaces, and the interfaces in them, are removed after the last use by a thread of the kernel, which is called
/// after its queue as long as it works. Gives the instant at which it had done.
fn wait_for_the_kernel() -> Instant {
    // It takes the work up at once.
    let mut quiet_since = Instant::now();
    while quiet_since.elapsed() < Duration::from_millis(20) {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut names = processes.filter_map(|p| std::fs::read_to_string(p.path().join("comm")).ok());
        if names.any(|name| name.trim_end().ends_with("+netns")) {
            quiet_since = Instant::now();
        }
    }
    quiet_since
}

/// Packets from all to all, and how far from the links' delay each one's was.
fn busy(crowd: &Crowd, cores: &Cores) -> Result<Vec<Row>, Error> {
    let sockets = crowd.sockets()?;
    let exchange = || {
        pin(cores.nodes);
        crowd.exchange(&sockets)
    };
    let (mut rates, mut errors) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let done = std::thread::scope(|scope| scope.spawn(exchange).join());
        let received = done.map_err(|_| Error::failed("the sender died"))??;
        rates.push(received.packets as f64 / SENDING.as_secs_f64());
        errors.push(received.error_percent());
    }
    let seen = crowd.0.emulator.observe().map_err(Error::failed)?;
    let params = json!({"nodes": sockets.len(), "delay_ms": IDEAL_NS as f64 / 1e6, "offered_per_s": RATE,
        "rounds_error_percent": errors.iter().copied().map(short).collect::<Vec<_>>(), "ring_drops": seen.ring_drops(),
        "lateness_p999_us": seen.lateness.all.value_at_quantile(0.999) as f64 / 1e3});
    // The last packet of a second may leave in the next.
    let wanted = RATE as f64 * 0.999;
    Ok(vec![
        Row::new("net_crowd_rate", params.clone(), median(rates), "packets/s").goal(wanted),
        Row::new("net_crowd_delay_error", params, median(errors), "%").goal(1.0),
    ])
}

/// Nanoseconds of the clock by which the kernel stamps packets.
fn real_time() -> u64 {
    let t = clock_gettime(ClockId::Realtime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// When the kernel got the packet that was read last.
fn stamp(socket: &UdpSocket) -> io::Result<u64> {
    // From <asm-generic/sockios.h>.
    const SIOCGSTAMPNS: libc::Ioctl = 0x8907;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the operation writes one timespec, which `time` is.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSTAMPNS, &raw mut time) } {
        0 => Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_carries_nothing_meets_no_goal() {
        let error = |packets, errors| Received { packets, errors }.error_percent();
        assert_eq!(error(4, 0.02), 0.5);
        assert_eq!(Row::new("net_crowd_delay_error", json!({}), error(0, 0.0), "%").goal(1.0).ok, Some(false));
    }
}
