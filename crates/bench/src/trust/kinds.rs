//! The five kinds of experiments on which verdicts are put to the test: those of this repository, which the program
//! carries with it.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use crate::Error;

/// The resource that limits an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By its network.
    Network,
    /// By the CPU, with little data.
    SmallCpu,
    /// By the CPU, with more data than the nearest caches hold.
    LargeCpu,
    /// By both in turn.
    Mixed,
    /// By nodes that wait for one another.
    Lockstep,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let wrong = || format!("the kinds are {}", Kind::ALL.map(Kind::name).join(", "));
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(wrong)
    }
}

/// A file of an experiment's folder.
type File = (&'static str, &'static str);

/// The files of an experiment of this repository.
macro_rules! files {
    ($name:literal: $($file:literal),+) => {
        &[$(($file, include_str!(concat!("../../../../experiments/", $name, "/", $file)))),+]
    };
}

impl Kind {
    /// All of them, in the order in which they have their turns.
    pub const ALL: [Kind; 5] = [Kind::Network, Kind::SmallCpu, Kind::LargeCpu, Kind::Mixed, Kind::Lockstep];

    /// As rows call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Network => "network",
            Kind::SmallCpu => "cpu-small",
            Kind::LargeCpu => "cpu-large",
            Kind::Mixed => "mixed",
            Kind::Lockstep => "lockstep",
        }
    }

    /// The experiment's folder, in the order in which it is written.
    fn files(self) -> &'static [File] {
        match self {
            Kind::Network => files!("web-net": "experiment.yaml", "start", "nginx.conf"),
            Kind::SmallCpu => {
                files!("tls": "experiment.yaml", "start", "ask", "nginx.conf", "server.crt", "server.key")
            }
            Kind::LargeCpu => files!("web-busy": "experiment.yaml", "start", "nginx.conf"),
            Kind::Mixed => files!("web-half": "experiment.yaml", "start", "nginx.conf"),
            Kind::Lockstep => files!("lockstep": "experiment.yaml", "step.py"),
        }
    }

    /// Changes to the experiment, for `--set`: web-busy is shorter here, and leaves as much of the
    /// core to spare as the others, for what is to be seen is whether a verdict is right, not whether shares fit.
    pub(super) fn set(self) -> &'static [&'static str] {
        match self {
            Kind::LargeCpu => &[
                "machines.server.speed=0.26",
                "machines.client.speed=0.06",
                "measure=0.5s..5s",
                "nodes.client.run=\"h2load --h1 -H 'Accept-Encoding: gzip' -D 5 -c 4 --log-file=/out/log \
                 http://server/page\"",
            ],
            _ => &[],
        }
    }

    /// Writes the folder.
    pub(super) fn write(self, folder: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder).map_err(|e| Error::failed(format!("cannot make {}: {e}", folder.display())))?;
        for (name, text) in self.files() {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|e| Error::failed(format!("cannot write {}: {e}", path.display())))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_by_its_name() {
        assert!(Kind::ALL.into_iter().all(|kind| kind.name().parse() == Ok(kind)));
        assert!("cpu".parse::<Kind>().unwrap_err().contains("network, cpu-small, cpu-large"));
    }

    #[test]
    fn every_kind_is_an_experiment_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for kind in Kind::ALL {
            let path = folder.path().join(kind.name());
            kind.write(&path).unwrap();
            let overrides: Vec<_> =
                kind.set().iter().map(|set| set.split_once('=').unwrap()).map(|(k, v)| (k.into(), v.into())).collect();
            let experiment = model::load(&path.join("experiment.yaml"), &overrides).unwrap();
            assert!(!experiment.metrics.is_empty(), "{kind:?} measures nothing");
        }
    }
}
