//! How many processes this machine has room for, and how many of them a run may have.

use std::fs;

/// A run may have one in so many.
const PART: u64 = 4;
/// The kernel's default.
const USUAL: u64 = 32_768;

/// The most processes and threads of all nodes of a run together: a quarter of the numbers that this machine has for
/// them, so that a node that makes as many as it can leaves enough to whoever has to end it.
pub fn most_of_a_run() -> u64 {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok();
    part_of(read("pid_max"), read("threads-max"))
}

fn part_of(numbers: Option<u64>, threads: Option<u64>) -> u64 {
    numbers.unwrap_or(USUAL).min(threads.unwrap_or(u64::MAX)) / PART
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_quarter_of_what_there_is_least_of() {
        assert_eq!(part_of(Some(4_194_304), Some(100_000)), 25_000);
        assert_eq!(part_of(None, None), 8192);
        assert!(most_of_a_run() > 0);
    }
}
