//! Keeps what dilates a program in its memory, also where that program empties its address space.
//!
//! Loaders that put another program in their own place, and restorers of checkpoints, unmap all but themselves. What
//! dilates them has to stay: the image, the private state behind it, a node's clock, the kernel's vDSO that is read for
//! the host's clock, and the stubs of sites. So such a call is made in pieces, around these, by the thread itself while
//! it is stopped: a handler in the image might unmap the stack that it runs on. What is to lie in the image's place
//! (MAP_FIXED) cannot be had, and the program is ended, with a sentence. Who is traced is let alone, as a tracer would
//! see more than it does natively; if it needs the image after all, its tracer tells (`guest/settings/tracer.c`).

use std::io;
use std::ops::Range;

use libc::pid_t;

use crate::layout::{IMAGE, NODE_CLOCK, PAGE_SIZE};
use crate::notify::Notification;
use crate::remote::{self, Remote};
use crate::tracee::detach;

/// The addresses of the image, and of what belongs to it behind that.
pub(crate) const OURS: Range<u64> = IMAGE..NODE_CLOCK + PAGE_SIZE;

/// Names in /proc/PID/maps of what stays wherever it is: the image and its stubs, and the kernel's vDSO with its data.
const STAY: &[&str] = &["/memfd:diorama-clock", "[vdso]", "[vvar"];

/// The addresses that the filter asks about; `None` for calls that it does not.
fn asked(n: &Notification) -> Option<Range<u64>> {
    let [at, len, new_len, _, new_at, _] = n.args;
    match i64::from(n.nr) {
        libc::SYS_munmap | libc::SYS_mmap => Some(at..at.saturating_add(len)),
        libc::SYS_mremap => Some(new_at..new_at.saturating_add(new_len)),
        _ => None,
    }
}

/// Whether it is a call that may take the image away.
pub(crate) fn is_about_addresses(n: &Notification) -> bool {
    asked(n).is_some()
}

/// Whether it does, unless the kernel refuses it.
pub(crate) fn takes_ours(n: &Notification) -> bool {
    asked(n)
        .is_some_and(|range| range.start < OURS.end && OURS.start < range.end && range.start.is_multiple_of(PAGE_SIZE))
}

/// Unmaps `len` bytes from `at` on, but what stays, in a thread that waits for the answer to its notification of that
/// call. `answer` answers it with 0, without the call.
pub(crate) fn unmap_around(tid: pid_t, at: u64, len: u64, answer: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let maps = std::fs::read_to_string(format!("/proc/{tid}/maps"))?;
    remote::seize(tid)?;
    answer()?;
    remote::await_still(tid)?;
    let mut thread = Remote::begin(tid)?;
    // The last one first: its end may be one that the kernel refuses, and then nothing is to have happened.
    let done = pieces(&maps, at..at.saturating_add(len)).into_iter().rev().try_for_each(|piece| {
        let arguments = [piece.start, piece.end - piece.start, 0, 0];
        thread.call(libc::SYS_munmap, arguments).map(drop)
    });
    match done {
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Err(e),
        done => thread.returns(done.err().map_or(0, |e| -i64::from(e.raw_os_error().unwrap_or(libc::EINVAL)))),
    }
    thread.end()?;
    detach(tid, 0)
}

/// The parts of a range that do not stay.
fn pieces(maps: &str, range: Range<u64>) -> Vec<Range<u64>> {
    let mapping = |line: &str| {
        let (addresses, rest) = line.split_once(' ')?;
        let (from, to) = addresses.split_once('-')?;
        let stays = STAY.iter().any(|name| rest.split_ascii_whitespace().nth(4).is_some_and(|is| is.starts_with(name)));
        let hex = |text| u64::from_str_radix(text, 16).ok();
        stays.then_some(hex(from)?..hex(to)?)
    };
    let mut stay: Vec<Range<u64>> = maps.lines().filter_map(mapping).collect();
    stay.push(OURS);
    stay.sort_by_key(|mapping| mapping.start);
    let (mut pieces, mut from) = (Vec::new(), range.start);
    for kept in stay {
        if from < kept.start.min(range.end) {
            pieces.push(from..kept.start.min(range.end));
        }
        from = from.max(kept.end);
    }
    if from < range.end {
        pieces.push(from..range.end);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000-00401000 r-xp 00000000 08:02 173521 /usr/bin/a program
54d0fc4ab000-54d0fc4ac000 r-xp 0000d000 00:01 11 /memfd:diorama-clock (deleted)
550500000000-550500020000 r-xp 00000000 00:01 11 /memfd:diorama-clock (deleted)
550500020000-55050002a000 rw-p 00000000 00:00 0
7ffff7fbd000-7ffff7fc1000 r--p 00000000 00:00 0 [vvar]
7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0 [vdso]
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]
";

    #[test]
    fn all_goes_but_what_dilates_a_program() {
        let rest = pieces(MAPS, 0x1000..0x7fff_ffff_f000);
        let wanted = [
            0x1000..0x54d0_fc4a_b000,
            0x54d0_fc4a_c000..0x5505_0000_0000,
            OURS.end..0x7fff_f7fb_d000,
            0x7fff_f7fc_3000..0x7fff_ffff_f000,
        ];
        assert_eq!(rest, wanted);
        assert_eq!(pieces(MAPS, 0x1000..0x5505_0000_1000), wanted[..2]);
        let behind = pieces(MAPS, 0x5505_0000_1000..0x5506_0000_0000);
        assert!(behind.len() == 1 && behind[0] == (OURS.end..0x5506_0000_0000), "{behind:?}");
    }

    #[test]
    fn who_leaves_the_image_alone_is_not_kept_from_it() {
        let call = |nr: i64, args| {
            let mut call = Notification::default();
            (call.nr, call.args) = (nr as i32, args);
            call
        };
        let takes = |nr, args| takes_ours(&call(nr, args));
        assert!(takes(libc::SYS_munmap, [0, 0x7fff_ffff_f000, 0, 0, 0, 0]));
        assert!(!takes(libc::SYS_munmap, [1, 0x7fff_ffff_f000, 0, 0, 0, 0]), "which the kernel refuses");
        assert!(!takes(libc::SYS_munmap, [0x1000, IMAGE - 0x1000, 0, 0, 0, 0]));
        assert!(takes(libc::SYS_mmap, [IMAGE, 1, 0, 0, 0, 0]) && !takes(libc::SYS_mmap, [OURS.end, 1, 0, 0, 0, 0]));
        assert!(takes(libc::SYS_mremap, [0, 0x1000, 0x1000, 3, IMAGE, 0]));
        assert!(!is_about_addresses(&call(libc::SYS_execve, [0; 6])));
    }
}
