//! The OCI bundle of one node: what the runtime is told to make.

use std::path::{Path, PathBuf};

use oci_spec::runtime::{
    Capability, Linux, LinuxCapabilities, LinuxCpu, LinuxDeviceCgroup, LinuxIdMappingBuilder, LinuxMemory,
    LinuxNamespace, LinuxNamespaceType, LinuxPids, LinuxResources, Mount, PosixRlimitBuilder, PosixRlimitType, Process,
    Root, Spec, User,
};

use host::user_namespace;
use rustix::fs::CWD;
use rustix::process::{Resource, getrlimit};

use crate::{masked_paths, seccomp};

/// Differences between bundles.
pub(crate) struct Parts<'a> {
    pub(crate) hostname: &'a str,
    pub(crate) root: &'a Path,
    pub(crate) netns: &'a Path,
    /// Its user namespace, if it has one, and its root's number outside.
    pub(crate) users: Option<(PathBuf, u32)>,
    pub(crate) cgroup: &'a str,
    /// Its cores, as the kernel lists them.
    pub(crate) cores: &'a str,
    pub(crate) memory_bytes: u64,
    /// Whether the kernel can also limit memory and swap together.
    pub(crate) limit_swap: bool,
    /// Whether what waits in its sockets is counted by itself (version 1), and not as memory.
    pub(crate) limit_sockets: bool,
    /// (file in the staging directory, path in the node), shown read-only.
    pub(crate) shown: &'a [(PathBuf, PathBuf)],
    pub(crate) process: Process,
}

/// Capabilities of a node's root. Each acts on the node's own files, processes and interfaces only.
///
/// Left out, among others: SYS_TIME, SYS_ADMIN, SYS_PTRACE, SYS_MODULE, SYS_RAWIO, SYS_BOOT, SYSLOG, MKNOD, BPF and
/// PERFMON reach the host; DAC_READ_SEARCH opens host files by handle; LINUX_IMMUTABLE makes files that cannot be
/// cleaned up; SYS_NICE and SYS_RESOURCE would let one node take the others' share of the core.
const CAPABILITIES: [Capability; 16] = [
    Capability::Chown,
    Capability::DacOverride,
    Capability::Fowner,
    Capability::Fsetid,
    Capability::IpcLock,
    Capability::IpcOwner,
    Capability::Kill,
    Capability::Lease,
    Capability::NetAdmin,
    Capability::NetBindService,
    Capability::NetBroadcast,
    Capability::NetRaw,
    Capability::Setgid,
    Capability::Setpcap,
    Capability::Setuid,
    Capability::SysChroot,
];

/// Readable but not writable, beside all of `/proc/sys` but `net`, which is the node's own. Nothing may be mounted
/// below these paths: crun 1.8.1 would show it writable.
const READ_ONLY: [&str; 5] = [
    "/proc/irq",
    "/proc/mtrr",
    "/proc/pressure",
    // The one setting below `net` that is the host's, in all namespaces; switched on it stays so until the next boot.
    "/proc/sys/net/netfilter/nf_hooks_lwtunnel",
    "/proc/sysrq-trigger",
];

/// Enough for any program, too few to use up the host's process numbers.
const MOST_PROCESSES: i64 = 16_384;

/// Where the whole machine runs out of memory, nodes are ended before anything of the host's: it may be for them that
/// the kernel keeps it.
const FIRST_TO_END: i32 = 1000;

/// Whether the host has a program of its own for what is left of those that crash.
fn dumps_to_program() -> bool {
    host::descriptors::read_at(CWD, "/proc/sys/kernel/core_pattern").is_ok_and(|pattern| pattern.starts_with('|'))
}

/// How many terminals a node may have: the machine has 4096 for all, of which the kernel keeps 1024 for the host.
const TERMINALS: &str = "max=256";

/// The process of a container, or one that joins it later.
pub(crate) fn process(argv: &[String], env: &[String], cwd: &str, (uid, gid): (u32, u32)) -> Process {
    let set: std::collections::HashSet<_> = CAPABILITIES.into_iter().collect();
    let mut capabilities = LinuxCapabilities::default();
    capabilities.set_bounding(Some(set.clone())).set_effective(Some(set.clone())).set_permitted(Some(set));
    capabilities.set_inheritable(None).set_ambient(None);
    let mut process = Process::default();
    let mut user = User::default();
    user.set_uid(uid).set_gid(gid);
    process.set_user(user);
    process.set_args(Some(argv.to_vec())).set_env(Some(env.to_vec())).set_cwd(cwd.into());
    process.set_capabilities(Some(capabilities)).set_no_new_privileges(Some(true));
    process.set_oom_score_adj(Some(FIRST_TO_END));
    let [soft, hard] = host::descriptors::limit_of_programs();
    // Limits per user are the kernel's for all nodes and the host's root together, and whoever has the
    // higher limit gets the rest: here, half of it.
    let limit = |kind, soft, hard| PosixRlimitBuilder::default().typ(kind).soft(soft).hard(hard).build().ok();
    let of_user = [
        (PosixRlimitType::RlimitSigpending, Resource::Sigpending),
        (PosixRlimitType::RlimitMsgqueue, Resource::Msgqueue),
    ];
    let own = of_user.into_iter().filter_map(|(kind, resource)| {
        let half = getrlimit(resource).current? / 2;
        limit(kind, half, half)
    });
    // A core goes to a program of the host's then, as the host's root; this length is the one that forbids it.
    let core = dumps_to_program().then(|| limit(PosixRlimitType::RlimitCore, 1, 1)).flatten();
    let files = limit(PosixRlimitType::RlimitNofile, soft, hard);
    process.set_rlimits(Some(files.into_iter().chain(own).chain(core).collect()));
    process
}

