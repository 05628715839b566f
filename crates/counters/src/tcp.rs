//! TCP's counters of a node.

use serde::{Deserialize, Serialize};

/// TCP's counters of one network namespace, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Segments received (`Tcp: InSegs`).
    pub in_segs: u64,
    /// Acknowledgements sent because a 40–200 ms timer ran out (`TcpExt: DelayedACKs`).
    pub delayed_acks: u64,
    /// Tail loss probes sent (`TcpExt: TCPLossProbes`).
    pub loss_probes: u64,
    /// SYN and SYN-ACK retransmissions (`TcpExt: TCPSynRetrans`).
    pub syn_retrans: u64,
    /// Retransmission time-outs, those of SYNs included (`TcpExt: TCPTimeouts`).
    pub timeouts: u64,
    /// Connections given up after too many of them (`TcpExt: TCPAbortOnTimeout`).
    pub aborts: u64,
    /// Not a counter: how many sockets were met, in all looks since the last time, that kept a small segment back until
    /// an acknowledgement comes. `None` if the kernel does not list sockets.
    pub waiting: Option<u64>,
}
