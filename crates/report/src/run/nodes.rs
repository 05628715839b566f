//! Usage of nodes over virtual time.

use fidelity::wording::number;

use super::pipes::{Step, curve};
use crate::marks::Marks;
use crate::page::{Column, Row, section};
use crate::usage::{Part, Usage};

/// More would fill a page that nobody reads; the file has them all.
const SHOWN: usize = 40;
/// Five curves stand beside one another.
const WIDTH: f64 = 110.0;
const MIB: f64 = 1_048_576.0;

/// A table of the nodes that computed most, with curves; nothing, if nobody looked at them.
pub(super) fn section_of(usage: &Usage, marks: &Marks, end_s: f64) -> String {
    let has_disks = usage.nodes.values().flatten().any(|part| part.disk_bytes.is_some());
    let mut nodes: Vec<(&String, &Vec<Part>)> = usage.nodes.iter().collect();
    let computed = |parts: &[Part]| parts.iter().map(|p| p.cpu_s).sum::<f64>();
    nodes.sort_by(|a, b| computed(b.1).total_cmp(&computed(a.1)));
    let row = |(node, parts): &(&String, &Vec<Part>)| {
        let steps = |of: fn(&Part) -> f64| {
            let step = move |(place, part): (usize, &Part)| {
                let (from_s, to_s) = (place as f64 * usage.part_s, (place + 1) as f64 * usage.part_s);
                (part.known_s > 0.0).then(|| Step { from_s, to_s, value: of(part) })
            };
            parts.iter().enumerate().filter_map(step)
        };
        let most = |of: fn(&Part) -> f64| parts.iter().map(of).fold(0.0, f64::max);
        let drawn = |of: fn(&Part) -> f64, high: f64| curve(WIDTH, steps(of), end_s, high, marks);
        let known: f64 = parts.iter().map(|p| p.known_s).sum();
        let cpus = computed(parts) / known.max(1e-9);
        let memory: fn(&Part) -> f64 = |p| p.memory_bytes / MIB;
        let received: fn(&Part) -> f64 = |p| 8e-6 * p.a_second(p.bytes_in);
        let sent: fn(&Part) -> f64 = |p| 8e-6 * p.a_second(p.bytes_out);
        let disk: fn(&Part) -> f64 = |p| 1e-6 * p.a_second(p.disk_bytes.unwrap_or(0.0));
        let mut row = Row::default().name(node);
        row = row.html(&drawn(Part::cpus, most(Part::cpus).max(1.0))).number(number(cpus));
        row = row.html(&drawn(memory, most(memory))).number(number(most(memory)));
        if has_disks {
            row = match parts.iter().any(|p| p.disk_bytes.is_some()) {
                true => row.html(&drawn(disk, most(disk))).number(number(most(disk))),
                false => row.words("").number("–"),
            };
        }
        row = row.html(&drawn(received, most(received))).number(number(most(received)));
        row.html(&drawn(sent, most(sent))).number(number(most(sent))).end()
    };
    let mut rows: String = nodes.iter().take(SHOWN).map(row).collect();
    if nodes.len() > SHOWN {
        let more = nodes.len() - SHOWN;
        rows += &format!("<tr><td colspan=\"11\">… and {more} more, in <code>nodes.csv</code></td></tr>\n");
    }
    let mut columns = vec![
        Column::Words("node"),
        Column::Words("CPUs at work"),
        Column::Number("mean"),
        Column::Words("memory"),
        Column::Number("most, MiB"),
    ];
    if has_disks {
        columns.extend([Column::Words("disk"), Column::Number("most, MB/s")]);
    }
    columns.extend([Column::Words("received"), Column::Number("most, Mbit/s")]);
    columns.extend([Column::Words("sent"), Column::Number("most, Mbit/s")]);
    let table = section("Nodes over virtual time", &columns, &rows);
    match (table.is_empty(), marks.says()) {
        (true, _) | (_, "") => table,
        (false, says) => format!("{table}<p class=\"quiet\">{says}</p>\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(nodes: &[(&str, f64, Option<f64>)]) -> Usage {
        let of = |(node, cpu_s, disk_bytes): &(&str, f64, Option<f64>)| {
            let (memory_bytes, disk_bytes) = (50.0 * MIB, *disk_bytes);
            let part = Part { known_s: 1.0, cpu_s: *cpu_s, memory_bytes, disk_bytes, bytes_in: 1e6, bytes_out: 2e6 };
            (node.to_string(), vec![part; 10])
        };
        Usage { part_s: 1.0, nodes: nodes.iter().map(of).collect() }
    }

    #[test]
    fn a_node_is_a_row_and_the_busiest_comes_first() {
        let html = section_of(&usage(&[("<a>", 0.25, None), ("b", 0.5, Some(3e6))]), &Marks::default(), 10.0);
        assert!(html.find(">b<").unwrap() < html.find("&lt;a&gt;").unwrap(), "{html}");
        // Five curves of the one with a disk, four of the other.
        assert_eq!(html.matches("<svg").count(), 9, "{html}");
        for shown in ["0.5", "50", "3", "8", "16"] {
            assert!(html.contains(&format!("<td class=\"n\">{shown}</td>")), "{shown}: {html}");
        }
        let without = section_of(&usage(&[("a", 0.5, None)]), &Marks::default(), 10.0);
        assert!(!without.contains("MB/s") && without.matches("<svg").count() == 4, "{without}");
    }

    #[test]
    fn many_nodes_are_not_all_shown_and_none_are_no_table() {
        let names: Vec<String> = (0..50).map(|n| format!("n{n}")).collect();
        let all: Vec<_> = names.iter().enumerate().map(|(i, n)| (n.as_str(), i as f64 / 50.0, None)).collect();
        let html = section_of(&usage(&all), &Marks::default(), 10.0);
        assert!(html.contains(">n49<") && !html.contains(">n5<") && html.contains("and 10 more"), "{html}");
        assert_eq!(section_of(&usage(&[]), &Marks::default(), 10.0), "");
    }
}
