//! The tables of kernel settings know all that the kernel's headers, and this kernel's files, call a time or a rate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use scale::{KernelTimer, Tdf};

const ATTRIBUTES: &str = include_str!("../guest/settings/attributes.h");
const SYSCTLS: &str = include_str!("../guest/settings/sysctls.h");

/// Those that `attributes.h` is about.
const HEADERS: [&str; 15] = [
    "gen_stats.h",
    "if_addr.h",
    "if_bridge.h",
    "if_link.h",
    "inet_diag.h",
    "neighbour.h",
    "netfilter/ipset/ip_set.h",
    "netfilter/nf_tables.h",
    "netfilter/nf_tables_compat.h",
    "netfilter/nfnetlink_conntrack.h",
    "netfilter/nfnetlink_cttimeout.h",
    "nexthop.h",
    "pkt_cls.h",
    "pkt_sched.h",
    "rtnetlink.h",
];

/// Parts of names that times and rates have.
const TIMES: [&str; 31] = [
    "AGEING",
    "AGE_",
    "CACHEINFO",
    "CYCLE",
    "DEADLINE",
    "DELAY",
    "EXPIR",
    "HORIZON",
    "IDLE",
    "INTERVAL",
    "INTVL",
    "JITTER",
    "LATENC",
    "LFT",
    "LIFE",
    "MAX_AGE",
    "MIIMON",
    "MSECS",
    "PERIOD",
    "RATE",
    "REPLIED",
    "RTO",
    "RTT",
    "SLACK",
    "SLOT",
    "TARGET",
    "THRESHOLD",
    "TIME",
    "TUPDATE",
    "USEC",
    "_SECS",
];

/// Whose names say so and that are none: numbers of messages, flags, counts, addresses, tables of samples, or what a
/// card does.
const NONE: [&str; 34] = [
    "CTA_TIMESTAMP_PAD",
    "IFA_TARGET_NETNSID",
    "IFLA_BOND_ARP_ALL_TARGETS",
    "IFLA_BOND_ARP_IP_TARGET",
    "IFLA_BOND_NS_IP6_TARGET",
    "IFLA_TARGET_NETNSID",
    "IFLA_VF_RATE",
    "IFLA_VF_TX_RATE",
    "INET_DIAG_REQ_SK_BPF_STORAGES",
    "INET_DIAG_SK_BPF_STORAGES",
    "IPCTNL_MSG_TIMEOUT_DEFAULT_SET",
    "IPCTNL_MSG_TIMEOUT_DELETE",
    "IPCTNL_MSG_TIMEOUT_GET",
    "IPSET_ERR_TIMEOUT",
    "NFTA_CT_TIMEOUT_L3PROTO",
    "NFTA_CT_TIMEOUT_L4PROTO",
    "NFTA_LOG_QTHRESHOLD",
    "NFTA_SET_ELEM_INTERVAL_END",
    "NFTA_TARGET_REV",
    "NFT_SET_ELEM_INTERVAL_END",
    "NFT_SET_INTERVAL",
    "NFT_SET_TIMEOUT",
    "TCA_CAKE_AUTORATE",
    "TCA_FQ_CODEL_CE_THRESHOLD_MASK",
    "TCA_FQ_CODEL_CE_THRESHOLD_SELECTOR",
    "TCA_FQ_HORIZON_DROP",
    "TCA_FQ_PIE_DQ_RATE_ESTIMATOR",
    "TCA_FQ_RATE_ENABLE",
    "TCA_NETEM_DELAY_DIST",
    "TCA_NETEM_SLOT_DIST",
    "TCA_PIE_DQ_RATE_ESTIMATOR",
    "TCA_POLICE_PEAKRATE",
    "TCA_POLICE_RATE",
    "TC_MQPRIO_SHAPER_BW_RATE",
];

/// In these sets whatever there is is a time-out (`ANY`).
const ALL: &str = "CTA_TIMEOUT_";

/// That are times and not translated: `docs/limits-time.md` says so. The first five are of queues that are told of
/// whole.
const UNTRANSLATED: [&str; 5] = ["TCA_CBQ_", "TCA_MQPRIO_", "TCA_TAPRIO_", "TCA_CAKE_STATS_", "TCA_CAKE_TIN_STATS_"];
const UNTRANSLATED_TOO: [&str; 8] = [
    "BRIDGE_QUERIER_",
    "IFLA_BRIDGE_CFM_",
    "IFLA_BRIDGE_MRP_",
    "MDBA_MDB_SRCATTR_TIMER",
    "MDBA_ROUTER_PATTR_",
    "NFT_CT_EXPIRATION",
    "NFT_META_TIME_",
    "TCA_STATS_APP",
];

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Names of an enumeration of a header, a line each.
fn enumerators(header: &str) -> Vec<String> {
    let path = Path::new("/usr/include/linux").join(header);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let name = |line: &str| {
        let name = line.trim().split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?.to_owned();
        let after = line.trim()[name.len()..].trim_start();
        (is_word(&name) && (after.is_empty() || after.starts_with([',', '=', '/']))).then_some(name)
    };
    text.lines().filter_map(name).collect()
}

