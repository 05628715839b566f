//! Disks: requests that were answered later than their models say.

use counters::Answered;
use scale::{RealDuration, Tdf};

use super::{Found, Judgement};
use crate::effects::Effect;
use crate::evidence::{DiskUse, GoesInRealTime};
use crate::wording::{milliseconds, number};

/// A kind of requests of which there are fewer than this part says nothing about what operations wait for.
const RARE: f64 = 0.01;

/// Bytes that the kernel reads of a program's file at least, where it has to wait for the host's disk; and the
/// longest that this is taken to last.
const HOST_READ: (f64, RealDuration) = (32_768.0, RealDuration::from_nanos(10_000_000));

/// How many requests were late, and by how much: data that was not there when the model said that it is, and whoever
/// answers waking up late. What waits for a request waits for that, too; what is written in the background does not.
///
/// Programs are read from the host. They are meant to be in its page cache: what is not there takes the host's time.
pub(super) fn disk(disks: &[DiskUse], without: usize, tdf: Tdf) -> Judgement {
    let unit = "% of requests";
    if disks.is_empty() {
        let says = "Disks are not modelled: reads and writes take real time, undilated.";
        return Judgement::unmeasured("virtual ms", says.into());
    }
    let kinds = || disks.iter().flat_map(|disk| &disk.kinds);
    let sum = |of: fn(&Answered) -> f64| kinds().map(of).sum::<f64>();
    let (requests, late) = (sum(|k| k.count as f64), sum(|k| k.late as f64));
    let (late_by, behind) = (sum(|k| k.late_by.as_secs_f64()), sum(|k| k.behind.as_secs_f64()));
    let rest = match without {
        0 => String::new(),
        1 => " One node has no disk: its files take the host's time.".into(),
        n => format!(" {n} nodes have no disk: their files take the host's time."),
    };
    let (from_host, undilated) = read_from_host(disks, tdf);
    let rest = format!("{from_host}{rest}");
    if requests == 0.0 {
        return Judgement::with(0.0, unit, undilated, format!("No request reached a disk.{rest}"));
    }
    let mean = |sum: f64, count: f64| if count > 0.0 { sum / count } else { 0.0 };
    let (of_late, of_others) = (mean(late_by, late), mean(behind, requests - late));
    let percent = 100.0 * late / requests;
    // Kinds that are hardly ever asked for decide nothing.
    let often = kinds().filter(|kind| kind.count as f64 > RARE * requests);
    let least = often.map(|kind| kind.took.as_secs_f64() / kind.count as f64).fold(f64::INFINITY, f64::min);
    let late_p99 = disks.iter().map(|disk| disk.late_p99.as_secs_f64()).fold(0.0, f64::max);
    let late_ones =
        Effect::EachRequest { count: requests, mean: mean(late_by + behind, requests), late: late_p99, least };
    let effects = std::iter::once(late_ones).chain(undilated);
    let latest = disks.iter().max_by_key(|d| d.latest);
    let latest = latest.map_or(String::new(), |d| {
        format!("; the latest, in {}, {} virtual ms", d.node, number(milliseconds(d.latest)))
    });
    let others = format!("the others {} virtual ms late on average{latest}", number(1e3 * of_others));
    let says = match late > 0.0 {
        true => format!(
            "Of {requests} requests to disks {late} ({} %) were not done when their models said so, {} virtual ms late \
             on average; {others}.{rest}",
            number(percent),
            number(1e3 * of_late)
        ),
        false => format!("All {requests} requests to disks were done in time, and {others}.{rest}")
            .replace("the others", "answered"),
    };
    Judgement::with(percent, unit, effects, says)
}

/// Of a run of a real time `lasted` in which the kernel wrote back at `other` times than the target's: nobody knows
/// what it wrote that the target would not have, or would have by then.
pub(super) fn at_other_times(
    mut judged: Judgement,
    disks: &[DiskUse],
    other: Option<(&str, RealDuration)>,
    lasted: RealDuration,
) -> Judgement {
    let wrote = disks.iter().any(|disk| disk.kinds[1].count > 0);
    match other {
        Some((because, from)) if wrote && lasted > from => {
            judged.add_cause(Some(format!("The kernel wrote back at other times than the target's: {because}.")));
            Judgement { found: Found::Unsized, ..judged }
        }
        _ => judged,
    }
}

