//! Kernel features that dilation needs, probed without changing anything.

use std::io;

/// Whether the kernel lets the injector know of every `execve` in time (seccomp user notification).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// It does.
    Offered,
    /// Only in a form that a signal interrupts (before Linux 5.19, no `WAIT_KILLABLE_RECV`): programs that send
    /// themselves signals from the start, as Go's do, would hang.
    Interruptible,
    /// It does not.
    Lacking,
}

/// Asks the kernel for the flags of a filter that notifies.
pub fn notification() -> Notification {
    const NEW_LISTENER: u64 = 1 << 3;
    const WAIT_KILLABLE_RECV: u64 = 1 << 5;
    // The kernel looks at the flags before it looks at the filter: EINVAL tells unknown flags from EFAULT.
    let known = |flags: u64| {
        // SAFETY: a null filter is never installed; the call can only fail.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::null::<u8>()) };
        io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
    };
    match (known(NEW_LISTENER), known(NEW_LISTENER | WAIT_KILLABLE_RECV)) {
        (false, _) => Notification::Lacking,
        (true, false) => Notification::Interruptible,
        (true, true) => Notification::Offered,
    }
}

/// Yama's `kernel.yama.ptrace_scope`: 0 and 1 let a process trace its descendants, 2 only those with CAP_SYS_PTRACE, 3
/// nobody. `None` where the kernel has no such restriction.
pub fn ptrace_scope() -> Option<u8> {
    let text = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?;
    // A setting that cannot be understood is taken for the strictest.
    Some(text.trim().parse().unwrap_or(3))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_machine_that_can_run_these_tests_notifies() {
        assert_eq!(super::notification(), super::Notification::Offered);
    }
}
