//! The initial retransmission time-out, multiplied by the TDF.

use std::ffi::OsStr;
use std::os::fd::AsRawFd;

use host::bpf::{self, find, initial_value};
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use scale::Tdf;

use crate::{Error, error};

const WHAT: &str = "the initial retransmission time-out in virtual time";
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/timeout.bpf.o"));

/// The initial time-out of all connections in some network namespaces, scaled until this value is dropped.
pub struct InitialTimeout {
    // In this order: the link refers to the object.
    _link: Link,
    _object: Object,
}

impl InitialTimeout {
    /// Multiplies the time-out by `tdf` in the namespaces with these cookies (`SO_NETNS_COOKIE`), and in no other.
    pub fn attach(tdf: Tdf, cookies: &[u64]) -> Result<InitialTimeout, Error> {
        let because = |why| Error::new(WHAT, why);
        let mut open = bpf::open(PROGRAM).map_err(because)?;
        // The layout of `config` in bpf/timeout.bpf.c.
        let config = scale::initial_rto(tdf).ticks(host::time::tick()).to_ne_bytes();
        initial_value(&mut open, ".rodata", config.len(), |v| v[..config.len()].copy_from_slice(&config))
            .map_err(because)?;
        let entries = u32::try_from(cookies.len().max(1)).map_err(|e| Error::new(WHAT, e))?;
        find(&mut open, "namespaces").map_err(because)?.set_max_entries(entries).map_err(|e| error(WHAT, e))?;

        let object = open.load().map_err(|e| error(WHAT, e))?;
        let lacks = |part: &str| Error::new(WHAT, format!("its program has no {part}"));
        let map = object.maps().find(|m| m.name() == OsStr::new("namespaces")).ok_or_else(|| lacks("map"))?;
        for cookie in cookies {
            map.update(&cookie.to_ne_bytes(), &[1], MapFlags::ANY).map_err(|e| error(WHAT, e))?;
        }
        let program = object.progs_mut().next().ok_or_else(|| lacks("code"))?;
        let root = host::cgroup::of_all_sockets().map_err(|e| Error::new(WHAT, e))?;
        let link = program.attach_cgroup(root.as_raw_fd()).map_err(|e| error(WHAT, e))?;
        Ok(InitialTimeout { _link: link, _object: object })
    }
}
