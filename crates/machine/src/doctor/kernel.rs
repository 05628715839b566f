//! The kernel's offers to each mechanism.

use std::fs;
use std::path::Path;

use clock::probe::Notification;
use cpu::Policy;
use host::NetNamespace;
use host::cgroup::{self, Layout};
use host::slices::Slices;
use scale::{RealDuration, Tdf, stuck_timers};
use tcp::{Cubic, InitialTimeout, Offers};

use super::Finding;

pub(super) fn findings() -> Vec<Finding> {
    let mut all = vec![release(), namespaces(), overlay(), tun(), notifications(), ptrace()];
    let groups = cgroup::offers();
    all.extend([cgroups(&groups), shares(), slices(), writeback(), user_limits()]);
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
    if !lacking.is_empty() {
        let says = format!("this kernel lacks {}: use another", lacking.join(", "));
        return Finding::lacking("namespaces", "not all", says);
    }
    match host::too_few_namespaces(1) {
        None => Finding::ok("namespaces", "all", "nodes have their own processes, mounts, names and network"),
        Some(lack) => Finding::lacking("namespaces", "too few", lack.to_string()),
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
            let says = format!("runs will be suspect (clock-lead): {}", why.unwrap_or_default());
            Finding::degraded("CPU shares", format!("{policy:?}").to_lowercase(), says)
        }
    }
}

/// Who decides how long timeslices are on this kernel.
fn slices() -> Finding {
    let name = "slices";
    match host::slices::offered() {
        (Slices::OfTasks, _) => Finding::ok(name, "each task's", "nodes' timeslices are as long as their runs ask for"),
        (Slices::Interrupted, _) => Finding::ok(
            name,
            "none",
            "before Linux 6.6: nodes' timeslices end when a real-time task interrupts them, all after the same time",
        ),
        (Slices::OfHost, _) => of_host(host::slices::of_host(), &host::slices::holders()),
        (Slices::OfNobody, lack) => {
            let why = lack.map(|lack| lack.to_string()).unwrap_or_default();
            Finding::degraded(name, "none", format!("shares are quotas: {why}"))
        }
    }
}

/// The slices of all programs of the machine are `now` so long, by the runs `holders` if there are any.
fn of_host(now: Option<RealDuration>, holders: &[String]) -> Finding {
    let now = now.map_or_else(|| "unknown".into(), |now| now.to_string());
    let says = match holders {
        [] => {
            "of all programs alike (base_slice_ns in debugfs): a run sets them to its own, and back at its end".into()
        }
        _ => format!("of all programs alike (base_slice_ns in debugfs), {}", set_for(holders, "them")),
    };
    Finding::ok("slices", now, says)
}

/// When the kernel writes to nodes' disks of its own accord.
fn writeback() -> Finding {
    let name = "writeback";
    let age = host::writeback::age();
    let now = age.as_ref().map_or_else(|_| "unknown".into(), RealDuration::to_string);
    match age.and_then(|_| host::writeback::settable()) {
        Ok(()) => Finding::ok(name, now, writeback_says(&host::writeback::holders())),
        Err(e) => {
            let says = format!("stays in real time: a run with disks that is longer than that is suspect: {e}");
            Finding::degraded(name, now, says)
        }
    }
}

/// Resources that the kernel counts per user, and nodes have in common with the host's root.
fn user_limits() -> Finding {
    let name = "limits of users";
    match host::user_limits::raisable() {
        Ok(()) => {
            let says = "of inotify, epoll and aio (fs.inotify, fs.epoll, fs.aio-max-nr): a run raises them, so that \
                        nodes cannot use up the host's, and sets them back at its end";
            Finding::ok(name, "raised", says)
        }
        Err(e) => {
            let says = format!("nodes can use up inotify, epoll and aio of the host's root: {e}");
            Finding::degraded(name, "fixed", says)
        }
    }
}

/// Where nobody, or the runs `holders`, have set it.
fn writeback_says(holders: &[String]) -> String {
    let what = "what programs do not sync is written after that (vm.dirty_expire_centisecs)";
    match holders {
        [] => format!("{what}: a run with disks sets it to virtual time, and back at its end"),
        _ => format!("{what}, {}", set_for(holders, "it")),
    }
}

/// Who has set what is the whole machine's, and who sets it back.
pub(super) fn set_for(holders: &[String], what: &str) -> String {
    let runs = holders.join(", ");
    format!("as set for {runs}: the last of them sets {what} back, and where that was killed, the next command of root")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_set_the_slices_of_all_programs_is_told() {
        let now = Some(RealDuration::from_nanos(100_000));
        let free = of_host(now, &[]);
        assert!(free.found == "100µs" && free.says.contains("back at its end"), "{free:?}");
        let held = of_host(now, &["web-1".into(), "db-2".into()]);
        assert!(held.says.contains("set for web-1, db-2") && held.says.contains("next command of root"), "{held:?}");
        assert_eq!(of_host(None, &[]).found, "unknown");
    }

    #[test]
    fn who_has_set_when_the_kernel_writes_back_is_told() {
        assert!(writeback_says(&[]).contains("back at its end"));
        assert!(writeback_says(&["db-2".into()]).contains("set for db-2"));
    }
}
