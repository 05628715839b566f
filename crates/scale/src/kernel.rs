//! The kernel's own timers, which tick in real time: what they are set to so that a node sees the target's.
//!
//! A node's TCP is the host kernel's. Its timers that are settings of a network namespace are multiplied by the TDF
//! here; rates are divided. The rest cannot be scaled ([`STUCK`]).

use crate::rto::RTO_MAX;
use crate::{RealDuration, Tdf};

/// Whether a setting is a time, multiplied by the TDF, or events per time, divided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Time,
    Rate,
}

/// One setting of a network namespace, for the target and for the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTimer {
    /// Its file below `/proc/sys/net`.
    pub setting: &'static str,
    /// The unit of the numbers, as the kernel has it.
    pub unit: &'static str,
    /// The target's value, in virtual time: Linux's default.
    pub target: u64,
    /// The setting on the harness, in real time.
    pub harness: u64,
    /// The right setting, if the kernel does not allow it: the node then sees a timer that is too short (or
    /// a rate that is too high).
    pub wanted: Option<u64>,
}

/// Name, kind, unit, Linux's default, and the kernel's limit. Limits are those of Linux 6.x; seconds that the kernel
/// keeps as jiffies in an int end at (2³¹ − 1) / HZ, HZ ≤ 1000.
type Setting = (&'static str, Kind, &'static str, u64, u64);

/// Of a namespace as a whole: files below `/proc/sys/net`.
const SETTINGS: [Setting; 17] = [
    // Least retransmission time-out.
    ("ipv4/tcp_rto_min_us", Kind::Time, "us", 200_000, 2_147_483_647),
    // Idle time before the first keepalive probe, and time between probes.
    ("ipv4/tcp_keepalive_time", Kind::Time, "s", 7_200, 2_147_483),
    ("ipv4/tcp_keepalive_intvl", Kind::Time, "s", 75, 2_147_483),
    // Time in FIN_WAIT_2.
    ("ipv4/tcp_fin_timeout", Kind::Time, "s", 60, 2_147_483),
    // Longest delay of a compressed selective acknowledgement, and the slack of that timer.
    ("ipv4/tcp_comp_sack_delay_ns", Kind::Time, "ns", 1_000_000, 2_000_000_000_000),
    ("ipv4/tcp_comp_sack_slack_ns", Kind::Time, "ns", 100_000, 2_000_000_000_000),
    // Window over which the least round-trip time is remembered.
    ("ipv4/tcp_min_rtt_wlen", Kind::Time, "s", 300, 86_400),
    // Time before path MTU probing is tried again.
    ("ipv4/tcp_probe_interval", Kind::Time, "s", 600, 4_294_967),
    // Least time between acknowledgements of invalid segments.
    ("ipv4/tcp_invalid_ratelimit", Kind::Time, "ms", 500, 2_147_483_647),
    // Age at which a TIME_WAIT socket may be reused.
    ("ipv4/tcp_tw_reuse_delay", Kind::Time, "ms", 1_000, 60_000),
    // Time for which fragments of a packet are kept.
    ("ipv4/ipfrag_time", Kind::Time, "s", 30, 2_147_483),
    // Least time between ICMP errors to one peer, and how many there may be a second to all.
    ("ipv4/icmp_ratelimit", Kind::Time, "ms", 1_000, 2_147_483_647),
    ("ipv4/icmp_msgs_per_sec", Kind::Rate, "1/s", 1_000, 1),
    // Time for which a learnt path MTU is kept.
    ("ipv4/route/mtu_expires", Kind::Time, "s", 600, 2_147_483),
    // IPv6 likewise.
    ("ipv6/ip6frag_time", Kind::Time, "s", 60, 2_147_483),
    ("ipv6/icmp/ratelimit", Kind::Time, "ms", 1_000, 2_147_483_647),
    ("ipv6/route/mtu_expires", Kind::Time, "s", 600, 2_147_483),
];

