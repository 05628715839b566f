//! Disks of the nodes during a run.

use std::collections::BTreeMap;

use counters::{Answered, DiskCounters, lateness_limit};
use fidelity::evidence::DiskUse;
use plan::Plan;
use record::{DiskInterval, DiskLog, RunDir};
use scale::{VirtualDuration, VirtualInstant};
use site::NodeIndex;

use crate::error::Result;

/// The disks of a run, second by second.
#[derive(Debug, Default)]
pub struct DiskSeries {
    /// When each was last looked at, and what it had counted then.
    last: BTreeMap<NodeIndex, (VirtualInstant, String, DiskCounters)>,
    /// Bytes that the programs of each node have read from block devices: when last looked at, and since virtual zero.
    reads: BTreeMap<NodeIndex, (u64, u64)>,
    /// Counters of each disk when it was looked at first.
    first: BTreeMap<NodeIndex, DiskCounters>,
    /// Begun when there is something to write.
    log: Option<DiskLog>,
}

impl DiskSeries {
    /// Adds what the disks have counted by an instant.
    pub fn add(
        &mut self,
        at: VirtualInstant,
        plan: &Plan,
        disks: &[(NodeIndex, DiskCounters)],
        dir: &RunDir,
    ) -> Result<()> {
        for (index, counters) in disks {
            let Some((node, _)) = plan.nodes.get_index(*index) else { continue };
            self.first.entry(*index).or_insert(*counters);
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

    /// Adds what the programs of nodes have read from block devices.
    pub fn note_reads(&mut self, reads: &[(NodeIndex, u64)]) {
        for (index, now) in reads {
            let (last, all) = self.reads.entry(*index).or_insert((*now, 0));
            // It is less when a program has ended for which nobody has waited, or all of them have.
            *all += now.saturating_sub(*last);
            *last = *now;
        }
    }

    /// Bytes of these that were not read from the node's own disk.
    fn read_of_host(&self, index: NodeIndex, counters: &DiskCounters) -> Option<u64> {
        let (_, all) = self.reads.get(&index)?;
        let first = self.first.get(&index).map_or(0, |first| first.reads.bytes);
        Some(all.saturating_sub(counters.reads.bytes.saturating_sub(first)))
    }

    /// Writes out what has been added.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.log.as_mut().map_or(Ok(()), DiskLog::flush)?)
    }

    /// Totals of each disk.
    pub fn all(&self) -> Vec<DiskUse> {
        let of = |(index, (_, node, counters)): (&NodeIndex, &(VirtualInstant, String, DiskCounters))| DiskUse {
            node: node.clone(),
            kinds: counters.kinds().map(|kind| *kind),
            latest: counters.latest,
            late_p99: percentile(&counters.lateness, 0.99).min(counters.latest),
            from_host: self.read_of_host(*index, counters),
        };
        self.last.iter().map(of).collect()
    }
}

/// The interval of a disk between two looks at it; none if it did nothing.
fn interval(
    node: &str,
    (from, before): (VirtualInstant, &DiskCounters),
    (to, after): (VirtualInstant, &DiskCounters),
) -> Option<DiskInterval> {
    let grew = |of: fn(&Answered) -> u64| after.all(of).saturating_sub(before.all(of));
    let kind = |of: fn(&DiskCounters) -> &Answered| of(after).count.saturating_sub(of(before).count);
    let bytes = |of: fn(&DiskCounters) -> &Answered| of(after).bytes.saturating_sub(of(before).bytes);
    let spent = |of: fn(&DiskCounters) -> VirtualDuration| of(after).saturating_sub(of(before)).as_secs_f64();
    let (requests, busy, lasted) = (grew(|k| k.count), spent(|c| c.busy), to.since(from).as_secs_f64());
    if lasted <= 0.0 || (requests == 0 && busy == 0.0) {
        return None;
    }
    let mean_ms = |nanos: u64, count: u64| if count > 0 { nanos as f64 / 1e6 / count as f64 } else { 0.0 };
    let late = grew(|k| k.late);
    Some(DiskInterval {
        from_s: from.as_secs_f64(),
        to_s: to.as_secs_f64(),
        node: node.to_string(),
        reads: kind(|c| &c.reads),
        writes: kind(|c| &c.writes),
        flushes: kind(|c| &c.flushes),
        trims: kind(|c| &c.trims),
        read_bytes: bytes(|c| &c.reads),
        written_bytes: bytes(|c| &c.writes),
        utilisation: (busy / lasted).min(1.0),
        queue_mean: spent(|c| c.queued) / lasted,
        latency_ms: (requests > 0).then(|| mean_ms(grew(|k| k.lasted().as_nanos()), requests)),
        late,
        late_ms: mean_ms(grew(|k| k.late_by.as_nanos()), late),
    })
}

/// By how much that part of the requests was late at most.
fn percentile(lateness: &[u64], part: f64) -> VirtualDuration {
    let wanted = (part * lateness.iter().sum::<u64>() as f64).ceil() as u64;
    let mut met = 0;
    let reached = |count: &u64| {
        met += count;
        met >= wanted
    };
    match lateness.iter().position(reached) {
        Some(place) if place + 1 < lateness.len() => lateness_limit(place),
        _ => VirtualDuration::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> VirtualDuration {
        VirtualDuration::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_second_is_what_counters_grew_by() {
        let reads = Answered { count: 5, took: ms(100), ..Answered::default() };
        let before = DiskCounters { reads, busy: ms(90), queued: ms(90), ..DiskCounters::default() };
        let reads = Answered { count: 8, bytes: 12_288, took: ms(130), late: 2, late_by: ms(6), behind: ms(2) };
        let writes = Answered { count: 1, took: ms(10), ..Answered::default() };
        let after = DiskCounters { reads, writes, busy: ms(590), queued: ms(1_090), ..before };
        let at = |ms: u64| VirtualInstant::from_nanos(ms * 1_000_000);
        let found = interval("db", (at(1_000), &before), (at(2_000), &after)).unwrap();
        assert_eq!((found.reads, found.writes, found.read_bytes, found.late), (3, 1, 12_288, 2));
        assert_eq!((found.utilisation, found.queue_mean, found.late_ms), (0.5, 1.0, 3.0));
        assert!((found.latency_ms.unwrap() - 12.0).abs() < 1e-9, "{found:?}");
        assert_eq!(interval("db", (at(2_000), &after), (at(3_000), &after)), None, "nothing happened");
    }

    #[test]
    fn what_is_not_read_from_the_own_disk_is_read_from_the_host() {
        let counted =
            |bytes| DiskCounters { reads: Answered { bytes, ..Answered::default() }, ..DiskCounters::default() };
        let mut series = DiskSeries::default();
        series.first.insert(3, counted(1_000));
        assert_eq!(series.read_of_host(3, &counted(5_000)), None, "where nobody counts nothing is known");
        // 500 were before virtual zero; then a program starts again, and has read nothing yet.
        [500, 9_500, 200, 700].iter().for_each(|all| series.note_reads(&[(3, *all)]));
        assert_eq!(series.read_of_host(3, &counted(5_000)), Some(9_500 - 4_000));
        assert_eq!(series.read_of_host(3, &counted(50_000)), Some(0), "the kernel reads for itself, too");
    }

    #[test]
    fn lateness_is_told_by_its_percentiles() {
        let mut lateness = [0; 32];
        assert_eq!(percentile(&lateness, 0.99), lateness_limit(0), "nothing was");
        lateness[0] = 980;
        lateness[6] = 15;
        lateness[31] = 5;
        assert_eq!(percentile(&lateness, 0.5), lateness_limit(0));
        assert_eq!(percentile(&lateness, 0.99), VirtualDuration::from_nanos(8_000));
        assert_eq!(percentile(&lateness, 0.999), VirtualDuration::MAX);
    }
}