/// Of a run whose idle memory went in real time: what was read again that nodes had had in memory is read from their
/// disks by no more requests than there were, and would have been in memory on the target.
pub(super) fn read_again(mut judged: Judgement, disks: &[DiskUse], goes: Option<GoesInRealTime>) -> Judgement {
    let reads = || disks.iter().map(|disk| disk.kinds[0]);
    let count: u64 = reads().map(|kind| kind.count).sum();
    let Some(GoesInRealTime { because, read_again }) = goes.filter(|_| count > 0) else { return judged };
    let Some(pages) = read_again else {
        judged.add_cause(Some(format!("Memory that nodes do not use is paged out in real time: {because}.")));
        return Judgement { found: Found::Unsized, ..judged };
    };
    if pages == 0 {
        return judged;
    }
    let each = reads().map(|kind| kind.took.as_secs_f64()).sum::<f64>() / count as f64;
    judged.add_cause(Some(format!(
        "{pages} pages of files that had been in memory were read again, as what is not used is paged out in real \
         time: {because}."
    )));
    if let Found::Effects(effects) = &mut judged.found {
        effects.push(Effect::Firings { count: pages.min(count) as f64, each: [0.0, each] });
    }
    judged
}

/// Reads of nodes from the host's own disks, and what that does.
fn read_from_host(disks: &[DiskUse], tdf: Tdf) -> (String, Option<Effect>) {
    let Some(bytes) = disks.iter().filter_map(|disk| disk.from_host).reduce(|a, b| a + b).filter(|b| *b > 0) else {
        return (String::new(), None);
    };
    let (least, longest) = HOST_READ;
    let effect =
        Effect::Firings { count: (bytes as f64 / least).ceil(), each: [0.0, tdf.to_virtual(longest).as_secs_f64()] };
    let says = format!(" Nodes with a disk read {} MB from the host's, undilated.", number(bytes as f64 / 1e6));
    (says, Some(effect))
}

#[cfg(test)]
mod tests {
    use scale::VirtualDuration;

    use super::*;

    fn us(n: u64) -> VirtualDuration {
        VirtualDuration::from_nanos(n * 1_000)
    }

    fn used(late: u64, behind: u64) -> DiskUse {
        let reads = Answered {
            count: 900,
            took: us(9_000_000),
            late,
            late_by: us(late * 500),
            behind: us(behind),
            ..Answered::default()
        };
        let writes = Answered { count: 100, took: us(20_000), ..Answered::default() };
        // Too few to matter, however short they are.
        let trims = Answered { count: 1, took: us(1), ..Answered::default() };
        let kinds = [reads, writes, Answered::default(), trims];
        DiskUse { node: "db".into(), kinds, latest: us(700), late_p99: us(400), from_host: Some(0) }
    }

    #[test]
    fn without_disks_nothing_is_promised() {
        let judged = disk(&[], 3, Tdf::ONE);
        assert_eq!((judged.value, judged.found), (None, Found::Nothing));
        assert!(judged.says.contains("not modelled"));
    }

    #[test]
    fn nobody_knows_what_writing_back_at_other_times_does() {
        let s = |s: u64| RealDuration::from_nanos(s * 1_000_000_000);
        let disks = [used(1, 10)];
        let of = |disks: &[DiskUse], other, lasted| at_other_times(disk(disks, 0, Tdf::ONE), disks, other, lasted);
        let other = Some(("another run", s(30)));
        let judged = of(&disks, other, s(31));
        assert_eq!(judged.found, Found::Unsized);
        assert!(judged.says.ends_with("than the target's: another run."), "{}", judged.says);
        for (disks, other, lasted) in [(&disks[..], other, s(29)), (&disks[..], None, s(31)), (&[], other, s(31))] {
            assert_ne!(of(disks, other, lasted).found, Found::Unsized);
        }
    }

