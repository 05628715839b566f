//! Work of the nodes' disks over virtual time.

use fidelity::wording::number;
use indexmap::IndexMap;
use record::DiskInterval;

use super::pipes::{Step, curve};
use crate::marks::Marks;
use crate::page::Row;

/// Four curves stand beside one another.
const WIDTH: f64 = 110.0;

/// The rows of the table, of the disks that were busiest; empty if there are none.
pub(super) fn rows(intervals: &[DiskInterval], end_s: f64, marks: &Marks) -> String {
    const SHOWN: usize = 24;
    let mut disks: IndexMap<&str, Vec<&DiskInterval>> = IndexMap::new();
    for interval in intervals {
        disks.entry(&interval.node).or_default().push(interval);
    }
    let busy = |rows: &[&DiskInterval]| rows.iter().map(|r| r.utilisation * (r.to_s - r.from_s)).sum::<f64>();
    disks.sort_by(|_, a, _, b| busy(b).total_cmp(&busy(a)));
    let row = |(node, rows): (&&str, &Vec<&DiskInterval>)| {
        let sum = |of: fn(&DiskInterval) -> u64| rows.iter().map(|r| of(r)).sum::<u64>();
        let most = |of: fn(&DiskInterval) -> f64| rows.iter().map(|r| of(r)).fold(0.0, f64::max);
        let drawn = |of: fn(&DiskInterval) -> f64, high: f64| {
            curve(WIDTH, rows.iter().map(|r| Step { from_s: r.from_s, to_s: r.to_s, value: of(r) }), end_s, high, marks)
        };
        let a_second = |r: &DiskInterval| requests(r) as f64 / (r.to_s - r.from_s).max(1e-9);
        let queued = |r: &DiskInterval| r.queue_mean;
        let latency = |r: &DiskInterval| r.latency_ms.unwrap_or(0.0);
        let took: f64 = rows.iter().map(|r| latency(r) * requests(r) as f64).sum();
        let all = sum(requests);
        let mean = if all > 0 { number(took / all as f64) } else { "–".into() };
        let mb = |bytes: u64| number(bytes as f64 / 1e6);
        let row = Row::default().name(node);
        let row = row.html(&drawn(a_second, most(a_second))).number(number(most(a_second)));
        let row = row.html(&drawn(queued, most(queued))).number(number(most(queued)));
        let row = row.html(&drawn(|r| r.utilisation, 1.0));
        let row = row.html(&drawn(latency, most(latency))).number(mean);
        let row = row.number(sum(|r| r.reads)).number(mb(sum(|r| r.read_bytes)));
        let row = row.number(sum(|r| r.writes)).number(mb(sum(|r| r.written_bytes)));
        row.number(sum(|r| r.flushes)).number(sum(|r| r.late)).end()
    };
    let mut html: String = disks.iter().take(SHOWN).map(row).collect();
    if disks.len() > SHOWN {
        html += &format!("<tr><td colspan=\"14\">… and {} more</td></tr>\n", disks.len() - SHOWN);
    }
    html
}

fn requests(r: &DiskInterval) -> u64 {
    r.reads + r.writes + r.flushes + r.trims
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(node: &str, from_s: f64, utilisation: f64) -> DiskInterval {
        DiskInterval {
            from_s,
            to_s: from_s + 1.0,
            node: node.into(),
            reads: 10,
            writes: 20,
            flushes: 10,
            trims: 0,
            read_bytes: 1_000_000,
            written_bytes: 2_500_000,
            utilisation,
            queue_mean: 1.0,
            latency_ms: Some(4.0),
            late: 1,
            late_ms: 0.5,
        }
    }

    #[test]
    fn a_disk_is_a_row_and_the_busiest_comes_first() {
        let idle = DiskInterval { reads: 0, writes: 0, flushes: 0, latency_ms: None, ..second("<a>", 3.0, 0.1) };
        let html = rows(
            &[second("<a>", 0.0, 0.5), second("b", 0.0, 1.0), second("<a>", 5.0, 0.2), idle],
            10.0,
            &Marks::default(),
        );
        assert_eq!(html.matches("<tr>").count(), 2);
        assert!(html.find(">b<").unwrap() < html.find("&lt;a&gt;").unwrap(), "{html}");
        let numbers: String =
            ["4", "20", "3", "40", "7.5", "20", "3"].map(|n| format!("<td class=\"n\">{n}</td>")).concat();
        assert!(html.contains(&numbers), "{html}");
        // A curve each of requests a second, the queue, utilisation and latency, with the most of the first two.
        assert_eq!(html.matches("<svg").count(), 8, "{html}");
        assert!(html.contains("<td class=\"n\">40</td>") && html.contains("<td class=\"n\">1</td>"), "{html}");
    }

    #[test]
    fn many_disks_are_not_all_shown_and_none_are_no_table() {
        let all: Vec<_> = (0..30).map(|i| second(&format!("d{i}"), 0.0, f64::from(i) / 30.0)).collect();
        let html = rows(&all, 10.0, &Marks::default());
        assert!(html.contains(">d29<") && !html.contains(">d5<") && html.contains("and 6 more"), "{html}");
        assert_eq!(rows(&[], 1.0, &Marks::default()), "");
    }
}
