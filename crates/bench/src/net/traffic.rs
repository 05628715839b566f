//! Ways to send through a link, and to count what has come.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use host::NetNamespace;

use crate::Error;

/// Where all receivers listen.
pub const PORT: u16 = 7000;
/// Ethernet, IP and UDP headers.
pub const HEADERS: usize = 42;
/// A broken network must end the benchmark and not hang it.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(3));

/// The bytes that a frame is charged, of those that include its check sequence.
pub fn charged(bytes: usize) -> usize {
    bytes - 4
}

/// A socket in the first namespace, connected to one in the second.
pub fn sockets(spaces: &[NetNamespace], addresses: &[Ipv4Addr]) -> Result<(UdpSocket, UdpSocket), Error> {
    let bound = |space: &NetNamespace| -> Result<UdpSocket, Error> {
        let bound = space.enter(|| UdpSocket::bind(("0.0.0.0", PORT))).map_err(Error::failed)?;
        let socket = bound.map_err(Error::failed)?;
        socket.set_read_timeout(PATIENCE).map_err(Error::failed)?;
        Ok(socket)
    };
    let (from, to) = (bound(&spaces[0])?, bound(&spaces[1])?);
    from.connect((addresses[1], PORT)).map_err(Error::failed)?;
    to.connect((addresses[0], PORT)).map_err(Error::failed)?;
    Ok((from, to))
}

/// A bulk transfer from the first namespace to the second.
pub fn tcp(spaces: &[NetNamespace], addresses: &[Ipv4Addr], time: Duration) -> Result<(), Error> {
    let listener = spaces[1].enter(|| TcpListener::bind(("0.0.0.0", PORT))).map_err(Error::failed)?;
    let listener = listener.map_err(Error::failed)?;
    let to = (addresses[1], PORT);
    let stream = spaces[0].enter(|| TcpStream::connect(to)).map_err(Error::failed)?;
    let mut stream = stream.map_err(Error::failed)?;
    let (mut sink, _) = listener.accept().map_err(Error::failed)?;
    for s in [&stream, &sink] {
        s.set_write_timeout(PATIENCE).map_err(Error::failed)?;
        s.set_read_timeout(PATIENCE).map_err(Error::failed)?;
    }
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut buffer = vec![0; 1 << 17];
            while sink.read(&mut buffer)? > 0 {}
            Ok::<_, io::Error>(())
        });
        let start = Instant::now();
        while start.elapsed() < time {
            stream.write_all(&[0; 16384]).map_err(Error::failed)?;
        }
        drop(stream);
        reader.join().map_err(|_| Error::failed("the reader panicked"))?.map_err(Error::failed)
    })
}

/// Sends `count` datagrams as fast as the kernel takes them, many a call.
pub fn blast(socket: &UdpSocket, payload: usize, count: usize) {
    let data = vec![0u8; payload];
    let mut part = libc::iovec { iov_base: data.as_ptr() as *mut _, iov_len: data.len() };
    // SAFETY: an mmsghdr is plain data and pointers, for which all bytes zero are a value.
    let mut messages: [libc::mmsghdr; 50] = unsafe { std::mem::zeroed() };
    for message in &mut messages {
        message.msg_hdr.msg_iov = &mut part;
        message.msg_hdr.msg_iovlen = 1;
    }
    let mut left = count;
    while left > 0 {
        let n = left.min(messages.len());
        // SAFETY: the kernel reads the first `n` messages, of which there are so many, and the one buffer that they
        // share, and writes nothing but the messages' own lengths; all of them live until the call returns.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), n as u32, 0) };
        left -= n.min(sent.max(1) as usize);
    }
}

/// Sends for `time`.
pub fn flood(socket: &UdpSocket, payload: usize, time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        blast(socket, payload, 200);
    }
}

/// Frames that the only TAP interface of the namespace has received.
pub fn received_frames(space: &NetNamespace) -> Result<u64, Error> {
    let text = space.enter(|| fs::read_to_string("/proc/thread-self/net/dev")).map_err(Error::failed)?;
    let text = text.map_err(Error::failed)?;
    let frames =
        text.lines().find_map(|l| l.trim().strip_prefix("eth0:")?.split_ascii_whitespace().nth(1)?.parse().ok());
    frames.ok_or_else(|| Error::failed("the interface has gone"))
}