    #[test]
    fn what_was_paged_out_too_soon_is_read_again() {
        let disks = [used(0, 0), used(0, 0)];
        let of = |disks: &[DiskUse], pages| {
            let goes = GoesInRealTime { because: "another run", read_again: pages };
            read_again(disk(disks, 0, Tdf::ONE), disks, Some(goes))
        };
        let added = |judged: &Judgement| match &judged.found {
            Found::Effects(effects) => effects.get(1).copied(),
            _ => panic!("{judged:?}"),
        };
        let few = of(&disks, Some(7));
        assert_eq!(added(&few), Some(Effect::Firings { count: 7.0, each: [0.0, 0.01] }));
        assert!(few.says.contains("7 pages of files") && few.says.ends_with("another run."), "{}", few.says);
        // Programs of others than nodes read files again, too: no more than nodes have read can be theirs.
        assert_eq!(added(&of(&disks, Some(5_000))), Some(Effect::Firings { count: 1_800.0, each: [0.0, 0.01] }));
        assert_eq!(of(&disks, None).found, Found::Unsized);
        let as_it_is = disk(&disks, 0, Tdf::ONE);
        assert_eq!(of(&disks, Some(0)), as_it_is);
        assert_eq!(read_again(as_it_is.clone(), &disks, None), as_it_is);
        assert_eq!(of(&[], None).found, Found::Nothing, "nothing is promised of other disks");
    }

    #[test]
    fn an_idle_disk_does_nothing() {
        let idle = DiskUse { node: "db".into(), ..DiskUse::default() };
        let judged = disk(&[idle], 1, Tdf::ONE);
        assert_eq!((judged.value, judged.found), (Some(0.0), Found::Effects(Vec::new())));
        assert_eq!(judged.says, "No request reached a disk. One node has no disk: its files take the host's time.");
    }

    #[test]
    fn what_is_read_from_the_host_is_told_and_sized() {
        let ten = Tdf::new(10, 1).unwrap();
        let cold = DiskUse { from_host: Some(65_537), ..used(0, 0) };
        let judged = disk(&[used(0, 0), cold], 0, ten);
        let Found::Effects(effects) = &judged.found else { panic!("{judged:?}") };
        assert_eq!(effects[1], Effect::Firings { count: 3.0, each: [0.0, 0.001] });
        assert!(judged.says.contains("read 0.0655 MB from the host's, undilated"), "{}", judged.says);
        let unknown = DiskUse { from_host: None, ..used(0, 0) };
        assert!(!disk(&[unknown, used(0, 0)], 0, ten).says.contains("host"));
    }

    #[test]
    fn late_requests_are_told_and_sized() {
        let judged = disk(&[used(10, 8_910)], 0, Tdf::ONE);
        let percent = judged.value.unwrap();
        assert!((percent - 100.0 * 10.0 / 1001.0).abs() < 1e-9, "{percent}");
        let Found::Effects(effects) = &judged.found else { panic!("{judged:?}") };
        let [Effect::EachRequest { count, mean, late, least }] = effects[..] else { panic!("{effects:?}") };
        assert_eq!((count, late, least), (1001.0, 0.0004, 0.0002), "writes are the shortest that are frequent");
        assert!((mean - (0.005 + 0.00891) / 1001.0).abs() < 1e-12, "{mean}");
        let says = "Of 1001 requests to disks 10 (0.999 %) were not done when their models said so, 0.5 virtual ms \
                    late on average; the others 0.009 virtual ms late on average; the latest, in db, 0.7 virtual ms.";
        assert_eq!(judged.says, says);
        let prompt = disk(&[used(0, 9_009)], 2, Tdf::ONE);
        assert_eq!(prompt.value, Some(0.0));
        assert!(prompt.says.starts_with("All 1001 requests to disks were done in time, and answered 0.009 virtual ms"));
        assert!(prompt.says.ends_with(" 2 nodes have no disk: their files take the host's time."), "{}", prompt.says);
    }
}
