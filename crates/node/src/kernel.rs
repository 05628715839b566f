//! Kernel settings of one network namespace: TCP as the target would have it, with timers in real values.
//!
//! The values are computed in `scale`; this module writes them where the kernel reads them.

use std::fmt;
use std::fs;
use std::path::Path;

use host::NetNamespace;
use scale::{KernelTimer, Tdf};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A setting that the kernel did not take, and so behaves as without scaling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotApplied {
    /// Its path below `/proc/sys/net`.
    pub setting: String,
    /// The value that was refused.
    pub value: String,
    /// The kernel's error.
    pub why: String,
}

impl fmt::Display for NotApplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.setting, self.value, self.why)
    }
}

/// Settings of every node, in every variant.
///
/// Linear SYN time-outs would replace the back-off that the target has by default only in recent kernels. Echo sockets
/// spare `ping` the capability that a node's ordinary users do not have.
const COMMON: [(&str, &str); 2] = [("ipv4/tcp_syn_linear_timeouts", "0"), ("ipv4/ping_group_range", "0 2147483647")];

/// Where the kernel keeps them.
const SYSCTL: &str = "/proc/sys/net";

/// How many connections a node's table of TCP connections has room for before they share places.
const CONNECTIONS: &str = "8192";

/// Settings of a namespace by the size of its table, and of nodes by that of the machine's.
const BY_TABLE: [&str; 2] = ["ipv4/tcp_max_tw_buckets", "ipv4/tcp_max_syn_backlog"];

/// The network namespace from which those of nodes are made, so that each has a table of TCP connections of its own.
///
/// Else all have one, with hundreds of thousands of places, and whoever looks through the sockets of one node goes
/// through all of them.
#[derive(Debug)]
pub struct ParentNamespace {
    namespace: NetNamespace,
    by_table: Vec<(String, String)>,
}

impl ParentNamespace {
    /// Makes it. On kernels before 6.1 nodes have the machine's table.
    pub fn create() -> Result<ParentNamespace, Error> {
        let namespace = NetNamespace::create()?;
        let by_table = namespace.enter(|| {
            // Asked before the size is set: that is what nodes would have otherwise.
            let by_table = BY_TABLE.into_iter().filter_map(|name| Some((name.to_string(), value_of(name)?))).collect();
            let _ = fs::write(Path::new(SYSCTL).join("ipv4/tcp_child_ehash_entries"), CONNECTIONS);
            by_table
        })?;
        Ok(ParentNamespace { namespace, by_table })
    }

    /// Makes the namespace of a node, with nothing but a `lo` that is down; with a user namespace if that is wanted.
    pub fn child(&self, with_users: bool) -> Result<NetNamespace, Error> {
        // A setting that fails is smaller than it was, and no value that anything here depends on.
        let first = || drop(write_all(self.by_table.iter().cloned()));
        let parent = &self.namespace;
        Ok(if with_users { parent.child_with_users(first) } else { parent.child(first) }?)
    }
}

/// Sets what every node has, its congestion control by the kernel's name for it, and the timers of the namespace as a
/// whole; gives what the kernel did not take.
pub fn apply(netns: &NetNamespace, congestion: &str, tdf: Tdf) -> Result<Vec<NotApplied>, Error> {
    let mut settings: Vec<_> = COMMON.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    settings.push(("ipv4/tcp_congestion_control".into(), congestion.into()));
    if tdf != Tdf::ONE {
        let timers = KernelTimer::of_namespace(tdf);
        settings.extend(timers.iter().map(|t| (t.setting.to_string(), t.harness.to_string())));
    }
    let refused = netns.enter(|| {
        let tracked = if tdf == Tdf::ONE { Vec::new() } else { connection_tracking(tdf) };
        write_all(settings.into_iter().chain(tracked))
    })?;
    Ok(refused)
}

/// Sets the timers of every interface that the namespace has by now; gives what the kernel did not take.
pub fn apply_to_devices(netns: &NetNamespace, tdf: Tdf) -> Result<Vec<NotApplied>, Error> {
    if tdf == Tdf::ONE {
        return Ok(Vec::new());
    }
    let refused = netns.enter(|| {
        let devices = names(&Path::new(SYSCTL).join("ipv4/neigh"));
        let devices = devices.iter().filter(|d| *d != "default");
        let timers = KernelTimer::of_device(tdf);
        write_all(devices.flat_map(|device| {
            timers.iter().map(|t| (t.setting.replace('*', device), t.harness.to_string())).collect::<Vec<_>>()
        }))
    })?;
    Ok(refused)
}

/// Times of connection tracking, where the host has it. Their defaults differ between kernels, so those found are
/// taken.
fn connection_tracking(tdf: Tdf) -> Vec<(String, String)> {
    let files = names(&Path::new(SYSCTL).join("netfilter"));
    let times = files.into_iter().filter(|f| f.starts_with("nf_conntrack_") && f.contains("_timeout"));
    let scaled = times.filter_map(|file| {
        let setting = format!("netfilter/{file}");
        let value: u64 = value_of(&setting)?.parse().ok()?;
        Some((setting, KernelTimer::seconds(value, tdf).to_string()))
    });
    scaled.collect()
}

/// Value of a setting in the calling thread's namespace, if there is such a one.
fn value_of(setting: &str) -> Option<String> {
    Some(fs::read_to_string(Path::new(SYSCTL).join(setting)).ok()?.trim().to_string())
}

/// Content of a directory; nothing, if it is not there.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().into_string().ok()).collect()
}

fn write_all(settings: impl IntoIterator<Item = (String, String)>) -> Vec<NotApplied> {
    let refused = settings.into_iter().filter_map(|(setting, value)| {
        // A kernel without IPv6 has none of its settings, nor has an interface whose MTU is too short for it.
        let dir = Path::new(&setting).parent().filter(|dir| dir.starts_with("ipv6"));
        if dir.is_some_and(|dir| !Path::new(SYSCTL).join(dir).exists()) {
            return None;
        }
        let wrong = fs::write(Path::new(SYSCTL).join(&setting), &value).err()?;
        Some(NotApplied { setting, value, why: wrong.to_string() })
    });
    refused.collect()
}
