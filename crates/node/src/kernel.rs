//! Kernel settings of one network namespace: TCP as the target would have it, with timers in real values.
//!
//! The values are computed in `scale`; this module writes them where the kernel reads them.

use std::fmt;

use crate::error::Error;
use crate::netns::NetNamespace;

/// The timers that a network namespace has of its own, as *real* times.
///
/// Named after their files below `/proc/sys/net`, with their units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTimers {
    /// Least retransmission time-out, µs (`ipv4/tcp_rto_min_us`, at most 2³¹ − 1).
    pub tcp_rto_min_us: u64,
    /// Idle time before the first keepalive probe, s.
    pub tcp_keepalive_time_s: u64,
    /// Time between keepalive probes, s.
    pub tcp_keepalive_intvl_s: u64,
    /// Time in FIN_WAIT_2, s.
    pub tcp_fin_timeout_s: u64,
    /// Longest delay of a compressed selective acknowledgement, ns.
    pub tcp_comp_sack_delay_ns: u64,
    /// Slack of that timer, ns.
    pub tcp_comp_sack_slack_ns: u64,
    /// Window over which the least round-trip time is remembered, s.
    pub tcp_min_rtt_wlen_s: u64,
    /// Time before path MTU probing is tried again, s.
    pub tcp_probe_interval_s: u64,
    /// Least time between acknowledgements of invalid segments, ms.
    pub tcp_invalid_ratelimit_ms: u64,
    /// Age at which a TIME_WAIT socket may be reused, ms (at most 60000).
    pub tcp_tw_reuse_delay_ms: u64,
    /// Time for which fragments of an IPv4 packet are kept, s.
    pub ipfrag_time_s: u64,
    /// Least time between ICMP errors to one peer, ms.
    pub icmp_ratelimit_ms: u64,
    /// ICMP errors per real second, over all peers.
    pub icmp_msgs_per_sec: u64,
    /// Time for which a learnt path MTU is kept, s.
    pub route_mtu_expires_s: u64,
}

/// A setting that the kernel did not take, and so behaves as without scaling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotApplied {
    /// Its path below `/proc/sys/net`.
    pub setting: String,
    /// The value that was refused.
    pub value: String,
    /// What the kernel said.
    pub why: String,
}

impl fmt::Display for NotApplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.setting, self.value, self.why)
    }
}

/// What every node has, in every variant.
///
/// Reno needs no scaling; linear SYN time-outs would replace the back-off that the target has by default only in
/// recent kernels. Echo sockets spare `ping` the capability that a node's ordinary users do not have.
const COMMON: [(&str, &str); 3] = [
    ("ipv4/tcp_congestion_control", "reno"),
    ("ipv4/tcp_syn_linear_timeouts", "0"),
    ("ipv4/ping_group_range", "0 2147483647"),
];

impl KernelTimers {
    /// The files below `/proc/sys/net` and their values.
    fn files(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("ipv4/tcp_rto_min_us", self.tcp_rto_min_us),
            ("ipv4/tcp_keepalive_time", self.tcp_keepalive_time_s),
            ("ipv4/tcp_keepalive_intvl", self.tcp_keepalive_intvl_s),
            ("ipv4/tcp_fin_timeout", self.tcp_fin_timeout_s),
            ("ipv4/tcp_comp_sack_delay_ns", self.tcp_comp_sack_delay_ns),
            ("ipv4/tcp_comp_sack_slack_ns", self.tcp_comp_sack_slack_ns),
            ("ipv4/tcp_min_rtt_wlen", self.tcp_min_rtt_wlen_s),
            ("ipv4/tcp_probe_interval", self.tcp_probe_interval_s),
            ("ipv4/tcp_invalid_ratelimit", self.tcp_invalid_ratelimit_ms),
            ("ipv4/tcp_tw_reuse_delay", self.tcp_tw_reuse_delay_ms),
            ("ipv4/ipfrag_time", self.ipfrag_time_s),
            ("ipv4/icmp_ratelimit", self.icmp_ratelimit_ms),
            ("ipv4/icmp_msgs_per_sec", self.icmp_msgs_per_sec),
            ("ipv4/route/mtu_expires", self.route_mtu_expires_s),
        ]
    }
}

impl NetNamespace {
    /// Sets what every node has, and `timers` if time is dilated; gives what the kernel did not take.
    pub fn apply(&self, timers: Option<&KernelTimers>) -> Result<Vec<NotApplied>, Error> {
        self.apply_list(&timers.map(KernelTimers::files).unwrap_or_default())
    }

    /// The same from a list of files below `/proc/sys/net` and their values.
    pub fn apply_list(&self, timers: &[(&str, u64)]) -> Result<Vec<NotApplied>, Error> {
        let common = COMMON.iter().map(|(name, value)| (*name, value.to_string()));
        let scaled = timers.iter().map(|(name, value)| (*name, value.to_string()));
        let settings: Vec<_> = common.chain(scaled).collect();
        self.enter(|| {
            let refused = settings.into_iter().filter_map(|(setting, value)| {
                let wrong = std::fs::write(format!("/proc/sys/net/{setting}"), &value).err()?;
                Some(NotApplied { setting: setting.into(), value, why: wrong.to_string() })
            });
            refused.collect()
        })
    }
}