/// The `config.json` of a node.
pub(crate) fn spec(parts: Parts<'_>) -> Spec {
    let mut root = Root::default();
    root.set_path(parts.root.into()).set_readonly(Some(false));
    let mut spec = Spec::default();
    spec.set_root(Some(root)).set_hostname(Some(parts.hostname.into()));
    spec.set_mounts(Some(mounts(parts.shown, parts.memory_bytes)));
    spec.set_linux(Some(linux(&parts))).set_process(Some(parts.process));
    spec
}

fn mounts(shown: &[(PathBuf, PathBuf)], memory_bytes: u64) -> Vec<Mount> {
    let shm = format!("size={}", memory_bytes / 2);
    let own: [(&str, &str, &[&str]); 7] = [
        ("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        ("/dev", "tmpfs", &["nosuid", "noexec", "strictatime", "mode=755", "size=1m"]),
        ("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", TERMINALS]),
        ("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", &shm]),
        ("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        ("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        (host::cgroup::NODE_VIEW, "cgroup", &["nosuid", "noexec", "nodev", "relatime", "ro"]),
    ];
    let mount = |target: &Path, kind: &str, source: &Path, options: &[&str]| {
        let mut mount = Mount::default();
        mount.set_destination(target.into()).set_typ(Some(kind.into())).set_source(Some(source.into()));
        mount.set_options(Some(options.iter().map(|o| o.to_string()).collect()));
        mount
    };
    let own = own.iter().map(|(target, kind, options)| mount(Path::new(target), kind, Path::new(kind), options));
    let read_only = ["bind", "ro", "nosuid", "nodev"];
    own.chain(shown.iter().map(|(file, target)| mount(target, "bind", file, &read_only))).collect()
}

fn linux(parts: &Parts<'_>) -> Linux {
    use LinuxNamespaceType::{Cgroup, Ipc, Mount, Network, Pid, User, Uts};
    let namespace = |kind, path: Option<&Path>| {
        let mut namespace = LinuxNamespace::default();
        namespace.set_typ(kind).set_path(path.map(Into::into));
        namespace
    };
    let own = [Cgroup, Ipc, Mount, Pid, Uts].map(|kind| namespace(kind, None));
    let mut linux = Linux::default();
    let users = parts.users.as_ref().map(|(path, _)| namespace(User, Some(path)));
    let made = users.into_iter().chain([namespace(Network, Some(parts.netns))]);
    linux.set_namespaces(Some(own.into_iter().chain(made).collect()));
    linux.set_cgroups_path(Some(parts.cgroup.into())).set_resources(Some(resources(parts)));
    linux.set_masked_paths(Some(masked_paths::paths().to_vec())).set_readonly_paths(Some(read_only()));
    linux.set_seccomp(Some(seccomp::profile())).set_devices(None).set_intel_rdt(None);
    let mapping = |root: u32| {
        LinuxIdMappingBuilder::default().container_id(0u32).host_id(root).size(user_namespace::NUMBERS).build().ok()
    };
    let mapping = parts.users.as_ref().and_then(|(_, root)| Some(vec![mapping(*root)?]));
    linux.set_uid_mappings(mapping.clone()).set_gid_mappings(mapping).set_sysctl(None);
    linux
}

fn read_only() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/sys").into_iter().flatten().flatten();
    let settings = entries.map(|e| e.path().to_string_lossy().into_owned()).filter(|p| p != "/proc/sys/net");
    READ_ONLY.iter().map(|p| p.to_string()).chain(settings).collect()
}

fn resources(parts: &Parts<'_>) -> LinuxResources {
    let mut no_device = LinuxDeviceCgroup::default();
    no_device.set_allow(false).set_access(Some("rwm".into()));
    let mut cpu = LinuxCpu::default();
    // Shares and quotas are the business of whoever made the group.
    cpu.set_cpus(Some(parts.cores.to_owned()));
    let limit = i64::try_from(parts.memory_bytes).unwrap_or(i64::MAX);
    let mut memory = LinuxMemory::default();
    memory.set_limit(Some(limit)).set_swap(parts.limit_swap.then_some(limit));
    // Without a limit of its own nothing bounds it but what there is for all of the machine.
    memory.set_kernel_tcp(parts.limit_sockets.then_some(limit / 2));
    let mut pids = LinuxPids::default();
    pids.set_limit(MOST_PROCESSES.min(host::processes::most_of_a_run().cast_signed()));
    let mut resources = LinuxResources::default();
    resources.set_devices(Some(vec![no_device])).set_cpu(Some(cpu));
    resources.set_memory(Some(memory)).set_pids(Some(pids));
    resources
}
