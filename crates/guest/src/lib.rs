//! Whole machines as nodes: the command line of a stock QEMU, and what disk images it may be given.
//!
//! A guest's QEMU is a program like any other in its node: dilated, in the node's share, killed with it. Nothing here
//! starts one, and nothing knows of time.

mod arch;
mod arguments;
mod console;
mod image;

pub use arch::{Arch, Firmware};
pub use arguments::{Boot, Guest, Wire, arguments};
pub use console::{gave_up, last_lines};
pub use image::{Format, ImageError, format};

/// Where a guest's files are in its node.
pub const KERNEL: &str = "/.diorama/guest/kernel";
/// Its initial file system in memory.
pub const INITRD: &str = "/.diorama/guest/initrd";
/// Its disk.
pub const DISK: &str = "/.diorama/guest/disk";
/// The directory that it is shown by 9p, under the name [`FILES_TAG`].
pub const FILES: &str = "/.diorama/guest/files";
/// The directory that holds what it leaves for the results, shown under the name [`OUT_TAG`].
pub const OUT: &str = "/out";

/// The name by which a guest mounts its files: `mount -t 9p -o trans=virtio,ro files /mnt`.
pub const FILES_TAG: &str = "files";
/// The name by which a guest mounts what becomes results.
pub const OUT_TAG: &str = "out";

/// Memory for what QEMU translates the guest's instructions to, in MiB.
const TRANSLATED_MIB: u64 = 64;
/// Memory of QEMU beside the guest's and that, in MiB: 40 to 70 were seen.
const OWN_MIB: u64 = 96;

/// The memory that a node needs beyond that of its guest, in bytes.
pub const OVERHEAD_BYTES: u64 = (TRANSLATED_MIB + OWN_MIB) << 20;

/// The oldest QEMU that can be given frames by a descriptor.
pub const OLDEST_QEMU: [u32; 2] = [7, 2];

/// The version in what `qemu-system-… --version` prints.
pub fn version(printed: &str) -> Option<[u32; 2]> {
    let (_, rest) = printed.split_once("version ")?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read() {
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright (c) 2003-2022";
        assert_eq!(version(debian), Some([7, 2]));
        assert_eq!(version("QEMU emulator version 10.0.2"), Some([10, 0]));
        assert_eq!(version("no such thing"), None);
    }
}
