//! The kernel's vDSO: where it lies in a process, and its entry points.

use crate::Error;
use crate::layout::BOOTSTRAP_ROOM;

const AT_NULL: u64 = 0;
const AT_SYSINFO_EHDR: u64 = 33;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

/// The address of the kernel's vDSO in a program that has just been loaded and whose stack pointer is `sp`.
///
/// The auxiliary vector lies on the stack behind argc, argv and envp. Reading it there is several times cheaper than
/// /proc/PID/auxv, for which procfs builds directory entries for every new process.
pub(crate) fn vdso_base(pid: i32, sp: u64) -> Option<u64> {
    const FIRST: usize = 4096;
    // Nearly every program's vectors end within a page; an environment of 100,000 variables is legal.
    for size in [FIRST, 4 << 20] {
        let mut bytes = vec![0; size];
        let n = read_memory(pid, sp, &mut bytes).ok()?;
        if let Some(base) = base_in_stack(&bytes[..n]) {
            return Some(base);
        }
    }
    None
}

fn base_in_stack(bytes: &[u8]) -> Option<u64> {
    let mut words = bytes.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().expect("eight bytes")));
    let argc = words.next()?;
    if words.nth(usize::try_from(argc).ok()?)? != 0 {
        return None;
    }
    words.find(|w| *w == 0)?;
    loop {
        match (words.next()?, words.next()?) {
            (AT_NULL, _) => return None,
            (AT_SYSINFO_EHDR, base) => return Some(base),
            _ => (),
        }
    }
}

/// Reads as much as is mapped, without leaving a page half.
fn read_memory(pid: i32, at: u64, to: &mut [u8]) -> std::io::Result<usize> {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: to.len() };
    // SAFETY: `local` is the whole of `to`; the kernel checks the other process's side.
    let n = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    if n < 0 { Err(std::io::Error::last_os_error()) } else { Ok(n as usize) }
}

/// The address of the kernel's vDSO in this process.
fn own_vdso_base() -> Option<u64> {
    // SAFETY: only asks for a number.
    let base = unsafe { libc::getauxval(AT_SYSINFO_EHDR) };
    (base != 0).then_some(base)
}

/// Offsets in the kernel's vDSO for the injector and the image, alike in every 64-bit process.
/// Offsets from its base; 0 where it lacks a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelVdso {
    /// Mapped length.
    pub len: u64,
    pub clock_gettime: u64,
    pub getcpu: u64,
    pub getrandom: u64,
    /// The last [`BOOTSTRAP_ROOM`] bytes, which nothing uses.
    pub room: u64,
}

impl KernelVdso {
    /// Reads the vDSO of this very process.
    pub fn own() -> Result<KernelVdso, Error> {
        let missing = || Error::Machine {
            what: "the kernel's vDSO is missing or not laid out as expected".to_owned(),
            help: "start the kernel without `vdso=0`, or report its version".to_owned(),
        };
        let base = own_vdso_base().ok_or_else(missing)?;
        let maps = std::fs::read_to_string("/proc/self/maps").map_err(Error::system("/proc/self/maps"))?;
        let start = format!("{base:x}-");
        let line = maps.lines().find(|l| l.trim_start_matches('0').starts_with(&start)).ok_or_else(missing)?;
        let end = line[line.find('-').unwrap_or(0) + 1..].split(' ').next().unwrap_or("");
        let len = u64::from_str_radix(end, 16).ok().and_then(|e| e.checked_sub(base)).ok_or_else(missing)?;
        // SAFETY: /proc/self/maps says that this range is mapped; the vDSO is readable and never changes.
        let bytes = unsafe { std::slice::from_raw_parts(base as *const u8, len as usize) };
        KernelVdso::parse(bytes).ok_or_else(missing)
    }

    fn parse(bytes: &[u8]) -> Option<KernelVdso> {
        let elf = Elf(bytes);
        let mut found = KernelVdso { len: bytes.len() as u64, clock_gettime: 0, getcpu: 0, getrandom: 0, room: 0 };
        for (name, value) in elf.symbols()? {
            match name {
                b"__vdso_clock_gettime" => found.clock_gettime = value,
                b"__vdso_getcpu" => found.getcpu = value,
                b"__vdso_getrandom" => found.getrandom = value,
                _ => (),
            }
        }
        // The file ends with its section headers, which nobody reads in memory, and padding.
        found.room = found.len.checked_sub(BOOTSTRAP_ROOM)?;
        (found.room >= elf.section_headers()?).then_some(found)
    }
}

