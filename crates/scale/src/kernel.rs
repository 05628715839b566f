//! The kernel's own timers, which tick in real time: what they are set to so that a node sees the target's.
//!
//! A node's TCP is the host kernel's. Its timers that are settings of a network namespace are multiplied by the TDF
//! here; rates are divided. The rest cannot be scaled ([`STUCK`]).

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
    /// What the target has, in virtual time: Linux's default.
    pub target: u64,
    /// What it is set to on the harness, in real time.
    pub harness: u64,
    /// What it would have to be, if the kernel allows no such value: the node then sees a timer that is too short (or
    /// a rate that is too high).
    pub wanted: Option<u64>,
}

macro_rules! timers {
    ($($field:ident: $kind:ident $file:literal $unit:literal, $target:literal, limit $limit:literal, $doc:literal;)*) => {
        /// Every timer that a network namespace has of its own, in *real* time, in the kernel's units.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct KernelTimers {
            $(#[doc = $doc] pub $field: u64,)*
        }

        impl KernelTimers {
            /// The settings under which a node sees Linux's defaults through a TDF.
            pub fn new(tdf: Tdf) -> KernelTimers {
                KernelTimers { $($field: scaled(Kind::$kind, $target, $limit, tdf).0,)* }
            }

            /// The same, one by one, with what the kernel's limits do not allow.
            pub fn list(tdf: Tdf) -> Vec<KernelTimer> {
                vec![$({
                    let (harness, wanted) = scaled(Kind::$kind, $target, $limit, tdf);
                    KernelTimer { setting: $file, unit: $unit, target: $target, harness, wanted }
                },)*]
            }
        }
    };
}

// Limits are those of Linux 6.x; seconds that the kernel keeps as jiffies in an int end at (2³¹ − 1) / HZ, HZ ≤ 1000.
timers! {
    tcp_rto_min_us: Time "ipv4/tcp_rto_min_us" "us", 200_000, limit 2_147_483_647,
        "Least retransmission time-out, µs.";
    tcp_keepalive_time_s: Time "ipv4/tcp_keepalive_time" "s", 7_200, limit 2_147_483,
        "Idle time before the first keepalive probe, s.";
    tcp_keepalive_intvl_s: Time "ipv4/tcp_keepalive_intvl" "s", 75, limit 2_147_483,
        "Time between keepalive probes, s.";
    tcp_fin_timeout_s: Time "ipv4/tcp_fin_timeout" "s", 60, limit 2_147_483,
        "Time in FIN_WAIT_2, s.";
    tcp_comp_sack_delay_ns: Time "ipv4/tcp_comp_sack_delay_ns" "ns", 1_000_000, limit 2_000_000_000_000,
        "Longest delay of a compressed selective acknowledgement, ns.";
    tcp_comp_sack_slack_ns: Time "ipv4/tcp_comp_sack_slack_ns" "ns", 100_000, limit 2_000_000_000_000,
        "Slack of that timer, ns.";
    tcp_min_rtt_wlen_s: Time "ipv4/tcp_min_rtt_wlen" "s", 300, limit 86_400,
        "Window over which the least round-trip time is remembered, s.";
    tcp_probe_interval_s: Time "ipv4/tcp_probe_interval" "s", 600, limit 4_294_967,
        "Time before path MTU probing is tried again, s.";
    tcp_invalid_ratelimit_ms: Time "ipv4/tcp_invalid_ratelimit" "ms", 500, limit 2_147_483_647,
        "Least time between acknowledgements of invalid segments, ms.";
    tcp_tw_reuse_delay_ms: Time "ipv4/tcp_tw_reuse_delay" "ms", 1_000, limit 60_000,
        "Age at which a TIME_WAIT socket may be reused, ms.";
    ipfrag_time_s: Time "ipv4/ipfrag_time" "s", 30, limit 2_147_483,
        "Time for which fragments of an IPv4 packet are kept, s.";
    icmp_ratelimit_ms: Time "ipv4/icmp_ratelimit" "ms", 1_000, limit 2_147_483_647,
        "Least time between ICMP errors to one peer, ms.";
    icmp_msgs_per_sec: Rate "ipv4/icmp_msgs_per_sec" "1/s", 1_000, limit 1,
        "ICMP errors per real second, over all peers.";
    route_mtu_expires_s: Time "ipv4/route/mtu_expires" "s", 600, limit 2_147_483,
        "Time for which a learnt path MTU is kept, s.";
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
    /// What it is.
    pub name: &'static str,
    /// How long it is on the harness; the node sees this divided by the TDF.
    pub real: RealDuration,
    /// What a node sees when it fires.
    pub effect: &'static str,
}

/// What cannot be scaled, whatever the TDF.
pub const STUCK: [StuckTimer; 5] = [
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
        name: "initial retransmission time-out",
        real: RealDuration::from_nanos(1_000_000_000),
        effect: "a lost SYN is sent again too early",
    },
    StuckTimer {
        name: "TIME_WAIT",
        real: RealDuration::from_nanos(60_000_000_000),
        effect: "ports of closed connections are free too early",
    },
    StuckTimer {
        name: "longest retransmission time-out",
        real: RealDuration::from_nanos(120_000_000_000),
        effect: "back-off ends too early in long outages",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn tdf(s: &str) -> Tdf {
        s.parse().unwrap()
    }

    #[test]
    fn at_tdf_1_a_node_has_linuxs_defaults() {
        for timer in KernelTimers::list(Tdf::ONE) {
            assert_eq!((timer.harness, timer.wanted), (timer.target, None), "{}", timer.setting);
        }
    }

    #[test]
    fn times_are_multiplied_and_rates_divided() {
        let timers = KernelTimers::new(tdf("10"));
        assert_eq!(timers.tcp_rto_min_us, 2_000_000);
        assert_eq!(timers.icmp_msgs_per_sec, 100);
        assert_eq!(timers.tcp_tw_reuse_delay_ms, 10_000);
        assert_eq!(KernelTimers::new(tdf("1.5")).tcp_keepalive_intvl_s, 113);
        assert_eq!(KernelTimers::new(tdf("1.1")).icmp_msgs_per_sec, 909);
    }

    #[test]
    fn what_the_kernel_refuses_is_clamped_and_said() {
        let clamped: Vec<_> = KernelTimers::list(tdf("1000")).into_iter().filter(|t| t.wanted.is_some()).collect();
        let names: Vec<_> = clamped.iter().map(|t| t.setting).collect();
        assert_eq!(names, ["ipv4/tcp_keepalive_time", "ipv4/tcp_min_rtt_wlen", "ipv4/tcp_tw_reuse_delay"]);
        assert_eq!((clamped[2].harness, clamped[2].wanted), (60_000, Some(1_000_000)));
        // The largest TDF of all overflows nothing.
        assert_eq!(KernelTimers::new(tdf("100000")).tcp_rto_min_us, 2_147_483_647);
    }
}
