//! The memory of other processes, read and written by value.

use std::{io, ptr};

use libc::{c_void, pid_t};

/// Types that may be written to and read from another process's memory as they stand.
///
/// # Safety
/// The type has a layout of its own (`repr(C)`, or an integer or an array of such), no padding, and every bit pattern
/// is a value of it.
pub(crate) unsafe trait Plain {}

// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: an integer.
unsafe impl Plain for i64 {}
// SAFETY: an array has no padding that its elements have not.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
/// Writes `value` into the memory of a process.
pub(crate) fn write_memory<T: Plain>(pid: pid_t, at: u64, value: &T) -> io::Result<()> {
    let len = size_of::<T>();
    let local = libc::iovec { iov_base: ptr::from_ref(value).cast_mut().cast(), iov_len: len };
    let remote = libc::iovec { iov_base: at as *mut c_void, iov_len: len };
    // SAFETY: `local` is the whole of `value`, which is read and, being plain, has no byte that is not initialised; the
    // kernel checks the other process's side.
    whole(unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) }, len)
}

/// Reads a value from the memory of a process.
pub(crate) fn read_memory<T: Plain + Default>(pid: pid_t, at: u64) -> io::Result<T> {
    let mut value = T::default();
    let len = size_of::<T>();
    let local = libc::iovec { iov_base: (&raw mut value).cast(), iov_len: len };
    let remote = libc::iovec { iov_base: at as *mut c_void, iov_len: len };
    // SAFETY: `local` is the whole of `value`, of which, being plain, every bit pattern is a value; the kernel checks
    // the other process's side.
    whole(unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) }, len).map(|()| value)
}

/// Whether all of it was carried.
fn whole(carried: isize, len: usize) -> io::Result<()> {
    match usize::try_from(carried) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(n) if n == len => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}
