//! The kernel's counters, as whoever watches a run reads them.

/// TCP's counters of one network namespace, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Not a counter: sockets that at this instant kept a small segment back until an acknowledgement comes. `None` if
    /// the kernel does not list sockets.
    pub waiting: Option<u64>,
}

/// What one core did since boot, in ticks of `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTicks {
    /// The hypervisor ran something else while this core had work.
    pub steal: u64,
    /// Everything, idle time and steal included.
    pub total: u64,
}
