//! Memory of this machine, by `/proc/meminfo`.

use rustix::fs::CWD;

/// How much memory there is, and how much of it is to be had, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// Memory that programs can get without anything being put out.
    pub available: u64,
    /// Room for what is put out; 0 where there is none.
    pub free_swap: u64,
}

impl Memory {
    /// Reads how much there is now; none if this machine does not tell.
    pub fn read() -> Option<Memory> {
        Memory::parse(&crate::descriptors::read_at(CWD, "/proc/meminfo").ok()?)
    }

    fn parse(told: &str) -> Option<Memory> {
        let of = |name: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
        };
        let (total, available) = (of("MemTotal")?, of("MemAvailable")?);
        Some(Memory { total, available, free_swap: of("SwapFree").unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_counts_in_kib() {
        let told = "MemTotal: 5000 kB\nMemFree: 7 kB\nMemAvailable:     100 kB\nSwapTotal: 9 kB\nSwapFree: 8 kB\n";
        let memory = Memory { total: 5000 << 10, available: 100 << 10, free_swap: 8 << 10 };
        assert_eq!(Memory::parse(told), Some(memory));
        let told = told.split("SwapTotal").next().unwrap();
        assert_eq!(Memory::parse(told), Some(Memory { free_swap: 0, ..memory }), "a kernel without swap");
        assert_eq!(Memory::parse("MemTotal: 5000 kB\n"), None);
        assert_eq!(Memory::parse("Else: 1 kB\n"), None);
    }
}
