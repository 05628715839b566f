//! Traffic of links over virtual time, as small curves in a table.

use std::fmt::Write;

use fidelity::wording::number;
use indexmap::IndexMap;
use record::{PipeInterval, RunDir};

use crate::marks::Marks;
use crate::page::Row;

/// More would fill a page that nobody reads; the file has them all.
const SHOWN: usize = 24;
/// How wide a curve is that has the page almost to itself.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 32.0;

/// The rows of the table, of the directions of links that carried most; empty if there are none.
pub(super) fn rows(intervals: &[PipeInterval], end_s: f64, marks: &Marks) -> String {
    let mut pipes: IndexMap<&str, Vec<&PipeInterval>> = IndexMap::new();
    for interval in intervals {
        pipes.entry(&interval.pipe).or_default().push(interval);
    }
    let sum = |rows: &[&PipeInterval], counters: &[&str]| -> u64 {
        let of = |row: &&PipeInterval| counters.iter().filter_map(|name| row.counters.get(name)).sum::<u64>();
        rows.iter().map(of).sum()
    };
    let carried = |rows: &[&PipeInterval]| sum(rows, &["bytes"]);
    pipes.sort_by(|_, a, _, b| carried(b).cmp(&carried(a)));
    let all = pipes.len();
    let mut html = String::new();
    for (name, rows) in pipes.iter().take(SHOWN) {
        let most = |of: fn(&PipeInterval) -> f64| rows.iter().map(|r| of(r)).fold(0.0, f64::max);
        let (used, queue) = (most(|r| r.utilisation.unwrap_or(0.0)), most(|r| r.queue_max as f64));
        let used_text = match rows.iter().any(|r| r.utilisation.is_some()) {
            true => format!("{} %", number(100.0 * used)),
            false => "–".into(),
        };
        let steps = |of: fn(&PipeInterval) -> f64| {
            rows.iter().map(move |r| Step { from_s: r.from_s, to_s: r.to_s, value: of(r) }).collect::<Vec<_>>()
        };
        let utilisation = curve(WIDTH, steps(|r| r.utilisation.unwrap_or(0.0)), end_s, 1.0, marks);
        let queued = curve(WIDTH, steps(|r| r.queue_max as f64), end_s, queue, marks);
        let row = Row::default().name(name).html(&utilisation).number(used_text).html(&queued).number(queue);
        let counters: [&[&str]; 4] = [&["queue_drops", "red_drops"], &["lost"], &["down_drops"], &["too_long"]];
        html += &counters.into_iter().fold(row, |row, counters| row.number(sum(rows, counters))).end();
    }
    if all > SHOWN {
        let file = RunDir::pipe_interval_file();
        let _ = writeln!(
            html,
            "<tr><td colspan=\"9\">… and {} more, in <code>{}</code></td></tr>",
            all - SHOWN,
            file.display()
        );
    }
    html
}

/// A part of a curve: what was so from one virtual second to another.
pub(super) struct Step {
    pub from_s: f64,
    pub to_s: f64,
    pub value: f64,
}

/// Steps from the left (t = 0) to the right (the end of the run), as high as `high` at most, with events marked.
pub(super) fn curve(width: f64, steps: impl IntoIterator<Item = Step>, end_s: f64, high: f64, marks: &Marks) -> String {
    let x = |s: f64| (s / end_s.max(1e-9)).clamp(0.0, 1.0) * width;
    let y = |v: f64| HEIGHT - 2.0 - (v / high.max(1e-9)).clamp(0.0, 1.0) * (HEIGHT - 4.0);
    let mut d = format!("M0 {:.1}", y(0.0));
    let mut until = 0.0;
    for step in steps {
        // A second without a row is one in which nothing happened.
        if step.from_s > until + 1e-6 {
            let _ = write!(d, "V{:.1}", y(0.0));
        }
        let _ = write!(d, "H{:.1}V{:.1}H{:.1}", x(step.from_s), y(step.value), x(step.to_s));
        until = step.to_s;
    }
    let _ = write!(d, "V{:.1}H{width}", y(0.0));
    format!(
        "<svg class=\"small\" viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" height=\"{HEIGHT}\" \
         aria-hidden=\"true\">{}<path class=\"line thin\" d=\"{d}\"/></svg>",
        marks.drawn(x, [0.0, end_s], [0.0, HEIGHT])
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const HEAD: &str = "from_s,to_s,pipe,utilisation,queue_mean,queue_max,packets,bytes,lost,queue_drops,down_drops,\
                        too_long,red_drops,duplicated,corrupted,reordered\n";

    fn rows_of(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::prepare(dir.path(), []).unwrap();
        fs::write(dir.path().join(RunDir::pipe_interval_file()), text).unwrap();
        rows(&run.pipe_intervals().unwrap(), 10.0, &Marks::default())
    }

    #[test]
    fn a_pipe_is_a_row_with_its_curves_and_drops() {
        let html = rows_of(&format!(
            "{HEAD}0.000,1.000,a--b/ab,0.5000,1.0,7,10,1000,1,2,0,8,30,0,0,0\n\
             5.000,6.000,a--b/ab,1.0000,1.0,90,10,2000,0,3,4,1,0,0,0,0\n\
             0.000,1.000,c--<d>/ab,,0.0,0,10,9000,0,0,0,0,0,0,0,0\n"
        ));
        assert_eq!(html.matches("<tr>").count(), 2);
        assert!(html.find("c--&lt;d&gt;/ab").unwrap() < html.find("a--b/ab").unwrap(), "most bytes first: {html}");
        assert!(html.contains("d=\"M0 30.0H0.0V16.0H24.0V30.0H120.0V2.0H144.0V30.0H240\""), "{html}");
        let numbers: String = [90, 35, 1, 4, 9].map(|n| format!("<td class=\"n\">{n}</td>")).concat();
        assert!(html.contains("100 %") && html.contains(&numbers), "{html}");
    }

    #[test]
    fn many_pipes_are_not_all_shown_and_none_are_no_table() {
        let all: String = (0..30).map(|i| format!("0.000,1.000,p{i},0.1,0,1,1,{i},0,0,0,0,0,0,0,0\n")).collect();
        let html = rows_of(&format!("{HEAD}{all}"));
        assert!(html.contains("p29<") && !html.contains(">p5<") && html.contains("and 6 more"), "{html}");
        assert_eq!(rows_of(HEAD), "");
        assert_eq!(rows(&[], 1.0, &Marks::default()), "");
    }
}