/// Of one interface: files below `/proc/sys/net`, with `*` for its name. They exist once it does.
const PER_DEVICE: [Setting; 17] = [
    // How long a neighbour counts as reachable, and the steps of asking again.
    ("ipv4/neigh/*/base_reachable_time_ms", Kind::Time, "ms", 30_000, 2_147_483_647),
    ("ipv4/neigh/*/retrans_time_ms", Kind::Time, "ms", 1_000, 2_147_483_647),
    ("ipv4/neigh/*/delay_first_probe_time", Kind::Time, "s", 5, 2_147_483),
    ("ipv4/neigh/*/gc_stale_time", Kind::Time, "s", 60, 2_147_483),
    // In units of 1/100 s: proxied and anycast answers, and how long an entry cannot be replaced.
    ("ipv4/neigh/*/locktime", Kind::Time, "cs", 100, 2_147_483_647),
    ("ipv4/neigh/*/proxy_delay", Kind::Time, "cs", 80, 2_147_483_647),
    ("ipv4/neigh/*/anycast_delay", Kind::Time, "cs", 100, 2_147_483_647),
    // Reports of group membership.
    ("ipv4/conf/*/igmpv2_unsolicited_report_interval", Kind::Time, "ms", 10_000, 2_147_483_647),
    ("ipv4/conf/*/igmpv3_unsolicited_report_interval", Kind::Time, "ms", 1_000, 2_147_483_647),
    // IPv6 likewise.
    ("ipv6/neigh/*/base_reachable_time_ms", Kind::Time, "ms", 30_000, 2_147_483_647),
    ("ipv6/neigh/*/retrans_time_ms", Kind::Time, "ms", 1_000, 2_147_483_647),
    ("ipv6/neigh/*/delay_first_probe_time", Kind::Time, "s", 5, 2_147_483),
    ("ipv6/neigh/*/gc_stale_time", Kind::Time, "s", 60, 2_147_483),
    ("ipv6/neigh/*/proxy_delay", Kind::Time, "cs", 80, 2_147_483_647),
    ("ipv6/neigh/*/anycast_delay", Kind::Time, "cs", 100, 2_147_483_647),
    ("ipv6/conf/*/mldv1_unsolicited_report_interval", Kind::Time, "ms", 10_000, 2_147_483_647),
    ("ipv6/conf/*/mldv2_unsolicited_report_interval", Kind::Time, "ms", 1_000, 2_147_483_647),
];

impl KernelTimer {
    /// Every timer that a network namespace has of its own, under which a node sees Linux's defaults through a TDF.
    pub fn of_namespace(tdf: Tdf) -> Vec<KernelTimer> {
        SETTINGS.iter().map(|s| KernelTimer::new(s, tdf)).collect()
    }

    /// Every timer that an interface has of its own, with `*` for the interface's name.
    pub fn of_device(tdf: Tdf) -> Vec<KernelTimer> {
        PER_DEVICE.iter().map(|s| KernelTimer::new(s, tdf)).collect()
    }

    /// A timer in whole seconds whose default is the kernel's own, as those of connection tracking.
    pub fn seconds(value: u64, tdf: Tdf) -> u64 {
        scaled(Kind::Time, value, 2_147_483, tdf).0
    }

    fn new(&(setting, kind, unit, target, limit): &Setting, tdf: Tdf) -> KernelTimer {
        let (harness, wanted) = scaled(kind, target, limit, tdf);
        KernelTimer { setting, unit, target, harness, wanted }
    }
}

/// The harness's value, and the one that it should have been if that is beyond the limit. Times are rounded up so that
/// none is early, rates down.
fn scaled(kind: Kind, target: u64, limit: u64, tdf: Tdf) -> (u64, Option<u64>) {
    let (num, den) = tdf.ratio();
    let (target, num, den) = (u128::from(target), u128::from(num), u128::from(den));
    match kind {
        Kind::Time => {
            let wanted = u64::try_from((target * num).div_ceil(den)).unwrap_or(u64::MAX);
            if wanted > limit { (limit, Some(wanted)) } else { (wanted, None) }
        }
        Kind::Rate => {
            let wanted = u64::try_from(target * den / num).unwrap_or(u64::MAX);
            if wanted < limit { (limit, Some(wanted)) } else { (wanted, None) }
        }
    }
}

