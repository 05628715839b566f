//! Block devices that a process serves by io_uring (Documentation/block/ublk.rst, <linux/ublk_cmd.h>): how they are
//! made and removed, and how their requests are read. `crate::ring` serves them.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::ptr::NonNull;

use disk::Op;
use host::Lack;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::mm::{MapFlags, ProtFlags};

use crate::blk_queue;
use crate::error::Error;
use crate::requirements;

/// Where devices are made.
pub(crate) const CONTROL: &str = "/dev/ublk-control";
/// The kernel's module of them, which nothing loads by itself.
const MODULE: &str = "ublk_drv";
/// Where the kernel lists them.
const LISTED: &str = "/sys/class/ublk-char";

/// How many requests a device has under way at most, as many as a loop device.
pub(crate) const DEPTH: u16 = 128;
/// As much as a request may hold.
pub(crate) const LONGEST: usize = 1 << 20;
const SECTOR: u64 = 512;

const fn command(direction: u32, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | (b'u' as u32) << 8 | number
}
const READS: u32 = 2;
const WRITES: u32 = 1;
const fn control(direction: u32, number: u32) -> u32 {
    command(direction, number, size_of::<ControlCommand>())
}
const GET_INFO: u32 = control(READS, 0x02);
const ADD: u32 = control(READS | WRITES, 0x04);
const DELETE: u32 = control(READS | WRITES, 0x05);
const START: u32 = control(READS | WRITES, 0x06);
const SET_PARAMETERS: u32 = control(READS | WRITES, 0x08);
/// Since Linux 6.9.
const DELETE_ASYNC: u32 = control(READS, 0x14);
/// Asks for a request.
pub(crate) const FETCH: u32 = command(READS | WRITES, 0x20, size_of::<[u8; 16]>());
/// Answers a request and asks for the next one in its place.
pub(crate) const COMMIT: u32 = command(READS | WRITES, 0x21, size_of::<[u8; 16]>());

/// Commands are numbered as ioctls are. Without this, newer kernels know none of ours.
const ENCODED: u64 = 1 << 6;
/// Whoever serves copies data itself, when and from which thread it wants: no memory is set aside for each request
/// that there may be. Since Linux 6.5.
const USER_COPY: u64 = 1 << 7;

const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;
const BASIC: u32 = 1 << 0;
const DISCARD: u32 = 1 << 1;
/// Of a request: it is complete only when it is durable.
const REQUEST_FUA: u32 = 1 << 13;

/// `struct ublksrv_ctrl_cmd`.
#[repr(C)]
struct ControlCommand {
    device: u32,
    queue: u16,
    length: u16,
    address: u64,
    data: u64,
    rest: u64,
}

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Info {
    queues: u16,
    depth: u16,
    state: u16,
    pad: u16,
    longest: u32,
    device: u32,
    pid: i32,
    pad_2: u32,
    flags: u64,
    /// The server's own, which the kernel keeps for it.
    token: u64,
    reserved: [u64; 3],
}

/// `struct ublk_params`, as far as it is used.
#[repr(C)]
#[derive(Default)]
struct Parameters {
    length: u32,
    kinds: u32,
    attributes: u32,
    logical_block_shift: u8,
    physical_block_shift: u8,
    optimal_shift: u8,
    least_shift: u8,
    longest_sectors: u32,
    chunk_sectors: u32,
    sectors: u64,
    boundary_mask: u64,
    discard_alignment: u32,
    discard_granularity: u32,
    discard_sectors: u32,
    write_zeroes_sectors: u32,
    discard_segments: u16,
    reserved: u16,
}

/// `struct ublksrv_io_desc`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Description {
    op_and_flags: u32,
    sectors: u32,
    first_sector: u64,
    address: u64,
}

/// Has the kernel have such devices, if it can: loads the module where it is one.
pub(crate) fn load() {
    if !Path::new(CONTROL).exists() {
        let _ = modprobe(&["-q"]);
    }
}

/// Whether there are such devices, or would be once the module was loaded.
pub(crate) fn is_there() -> bool {
    Path::new(CONTROL).exists() || modprobe(&["-q", "-n"])
}

