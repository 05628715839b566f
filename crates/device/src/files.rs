//! A FUSE file system with one file for each disk.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, UNIX_EPOCH};

use disk::Op;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use rustix::fs::{FallocateFlags, fallocate};

use crate::shared::{Reply, Shared};

/// The known facts of a file do not change.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// As much as a request may hold: the kernel's own limit.
const LONGEST: u32 = 1 << 20;
/// How many requests the kernel hands over before it waits for answers: loop devices have 128 each at most.
const AT_ONCE: u16 = 4096;

/// The inode of the first disk's file; 1 is the directory's.
const FIRST: u64 = 2;

/// The file system.
pub(crate) struct Files(pub std::sync::Arc<Shared>);

impl Files {
    fn disk(&self, inode: INodeNo) -> Option<usize> {
        let place = usize::try_from(inode.0.checked_sub(FIRST)?).ok()?;
        (place < self.0.disks()).then_some(place)
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode.0 {
            1 => (FileType::Directory, 0o500, 0),
            _ => (FileType::RegularFile, 0o600, self.0.capacity(self.disk(inode)?)),
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it, direct I/O waits for one request before it sends the next.
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(|_| io::Error::other("this kernel's FUSE has no asynchronous direct I/O"))?;
        // A refusal is answered with what is allowed.
        let _ = config.set_max_write(LONGEST);
        let _ = config.set_max_background(AT_ONCE);
        let _ = config.set_congestion_threshold(AT_ONCE);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok()).filter(|_| parent.0 == 1);
        match number.and_then(|number| self.attributes(INodeNo(number + FIRST))) {
            Some(attributes) => reply.entry(&FOR_EVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&FOR_EVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.disk(inode) {
            Some(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            None => reply.error(Errno::EISDIR),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(disk) = self.disk(inode) else { return reply.error(Errno::EISDIR) };
        let reply = Reply::Read(reply, self.0.block(size as usize));
        self.0.serve(disk, Op::Read, offset, size.into(), reply, |file, reply| {
            let Reply::Read(_, block) = reply else { return Ok(()) };
            file.read_exact_at(block.used_mut(), offset)
        });
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(disk) = self.disk(inode) else { return reply.error(Errno::EISDIR) };
        let length = data.len();
        let reply = Reply::Write(reply, length as u32);
        self.0.serve(disk, Op::Write, offset, length as u64, reply, |file, _| file.write_all_at(data, offset));
    }

    /// A flush of the device. What it makes durable is durable on the disk that is modelled; the file behind it is
    /// thrown away with the run, unless somebody asks for more.
    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let Some(disk) = self.disk(inode) else { return reply.error(Errno::EISDIR) };
        self.0.serve(disk, Op::Flush, 0, 0, Reply::Other(reply), |file, _| self.0.flush(disk, file));
    }

    /// Ranges that a device is told to discard, or to fill with zeros.
    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(disk) = self.disk(inode) else { return reply.error(Errno::EISDIR) };
        let zeros = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
        if !zeros {
            return reply.error(Errno::EOPNOTSUPP);
        }
        self.0.serve(disk, Op::Trim, offset, length, Reply::Other(reply), |file, _| clear(file, offset, length));
    }
}

/// Fills a part of a file with zeros: by a hole, if its file system has such.
pub(crate) fn clear(file: &File, offset: u64, length: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            let zeros = vec![0; (LONGEST as u64).min(length) as usize];
            let end = offset + length;
            let parts = (offset..end).step_by(LONGEST as usize);
            parts.into_iter().try_for_each(|at| {
                let part = (end - at).min(zeros.len() as u64) as usize;
                file.write_all_at(&zeros[..part], at)
            })
        }
        other => Ok(other?),
    }
}
