//! How requests come from the kernel to the process that serves disks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ublk;

/// A way for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A block device that a process serves by io_uring: Linux 6.5 or newer with CONFIG_BLK_DEV_UBLK.
    Ublk,
    /// A loop device on a file of a FUSE file system: every kernel.
    FuseAndLoop,
}

impl Transport {
    /// The one that disks made now would have, as far as can be told without making any.
    pub fn likely() -> Transport {
        if ublk::is_there() { Transport::Ublk } else { Transport::FuseAndLoop }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Ublk => "ublk",
            Transport::FuseAndLoop => "FUSE and loop",
        })
    }
}
