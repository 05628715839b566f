//! The system calls that a node may not make: what its capabilities do not already forbid.
//!
//! Everything else is allowed, so that the filters of time dilation, which a node's programs get on
//! top of this one, see what they expect.

use oci_spec::runtime::{
    Arch, LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompArgBuilder, LinuxSeccompOperator, LinuxSyscall,
};

/// Reach the host's kernel or its users' keys, or make namespaces in which a node would have all capabilities again.
const FORBIDDEN: [&str; 37] = [
    "acct",
    "add_key",
    "bpf",
    "delete_module",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mount",
    "mount_setattr",
    "move_mount",
    "name_to_handle_at",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "setns",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
];

/// Programs fall back from these to calls that are allowed, and that dilation understands.
///
/// clone3 passes its flags in memory, where no filter sees them; an io_uring's time-outs are out of dilation's reach;
/// and by rseq the kernel tells a thread the number of the host's core, which no CPU of the node may have. The variants
/// of an experiment must not differ in the calls that they offer. Memory of memfd_secret is taken out of the kernel's
/// own map, page by page, which slows down the whole machine until it is started anew, and keeps it from hibernating.
const ABSENT: [&str; 6] = ["clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_secret", "rseq"];

const EAFNOSUPPORT: u32 = libc::EAFNOSUPPORT as u32;
const ENOMEM: u32 = libc::ENOMEM as u32;
const EPERM: u32 = libc::EPERM as u32;
const EPROTONOSUPPORT: u32 = libc::EPROTONOSUPPORT as u32;
const ENOSYS: u32 = libc::ENOSYS as u32;

/// Families of sockets that a node does not have, as the bits of their number that say so: (which bits, what is in
/// them). It has its own processes' (AF_UNIX, 1), IP (2, 10), the kernel's answers (AF_NETLINK, 16) and frames
/// (AF_PACKET, 17), each of which a network namespace confines. For every other one the kernel loads the module, by
/// whoever asks, and the host has it from then on: of some the addresses are the machine's (AF_VSOCK, AF_QIPCRTR,
/// AF_BLUETOOTH), of others the ciphers (AF_ALG), and most have not been looked at by anybody for years. Refused as by
/// a kernel without them.
///
/// Each costs ten microseconds of a node's start, for it is a rule for each of two calls; so there is none for each
/// family. Beyond 127 the kernel has none, and says so before it looks for a module (`AF_MAX` is 46 in Linux 6.18).
const OTHER_FAMILIES: [(u64, u64); 7] = [
    (0b100_0000, 0b100_0000),
    (0b010_0000, 0b010_0000),
    (0b000_0100, 0b000_0100),
    (0b000_0011, 0b000_0011),
    (0b000_1010, 0b000_1000),
    (0b001_0010, 0b001_0010),
    (0b001_0011, 0b000_0000),
];

/// Calls by which the kernel looks for a family, and loads it. Pairs are of AF_UNIX or none, but looked for likewise.
const OF_FAMILIES: [&str; 2] = ["socket", "socketpair"];

/// Protocols of netlink that are the machine's likewise, and let who may set up interfaces do it: iSCSI, SCSI, RDMA,
/// SMC, and the kernel's ciphers, of which CRYPTO removes and adds those of all.
const OUTSIDE_OF_NETLINK: [i32; 5] = [8, 18, 20, 21, 22];

/// Gives a terminal another line discipline, of which the kernel loads the module likewise. Refused as to users where
/// `dev.tty.ldisc_autoload` is 0; the one that terminals have needs no call.
const LINE_DISCIPLINE: i32 = libc::TIOCSETD as i32;

/// Asks for large pages that the host has put aside, which are the machine's and no node's memory: the call, its
/// argument of flags, and the bit. Refused as on a machine that has put none aside.
const LARGE_PAGES: [(&str, usize, u64); 3] = [
    ("mmap", 3, libc::MAP_HUGETLB as u64),
    ("memfd_create", 1, libc::MFD_HUGETLB as u64),
    ("shmget", 2, libc::SHM_HUGETLB as u64),
];

/// Bits of an `int` argument that the kernel looks at. A filter that compared the whole register would be evaded by a
/// bit in its upper half.
const INT: u64 = u32::MAX as u64;

