//! The files behind the disks: sparse, each with an empty ext4 file system.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use host::Lack;
use rustix::fs::{SeekFrom, seek};

use crate::error::Error;
use crate::loop_devices::Own;
use crate::{loop_devices, requirements, ublk};

/// The block of the file systems, in bytes.
const BLOCK: u64 = 4096;

/// Mount options (ext4(5)) with which the kernel does nothing to a file system of its own accord in real time.
///
/// `noinit_itable`: nobody writes zeros to what is still unused of the tables of inodes, for the file behind a new disk
/// has them. `no_prefetch_block_bitmaps` (Linux 5.13): nobody reads ahead what is free in each part of the disk, which
/// takes thousands of reads of a large one, as fast as it answers; whoever needs to know it reads it.
pub const QUIET: &str = "noinit_itable,no_prefetch_block_bitmaps";

/// Makes a file of so many bytes with an empty ext4 file system, for a disk. The same seed gives the same file system.
pub(crate) fn format(path: &Path, bytes: u64, seed: u64) -> Result<(), Error> {
    let file = File::create(path).map_err(|e| Error::file("make", path, e))?;
    file.set_len(bytes).map_err(|e| match e.raw_os_error() {
        Some(libc::EFBIG | libc::EINVAL) => Error::Machine(Lack::new(
            format!("{} cannot be as large as the disk ({bytes} bytes): {e}", path.display()),
            "write a `size` for the disk, or keep the runs' state on a file system with larger files, such as xfs",
        )),
        _ => Error::file("make room in", path, e),
    })?;
    drop(file);
    // Where names lie in directories depends on a secret of the file system's, which is to be the same every time.
    let uuid = format!("{:08x}-0000-4000-8000-{:012x}", seed >> 32, seed & 0xffff_ffff);
    // Inode tables and journal are zero already, in a new file, so nobody has to write zeros: not now, and not during
    // the run (`noinit_itable`).
    let extended = format!("hash_seed={uuid},lazy_itable_init=1,lazy_journal_init=1,nodiscard");
    let mut command = Command::new("mkfs.ext4");
    command.args(["-q", "-F", "-b", &BLOCK.to_string(), "-U", &uuid, "-E", &extended]).arg(path);
    command.env("PATH", requirements::search_path()).env("LC_ALL", "C");
    let output = command.stdin(Stdio::null()).output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::Machine(requirements::no_mkfs()),
        _ => Error::system("cannot start mkfs.ext4", e),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    let full = said.contains("No space left");
    let what = format!("mkfs.ext4 {}: {said}", path.display());
    match full {
        true => Err(Error::system(what, io::Error::from_raw_os_error(libc::ENOSPC))),
        false => Err(Error::Server(what)),
    }
}

/// Copies a sparse file, with its holes.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let failed = |e: io::Error| Error::file("copy a file system to", to, e);
    let source = File::open(from).map_err(failed)?;
    let target = File::create(to).map_err(failed)?;
    let length = source.metadata().map_err(failed)?.len();
    target.set_len(length).map_err(failed)?;
    let mut at = 0;
    loop {
        let begin = match seek(&source, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            Err(e) => return Err(failed(e.into())),
        };
        let end = seek(&source, SeekFrom::Hole(begin)).map_err(|e| failed(e.into()))?;
        copy_range(&source, &target, begin, end).map_err(failed)?;
        at = end;
    }
}

fn copy_range(source: &File, target: &File, mut at: u64, end: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut buffer = vec![0; 1 << 20];
    while at < end {
        let part = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        source.read_exact_at(&mut buffer[..part], at)?;
        target.write_all_at(&buffer[..part], at)?;
        at += part as u64;
    }
    Ok(())
}

/// Has the file system on a device, which is mounted and has so many bytes, refuse to take anything more.
///
/// Nothing is written: all that is free is set aside.
pub(crate) fn fill(device: &Path, bytes: u64) -> Result<(), Error> {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let setting = Path::new("/sys/fs/ext4").join(&*name).join("reserved_clusters");
    // One less than there are: the kernel takes no more.
    fs::write(&setting, (bytes / BLOCK - 1).to_string()).map_err(|e| Error::file("write", &setting, e))
}

/// Where it is noted which devices are there for the disks: of each new loop device its number, and the token of ublk
/// devices.
const DEVICES: &str = "devices";
const TOKEN: &str = "ublk ";

/// A device, or several, that are to go with the run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noted {
    /// A loop device, a new one.
    Loop(Own),
    /// The ublk devices that have this token.
    Ublk(u64),
}

/// Notes a device, so that it is not there any more when the run is over.
pub(crate) fn note_device(directory: &Path, device: Noted) -> Result<(), Error> {
    let path = directory.join(DEVICES);
    let line = match device {
        Noted::Loop(Own { number, token }) => format!("{number} {token}"),
        Noted::Ublk(token) => format!("{TOKEN}{token}"),
    };
    let written = File::options().create(true).append(true).open(&path).and_then(|mut file| writeln!(file, "{line}"));
    written.map_err(|e| Error::file("write", &path, e))
}

