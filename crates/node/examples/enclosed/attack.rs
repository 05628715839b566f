//! Attempts of root in a node by system calls. Each prints `NAME: REFUSAL`, or `NAME: DONE`.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;

/// Families of sockets that a node has.
const FAMILIES: [i32; 5] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET];

/// Tries everything.
pub fn main() {
    let report = |name: &str, rc: i64| {
        let error = io::Error::last_os_error();
        match rc {
            -1 => println!("{name}: {}", error.raw_os_error().map_or("refused".into(), errno_name)),
            _ => println!("{name}: DONE"),
        }
    };
    // SAFETY: every call gets valid pointers, or null where the kernel must refuse before it looks; those that succeed
    // change nothing but this process, which does nothing else, and its child, which makes system calls only.
    unsafe {
        let now = libc::timespec { tv_sec: libc::time(std::ptr::null_mut()), tv_nsec: 0 };
        report("clock_settime", libc::clock_settime(libc::CLOCK_REALTIME, &now).into());
        let day = libc::timeval { tv_sec: now.tv_sec, tv_usec: 0 };
        report("settimeofday", libc::settimeofday(&day, std::ptr::null()).into());
        let mut step: libc::timex = std::mem::zeroed();
        step.modes = libc::ADJ_OFFSET;
        report("adjtimex", libc::adjtimex(&mut step).into());

        fs::create_dir_all("/tmp/m").expect("a directory");
        let tmpfs = c"tmpfs".as_ptr();
        report("mount", libc::mount(tmpfs, c"/tmp/m".as_ptr(), tmpfs, 0, std::ptr::null()).into());
        let remount = libc::MS_REMOUNT | libc::MS_BIND;
        let groups = CString::new(format!("{}/memory", host::cgroup::NODE_VIEW)).expect("a path");
        for path in [c"/proc/sys/kernel", c"/sys", &groups] {
            let name = format!("remount {}", path.to_string_lossy());
            report(
                &name,
                libc::mount(std::ptr::null(), path.as_ptr(), std::ptr::null(), remount, std::ptr::null()).into(),
            );
        }
        report("umount /proc/kcore", libc::umount2(c"/proc/kcore".as_ptr(), libc::MNT_DETACH).into());
        report("pivot_root", libc::syscall(libc::SYS_pivot_root, c"/tmp".as_ptr(), c"/tmp".as_ptr()));
        report("fsopen", libc::syscall(libc::SYS_fsopen, tmpfs, 0));

        report("mknod", libc::mknod(c"/tmp/disk".as_ptr(), libc::S_IFBLK | 0o600, libc::makedev(254, 0)).into());
        report("mknod mem", libc::mknod(c"/tmp/mem".as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 1)).into());

        report("unshare user", libc::unshare(libc::CLONE_NEWUSER).into());
        report("unshare mount", libc::unshare(libc::CLONE_NEWNS).into());
        report("unshare net", libc::unshare(libc::CLONE_NEWNET).into());
        let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD) as i64;
        let child = libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0);
        if child == 0 {
            libc::_exit(0);
        }
        report("clone user", child);
        let own = File::open("/proc/self/ns/net").expect("a namespace");
        report("setns", libc::setns(own.as_raw_fd(), 0).into());

        report("init_module", libc::syscall(libc::SYS_init_module, c"".as_ptr(), 0, c"".as_ptr()));
        report("finit_module", libc::syscall(libc::SYS_finit_module, own.as_raw_fd(), c"".as_ptr(), 0));
        report("kexec_load", libc::syscall(libc::SYS_kexec_load, 0, 0, 0, 0));
        report("reboot", libc::reboot(libc::RB_DISABLE_CAD).into());
        report("swapon", libc::swapon(c"/tmp/m".as_ptr(), 0).into());
        report("klogctl", libc::klogctl(3, std::ptr::null_mut(), 0).into());
        report("bpf", libc::syscall(libc::SYS_bpf, 0, 0, 0));
        report("perf_event_open", libc::syscall(libc::SYS_perf_event_open, 0, -1, 0, -1, 0));
        report("keyctl", libc::syscall(libc::SYS_keyctl, 0, -4, 0));
        report("add_key", libc::syscall(libc::SYS_add_key, c"user".as_ptr(), c"x".as_ptr(), c"x".as_ptr(), 1, -4));
        report("iopl", libc::syscall(libc::SYS_iopl, 3));
        report("open_by_handle_at", libc::syscall(libc::SYS_open_by_handle_at, own.as_raw_fd(), 0, 0));
        report("userfaultfd", libc::syscall(libc::SYS_userfaultfd, 0));
        report("memfd_secret", libc::syscall(libc::SYS_memfd_secret, 0));
        report("io_uring_setup", libc::syscall(libc::SYS_io_uring_setup, 1, 0));
        report("quotactl", libc::syscall(libc::SYS_quotactl, 0, 0, 0, 0));
        report("acct", libc::acct(c"/tmp/acct".as_ptr()).into());

        let priority = libc::sched_param { sched_priority: 1 };
        report("sched_setscheduler", libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority).into());
        report("setpriority", libc::setpriority(libc::PRIO_PROCESS, 0, -5).into());
        // One more than is allowed, and far below `fs.nr_open`, which nobody may exceed.
        let limit = |n| libc::rlimit { rlim_cur: n, rlim_max: n };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit(64)), 0, "a limit can be lowered");
        report("setrlimit", libc::setrlimit(libc::RLIMIT_NOFILE, &limit(65)).into());
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..1024).for_each(|cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of_val(&set), &set);
        report("wider affinity", if std::thread::available_parallelism().map_or(0, usize::from) > 1 { 0 } else { -1 });

        // The kernel looks whether there is such a kind (15), and says EINVAL, before it looks for the family: what
        // says EAFNOSUPPORT is the filter. It ignores the upper half of the argument, and so must that.
        let mut pair = [0; 2];
        for family in (0..64).chain([256 + 1, 1 << 30, i32::MAX, i32::MIN + 1, -1]).filter(|f| !FAMILIES.contains(f)) {
            report(&format!("family {family}"), libc::socket(family, 15, 0).into());
            let disguised = i64::from(family as u32) | (1 << 32);
            report(&format!("family {family}, disguised"), libc::syscall(libc::SYS_socket, disguised, 15, 0));
            report(&format!("family {family}, a pair"), libc::socketpair(family, 15, 0, pair.as_mut_ptr()).into());
        }
        for family in FAMILIES {
            let made = libc::socket(family, libc::SOCK_DGRAM, 0);
            assert!(made >= 0, "family {family}: {}", io::Error::last_os_error());
            libc::close(made);
        }
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()), 0, "a pair");
        let terminal = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        assert!(terminal >= 0, "a terminal: {}", io::Error::last_os_error());
        report("line discipline", libc::ioctl(terminal, libc::TIOCSETD, &13 /* HDLC */).into());
        // The kernel's ciphers, which are all namespaces'.
        let netlink = |protocol: i64| libc::syscall(libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, protocol);
        report("netlink crypto", netlink(21));
        report("netlink crypto, disguised", netlink(21 | (1 << 32)));
        report("netlink scsi", netlink(18));

        // One in memory alone, which needs no page yet: what refuses it is the filter.
        report("large pages in a file", libc::memfd_create(c"large".as_ptr(), libc::MFD_HUGETLB).into());
        let (all, ours) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let large = libc::mmap(std::ptr::null_mut(), 1 << 21, all, ours | libc::MAP_HUGETLB, -1, 0);
        report("large pages mapped", if large == libc::MAP_FAILED { -1 } else { 0 });
        report("large pages shared", libc::shmget(libc::IPC_PRIVATE, 1 << 21, libc::SHM_HUGETLB | 0o600).into());

        // A process that does not want to be dumped may be traced with CAP_SYS_PTRACE only, even by its parent.
        let mut told = [0; 2];
        assert_eq!(libc::pipe(told.as_mut_ptr()), 0, "a pipe");
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_DUMPABLE, 0u64);
            libc::write(told[1], c"x".as_ptr().cast(), 1);
            libc::pause();
            libc::_exit(0);
        }
        let mut byte = 0u8;
        assert_eq!(libc::read(told[0], (&raw mut byte).cast(), 1), 1, "the child's word");
        report("ptrace", libc::ptrace(libc::PTRACE_ATTACH, child, 0, 0));
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    println!("chroot escape sees: {}", escaped().unwrap_or_else(|e| e.to_string()));
}

/// Leaves a chroot by way of a descriptor of the directory above it, the classic escape, and lists what is there.
fn escaped() -> io::Result<String> {
    let above = File::open("/")?;
    fs::create_dir_all("/tmp/jail")?;
    std::os::unix::fs::chroot("/tmp/jail")?;
    // SAFETY: the descriptor is open.
    if unsafe { libc::fchdir(above.as_raw_fd()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for _ in 0..64 {
        std::env::set_current_dir("..")?;
    }
    std::os::unix::fs::chroot(".")?;
    let mut names: Vec<_> =
        fs::read_dir("/")?.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names.join(" "))
}

/// Uses `bytes` of memory, page by page, and says so.
pub fn eat(bytes: usize) {
    let mut all = Vec::new();
    for _ in 0..bytes / 4096 {
        all.push(Box::new([1u8; 4096]));
    }
    println!("had {} pages", all.len());
}

fn errno_name(errno: i32) -> String {
    let known = [
        (libc::EPERM, "EPERM"),
        (libc::EACCES, "EACCES"),
        (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
        (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EINVAL, "EINVAL"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::EROFS, "EROFS"),
    ];
    known.iter().find(|(n, _)| *n == errno).map_or(errno.to_string(), |(_, name)| name.to_string())
}
