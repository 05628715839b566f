//! Which host an image lies over.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A host, as far as it matters to what lies over its root: its distribution and its processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Host(String);

impl Host {
    /// This machine.
    pub fn here() -> Host {
        let places = ["/etc/os-release", "/usr/lib/os-release"];
        let text = places.iter().find_map(|place| fs::read_to_string(place).ok()).unwrap_or_default();
        Host(format!("{} {}", release(&text), std::env::consts::ARCH))
    }

    /// The one that is noted in an image.
    pub(super) fn named(name: &str) -> Host {
        Host(name.into())
    }

    /// How it is noted: `debian 12 x86_64`.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// That it is this one.
    pub(super) fn check(&self) -> Result<(), Error> {
        let here = Host::here();
        if *self == here {
            return Ok(());
        }
        Err(Error::Input(format!(
            "the image holds changes to the root of a host with {}, and this one has {}: use it on such a host, or \
             save one of a node whose `root` is a directory or an archive, which is whole",
            self.0, here.0
        )))
    }
}

/// Distribution and version of an os-release file (os-release(5)); a rolling one has no version.
fn release(text: &str) -> String {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches(['"', '\'']).to_string())
    };
    let id = value("ID").unwrap_or_else(|| "linux".into());
    match value("VERSION_ID") {
        Some(version) => format!("{id} {version}"),
        None => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_its_distribution_and_version() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(release(debian), "debian 12");
        assert_eq!(release("ID=arch\nVERSION_IDS=3\n"), "arch");
        assert_eq!(release(""), "linux");
    }

    #[test]
    fn only_this_host_will_do() {
        Host::here().check().unwrap();
        let error = Host::named("beos 5 ppc").check().unwrap_err();
        assert!(matches!(&error, Error::Input(text) if text.contains("beos 5 ppc")), "{error}");
    }
}
