//! TCP's counters of a network namespace.

mod waiting;

use std::os::fd::BorrowedFd;
use std::path::Path;

use counters::TcpCounters;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

use crate::{Error, move_into_netns};

/// The counters of a network namespace.
///
/// The calling thread moves into the namespace and stays there, so give this work to a thread of its own; files
/// outside `/proc/thread-self/net` and `/sys` look the same from there.
pub fn counters(netns: BorrowedFd<'_>) -> Result<TcpCounters, Error> {
    move_into_netns(netns)?;
    let read = |name: &str| {
        let path = Path::new("/proc/thread-self/net").join(name);
        std::fs::read_to_string(&path).map_err(|e| Error::file("read", &path, e))
    };
    let counters = parse(&read("netstat")?, &read("snmp")?);
    let counters = counters.map_err(|what| Error::system(what, std::io::ErrorKind::InvalidData))?;
    Ok(TcpCounters { waiting: waiting_here().ok(), ..counters })
}

/// How many TCP sockets of a network namespace keep a small segment back at this instant until an acknowledgement
/// comes.
///
/// The calling thread moves into the namespace and stays there, as for [`counters()`].
pub fn waiting_senders(netns: BorrowedFd<'_>) -> Result<u64, Error> {
    move_into_netns(netns)?;
    waiting_here().map_err(|why| Error::system(why, std::io::ErrorKind::Other))
}

/// TCP's counters from the text of `/proc/PID/net/netstat` and `/proc/PID/net/snmp`; the error names the counter
/// that is missing.
fn parse(netstat: &str, snmp: &str) -> Result<TcpCounters, String> {
    let ext = |name| counter(netstat, "TcpExt:", name);
    Ok(TcpCounters {
        in_segs: counter(snmp, "Tcp:", "InSegs")?,
        delayed_acks: ext("DelayedACKs")?,
        loss_probes: ext("TCPLossProbes")?,
        syn_retrans: ext("TCPSynRetrans")?,
        timeouts: ext("TCPTimeouts")?,
        aborts: ext("TCPAbortOnTimeout")?,
        waiting: None,
    })
}

/// Both files hold pairs of lines: a prefix with names, the same prefix with their values.
fn counter(text: &str, prefix: &str, name: &str) -> Result<u64, String> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let found = names.split_whitespace().zip(values.split_whitespace()).find(|(n, _)| *n == name);
    let (_, value) = found.ok_or_else(|| format!("this kernel has no counter `{prefix} {name}`"))?;
    value.parse().map_err(|_| format!("the counter `{prefix} {name}` is `{value}`, not a count"))
}

/// Reads those of the calling thread's namespace.
fn waiting_here() -> Result<u64, String> {
    let why = |e: rustix::io::Errno| e.to_string();
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG)).map_err(why)?;
    send(&socket, &waiting::request(), SendFlags::empty()).map_err(why)?;
    let mut buffer = vec![0; 32 * 1024];
    let mut count = 0;
    loop {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty()).map_err(why)?;
        let part = waiting::read(&buffer[..length])?;
        count += part.waiting;
        if part.last {
            return Ok(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name_in_any_order() {
        let netstat = "TcpExt: TCPSynRetrans DelayedACKs TCPTimeouts TCPLossProbes TCPAbortOnTimeout\n\
                       TcpExt: 1 20 3 4 5\n\
                       IpExt: InNoRoutes DelayedACKs\nIpExt: 7 8\n";
        let snmp = "Ip: Forwarding InSegs\nIp: 1 99\nTcp: RtoMin MaxConn InSegs OutSegs\nTcp: 200 -1 600 500\n";
        let expected = TcpCounters {
            in_segs: 600,
            delayed_acks: 20,
            loss_probes: 4,
            syn_retrans: 1,
            timeouts: 3,
            aborts: 5,
            waiting: None,
        };
        assert_eq!(parse(netstat, snmp), Ok(expected));
    }

    #[test]
    fn the_running_kernel_is_understood() {
        let text = |name: &str| std::fs::read_to_string(name).unwrap();
        parse(&text("/proc/self/net/netstat"), &text("/proc/self/net/snmp")).unwrap();
    }

    #[test]
    fn a_missing_counter_is_named() {
        let error = parse("TcpExt: DelayedACKs\nTcpExt: 1\n", "Tcp: InSegs\nTcp: 1\n").unwrap_err();
        assert_eq!(error, "this kernel has no counter `TcpExt: TCPLossProbes`");
        assert!(parse("", "").unwrap_err().contains("InSegs"));
    }
}
