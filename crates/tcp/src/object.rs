//! Opening a compiled program, and what the kernel says of it.

use std::ffi::OsStr;
use std::sync::{Mutex, Once};

use libbpf_rs::{ErrorExt, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel};

use crate::Error;

/// What libbpf complained about since the last error.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn note(_: PrintLevel, text: String) {
    if let Ok(mut all) = COMPLAINTS.lock() {
        all.push(text.trim().to_owned());
    }
}

/// Opens a compiled program.
pub(crate) fn open(what: &'static str, elf: &[u8]) -> Result<OpenObject, Error> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
    });
    ObjectBuilder::default().open_memory(elf).map_err(|e| error(what, e))
}

/// An error of libbpf with its first complaint, which usually says more.
pub(crate) fn error(what: &'static str, error: libbpf_rs::Error) -> Error {
    let complaint = COMPLAINTS.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
    let why = error.context("the kernel does not take the BPF program");
    match complaint.first() {
        Some(first) => Error::new(what, format!("{why:#} ({first})")),
        None => Error::new(what, format!("{why:#}")),
    }
}

/// The initial value of a map, of at least `least` bytes.
pub(crate) fn initial_value(
    object: &mut OpenObject,
    map: &str,
    least: usize,
    fill: impl FnOnce(&mut [u8]),
    what: &'static str,
) -> Result<(), Error> {
    let mut map = find(object, map, what)?;
    let value = map.initial_value_mut().filter(|v| v.len() >= least);
    fill(value.ok_or_else(|| Error::new(what, "its compiled program is not the one that was expected"))?);
    Ok(())
}

/// A map by name; those of sections, such as `.rodata`, are called after the object too.
pub(crate) fn find<'o>(object: &'o mut OpenObject, name: &str, what: &'static str) -> Result<OpenMapMut<'o>, Error> {
    let mut maps = object.maps_mut();
    let fits = |m: &OpenMapMut| match name.starts_with('.') {
        true => m.name().to_string_lossy().ends_with(name),
        false => m.name() == OsStr::new(name),
    };
    let found = maps.find(fits);
    found.ok_or_else(|| Error::new(what, format!("its compiled program has no map `{name}`")))
}
