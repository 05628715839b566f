//! Loop devices (loop(4)).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use host::Lack;
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::error::Error;
use crate::requirements;

const REMOVE: libc::c_ulong = 0x4C81;
const ADD: libc::c_ulong = 0x4C80;
const GET_FREE: libc::c_ulong = 0x4C82;
const CONFIGURE: libc::c_ulong = 0x4C0A;
const GET_STATUS: libc::c_ulong = 0x4C05;
/// The device is free again when nobody has it open or mounted any more, however that came.
const AUTOCLEAR: u32 = 4;
/// Requests go past the page cache of the file: each reaches it as it is, and many at a time.
const DIRECT_IO: u32 = 16;
/// Another may take a free device before we do.
const ATTEMPTS: usize = 64;

/// `struct loop_info64` of <linux/loop.h>.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of <linux/loop.h>.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

impl LoopInfo {
    fn new(flags: u32, file_name: [u8; 64]) -> LoopInfo {
        LoopInfo {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags,
            file_name,
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

/// A loop device, which is free again when this and everybody else have closed it. It is a new one, so that its
/// settings are nobody else's later; where devices have no files but those that somebody made (a /dev that is not the
/// kernel's), one of those.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    /// Its path.
    pub path: PathBuf,
    /// Its number, if it is a new one.
    pub new: Option<u32>,
    open: File,
}

/// A new device as it is noted: its number, which is another's once it is gone, and the token by which it is told from
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub number: u32,
    pub token: u64,
}

impl Own {
    /// The file's name as the kernel is told it, which has no use for it.
    fn name(token: u64) -> [u8; 64] {
        let mut name = [0; 64];
        let text = format!("diorama {token}");
        name[..text.len()].copy_from_slice(text.as_bytes());
        name
    }

    /// Whether the device of this number is still this one, as far as that can be told.
    fn is_there(self) -> bool {
        let Ok(device) = File::options().read(true).open(format!("/dev/loop{}", self.number)) else { return false };
        // Where nothing is said it is on nothing any more, or on a file whose server has gone.
        info_of(&device).map_or(true, |info| info.file_name == Own::name(self.token))
    }
}

impl LoopDevice {
    /// A device on a file. Numbers of new ones are `noted` before anything else is done with them; the kernel knows
    /// them by the token.
    pub fn on(file: BorrowedFd<'_>, token: u64, noted: impl Fn(Own) -> Result<(), Error>) -> Result<LoopDevice, Error> {
        let control = Path::new("/dev/loop-control");
        let control = File::options().read(true).write(true).open(control).map_err(|e| lack(control, e))?;
        for _ in 0..ATTEMPTS {
            let device = LoopDevice::added(&control).map_or_else(|| LoopDevice::free(&control), Ok)?;
            let own = device.new.map(|number| Own { number, token });
            own.map_or(Ok(()), &noted)?;
            if let Err(e) = configure(&device.open, file, token) {
                let LoopDevice { path, open, .. } = device;
                drop(open);
                remove(own.as_slice(), Duration::ZERO);
                match e.raw_os_error() {
                    Some(libc::EBUSY) => continue,
                    _ => return Err(Error::file("attach a disk to", &path, e)),
                }
            }
            let info = info_of(&device.open).map_err(|e| Error::file("ask after", &device.path, e))?;
            if info.flags & DIRECT_IO == 0 {
                return Err(Error::Machine(Lack::new(
                    "this kernel's loop devices do no direct I/O on FUSE files, without which disks cannot be modelled",
                    "use Linux 5.15 or newer with CONFIG_FUSE_FS and CONFIG_BLK_DEV_LOOP",
                )));
            }
            return Ok(device);
        }
        Err(Error::Machine(Lack::new(
            format!("others took each of {ATTEMPTS} free loop devices first"),
            "wait until they have theirs (`losetup --list`), and run again",
        )))
    }

    /// A new device, on nothing yet; `None` where that cannot be had.
    fn added(control: &File) -> Option<LoopDevice> {
        // SAFETY: the argument is a number: none that is asked for.
        let number = checked(unsafe { libc::ioctl(control.as_raw_fd(), ADD, -1 as libc::c_long) }).ok()?;
        let number = u32::try_from(number).ok()?;
        let device = LoopDevice::open(number, Some(number));
        if device.is_err() {
            let _ = forget(control, number);
        }
        device.ok()
    }

