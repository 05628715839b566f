//! CPU time of the real-time tasks that end timeslices on the nodes' cores, where the kernel does not count by core.

use host::cores;
use host::sched::times_of;
use rustix::thread::Pid;

use crate::Error;
use crate::share::layout::GroupLayout;

/// Those tasks, each with its core; none where there are none, or where the kernel counts by core.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    tasks: Vec<(usize, u32)>,
    home: usize,
}

impl Interrupts {
    /// Of what keeps the shares, which has been started, those that are on one of the nodes' cores. All else is at
    /// `home`.
    pub fn of(layout: &GroupLayout, home: usize) -> Result<Interrupts, Error> {
        if layout.keeper().counts_by_core() {
            return Ok(Interrupts::default());
        }
        let core_of = |thread: &u32| match cores::of_thread(Pid::from_raw(i32::try_from(*thread).ok()?)?).ok()?[..] {
            [core] => layout.cores().contains(&core).then_some((core, *thread)),
            _ => None,
        };
        Ok(Interrupts { tasks: layout.keeper().threads()?.iter().filter_map(core_of).collect(), home })
    }

    /// Divides the keeper's usage by core, where all of it was counted as used at home.
    pub fn by_core(&self, mut used: Vec<u64>) -> Result<Vec<u64>, Error> {
        for (core, thread) in &self.tasks {
            moved(&mut used, self.home, *core, times_of(*thread)?.ran.as_nanos());
        }
        Ok(used)
    }
}

/// Has `ns` of what is at one place at another.
fn moved(used: &mut Vec<u64>, from: usize, to: usize, ns: u64) {
    used.resize(used.len().max(from + 1).max(to + 1), 0);
    used[from] = used[from].saturating_sub(ns);
    used[to] += ns;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_elsewhere_is_counted_there() {
        let mut used = vec![0, 1_000];
        moved(&mut used, 1, 0, 30);
        moved(&mut used, 1, 3, 70);
        assert_eq!(used, [30, 900, 0, 70]);
    }

    #[test]
    fn without_them_all_stays_where_it_was() {
        assert_eq!(Interrupts::default().by_core(vec![0, 7]).unwrap(), [0, 7]);
    }
}