/// A timer of the kernel that no setting scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckTimer {
    /// The timer.
    pub name: &'static str,
    /// How long it is on the harness; the node sees this divided by the TDF.
    pub real: RealDuration,
    /// The effect in a node when it fires.
    pub effect: &'static str,
}

/// The initial retransmission time-out, where no program of ours sets it.
const STUCK_INITIAL_RTO: StuckTimer = StuckTimer {
    name: "initial retransmission time-out",
    real: RealDuration::from_nanos(1_000_000_000),
    effect: "a lost SYN is sent again too early",
};

/// Timers that cannot be scaled, whatever the TDF.
const STUCK: [StuckTimer; 6] = [
    StuckTimer {
        name: "delayed acknowledgement, least",
        real: RealDuration::from_nanos(40_000_000),
        effect: "a lone segment is acknowledged too early",
    },
    StuckTimer {
        name: "delayed acknowledgement, longest",
        real: RealDuration::from_nanos(200_000_000),
        effect: "a lone segment is acknowledged too early",
    },
    StuckTimer {
        name: "time-out after a repeated SYN without timestamps",
        real: RealDuration::from_nanos(3_000_000_000),
        effect: "first data are sent again too early",
    },
    StuckTimer {
        name: "TIME_WAIT",
        real: RealDuration::from_nanos(60_000_000_000),
        effect: "ports of closed connections are free too early",
    },
    StuckTimer {
        name: "longest retransmission time-out",
        real: RTO_MAX,
        effect: "back-off ends too early in long outages",
    },
    StuckTimer {
        name: "memory of a peer's round-trip time",
        real: RealDuration::from_nanos(3_600_000_000_000),
        effect: "a new connection starts without what an old one learnt",
    },
];

/// Timers that cannot be scaled; the initial time-out is among it where it is not set by a program.
pub fn stuck_timers(initial_rto_scaled: bool) -> Vec<StuckTimer> {
    let first = (!initial_rto_scaled).then_some(STUCK_INITIAL_RTO);
    first.into_iter().chain(STUCK).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tdf(s: &str) -> Tdf {
        s.parse().unwrap()
    }

    fn value(list: &[KernelTimer], setting: &str) -> u64 {
        list.iter().find(|t| t.setting == setting).unwrap().harness
    }

    #[test]
    fn at_tdf_1_a_node_has_linuxs_defaults() {
        for timer in KernelTimer::of_namespace(Tdf::ONE).into_iter().chain(KernelTimer::of_device(Tdf::ONE)) {
            assert_eq!((timer.harness, timer.wanted), (timer.target, None), "{}", timer.setting);
        }
    }

    #[test]
    fn times_are_multiplied_and_rates_divided() {
        let timers = KernelTimer::of_namespace(tdf("10"));
        assert_eq!(value(&timers, "ipv4/tcp_rto_min_us"), 2_000_000);
        assert_eq!(value(&timers, "ipv4/icmp_msgs_per_sec"), 100);
        assert_eq!(value(&timers, "ipv4/tcp_tw_reuse_delay"), 10_000);
        assert_eq!(value(&KernelTimer::of_namespace(tdf("1.5")), "ipv4/tcp_keepalive_intvl"), 113);
        assert_eq!(value(&KernelTimer::of_namespace(tdf("1.1")), "ipv4/icmp_msgs_per_sec"), 909);
        assert_eq!(value(&KernelTimer::of_device(tdf("10")), "ipv4/neigh/*/gc_stale_time"), 600);
    }

    #[test]
    fn what_the_kernel_refuses_is_clamped_and_said() {
        let clamped: Vec<_> =
            KernelTimer::of_namespace(tdf("1000")).into_iter().filter(|t| t.wanted.is_some()).collect();
        let names: Vec<_> = clamped.iter().map(|t| t.setting).collect();
        assert_eq!(names, ["ipv4/tcp_keepalive_time", "ipv4/tcp_min_rtt_wlen", "ipv4/tcp_tw_reuse_delay"]);
        assert_eq!((clamped[2].harness, clamped[2].wanted), (60_000, Some(1_000_000)));
        // The largest TDF of all overflows nothing.
        assert_eq!(value(&KernelTimer::of_namespace(tdf("100000")), "ipv4/tcp_rto_min_us"), 2_147_483_647);
    }
}
