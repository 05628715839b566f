//! Opening a compiled BPF program, and what the kernel says of it. Errors are sentences about why it cannot be used.

use std::ffi::OsStr;
use std::os::fd::{FromRawFd, OwnedFd};
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
pub fn open_map(number: u32) -> std::io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_get_fd_by_id_opts {
        sz: size_of::<libbpf_sys::bpf_get_fd_by_id_opts>() as libbpf_sys::size_t,
        open_flags: 0,
        token_fd: 0,
    };
    // SAFETY: the options live until the call returns.
    let fd = unsafe { libbpf_sys::bpf_map_get_fd_by_id_opts(number, &options) };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