#[test]
fn every_time_in_the_headers_is_known() {
    let known: BTreeSet<&str> = ATTRIBUTES.split(|c: char| !(c.is_alphanumeric() || c == '_')).chain(NONE).collect();
    let all = |name: &str| UNTRANSLATED.iter().chain(&UNTRANSLATED_TOO).chain([&ALL]).any(|of| name.starts_with(of));
    let ends = ["_UNSPEC", "_MAX"];
    let mut missing = Vec::new();
    for header in HEADERS {
        let names = enumerators(header);
        assert!(!names.is_empty(), "{header} names nothing");
        let times = names.into_iter().filter(|n| TIMES.iter().any(|part| n.contains(part)));
        let times = times.filter(|n| !ends.iter().any(|end| n.ends_with(end)));
        missing.extend(times.filter(|n| !known.contains(n.as_str()) && !all(n)).map(|n| format!("{header} {n}")));
    }
    assert!(missing.is_empty(), "neither in attributes.h nor on a list here:\n{}", missing.join("\n"));
}

/// The rows of `sysctls.h`: path and unit.
fn sysctls() -> Vec<(&'static str, &'static str)> {
    let row = |line: &'static str| {
        let mut parts = line.strip_prefix("SYSCTL(\"")?.strip_suffix(')')?.split(", ");
        Some((parts.next()?.trim_end_matches('"'), parts.next()?))
    };
    SYSCTLS.lines().filter_map(row).collect()
}

/// A star stands for anything without a slash.
fn is_like(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((before, after)) => path.strip_prefix(before).is_some_and(|rest| {
            let part = rest.find('/').unwrap_or(rest.len());
            (0..=part).any(|n| rest.is_char_boundary(n) && is_like(after, &rest[n..]))
        }),
    }
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

#[test]
fn every_time_of_this_kernel_is_known() {
    const PARTS: [&str; 12] = [
        "time",
        "interval",
        "intvl",
        "delay",
        "expires",
        "ratelimit",
        "lft",
        "wlen",
        "rto_",
        "desync",
        "min_advance",
        "_life",
    ];
    const ENDS: [&str; 5] = ["_ms", "_us", "_ns", "_sec", "_secs"];
    // Not translated: settings of the whole machine, which no node has, flags, and numbers of packets or messages.
    const NONE: [&str; 13] = [
        "core/netdev_budget_usecs",
        "core/netdev_unregister_timeout_secs",
        "core/xfrm_aevent_etime",
        "ipv4/tcp_no_metrics_save",
        "ipv4/tcp_no_ssthresh_metrics_save",
        "ipv4/tcp_timestamps",
        "netfilter/nf_conntrack_timestamp",
        "core/netdev_tstamp_prequeue",
        "core/tstamp_allow_data",
        "ipv6/conf/*/router_solicitations",
        "ipv6/conf/*/ra_honor_pio_life",
        "ipv4/tcp_syn_linear_timeouts",
        "ipv4/tcp_thin_linear_timeouts",
    ];
    let root = Path::new("/proc/sys/net");
    let mut found = Vec::new();
    files(root, &mut found);
    assert!(found.len() > 100, "no settings in {}", root.display());
    let sysctls = sysctls();
    let paths = found.iter().map(|p| p.strip_prefix(root).unwrap().to_str().unwrap());
    let is_time = |name: &str| PARTS.iter().any(|p| name.contains(p)) || ENDS.iter().any(|e| name.ends_with(e));
    let times = paths.filter(|p| is_time(p.rsplit('/').next().unwrap()));
    let unknown =
        times.filter(|p| !sysctls.iter().map(|(pattern, _)| *pattern).chain(NONE).any(|pattern| is_like(pattern, p)));
    let unknown: Vec<&str> = unknown.collect();
    assert!(unknown.is_empty(), "neither in sysctls.h nor on a list here: {unknown:?}");
}

#[test]
fn what_nodes_are_given_is_read_in_the_same_unit() {
    let timers = KernelTimer::of_namespace(Tdf::ONE).into_iter().chain(KernelTimer::of_device(Tdf::ONE));
    for timer in timers {
        let setting = timer.setting.replace('*', "eth0");
        let row = sysctls().into_iter().find(|(pattern, _)| is_like(pattern, &setting));
        let unit = row.unwrap_or_else(|| panic!("{setting} is not in sysctls.h")).1;
        assert_eq!(unit.to_lowercase().replace("packets_s", "1/s"), timer.unit, "{setting}");
    }
}
