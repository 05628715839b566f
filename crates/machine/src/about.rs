//! This machine, as a coordinator asks about it before there is a run.

use record::RunDir;
use scale::{RealDuration, RealInstant};
use site::{About, Error, Finding, Machine, Opening, Result, Site};

use crate::doctor;
use crate::facts::usable_cores;
use crate::host_speed::HostSpeed;
use crate::local::LocalSite;
use crate::registry::CoreLocks;

/// This machine.
#[derive(Clone, Copy, Debug)]
pub struct LocalMachine {
    begun: RealInstant,
    /// By how much faster the clock goes that it tells than its own, for tests: parts per million.
    drift_ppm: f64,
}

impl LocalMachine {
    /// This machine, with its own clock.
    pub fn here() -> LocalMachine {
        LocalMachine::with_drift(0.0)
    }

    /// This machine, whose clock drifts from now on.
    pub fn with_drift(drift_ppm: f64) -> LocalMachine {
        LocalMachine { begun: host::now(), drift_ppm }
    }
}

impl Machine for LocalMachine {
    fn about(&mut self) -> Result<About> {
        let uname = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Ok(About {
            host_name: text(uname.nodename()),
            boot: host::time::boot().unwrap_or_default(),
            processor: std::env::consts::ARCH.to_owned(),
            kernel: format!("{} {}", text(uname.sysname()), text(uname.release())),
            root: rustix::process::geteuid().is_root(),
            cores: usable_cores()?,
            memory_bytes: host::memory::Memory::read().map(|memory| memory.available),
            speed: HostSpeed::here().reference(),
        })
    }

    fn now(&mut self) -> Result<RealInstant> {
        let now = host::now();
        let ahead = now.since(self.begun).as_secs_f64() * self.drift_ppm / 1e6;
        Ok(now + RealDuration::from_secs_f64(ahead) - RealDuration::from_secs_f64(-ahead))
    }

    fn findings(&mut self) -> Result<Vec<Finding>> {
        Ok(doctor::findings())
    }

    fn open(&mut self, opening: Opening) -> Result<Box<dyn Site>> {
        if self.drift_ppm != 0.0 {
            return Err(Error::input("a site whose clock is made to drift makes no runs: leave --clock-drift out"));
        }
        let (folder, results) = (opening.folder.here()?, opening.results.here()?);
        let cores = CoreLocks::claim(&opening.cores)?;
        Ok(Box::new(LocalSite::unnamed(cores, folder.to_path_buf(), RunDir::at(results))?))
    }
}
