//! Processors that a guest can have, and what of QEMU each needs.

use serde::{Deserialize, Serialize};

/// The architecture of a guest's processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Arch {
    /// 64-bit x86.
    #[default]
    #[serde(rename = "x86_64")]
    X86,
    /// 64-bit ARM.
    #[serde(rename = "aarch64")]
    Arm,
    /// 64-bit RISC-V.
    #[serde(rename = "riscv64")]
    Riscv,
}

/// The program that a guest's processors begin with, where they boot from a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    /// SeaBIOS, which comes with QEMU.
    #[default]
    Bios,
    /// EDK II.
    Uefi,
}

impl Arch {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86 => "x86_64",
            Arch::Arm => "aarch64",
            Arch::Riscv => "riscv64",
        }
    }

    /// The program that emulates it.
    pub fn program(self) -> &'static str {
        match self {
            Arch::X86 => "qemu-system-x86_64",
            Arch::Arm => "qemu-system-aarch64",
            Arch::Riscv => "qemu-system-riscv64",
        }
    }

    /// The package that has that program.
    pub fn package(self) -> &'static str {
        match self {
            Arch::X86 => "qemu-system-x86",
            Arch::Arm => "qemu-system-arm",
            Arch::Riscv => "qemu-system-misc",
        }
    }

    /// The file with its UEFI, and the package that has it; none if there is none for it.
    pub fn uefi(self) -> Option<(&'static str, &'static str)> {
        match self {
            Arch::X86 => Some(("/usr/share/ovmf/OVMF.fd", "ovmf")),
            Arch::Arm => Some(("/usr/share/qemu-efi-aarch64/QEMU_EFI.fd", "qemu-efi-aarch64")),
            Arch::Riscv => None,
        }
    }

    /// Whether there is a BIOS for it.
    pub fn has_bios(self) -> bool {
        self == Arch::X86
    }

    /// The name that Linux has for its first serial port.
    pub(crate) fn console(self) -> &'static str {
        match self {
            Arch::X86 | Arch::Riscv => "ttyS0",
            Arch::Arm => "ttyAMA0",
        }
    }

    /// Words that every kernel of Linux gets for it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            // It would try, as it boots, whether a timer's interrupts come while it spins, and give up where the node
            // did not have its core meanwhile.
            Arch::X86 => " no_timer_check",
            Arch::Arm | Arch::Riscv => "",
        }
    }

    /// The kind of machine, as QEMU calls it.
    pub(crate) fn machine(self) -> &'static str {
        match self {
            // All its timers follow QEMU's clock. Without graphics its BIOS speaks on the serial port.
            Arch::X86 => "pc,hpet=on,graphics=off",
            Arch::Arm => "virt",
            Arch::Riscv => "virt",
        }
    }

    /// The processor, as QEMU calls it.
    pub(crate) fn processor(self) -> &'static str {
        match self {
            // The counter of cycles is this machine's own, which counts real time, also while the node waits for its
            // core: no operating system may keep time by it. Page tables of five levels are slow to emulate.
            Arch::X86 => "max,-tsc,-tsc-deadline,-rdtscp,-invtsc,-la57",
            // Pointer authentication is by far the slowest that is emulated, in the way of the architecture.
            Arch::Arm => "max,pauth-impdef=on",
            Arch::Riscv => "rv64",
        }
    }
}
