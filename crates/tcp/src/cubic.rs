//! CUBIC with a clock divided by the TDF, registered with the kernel.

use std::ffi::OsStr;

use host::bpf::{self, initial_value};
use libbpf_rs::{ErrorKind, Link, MapCore, Object};
use scale::Tdf;

use crate::{Error, error};

const WHAT: &str = "CUBIC in virtual time";
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cubic.bpf.o"));

/// Length that the kernel keeps of a name, with the zero at its end.
const NAME_BYTES: usize = 16;
/// How many names are tried; another one is only needed where processes of another PID namespace have our number.
const NAMES: u32 = 16;

/// A registered congestion control. It can be selected (`net.ipv4.tcp_congestion_control`, `TCP_CONGESTION`) in every
/// network namespace until this value is dropped; connections that use it by then keep it until they end.
pub struct Cubic {
    name: String,
    // In this order: the link refers to the object.
    _link: Link,
    _object: Object,
}

impl Cubic {
    /// Registers CUBIC for nodes that are dilated by `tdf`, under a name that nothing else has. Takes some 0.1 s.
    pub fn register(tdf: Tdf) -> Result<Cubic, Error> {
        let pid = std::process::id();
        let mut taken = None;
        for number in 0..NAMES {
            let name = match number {
                0 => format!("cubic_{pid:x}"),
                n => format!("cubic_{pid:x}_{n:x}"),
            };
            match Cubic::named(tdf, name) {
                Err(Failure::Taken(e)) => taken = Some(e),
                Err(Failure::Other(e)) => return Err(e),
                Ok(cubic) => return Ok(cubic),
            }
        }
        Err(taken.unwrap_or_else(|| Error::new(WHAT, "no name is free")))
    }

    /// The name under which it is registered: `cubic_` and up to nine characters.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn named(tdf: Tdf, name: String) -> Result<Cubic, Failure> {
        let because = |why| Error::new(WHAT, why);
        let (real, virt) = tdf.parts_for_c();
        let mut open = bpf::open(PROGRAM).map_err(because)?;
        // The layouts of `config` and `struct tcp_congestion_ops` in bpf/.
        let config = [virt, real, host::time::tick().as_micros()].map(u64::to_ne_bytes).concat();
        initial_value(&mut open, ".rodata", config.len(), |v| v[..config.len()].copy_from_slice(&config))
            .map_err(because)?;
        let fill = |v: &mut [u8]| {
            v[..NAME_BYTES].fill(0);
            let shown = name.len().min(NAME_BYTES - 1);
            v[..shown].copy_from_slice(&name.as_bytes()[..shown]);
        };
        initial_value(&mut open, "cubic", NAME_BYTES, fill).map_err(because)?;

        let mut object = open.load().map_err(|e| error(WHAT, e))?;
        let mut map = object
            .maps_mut()
            .find(|m| m.name() == OsStr::new("cubic"))
            .ok_or_else(|| Error::new(WHAT, "its program has no operations"))?;
        let link = map.attach_struct_ops().map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => Failure::Taken(error(WHAT, e)),
            _ => Failure::Other(error(WHAT, e)),
        })?;
        Ok(Cubic { name, _link: link, _object: object })
    }
}

/// Why a name was not registered.
enum Failure {
    Taken(Error),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure::Other(e)
    }
}
