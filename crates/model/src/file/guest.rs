//! A node that is a whole machine, as a user writes it.

use schemars::JsonSchema;
use serde::Deserialize;

/// A whole machine, which QEMU emulates: it starts with a `kernel` of Linux, or from a `disk`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Guest {
    /// The architecture of its processors; without it x86_64
    pub(crate) arch: Option<Arch>,
    /// The kernel of Linux that it starts with: a file of the experiment's folder
    pub(crate) kernel: Option<String>,
    /// With `kernel`: the initial file system in memory, a file of the experiment's folder
    pub(crate) initrd: Option<String>,
    /// With `kernel`: words for it, behind those that tell it its console and its address
    pub(crate) cmdline: Option<String>,
    /// Its disk: an image of the experiment's folder, raw, qcow2 or of a CD. Each node has a copy of its own
    pub(crate) disk: Option<String>,
    /// With `disk`, and without `kernel`: what starts it; without it `bios` where there is one, else `uefi`
    pub(crate) firmware: Option<Firmware>,
}

/// The architecture of a guest's processors
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(crate) enum Arch {
    #[serde(rename = "x86_64")]
    X86,
    #[serde(rename = "aarch64")]
    Arm,
    #[serde(rename = "riscv64")]
    Riscv,
}

/// The firmware that starts a guest from its disk
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Firmware {
    Bios,
    Uefi,
}
