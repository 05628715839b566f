//! Room that is kept free, on a disk and in memory: what nodes write, images hold and the kernel keeps for nodes never
//! takes the last of it from the host.

use std::path::Path;

use rustix::fs::{stat, statvfs};

use crate::Lack;
use crate::error::Error;
use crate::memory::Memory;

/// One part in so many is kept free, of blocks and of inodes.
const PART: u64 = 20;
/// More than this is not kept free, however large a disk is, in bytes.
const MOST: u64 = 16 << 30;

/// One part in so many is kept free of memory, and no more than this, in bytes.
const PART_OF_MEMORY: u64 = 50;
const MOST_OF_MEMORY: u64 = 512 << 20;

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

/// Checks that a fiftieth of this machine's memory is free, with swap, or 512 MiB. Nodes have limits of it, but some of
/// what the kernel keeps for them it counts for nobody, such as rings for packets.
///
/// # Errors
///
/// [`Error::Machine`] if there is less: how much there is, and how much there should be.
pub fn check_memory() -> Result<(), Error> {
    // A machine that does not tell lacks nothing.
    match Memory::read().and_then(lack_of_memory) {
        None => Ok(()),
        Some(what) => Err(Error::Machine(Lack::new(
            format!("the memory of this machine has {what}"),
            "look for a node that has the kernel keep much for it, which no limit of its own counts, such as rings for \
             packets",
        ))),
    }
}

/// Says how much memory is free, swap included, where that is less than is kept free.
fn lack_of_memory(memory: Memory) -> Option<String> {
    let kept = (memory.total / PART_OF_MEMORY).min(MOST_OF_MEMORY);
    let free = memory.available + memory.free_swap;
    (free < kept).then(|| format!("{} MiB left, and {} MiB of it (2 %) are to stay free", free >> 20, kept >> 20))
}

/// The lack of what is kept free: of so many bytes so many are free, and of inodes.
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
    fn a_fiftieth_stays_free_of_memory_with_swap() {
        let told = |total: u64, available: u64, swap: u64| {
            lack_of_memory(Memory { total: total << 10, available: available << 10, free_swap: swap << 10 })
        };
        assert_eq!(told(5_000_000, 100_000, 0), None);
        assert_eq!(told(5_000_000, 60_000, 40_000), None, "what can be put out is not short");
        let says = told(5_000_000, 99_000, 0).unwrap();
        assert_eq!(says, "96 MiB left, and 97 MiB of it (2 %) are to stay free");
        assert_eq!(told(500_000_000, 524_288, 0), None, "512 MiB are enough, whatever there is");
        check_memory().unwrap();
    }

    #[test]
    fn a_place_that_is_not_there_has_no_room() {
        assert!(check(Path::new("/nowhere/at/all"), 0).is_err());
    }
}