/// The profile for a container's `config.json`.
pub(crate) fn profile() -> LinuxSeccomp {
    let refuse = |names: &[&str], errno, args: Option<Vec<LinuxSeccompArg>>| {
        let mut call = LinuxSyscall::default();
        call.set_names(names.iter().map(|n| n.to_string()).collect());
        call.set_action(LinuxSeccompAction::ScmpActErrno).set_errno_ret(Some(errno)).set_args(args);
        call
    };
    let mut syscalls = vec![refuse(&FORBIDDEN, EPERM, None), refuse(&ABSENT, ENOSYS, None)];
    let namespaces = [
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWUTS,
    ];
    let first = |mask: u64, value: u64| {
        let argument = LinuxSeccompArgBuilder::default()
            .index(0usize)
            .value(mask)
            .value_two(value)
            .op(LinuxSeccompOperator::ScmpCmpMaskedEq)
            .build();
        Some(vec![argument.unwrap_or_default()])
    };
    for flag in namespaces.map(|f| f as u64) {
        syscalls.push(refuse(&["clone"], EPERM, first(flag, flag)));
    }
    for (bits, family) in OTHER_FAMILIES {
        syscalls.push(refuse(&OF_FAMILIES, EAFNOSUPPORT, first(bits, family)));
    }
    let value = |index: usize, value: i32| {
        let argument = LinuxSeccompArgBuilder::default().index(index).value(INT).value_two(value as u64);
        argument.op(LinuxSeccompOperator::ScmpCmpMaskedEq).build().unwrap_or_default()
    };
    syscalls.push(refuse(&["ioctl"], EPERM, Some(vec![value(1, LINE_DISCIPLINE)])));
    for protocol in OUTSIDE_OF_NETLINK {
        let both = vec![value(0, libc::AF_NETLINK), value(2, protocol)];
        syscalls.push(refuse(&["socket"], EPROTONOSUPPORT, Some(both)));
    }
    for (call, flags, bit) in LARGE_PAGES {
        let asks = LinuxSeccompArgBuilder::default().index(flags).value(bit).value_two(bit);
        let asks = asks.op(LinuxSeccompOperator::ScmpCmpMaskedEq).build().unwrap_or_default();
        syscalls.push(refuse(&[call], ENOMEM, Some(vec![asks])));
    }
    let mut profile = LinuxSeccomp::default();
    profile.set_default_action(LinuxSeccompAction::ScmpActAllow);
    profile.set_architectures(Some(vec![Arch::ScmpArchX86_64]));
    profile.set_syscalls(Some(syscalls));
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an argument is compared as the kernel compares it: all of a register.
    fn is_met(argument: &LinuxSeccompArg, registers: [u64; 6]) -> bool {
        assert_eq!(argument.op(), LinuxSeccompOperator::ScmpCmpMaskedEq);
        registers[argument.index()] & argument.value() == argument.value_two().unwrap()
    }

    /// The error of a call; none if it is let through.
    fn refused(profile: &LinuxSeccomp, call: &str, registers: [u64; 6]) -> Option<u32> {
        let rules = profile.syscalls().iter().flatten().filter(|rule| rule.names().iter().any(|name| name == call));
        let met = |rule: &&LinuxSyscall| rule.args().iter().flatten().all(|argument| is_met(argument, registers));
        let mut errors: Vec<_> = rules.filter(met).filter_map(LinuxSyscall::errno_ret).collect();
        errors.dedup();
        assert!(errors.len() < 2, "{call} {registers:x?} fails in two ways");
        errors.pop()
    }

    #[test]
    fn of_families_of_sockets_a_node_has_five() {
        let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET];
        let profile = profile();
        for family in 0..128 {
            let is_refused = !families.contains(&family);
            // The kernel looks at the lower half of the register alone.
            for register in [family as u64, family as u64 | 1 << 32, family as u64 | u64::MAX << 32] {
                for call in OF_FAMILIES {
                    let found = refused(&profile, call, [register, 15, 0, 0, 0, 0]);
                    assert_eq!(found, is_refused.then_some(EAFNOSUPPORT), "{call} {register:#x}");
                }
            }
        }
    }

    #[test]
    fn of_netlink_a_node_has_what_its_namespace_confines() {
        let profile = profile();
        for protocol in 0..1024 {
            let is_refused = OUTSIDE_OF_NETLINK.contains(&protocol);
            for register in [protocol as u64, protocol as u64 | 1 << 32] {
                let found = refused(&profile, "socket", [libc::AF_NETLINK as u64, 3, register, 0, 0, 0]);
                assert_eq!(found, is_refused.then_some(EPROTONOSUPPORT), "{register:#x}");
                assert_eq!(refused(&profile, "socket", [libc::AF_INET as u64, 3, register, 0, 0, 0]), None);
            }
        }
    }
}
