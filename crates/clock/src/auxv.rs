//! The kernel's vDSO: where it lies in a process, and its entry points.

use std::fs::File;
use std::io::Read;

use crate::Error;

const AT_SYSINFO_EHDR: u64 = 33;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

/// The address of the kernel's vDSO in process `pid`, from its auxiliary vector.
pub(crate) fn vdso_base(pid: i32) -> Option<u64> {
    let mut bytes = [0; 1024];
    let n = File::open(format!("/proc/{pid}/auxv")).and_then(|mut f| f.read(&mut bytes)).ok()?;
    let word = |w: &[u8]| u64::from_ne_bytes(w.try_into().expect("eight bytes"));
    bytes[..n].chunks_exact(16).find(|e| word(&e[..8]) == AT_SYSINFO_EHDR).map(|e| word(&e[8..]))
}

/// What the injector and the image need to know of the kernel's vDSO, which is the same in every 64-bit process.
/// Offsets from its base; 0 where it lacks a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelVdso {
    /// Mapped length.
    pub len: u64,
    pub clock_gettime: u64,
    pub getcpu: u64,
    pub getrandom: u64,
    /// Some `syscall` instruction.
    pub syscall: u64,
}

impl KernelVdso {
    /// Reads the vDSO of this very process.
    pub fn own() -> Result<KernelVdso, Error> {
        let missing = || Error::Machine {
            what: "this process has no vDSO".to_owned(),
            help: "start the kernel without `vdso=0`".to_owned(),
        };
        let base = vdso_base(std::process::id() as i32).ok_or_else(missing)?;
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
        let mut found = KernelVdso { len: bytes.len() as u64, clock_gettime: 0, getcpu: 0, getrandom: 0, syscall: 0 };
        for (name, value) in elf.symbols()? {
            match name {
                b"__vdso_clock_gettime" => found.clock_gettime = value,
                b"__vdso_getcpu" => found.getcpu = value,
                b"__vdso_getrandom" => found.getrandom = value,
                _ => (),
            }
        }
        found.syscall = bytes.windows(2).position(|w| w == [0x0f, 0x05])? as u64;
        Some(found)
    }
}

/// An ELF file as mapped, read just far enough for its dynamic symbols.
pub(crate) struct Elf<'a>(pub &'a [u8]);

impl<'a> Elf<'a> {
    /// Where execution begins.
    pub fn entry(&self) -> Option<u64> {
        self.u64(24)
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
        assert!(vdso.clock_gettime != 0 && vdso.getcpu != 0 && vdso.syscall != 0, "{vdso:?}");
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
