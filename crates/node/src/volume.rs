//! The disk of a node, mounted.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use host::Lack;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::error::{Context, Error};

/// A disk that holds what a node writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDisk {
    /// A block device with an ext4 file system that nobody has mounted.
    pub device: PathBuf,
    /// How it is mounted, as mount(8) has it: `commit=5,noatime`.
    pub options: String,
}

/// A disk's file system, mounted among the node's own mounts. When it is dropped, what has not been written is lost.
#[derive(Debug)]
pub(crate) struct Volume {
    root: OwnedFd,
}

/// `EXT4_IOC_SHUTDOWN` of <linux/ext4.h>, and its `EXT4_GOING_FLAGS_NOLOGFLUSH`.
const SHUTDOWN: libc::c_ulong = 0x8004_587D;
const WRITE_NOTHING: u32 = 2;

impl Volume {
    /// Mounts a disk at a place that is made if it is missing. To be called on the enclosure's thread.
    pub fn mount(disk: &NodeDisk, place: &Path) -> Result<Volume, Error> {
        std::fs::create_dir_all(place).map_err(|e| Error::file("make", place, e))?;
        let options = CString::new(disk.options.as_str()).map_err(io::Error::from);
        let options = options.context(|| format!("cannot mount {}", disk.device.display()))?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        rustix::mount::mount(&disk.device, place, "ext4", flags, Some(options.as_c_str())).map_err(|e| match e {
            Errno::NODEV => Error::Machine(Lack::new(
                "this kernel has no ext4, which the nodes' disks have",
                "load it (`modprobe ext4`), or use a kernel with CONFIG_EXT4_FS",
            )),
            e => Error::system(format!("cannot mount {}", disk.device.display()), e),
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, place, flags, Mode::empty()).map_err(|e| Error::file("open", place, e))?;
        Ok(Volume { root })
    }

    /// The directory at its top.
    pub fn top(&self) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&self.root, ".", flags, Mode::empty()).context(|| "cannot read what is on a disk".into())
    }

    /// Writes out all that has not been written, and waits for it.
    pub fn sync(&self) -> Result<(), Error> {
        rustix::fs::syncfs(&self.root).context(|| "cannot write out what is on a disk".into())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Nobody will read it again, and who serves the disk may be gone: to write what is left would take long, or
        // fail with a line in the kernel's log for each block.
        let how = WRITE_NOTHING;
        // SAFETY: the kernel reads one number, which lives across the call.
        unsafe { libc::ioctl(self.root.as_raw_fd(), SHUTDOWN, &raw const how) };
    }
}