fn modprobe(arguments: &[&str]) -> bool {
    let mut command = Command::new("modprobe");
    command.args(arguments).arg(MODULE).env("PATH", requirements::search_path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Where devices are made and removed.
pub(crate) struct Control {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Control {
    pub fn open() -> io::Result<Control> {
        let file = File::options().read(true).write(true).open(CONTROL)?;
        Ok(Control { file, ring: IoUring::builder().build(2)? })
    }

    /// # Safety
    /// `address` is 0, or that of so many bytes that the kernel may read and write while this lasts, as the command has
    /// it.
    unsafe fn tell(&mut self, number: u32, device: u32, address: u64, length: usize, data: u64) -> io::Result<()> {
        let all = ControlCommand { device, queue: u16::MAX, length: length as u16, address, data, rest: 0 };
        let mut bytes = [0; 80];
        let parts = [
            &all.device.to_ne_bytes()[..],
            &all.queue.to_ne_bytes(),
            &all.length.to_ne_bytes(),
            &all.address.to_ne_bytes(),
            &all.data.to_ne_bytes(),
            &all.rest.to_ne_bytes(),
        ];
        let parts = parts.concat();
        bytes[..parts.len()].copy_from_slice(&parts);
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), number).cmd(bytes).build();
        // SAFETY: the descriptor is open, and the memory is the kernel's to use until the command has ended, which is
        // waited for below.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => {
                    other?;
                }
            }
            if let Some(done) = self.ring.completion().next() {
                let code = done.result();
                return if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(()) };
            }
        }
    }

    /// Adds a device, which is not there for anybody yet. It can be told from others by `token`.
    fn add(&mut self, token: u64) -> io::Result<Info> {
        let mut info = Info {
            queues: 1,
            depth: DEPTH,
            longest: LONGEST as u32,
            device: u32::MAX,
            flags: ENCODED | USER_COPY,
            token,
            ..Info::default()
        };
        // SAFETY: the kernel reads and writes one ublksrv_ctrl_dev_info, which `info` is.
        unsafe { self.tell(ADD, u32::MAX, &raw mut info as u64, size_of::<Info>(), 0) }?;
        Ok(info)
    }

    /// State of a device.
    fn info(&mut self, device: u32) -> io::Result<Info> {
        let mut info = Info::default();
        // SAFETY: the kernel writes one ublksrv_ctrl_dev_info to `info`.
        unsafe { self.tell(GET_INFO, device, &raw mut info as u64, size_of::<Info>(), 0) }?;
        Ok(info)
    }

    fn set(&mut self, device: u32, bytes: u64) -> io::Result<()> {
        let all = u32::MAX >> 9;
        let mut parameters = Parameters {
            length: size_of::<Parameters>() as u32,
            kinds: BASIC | DISCARD,
            attributes: VOLATILE_CACHE | FUA,
            // As loop devices have it.
            logical_block_shift: 9,
            physical_block_shift: 9,
            optimal_shift: 9,
            least_shift: 9,
            longest_sectors: (LONGEST as u64 / SECTOR) as u32,
            sectors: bytes / SECTOR,
            discard_granularity: 4096,
            discard_sectors: all,
            write_zeroes_sectors: all,
            discard_segments: 1,
            ..Parameters::default()
        };
        // SAFETY: the kernel reads as many bytes as `parameters` has.
        unsafe { self.tell(SET_PARAMETERS, device, &raw mut parameters as u64, size_of::<Parameters>(), 0) }
    }

    /// Has a device be there for everybody. Its requests must be served meanwhile: the kernel looks for partitions.
    pub fn start(&mut self, device: &Device, bytes: u64) -> Result<(), Error> {
        let failed = |e| Error::system(format!("cannot start {}", device.path.display()), e);
        self.set(device.number, bytes).map_err(failed)?;
        // SAFETY: the command has no memory.
        unsafe { self.tell(START, device.number, 0, 0, std::process::id().into()) }.map_err(failed)?;
        // Whoever is modelled orders requests. Where this cannot be written a scheduler of the kernel's goes first.
        blk_queue::set(&device.path, "scheduler", "none");
        Ok(())
    }

    /// Removes a device, whoever has it open or mounted: what they ask for fails.
    fn delete(&mut self, device: u32) -> io::Result<()> {
        // SAFETY: neither command has memory.
        unsafe {
            match self.tell(DELETE_ASYNC, device, 0, 0, 0) {
                Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY)) => {
                    self.tell(DELETE, device, 0, 0, 0)
                }
                other => other,
            }
        }
    }
}

/// A device of which requests can be taken.
#[derive(Debug)]
pub(crate) struct Device {
    number: u32,
    /// The block device, once it is started.
    pub path: PathBuf,
    file: File,
    descriptions: Descriptions,
}

/// Adds so many devices, none of which is there for anybody before it is started.
///
/// # Errors
/// [`Error::Machine`] if there are none such here. Then none is left.
pub(crate) fn add(control: &mut Control, count: usize, token: u64) -> Result<Vec<Device>, Error> {
    let devices: Result<Vec<_>, Error> = (0..count).map(|_| add_one(control, token)).collect();
    if devices.is_err() {
        remove(token);
    }
    devices
}

