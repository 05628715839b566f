//! The kernel's counters, read from its own text. Nothing here opens a file.

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

impl TcpCounters {
    /// From the text of `/proc/PID/net/netstat` and `/proc/PID/net/snmp`; the error names the counter that is missing.
    pub fn parse(netstat: &str, snmp: &str) -> Result<TcpCounters, String> {
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
}

/// Both files hold pairs of lines: a prefix with names, the same prefix with their values.
fn counter(text: &str, prefix: &str, name: &str) -> Result<u64, String> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let found = names.split_whitespace().zip(values.split_whitespace()).find(|(n, _)| *n == name);
    let (_, value) = found.ok_or_else(|| format!("this kernel has no counter `{prefix} {name}`"))?;
    value.parse().map_err(|_| format!("the counter `{prefix} {name}` is `{value}`, not a count"))
}

/// What one core did since boot, in ticks of `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTicks {
    /// The hypervisor ran something else while this core had work.
    pub steal: u64,
    /// Everything, idle time and steal included.
    pub total: u64,
}

/// From the text of `/proc/stat`, by core number.
pub fn core_ticks(stat: &str) -> Result<Vec<CoreTicks>, String> {
    let mut cores = Vec::new();
    for line in stat.lines() {
        let Some((core, rest)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else { continue };
        let Ok(core) = core.parse::<usize>() else { continue };
        // user nice system idle iowait irq softirq steal; guest times are counted in user and nice already.
        let fields: Result<Vec<u64>, _> = rest.split_whitespace().take(8).map(str::parse).collect();
        let fields = fields.ok().filter(|f| f.len() == 8).ok_or_else(|| format!("/proc/stat: no steal in `{line}`"))?;
        // Cores that are offline leave a gap in the numbers.
        cores.resize(cores.len().max(core + 1), CoreTicks::default());
        cores[core] = CoreTicks { steal: fields[7], total: fields.iter().sum() };
    }
    if cores.is_empty() { Err("/proc/stat names no core".into()) } else { Ok(cores) }
}

/// From the text of cgroup v1's `cpuacct.usage_percpu`: nanoseconds by core number.
pub fn usage_per_core(text: &str) -> Result<Vec<u64>, String> {
    let cores: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    cores
        .ok()
        .filter(|c| !c.is_empty())
        .ok_or_else(|| format!("`{}` is not a list of nanoseconds by core", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_counters_are_found_by_name_in_any_order() {
        let netstat = "TcpExt: TCPSynRetrans DelayedACKs TCPTimeouts TCPLossProbes TCPAbortOnTimeout\nTcpExt: 1 20 3 4 5\n\
                       IpExt: InNoRoutes DelayedACKs\nIpExt: 7 8\n";
        let snmp = "Ip: Forwarding InSegs\nIp: 1 99\nTcp: RtoMin MaxConn InSegs OutSegs\nTcp: 200 -1 600 500\n";
        let tcp = TcpCounters::parse(netstat, snmp).unwrap();
        let expected = TcpCounters {
            in_segs: 600,
            delayed_acks: 20,
            loss_probes: 4,
            syn_retrans: 1,
            timeouts: 3,
            aborts: 5,
            waiting: None,
        };
        assert_eq!(tcp, expected);
    }

    #[test]
    fn the_running_kernel_is_understood() {
        let text = |name: &str| std::fs::read_to_string(name).unwrap();
        TcpCounters::parse(&text("/proc/self/net/netstat"), &text("/proc/self/net/snmp")).unwrap();
        let ticks = core_ticks(&text("/proc/stat")).unwrap();
        assert!(ticks.iter().all(|t| t.total >= t.steal) && ticks.iter().any(|t| t.total > 0), "{ticks:?}");
    }

    #[test]
    fn a_missing_counter_is_named() {
        let error = TcpCounters::parse("TcpExt: DelayedACKs\nTcpExt: 1\n", "Tcp: InSegs\nTcp: 1\n").unwrap_err();
        assert_eq!(error, "this kernel has no counter `TcpExt: TCPLossProbes`");
        assert!(TcpCounters::parse("", "").unwrap_err().contains("InSegs"));
    }

    #[test]
    fn steal_is_the_eighth_field_and_guest_time_is_not_counted_twice() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 0 50 800 20 5 5 20 40 0\ncpu2 1 0 0 0 0 0 0 0 0 0\nintr 5\n";
        let ticks = core_ticks(stat).unwrap();
        assert_eq!(ticks[0], CoreTicks { steal: 20, total: 1000 });
        assert_eq!(ticks[1], CoreTicks::default(), "core 1 is offline");
        assert_eq!(ticks[2].total, 1);
        assert!(core_ticks("cpu0 1 2 3\n").unwrap_err().contains("no steal"));
        assert!(core_ticks("intr 5\n").is_err());
    }

    #[test]
    fn usage_is_a_list_of_nanoseconds() {
        assert_eq!(usage_per_core("45512807276 71236849048 \n").unwrap(), [45512807276, 71236849048]);
        assert!(usage_per_core("").is_err());
        assert!(usage_per_core("12 many\n").is_err());
    }
}
