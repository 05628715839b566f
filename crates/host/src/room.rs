//! Room that is kept free on a disk: what nodes write and images hold never takes the last of it from the host.

use std::path::Path;

use rustix::fs::{stat, statvfs};

use crate::Lack;
use crate::error::Error;

/// One part in so many is kept free, of blocks and of inodes.
const PART: u64 = 20;
/// More than this is not kept free, however large a disk is, in bytes.
const MOST: u64 = 16 << 30;

/// Where others of the host need room: a file system that holds none of these is nobody else's.
const OF_OTHERS: [&str; 4] = ["/", "/var", "/tmp", "/home"];

/// Checks that a disk has more free than what is to be kept free: 5 % of it, and 5 % of its inodes, or 16 GiB; and that
/// it will have after so many bytes `more`. One that nobody else is on may be filled.
///
/// # Errors
///
/// [`Error::Machine`] if it has not: how much there is, and how much it should be.
pub fn check(place: &Path, more: u64) -> Result<(), Error> {
    let found = statvfs(place).map_err(|e| Error::file("look at the disk of", place, e))?;
    let device = |place: &Path| stat(place).map(|stat| stat.st_dev);
    let own = device(place).is_ok_and(|own| OF_OTHERS.iter().all(|other| device(Path::new(other)) != Ok(own)));
    if own {
        return Ok(());
    }
    let block = found.f_frsize.max(1);
    match lack(found.f_blocks * block, (found.f_bavail * block).saturating_sub(more), (found.f_files, found.f_ffree)) {
        None => Ok(()),
        Some(what) => Err(Error::Machine(Lack::new(
            format!("the disk of {} has {what}", place.display()),
            "make room on it; what one run, or one image, takes must leave that free",
        ))),
    }
}

/// What is missing of what is kept free: of so many bytes so many are free, and of inodes.
fn lack(bytes: u64, free: u64, (inodes, free_inodes): (u64, u64)) -> Option<String> {
    let kept = (bytes / PART).min(MOST);
    if free < kept {
        return Some(format!("{} MiB left, and {} MiB of it (5 %) are to stay free", free >> 20, kept >> 20));
    }
    // Some file systems count none.
    let kept = inodes / PART;
    (free_inodes < kept).then(|| format!("room for {free_inodes} files left, and {kept} of it (5 %) are to stay free"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_stays_free_of_blocks_and_of_inodes() {
        const GIB: u64 = 1 << 30;
        assert_eq!(lack(100 * GIB, 5 * GIB, (1000, 50)), None);
        assert!(lack(100 * GIB, 5 * GIB - 1, (1000, 50)).unwrap().starts_with("5119 MiB left, and 5120 MiB"));
        assert!(lack(100 * GIB, 5 * GIB, (1000, 49)).unwrap().starts_with("room for 49 files left, and 50"));
        assert_eq!(lack(10_000 * GIB, 16 * GIB, (0, 0)), None, "a large disk, and one that counts no inodes");
    }

    #[test]
    fn a_place_that_is_not_there_has_no_room() {
        assert!(check(Path::new("/nowhere/at/all"), 0).is_err());
    }
}
