//! What the kernel offers to each mechanism.

use std::fs;
use std::path::Path;

use clock::probe::Notification;
use cpu::Policy;
use host::NetNamespace;
use host::cgroup::{self, Layout};
use scale::{Tdf, stuck_timers};
use tcp::{Cubic, InitialTimeout, Offers};

use super::Finding;

pub(super) fn findings() -> Vec<Finding> {
    let mut all = vec![release(), namespaces(), overlay(), tun(), notifications(), ptrace()];
    let groups = cgroup::offers();
    all.extend([cgroups(&groups), shares(), idle_groups(&groups)]);
    all.extend(bpf());
    all.extend(settings());
    all.extend(stuck());
    all
}

fn release() -> Finding {
    let uname = rustix::system::uname();
    let found = uname.release().to_string_lossy().into_owned();
    Finding::ok("kernel", found, "what matters of it is listed below")
}

fn namespaces() -> Finding {
    let lacking: Vec<_> = ["cgroup", "ipc", "mnt", "net", "pid", "uts"]
        .into_iter()
        .filter(|n| !Path::new("/proc/self/ns").join(n).exists())
        .collect();
    match lacking.is_empty() {
        true => Finding::ok("namespaces", "all", "nodes have their own processes, mounts, names and network"),
        false => {
            Finding::lacking("namespaces", "not all", format!("this kernel lacks {}: use another", lacking.join(", ")))
        }
    }
}

fn overlay() -> Finding {
    let known = fs::read_to_string("/proc/filesystems").is_ok_and(|t| t.lines().any(|l| l.ends_with("\toverlay")));
    match known {
        true => Finding::ok("overlay", "yes", "nodes share the host's programs and write to files of their own"),
        false => Finding::lacking("overlay", "no", "no file system for the nodes' roots: `modprobe overlay`"),
    }
}

fn tun() -> Finding {
    match fs::File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => Finding::ok("TUN", "yes", "nodes' interfaces are TAP devices"),
        Err(e) => {
            let says = "no interfaces for the nodes: `modprobe tun`, or give this container /dev/net/tun";
            Finding::lacking("TUN", e.to_string(), says)
        }
    }
}

fn notifications() -> Finding {
    let name = "seccomp notification";
    match clock::probe::notification() {
        Notification::Offered => Finding::ok(name, "yes", "programs are dilated as they start"),
        Notification::Interruptible => {
            let says = "no WAIT_KILLABLE_RECV (Linux 5.19): Go programs would hang at their start: use a newer kernel";
            Finding::lacking(name, "old", says)
        }
        Notification::Lacking => Finding::lacking(name, "no", "programs cannot be dilated: use Linux 5.19 or newer"),
    }
}

fn ptrace() -> Finding {
    match clock::probe::ptrace_scope() {
        None => Finding::ok("ptrace", "unrestricted", "programs can be dilated, with or without root"),
        Some(scope @ (0 | 1)) => Finding::ok("ptrace", format!("scope {scope}"), "programs can be dilated"),
        Some(2) => {
            let says = "only root can dilate programs: `sysctl kernel.yama.ptrace_scope=1`";
            Finding::degraded("ptrace", "scope 2", says)
        }
        Some(_) => {
            let says = "nothing can be dilated until the next boot with a lower kernel.yama.ptrace_scope";
            Finding::lacking("ptrace", "scope 3", says)
        }
    }
}

/// Which layout the control groups have, and whether the controllers that a node needs are in it.
fn cgroups(groups: &cgroup::Offers) -> Finding {
    let found = match groups.layout {
        Layout::None => "none",
        Layout::V1 => "version 1",
        Layout::V2 => "version 2",
        Layout::Hybrid => "hybrid",
    };
    match &groups.no_nodes {
        None => Finding::ok("control groups", found, "CPU, memory, devices and processes of a node are limited"),
        Some(lack) => Finding::lacking("control groups", found, lack.to_string()),
    }
}

fn shares() -> Finding {
    match cpu::best_policy() {
        (Policy::Slots, _) => Finding::ok(
            "CPU shares",
            "always-runnable groups",
            "a burst of work takes as long as on the target, in virtual time",
        ),
        (policy, why) => {
            let says = format!("runs will be suspect (cpu-grain): {}", why.unwrap_or_default());
            Finding::degraded("CPU shares", format!("{policy:?}").to_lowercase(), says)
        }
    }
}

/// Part of what [`cpu::best_policy`] rests on, so that a user sees which one is missing.
fn idle_groups(groups: &cgroup::Offers) -> Finding {
    let says = "idle groups fill what a node does not use (Linux 5.15)";
    match groups.idle {
        true => Finding::ok("idle groups", "yes", says),
        false => Finding::degraded("idle groups", "no", format!("{says}: without them shares are quotas")),
    }
}

/// Tried, not guessed: the programs are loaded and let go of again.
fn bpf() -> Vec<Finding> {
    let cubic = match Cubic::register(Tdf::ONE) {
        Ok(_) => Finding::ok("BPF struct_ops", "yes", "nodes have CUBIC in virtual time"),
        Err(e) => {
            let says = format!("nodes have Reno, in every variant, where the target has CUBIC: {e}");
            Finding::degraded("BPF struct_ops", "no", says)
        }
    };
    let timeout = match InitialTimeout::attach(Tdf::ONE, &[0]) {
        Ok(_) => Finding::ok("BPF sock_ops", "yes", "the initial retransmission time-out is scaled"),
        Err(e) => {
            let says =
                format!("round trips are limited to 0.8 s of real time, and a lost SYN makes a run suspect: {e}");
            Finding::degraded("BPF sock_ops", "no", says)
        }
    };
    vec![cubic, timeout]
}

/// Settings of a namespace that this kernel does not have.
fn settings() -> Vec<Finding> {
    let refused = Tdf::new(10, 1).map_err(|e| e.to_string()).and_then(|tdf| {
        let namespace = NetNamespace::create().map_err(|e| e.to_string())?;
        node::apply(&namespace, "reno", tdf).map_err(|e| e.to_string())
    });
    match refused {
        Ok(none) if none.is_empty() => {
            vec![Finding::ok("kernel timers", "scaled", "those that are settings of a namespace, by the TDF")]
        }
        Ok(refused) => refused
            .iter()
            .map(|r| Finding::degraded("kernel timer", r.setting.clone(), format!("stays in real time: {}", r.why)))
            .collect(),
        Err(e) => vec![Finding::lacking("kernel timers", "unknown", e)],
    }
}

fn stuck() -> Vec<Finding> {
    let finding = |t: &scale::StuckTimer| {
        let says = format!("{}: stays in real time; a run in which it fires is suspect", t.effect);
        Finding::degraded(&format!("kernel timer: {}", t.name), t.real.to_string(), says)
    };
    stuck_timers(Offers::here().initial_timeout).iter().map(finding).collect()
}
