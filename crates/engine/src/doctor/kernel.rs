//! What the kernel offers to each mechanism.

use std::fs;
use std::io;
use std::path::Path;

use cpu::Policy;
use node::NetNamespace;
use scale::{Tdf, stuck_timers};
use tcp::{Cubic, InitialTimeout, Offers};

use super::Finding;

pub(super) fn findings() -> Vec<Finding> {
    let mut all =
        vec![release(), namespaces(), overlay(), tun(), notifications(), ptrace(), cgroups(), shares(), idle_groups()];
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

/// The kernel looks at the flags of a filter before it looks at the filter: EINVAL tells unknown flags from EFAULT.
fn notifications() -> Finding {
    const NEW_LISTENER: u64 = 1 << 3;
    const WAIT_KILLABLE_RECV: u64 = 1 << 5;
    let refusal = |flags: u64| {
        // SAFETY: a null filter is never installed; the call can only fail.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::null::<u8>()) };
        io::Error::last_os_error().raw_os_error()
    };
    let name = "seccomp notification";
    if refusal(NEW_LISTENER) != Some(libc::EFAULT) {
        return Finding::lacking(name, "no", "programs cannot be dilated: use Linux 5.19 or newer");
    }
    match refusal(NEW_LISTENER | WAIT_KILLABLE_RECV) {
        Some(libc::EFAULT) => Finding::ok(name, "yes", "programs are dilated as they start"),
        _ => {
            let says = "no WAIT_KILLABLE_RECV (Linux 5.19): Go programs would hang at their start: use a newer kernel";
            Finding::lacking(name, "old", says)
        }
    }
}

fn ptrace() -> Finding {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").map(|s| s.trim().to_string());
    match scope.as_deref() {
        Err(_) => Finding::ok("ptrace", "unrestricted", "programs can be dilated, with or without root"),
        Ok("0" | "1") => {
            Finding::ok("ptrace", format!("scope {}", scope.unwrap_or_default()), "programs can be dilated")
        }
        Ok("2") => {
            let says = "only root can dilate programs: `sysctl kernel.yama.ptrace_scope=1`";
            Finding::degraded("ptrace", "scope 2", says)
        }
        Ok(_) => Finding::lacking(
            "ptrace",
            "scope 3",
            "nothing can be dilated until the next boot with a lower kernel.yama.ptrace_scope",
        ),
    }
}

/// Which layout the control groups have, and whether the controllers that a node needs are in it.
fn cgroups() -> Finding {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let of_kind =
        |kind: &str| mounts.lines().filter_map(|l| l.split_once(" - ")).filter(|(_, r)| r.starts_with(kind)).count();
    let (v1, v2) = (of_kind("cgroup "), of_kind("cgroup2 "));
    let found = match (v1, v2) {
        (0, 0) => "none",
        (0, _) => "version 2",
        (_, 0) => "version 1",
        _ => "hybrid",
    };
    if v1 == 0 {
        let says = "nodes need version 1 controllers, for now: boot with `systemd.unified_cgroup_hierarchy=0 \
                    systemd.legacy_systemd_cgroup_controller`";
        return Finding::lacking("control groups", found, says);
    }
    let lacking: Vec<_> = ["cpu", "cpuacct", "cpuset", "devices", "memory", "pids"]
        .into_iter()
        .filter(|c| {
            let mounted = |l: &str| {
                let options = l
                    .split_once(" - ")
                    .filter(|(_, r)| r.starts_with("cgroup "))
                    .and_then(|(_, r)| r.split(' ').nth(2));
                options.is_some_and(|o| o.split(',').any(|o| o == *c))
            };
            !mounts.lines().any(mounted)
        })
        .collect();
    match lacking.is_empty() {
        true => Finding::ok("control groups", found, "CPU, memory, devices and processes of a node are limited"),
        false => {
            let says =
                format!("not mounted: {}: `mount -t cgroup -o NAME cgroup /sys/fs/cgroup/NAME`", lacking.join(", "));
            Finding::lacking("control groups", found, says)
        }
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
fn idle_groups() -> Finding {
    let places = ["/sys/fs/cgroup/cpu/cpu.idle", "/sys/fs/cgroup/cpu,cpuacct/cpu.idle"];
    let says = "idle groups fill what a node does not use (Linux 5.15)";
    match places.iter().any(|p| Path::new(p).exists()) {
        true => Finding::ok("cpu.idle", "yes", says),
        false => Finding::degraded("cpu.idle", "no", format!("{says}: without them shares are quotas")),
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
