//! What the nodes' disks do during a run.

use std::collections::BTreeMap;

use device::queue::Counters;
use fidelity::evidence::DiskUse;
use record::{DiskInterval, DiskLog, RunDir};
use scale::{VirtualDuration, VirtualInstant};

use crate::error::Result;
use crate::plan::Plan;
use crate::site::NodeIndex;

/// The disks of a run, second by second.
#[derive(Debug, Default)]
pub struct DiskSeries {
    /// When each was last looked at, and what it had counted then.
    last: BTreeMap<NodeIndex, (VirtualInstant, String, Counters)>,
    /// Begun when there is something to write.
    log: Option<DiskLog>,
}

impl DiskSeries {
    /// Adds what the disks have counted by an instant.
    pub fn add(
        &mut self,
        at: VirtualInstant,
        plan: &Plan,
        disks: &[(NodeIndex, Counters)],
        dir: &RunDir,
    ) -> Result<()> {
        for (index, counters) in disks {
            let Some((node, _)) = plan.nodes.get_index(*index) else { continue };
            let before = self.last.insert(*index, (at, node.clone(), *counters));
            let Some((from, _, before)) = before else { continue };
            let Some(interval) = interval(node, (from, &before), (at, counters)) else { continue };
            if self.log.is_none() {
                self.log = Some(dir.disk_log()?);
            }
            self.log.as_mut().map_or(Ok(()), |log| log.add(&interval))?;
        }
        Ok(())
    }

    /// Writes out what has been added.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.log.as_mut().map_or(Ok(()), DiskLog::flush)?)
    }

    /// What each did in all.
    pub fn all(&self) -> Vec<DiskUse> {
        let of = |(_, node, counters): &(VirtualInstant, String, Counters)| DiskUse {
            node: node.clone(),
            requests: counters.requests(),
            late: counters.late,
            late_by: counters.late_by,
            behind: counters.behind,
            latest: counters.latest,
        };
        self.last.values().map(of).collect()
    }
}

/// What a disk did between two looks at it; none if it did nothing.
fn interval(
    node: &str,
    (from, before): (VirtualInstant, &Counters),
    (to, after): (VirtualInstant, &Counters),
) -> Option<DiskInterval> {
    let grew = |of: fn(&Counters) -> u64| of(after).saturating_sub(of(before));
    let spent = |of: fn(&Counters) -> VirtualDuration| of(after).saturating_sub(of(before)).as_secs_f64();
    let (requests, busy, lasted) = (grew(Counters::requests), spent(|c| c.busy), to.since(from).as_secs_f64());
    if lasted <= 0.0 || (requests == 0 && busy == 0.0) {
        return None;
    }
    let late = grew(|c| c.late);
    let took = spent(|c| c.took) + spent(|c| c.late_by) + spent(|c| c.behind);
    Some(DiskInterval {
        from_s: from.as_secs_f64(),
        to_s: to.as_secs_f64(),
        node: node.to_string(),
        reads: grew(|c| c.reads),
        writes: grew(|c| c.writes),
        flushes: grew(|c| c.flushes),
        trims: grew(|c| c.trims),
        read_bytes: grew(|c| c.read_bytes),
        written_bytes: grew(|c| c.written_bytes),
        utilisation: (busy / lasted).min(1.0),
        queue_mean: spent(|c| c.queued) / lasted,
        latency_ms: (requests > 0).then(|| 1e3 * took / requests as f64),
        late,
        late_ms: if late > 0 { 1e3 * spent(|c| c.late_by) / late as f64 } else { 0.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> VirtualDuration {
        VirtualDuration::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_second_is_what_counters_grew_by() {
        let before = Counters { reads: 5, took: ms(100), busy: ms(90), queued: ms(90), ..Counters::default() };
        let after = Counters {
            reads: 8,
            writes: 1,
            read_bytes: 12_288,
            took: ms(140),
            busy: ms(590),
            queued: ms(1_090),
            late: 2,
            late_by: ms(6),
            behind: ms(2),
            ..before
        };
        let at = |ms: u64| VirtualInstant::from_nanos(ms * 1_000_000);
        let found = interval("db", (at(1_000), &before), (at(2_000), &after)).unwrap();
        assert_eq!((found.reads, found.writes, found.read_bytes, found.late), (3, 1, 12_288, 2));
        assert_eq!((found.utilisation, found.queue_mean, found.late_ms), (0.5, 1.0, 3.0));
        assert!((found.latency_ms.unwrap() - 12.0).abs() < 1e-9, "{found:?}");
        assert_eq!(interval("db", (at(2_000), &after), (at(3_000), &after)), None, "nothing happened");
    }
}
