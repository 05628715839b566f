//! The programs that nodes, and guests, take, as far as this machine has them.

use std::path::{Path, PathBuf};
use std::process::Command;

use guest::{Arch, Firmware, OLDEST_QEMU};
use model::{Boot, Experiment};

use crate::error::{Error, Result};

/// The program of this name that a node with this machine's root finds.
pub fn installed(program: &str) -> Option<PathBuf> {
    node::PATH.split(':').map(|place| Path::new(place).join(program)).find(|path| path.is_file())
}

/// The version of the QEMU for a processor; `None` if there is none, or it does not say.
pub fn version(arch: Arch) -> Option<[u32; 2]> {
    let said = Command::new(installed(arch.program())?).arg("--version").output().ok()?;
    guest::version(&String::from_utf8_lossy(&said.stdout))
}

/// Fails if this machine lacks what the guests of an experiment take.
pub fn check(experiment: &Experiment) -> Result<()> {
    let mut seen = Vec::new();
    for node in &experiment.nodes {
        let Some(guest) = &node.guest else { continue };
        let firmware = match guest.boot {
            Boot::Firmware(Firmware::Uefi) => guest.arch.uefi(),
            _ => None,
        };
        if seen.contains(&(guest.arch, firmware)) {
            continue;
        }
        seen.push((guest.arch, firmware));
        let whose = format!("the node `{}` is a guest with processors of {}", node.name, guest.arch.name());
        let help = format!("apt-get install {}", guest.arch.package());
        if installed(guest.arch.program()).is_none() {
            return Err(Error::machine(format!("{whose}, and there is no {} here", guest.arch.program()), help));
        }
        match version(guest.arch) {
            Some(version) if version < OLDEST_QEMU => {
                let [major, minor] = version;
                let what = format!(
                    "{whose}, and {} is {major}.{minor}: it cannot be given frames by a descriptor",
                    guest.arch.program()
                );
                return Err(Error::machine(what, "install QEMU 7.2 or newer"));
            }
            Some(_) => {}
            None => {
                let what = format!("{whose}, and {} does not start", guest.arch.program());
                return Err(Error::machine(what, format!("{} --version", guest.arch.program())));
            }
        }
        if let Some((file, package)) = firmware.filter(|(file, _)| !Path::new(file).exists()) {
            let what = format!("{whose} that boots by UEFI, and there is no {file} here");
            return Err(Error::machine(what, format!("apt-get install {package}")));
        }
    }
    Ok(())
}