    /// One that is there and that nobody uses.
    fn free(control: &File) -> Result<LoopDevice, Error> {
        // SAFETY: the call takes no argument but its number.
        let number = checked(unsafe { libc::ioctl(control.as_raw_fd(), GET_FREE) })
            .map_err(|e| Error::system("cannot have a loop device", e))?;
        LoopDevice::open(number.unsigned_abs(), None)
    }

    fn open(number: u32, new: Option<u32>) -> Result<LoopDevice, Error> {
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let open = File::options().read(true).write(true).open(&path).map_err(|e| lack(&path, e))?;
        Ok(LoopDevice { path, new, open })
    }
}

/// How long it may take until nobody has a device mounted, once the last has let go.
const LONGEST_UNMOUNT: Duration = Duration::from_secs(10);
/// `BLKFLSBUF` of <linux/fs.h>.
const FORGET: libc::c_ulong = 0x1261;

/// Waits until nobody has a block device mounted, and has the kernel forget what it has kept of it.
///
/// # Errors
/// If somebody has it mounted still, after some seconds.
pub fn await_unmounted(device: &Path) -> Result<(), Error> {
    let end = Instant::now() + LONGEST_UNMOUNT;
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let open = loop {
        match openat(CWD, device, flags, Mode::empty()) {
            Err(rustix::io::Errno::BUSY) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            other => break other.map_err(|e| Error::file("have for oneself", device, e))?,
        }
    };
    // Writes that failed for want of power, it has given up already.
    // SAFETY: the call takes no argument but its number.
    let _ = checked(unsafe { libc::ioctl(open.as_raw_fd(), FORGET, 0) });
    Ok(())
}

/// So many devices are removed at once: for each the kernel waits several times until all cores have seen it.
const AT_ONCE: usize = 16;

/// How often it is tried again to remove a device.
const AGAIN: Duration = Duration::from_millis(5);

/// Has the kernel forget devices, waiting for so long for those that are still in use: the last who had one mounted may
/// have ended just now. Those that were not to be had by then.
pub(crate) fn remove(devices: &[Own], patience: Duration) -> Vec<Own> {
    let Ok(control) = File::options().read(true).write(true).open("/dev/loop-control") else { return Vec::new() };
    let (control, end) = (&control, Instant::now() + patience);
    let stays = move |own: &Own| {
        while forget(control, own.number).is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) {
            // One that somebody has taken since is theirs.
            if !own.is_there() {
                return false;
            }
            if Instant::now() >= end {
                return true;
            }
            std::thread::sleep(AGAIN);
        }
        false
    };
    std::thread::scope(|scope| {
        let chunks = devices.chunks(devices.len().div_ceil(AT_ONCE).max(1));
        let of = |chunk: &[Own]| chunk.iter().copied().filter(stays).collect::<Vec<_>>();
        let all: Vec<_> = chunks.map(|chunk| scope.spawn(move || of(chunk))).collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// Has the kernel forget the device of a number, if nobody uses it.
fn forget(control: &File, number: u32) -> io::Result<()> {
    // SAFETY: the argument is a number.
    checked(unsafe { libc::ioctl(control.as_raw_fd(), REMOVE, libc::c_ulong::from(number)) }).map(drop)
}

fn configure(device: &File, file: BorrowedFd<'_>, token: u64) -> io::Result<()> {
    let fd = u32::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
    let info = LoopInfo::new(AUTOCLEAR | DIRECT_IO, Own::name(token));
    let config = LoopConfig { fd, block_size: 512, info, reserved: [0; 8] };
    // SAFETY: `config` is a loop_config, which the kernel only reads; the descriptor in it is open during the call.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), CONFIGURE, &raw const config) }).map(drop)
}

fn info_of(device: &File) -> io::Result<LoopInfo> {
    let mut info = LoopInfo::new(0, [0; 64]);
    // SAFETY: the kernel writes one loop_info64 to `info`, which is one.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), GET_STATUS, &raw mut info) })?;
    Ok(info)
}

fn checked(code: libc::c_int) -> io::Result<libc::c_int> {
    if code >= 0 { Ok(code) } else { Err(io::Error::last_os_error()) }
}

fn lack(path: &Path, e: io::Error) -> Error {
    match e.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Error::Machine(requirements::no_loop(path)),
        _ => Error::file("open", path, e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_large_as_the_kernels() {
        assert_eq!((size_of::<LoopInfo>(), size_of::<LoopConfig>()), (232, 304));
    }
}