/// An ELF file as mapped, read just far enough for its dynamic symbols.
pub(crate) struct Elf<'a>(pub &'a [u8]);

impl<'a> Elf<'a> {
    /// Where execution begins.
    pub fn entry(&self) -> Option<u64> {
        self.u64(24)
    }

    /// The offset of the section headers.
    fn section_headers(&self) -> Option<u64> {
        self.u64(40)
    }

    fn symbols(&self) -> Option<Vec<(&'a [u8], u64)>> {
        let headers = self.u64(32)?;
        let count = u64::from(self.u16(56)?);
        // The first PT_LOAD says what the addresses are relative to; 0 in every vDSO seen so far.
        let (mut dynamic, mut linked_at) = (None, None);
        for i in 0..count {
            let at = headers + i * 56;
            match self.u32(at)? {
                PT_LOAD => linked_at = linked_at.or(Some(self.u64(at + 16)?)),
                PT_DYNAMIC => dynamic = Some(self.u64(at + 16)?),
                _ => (),
            }
        }
        let (dynamic, linked_at) = (dynamic?, linked_at?);
        let (mut hash, mut strings, mut table) = (None, None, None);
        for at in (dynamic - linked_at..).step_by(16) {
            let value = self.u64(at + 8)?.wrapping_sub(linked_at);
            match self.u64(at)? {
                0 => break,
                DT_HASH => hash = Some(value),
                DT_STRTAB => strings = Some(value),
                DT_SYMTAB => table = Some(value),
                _ => (),
            }
        }
        let (hash, strings, table) = (hash?, strings?, table?);
        (1..u64::from(self.u32(hash + 4)?))
            .map(|i| {
                let at = table + i * 24;
                let name = self.0.get((strings + u64::from(self.u32(at)?)) as usize..)?;
                let name = &name[..name.iter().position(|b| *b == 0)?];
                Some((name, self.u64(at + 8)?.wrapping_sub(linked_at)))
            })
            .collect()
    }

    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        self.0.get(at as usize..)?.get(..N)?.try_into().ok()
    }

    fn u16(&self, at: u64) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: u64) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn u64(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_vdso_is_understood() {
        let vdso = KernelVdso::own().unwrap();
        assert!(vdso.clock_gettime != 0 && vdso.getcpu != 0 && vdso.room != 0, "{vdso:?}");
    }

    #[test]
    fn the_vdso_is_found_behind_arguments_and_environment() {
        let stack = |words: &[u64]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        assert_eq!(base_in_stack(&stack(&[2, 11, 12, 0, 21, 0, 6, 4096, 33, 77, 0, 0])), Some(77));
        assert_eq!(base_in_stack(&stack(&[0, 0, 0, 33, 77, 0, 0])), Some(77));
        assert_eq!(base_in_stack(&stack(&[1, 11, 0, 0, 6, 4096, 0, 0])), None, "a kernel without vDSO");
        assert_eq!(base_in_stack(&stack(&[1, 11, 0, 0, 6, 4096])), None, "cut off");
        assert_eq!(base_in_stack(&stack(&[u64::MAX, 0])), None);
    }

    #[test]
    fn our_vdso_exports_what_a_libc_looks_for() {
        let names: Vec<_> = Elf(crate::page::IMAGE).symbols().unwrap().into_iter().map(|(name, _)| name).collect();
        for name in ["clock_gettime", "gettimeofday", "time", "getcpu", "clock_getres", "getrandom"] {
            let full = format!("__vdso_{name}");
            assert!(names.contains(&name.as_bytes()) && names.contains(&full.as_bytes()), "{name} is not exported");
        }
    }

    #[test]
    fn a_truncated_file_is_refused() {
        for len in 0..200 {
            assert!(Elf(&crate::page::IMAGE[..len]).symbols().is_none());
        }
    }
}
