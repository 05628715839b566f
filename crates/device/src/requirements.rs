//! Needs of disks that a machine may not meet, and what helps.

use std::path::Path;

use host::Lack;

use crate::transport::Transport;

/// The lacks of this machine for nodes to have disks; nothing, if they can. Whoever makes disks finds out for sure.
pub fn lacks() -> Vec<Lack> {
    let there = |path: &str| Path::new(path).exists();
    let mut lacks = Vec::new();
    let needed = Transport::likely() == Transport::FuseAndLoop;
    if needed && !there("/dev/fuse") {
        lacks.push(no_fuse());
    }
    if needed && !there("/dev/loop-control") {
        lacks.push(no_loop(Path::new("/dev/loop-control")));
    }
    if !search_path().split(':').any(|dir| there(&format!("{dir}/mkfs.ext4"))) {
        lacks.push(no_mkfs());
    }
    lacks
}

/// Where programs are looked for: where the caller's are, and where those of system administrators are.
pub(crate) fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

pub(crate) fn no_fuse() -> Lack {
    Lack::new(
        "there is no /dev/fuse, and the nodes' disks are files of a FUSE file system",
        "load the module (`modprobe fuse`), or use a kernel with CONFIG_FUSE_FS",
    )
}

pub(crate) fn no_loop(path: &Path) -> Lack {
    Lack::new(
        format!("there is no {}, and the nodes' disks are loop devices", path.display()),
        "load the module (`modprobe loop`), or use a kernel with CONFIG_BLK_DEV_LOOP",
    )
}

pub(crate) fn no_mkfs() -> Lack {
    Lack::new(
        "there is no mkfs.ext4 on this machine, and the nodes' disks have ext4",
        "install it: `apt install e2fsprogs`",
    )
}