fn add_one(control: &mut Control, token: u64) -> Result<Device, Error> {
    let info = control.add(token).map_err(|e| Error::system(format!("{CONTROL} gives no device"), e))?;
    if info.flags & USER_COPY == 0 || info.depth != DEPTH {
        return Err(Error::Machine(Lack::new(
            "this kernel's ublk devices have no user copy",
            "use Linux 6.5 or newer, or nothing: disks are FUSE files and loop devices then",
        )));
    }
    let place = PathBuf::from(format!("/dev/ublkc{}", info.device));
    let file = File::options().read(true).write(true).open(&place).map_err(|e| Error::file("open", &place, e))?;
    let descriptions = Descriptions::of(&file).map_err(|e| Error::file("map", &place, e))?;
    let path = PathBuf::from(format!("/dev/ublkb{}", info.device));
    Ok(Device { number: info.device, path, file, descriptions })
}

/// Removes all devices with this token.
pub(crate) fn remove(token: u64) {
    let listed = fs::read_dir(LISTED).into_iter().flatten().flatten();
    let numbers: Vec<u32> =
        listed.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("ublkc")?.parse().ok()).collect();
    if numbers.is_empty() {
        return;
    }
    let Ok(mut control) = Control::open() else { return };
    for number in numbers {
        if control.info(number).is_ok_and(|info| info.token == token) {
            let _ = control.delete(number);
        }
    }
}

impl Device {
    /// Purposes of io_uring's commands.
    pub fn fd(&self) -> types::Fd {
        types::Fd(self.file.as_raw_fd())
    }

    /// The request that the kernel has handed over under this tag; none, if it asks for what nobody has offered.
    pub fn request(&self, tag: u16) -> Option<Request> {
        let found = self.descriptions.read(tag);
        let op = match found.op_and_flags & 0xff {
            0 => Op::Read,
            1 if found.op_and_flags & REQUEST_FUA != 0 => Op::WriteThrough,
            1 => Op::Write,
            2 => Op::Flush,
            // To discard, and to fill with zeros.
            3 | 5 => Op::Trim,
            _ => return None,
        };
        let length = if op == Op::Flush { 0 } else { u64::from(found.sectors) * SECTOR };
        let offset = if op == Op::Flush { 0 } else { found.first_sector * SECTOR };
        Some(Request { op, offset, length })
    }

    /// Copies what is to be written.
    pub fn take_data(&self, tag: u16, to: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(to, data(tag))
    }

    /// Copies what was read.
    pub fn give_data(&self, tag: u16, from: &[u8]) -> io::Result<()> {
        self.file.write_all_at(from, data(tag))
    }
}

/// A request of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub op: Op,
    /// In bytes.
    pub offset: u64,
    pub length: u64,
}

impl Request {
    /// Whether it has no more data than one may have.
    pub fn fits(&self) -> bool {
        matches!(self.op, Op::Flush | Op::Trim) || self.length <= LONGEST as u64
    }
}

/// Where the data of a request lies in the file of its device.
fn data(tag: u16) -> u64 {
    const FIRST: u64 = 0x8000_0000;
    const SHIFT: u32 = 25;
    FIRST + (u64::from(tag) << SHIFT)
}

/// The kernel's words on the requests that it has handed over, by tag.
#[derive(Debug)]
struct Descriptions(NonNull<Description>);

/// How many bytes they have.
const MAPPED: usize = (DEPTH as usize * size_of::<Description>()).next_multiple_of(4096);

// SAFETY: it is memory that nobody here writes, and that is there until this is dropped.
unsafe impl Send for Descriptions {}
// SAFETY: likewise; each is read as a whole, and by who was told that it is there.
unsafe impl Sync for Descriptions {}

impl Descriptions {
    fn of(file: &File) -> rustix::io::Result<Descriptions> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses where, so that nothing else is there.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), MAPPED, ProtFlags::READ, flags, file, 0) }?;
        Ok(Descriptions(NonNull::new(at.cast()).ok_or(rustix::io::Errno::NOMEM)?))
    }

    fn read(&self, tag: u16) -> Description {
        assert!(tag < DEPTH, "the kernel hands over what was asked for");
        // SAFETY: it is one of those mapped. The kernel has written it before it handed the request over, and leaves it
        // as it is until that is answered.
        unsafe { self.0.add(usize::from(tag)).read_volatile() }
    }
}

impl Drop for Descriptions {
    fn drop(&mut self) {
        // SAFETY: it was mapped like this, and nobody has a reference into it.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), MAPPED) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_and_commands_are_the_kernels() {
        let sizes = (size_of::<ControlCommand>(), size_of::<Info>(), size_of::<Description>());
        assert_eq!((sizes, size_of::<Parameters>()), ((32, 64, 24), 64));
        assert_eq!([GET_INFO, ADD, FETCH, COMMIT], [0x8020_7502, 0xc020_7504, 0xc010_7520, 0xc010_7521]);
        assert_eq!(data(1) - data(0), 32 << 20);
    }
}
