//! Counters of the processor by control group (perf_event_open(2)): what a group got done, told by the hardware.
//!
//! Many virtual machines have no such counters. Then opening one fails, and nothing is said about why: the callers do
//! without.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

use crate::cgroup::Group;

/// What can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Instructions that were completed, in user mode and in the kernel.
    Instructions,
    /// Nanoseconds on the core: the kernel's own count, which every machine has.
    TaskClock,
}

/// A running count of an event on one core while something of a control group runs there.
#[derive(Debug)]
pub struct GroupCounter(File);

/// The first 64 bytes of `struct perf_event_attr` (linux/perf_event.h), which the kernel takes for all of it: what has
/// been added since is zero.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_HW_INSTRUCTIONS: u64 = 1;
const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;
/// The counter is never shared with others in turns; if it cannot be had, reading gives nothing.
const PINNED: u64 = 1 << 2;
const PERF_FLAG_PID_CGROUP: libc::c_ulong = 1 << 2;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

impl GroupCounter {
    /// Begins to count on `core`. `group` and all groups below it count.
    ///
    /// # Errors
    /// If the processor has no such counter or this process may not use it, if the kernel does not count by control
    /// group, or if the group does not exist where it does.
    pub fn open(group: &Group, core: usize, event: Event) -> io::Result<GroupCounter> {
        let (kind, config) = match event {
            Event::Instructions => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS),
            Event::TaskClock => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK),
        };
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            sample_period: 0,
            sample_type: 0,
            read_format: 0,
            flags: PINNED,
            wakeup_events: 0,
            breakpoint_type: 0,
            config1: 0,
        };
        let directory = File::open(group.place_of_counters()?)?;
        let core = libc::c_int::try_from(core).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: `attributes` is a perf_event_attr of the size that it states and outlives the call, which only reads
        // it; the other arguments are numbers, among them that of an open directory.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                directory.as_raw_fd(),
                core,
                -1 as libc::c_int,
                PERF_FLAG_PID_CGROUP | PERF_FLAG_FD_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
        Ok(GroupCounter(unsafe { File::from_raw_fd(fd as libc::c_int) }))
    }

    /// The count so far; `None` if the processor could not keep it, as somebody else has taken the counter.
    pub fn read(&self) -> Option<u64> {
        let mut count = [0; 8];
        (&self.0).read_exact(&mut count).ok()?;
        Some(u64::from_ne_bytes(count))
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use super::*;
    use crate::cgroup::Tree;

    /// A group with a program that never sleeps, on core 0. Needs root.
    struct Busy(Tree, Child);

    impl Busy {
        fn new(name: &str) -> Busy {
            let tree = Tree::of(&format!("test-perf-{name}-{}", std::process::id())).unwrap();
            let place = tree.group("inside").place_of_counters().unwrap();
            std::fs::create_dir_all(&place).unwrap();
            let child = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn().unwrap();
            std::fs::write(place.join("cgroup.procs"), child.id().to_string()).unwrap();
            Busy(tree, child)
        }

        fn count(&self, core: usize, event: Event) -> io::Result<GroupCounter> {
            GroupCounter::open(&self.0.group(""), core, event)
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.1.kill();
            let _ = self.1.wait();
            let _ = self.0.sweep();
        }
    }

    fn grown(counter: &GroupCounter, wait: Duration) -> u64 {
        let before = counter.read().unwrap();
        std::thread::sleep(wait);
        counter.read().unwrap() - before
    }

    #[test]
    fn what_a_group_and_those_below_it_do_is_counted_on_the_core_where_they_do_it() {
        let busy = Busy::new("clock");
        let (here, elsewhere) = (busy.count(0, Event::TaskClock).unwrap(), busy.count(1, Event::TaskClock).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        assert!(grown(&here, Duration::from_millis(300)) > 1_000_000);
        assert_eq!(grown(&elsewhere, Duration::from_millis(10)), 0);
        let nobody = Tree::of(&format!("test-perf-nobody-{}", std::process::id())).unwrap();
        assert!(GroupCounter::open(&nobody.group("x"), 0, Event::TaskClock).is_err(), "it does not exist");
    }

    #[test]
    fn instructions_are_counted_where_the_processor_counts_any() {
        let busy = Busy::new("instructions");
        match busy.count(0, Event::Instructions) {
            Ok(counter) => assert!(grown(&counter, Duration::from_millis(300)) > 100_000),
            Err(e) => assert!(
                matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV)),
                "a machine without the counter says so: {e}"
            ),
        }
    }
}