/// How long the kernel may take to let go of the loop devices of processes that have ended.
const LETS_GO: Duration = Duration::from_secs(5);

/// Removes the devices that were made for the disks of a run, which is over. `directory` is the one in which these
/// disks were made.
///
/// # Errors
///
/// [`Error::System`] if somebody still uses one: it stays noted, so that it can be removed later.
pub fn remove_devices(directory: &Path) -> Result<(), Error> {
    let in_use = Devices::noted(directory).remove(LETS_GO);
    if let [first, ..] = in_use[..] {
        let what = format!("cannot remove {} of its loop devices, /dev/loop{} first", in_use.len(), first.number);
        return Err(Error::system(what, io::Error::from_raw_os_error(libc::EBUSY)));
    }
    // The directory may stay, and the numbers be others' by then.
    let _ = fs::remove_file(directory.join(DEVICES));
    Ok(())
}

/// The devices that were made for the disks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Devices {
    /// By which ublk devices are known.
    tokens: Vec<u64>,
    /// New loop devices.
    loops: Vec<Own>,
}

impl Devices {
    /// Those of the disks that were made in a directory.
    pub fn noted(directory: &Path) -> Devices {
        let text = fs::read_to_string(directory.join(DEVICES)).unwrap_or_default();
        let token = |line: &str| line.strip_prefix(TOKEN)?.parse().ok();
        let own = |line: &str| {
            let (number, token) = line.split_once(' ')?;
            Some(Own { number: number.parse().ok()?, token: token.parse().ok()? })
        };
        Devices { tokens: text.lines().filter_map(token).collect(), loops: text.lines().filter_map(own).collect() }
    }

    /// Removes them, loop devices as far as nobody uses them after so long. Those that somebody does still.
    pub fn remove(&self, patience: Duration) -> Vec<Own> {
        self.tokens.iter().copied().for_each(ublk::remove);
        loop_devices::remove(&self.loops, patience)
    }
}

/// Makes the files of disks of these sizes, each with a file system; those of one size begin alike. A file that is
/// there is a disk's of an earlier run, and stays as it is.
pub(crate) fn make_all(directory: &Path, sizes: &[(String, u64)], seed: u64) -> Result<Vec<(PathBuf, File)>, Error> {
    fs::create_dir_all(directory).map_err(|e| Error::file("make", directory, e))?;
    let path = |name: &str| directory.join(format!("{name}.img"));
    let mut made: Vec<&(String, u64)> = Vec::new();
    for size in sizes {
        let (name, bytes) = size;
        match fs::metadata(path(name)) {
            Ok(found) if found.len() == *bytes => continue,
            Ok(found) => {
                let path = path(name);
                let what = format!("{} is of a disk of {} bytes, not {bytes}", path.display(), found.len());
                return Err(Error::Input(what));
            }
            Err(_) => {}
        }
        match made.iter().find(|(_, other)| other == bytes) {
            Some((first, _)) => copy(&path(first), &path(name))?,
            None => format(&path(name), *bytes, seed)?,
        }
        made.push(size);
    }
    let open = |(name, _): &(String, u64)| {
        let path = path(name);
        let file = File::options().read(true).write(true).open(&path).map_err(|e| Error::file("open", &path, e))?;
        Ok((path, file))
    };
    // Copies are made of files that nobody has mounted yet, so all are there before any is handed out.
    sizes.iter().map(open).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

    #[test]
    fn devices_are_noted_by_kind() {
        let dir = tempfile::tempdir().unwrap();
        let own = |number| Own { number, token: 9 };
        for device in [Noted::Loop(own(7)), Noted::Ublk(u64::MAX), Noted::Loop(own(8)), Noted::Ublk(3)] {
            note_device(dir.path(), device).unwrap();
        }
        assert_eq!(Devices::noted(dir.path()), Devices { tokens: vec![u64::MAX, 3], loops: vec![own(7), own(8)] });
        assert_eq!(fs::read_to_string(dir.path().join(DEVICES)).unwrap().lines().count(), 4);
    }

    #[test]
    fn a_sparse_file_is_copied_with_its_holes() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a"), dir.path().join("b"));
        let file = File::create(&from).unwrap();
        file.set_len(1 << 40).unwrap();
        for at in [0, 3 << 30, (1 << 40) - 4096] {
            file.write_all_at(&[7; 4096], at).unwrap();
        }
        copy(&from, &to).unwrap();
        let copied = File::open(&to).unwrap();
        let mut read = [0; 4096];
        for (at, byte) in [(0, 7), (4096, 0), (3 << 30, 7), ((1 << 40) - 4096, 7)] {
            copied.read_exact_at(&mut read, at).unwrap();
            assert!(read.iter().all(|b| *b == byte), "{at}");
        }
        let found = copied.metadata().unwrap();
        assert_eq!(found.len(), 1 << 40);
        assert!(found.blocks() * 512 < 16 << 20, "{} blocks", found.blocks());
    }
}
