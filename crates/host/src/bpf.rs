//! Opening a compiled BPF program, and what the kernel says of it. Errors are sentences about why it cannot be used.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, Once};

use libbpf_rs::{ErrorExt, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel};

/// Complaints of libbpf since the last error.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn note(_: PrintLevel, text: String) {
    if let Ok(mut all) = COMPLAINTS.lock() {
        all.push(text.trim().to_owned());
    }
}

/// Opens a compiled program.
pub fn open(elf: &[u8]) -> Result<OpenObject, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
    });
    ObjectBuilder::default().open_memory(elf).map_err(refused)
}

/// An error of libbpf with its first complaint, which usually says more.
pub fn refused(error: libbpf_rs::Error) -> String {
    let complaint = COMPLAINTS.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
    let why = error.context("the kernel does not take the BPF program");
    match complaint.first() {
        Some(first) => format!("{why:#} ({first})"),
        None => format!("{why:#}"),
    }
}

/// Fills in the initial value of a map, of at least `least` bytes.
pub fn initial_value(
    object: &mut OpenObject,
    map: &str,
    least: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Result<(), String> {
    let mut map = find(object, map)?;
    let value = map.initial_value_mut().filter(|v| v.len() >= least);
    fill(value.ok_or("its compiled program is not the one that was expected")?);
    Ok(())
}

/// A map by name; those of sections, such as `.rodata`, are called after the object too.
pub fn find<'o>(object: &'o mut OpenObject, name: &str) -> Result<OpenMapMut<'o>, String> {
    let mut maps = object.maps_mut();
    let fits = |m: &OpenMapMut| match name.starts_with('.') {
        true => m.name().to_string_lossy().ends_with(name),
        false => m.name() == OsStr::new(name),
    };
    maps.find(fits).ok_or_else(|| format!("its compiled program has no map `{name}`"))
}

/// Opens a map of the kernel's by its number.
pub fn open_map(number: u32) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_get_fd_by_id_opts {
        sz: size_of::<libbpf_sys::bpf_get_fd_by_id_opts>() as libbpf_sys::size_t,
        open_flags: 0,
        token_fd: 0,
    };
    // SAFETY: the options live until the call returns.
    owned(unsafe { libbpf_sys::bpf_map_get_fd_by_id_opts(number, &options) })
}

/// Opens a program of the kernel's by its number.
pub fn open_program(number: u32) -> io::Result<OwnedFd> {
    // SAFETY: a system call without pointers.
    owned(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(number) })
}

/// The number of a program, by which another process opens it.
pub fn number_of(program: BorrowedFd) -> io::Result<u32> {
    // SAFETY: zeroes are a valid value; the kernel fills in no more than `size` bytes.
    let (mut info, mut size) =
        (unsafe { std::mem::zeroed::<libbpf_sys::bpf_prog_info>() }, size_of::<libbpf_sys::bpf_prog_info>() as u32);
    // SAFETY: both live until the call returns.
    let done = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut size) };
    if done < 0 { Err(io::Error::from_raw_os_error(-done)) } else { Ok(info.id) }
}

/// Runs a program of the kind `syscall`, which is handed `context`.
///
/// # Safety
/// The program reads and writes nothing else of a `T` than what leaves it valid.
pub unsafe fn run<T>(program: BorrowedFd, context: &mut T) -> io::Result<()> {
    // SAFETY: zeroes are a valid value.
    let mut options = unsafe { std::mem::zeroed::<libbpf_sys::bpf_test_run_opts>() };
    options.sz = size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t;
    options.ctx_in = (&raw mut *context).cast();
    options.ctx_size_in = size_of::<T>() as u32;
    // SAFETY: the context lives until the call returns.
    let done = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if done < 0 { Err(io::Error::from_raw_os_error(-done)) } else { Ok(()) }
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
