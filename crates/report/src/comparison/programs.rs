//! System calls of programs beside one another: in a few lines for a terminal, in tables and pictures for a browser.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt::Write;

use fidelity::compare::{CallComparison, LIGHTEST, NO_CHANCE, ProgramComparison, StepComparison};

use crate::page::{Column, Row, Text, table, text as plain};

/// How many rows are shown of each program: at a terminal, and on a page.
const ROWS: [usize; 2] = [3, 20];
/// How many calls a picture of a chain has.
const CALLS_DRAWN: usize = 14;
/// Where no chance is known, programs whose steps are this far apart are said to differ.
const FAR: f64 = 0.1;
/// Half the width of a picture.
const HALF: f64 = 230.0;

/// A line for each program, and below it what differs most, if they differ.
pub(super) fn text(labels: [&str; 2], programs: &[ProgramComparison]) -> String {
    let mut text = String::new();
    for program in programs {
        let _ = writeln!(text, "{}: system calls of {}: {}", labels[1], program.program, said(labels, program));
        if !differs(program) {
            continue;
        }
        for call in program.calls.iter().take(ROWS[0]).filter(|call| call.rate[0] != call.rate[1]) {
            let _ = writeln!(text, "  {}", rate(call, program));
        }
        for step in program.steps.iter().filter(|step| follows_otherwise(step)).take(ROWS[0]) {
            let [base, other] = step.probability.map(|p| format!("{:.1} %", 100.0 * p));
            let _ =
                writeln!(text, "  {} follows {} in {other} of all cases, {base} in {}", step.to, from(step), labels[0]);
        }
    }
    text
}

/// Whether they differ by more than chance, as far as that is known.
fn differs(program: &ProgramComparison) -> bool {
    match (program.chance, program.distance) {
        (Some(chance), _) => chance < NO_CHANCE,
        (None, Some(distance)) => distance > FAR,
        (None, None) => true,
    }
}

fn said(labels: [&str; 2], program: &ProgramComparison) -> String {
    let [base, other] = program.made;
    let made = format!("{other} of them, {base} in {}", labels[0]);
    let Some(distance) = program.distance else { return made };
    let chance = match program.chance {
        Some(chance) if chance < NO_CHANCE => "; not by chance".to_owned(),
        Some(chance) => format!("; as far by chance in {:.0} % of draws", 100.0 * chance),
        None => "; too short to say whether by chance".to_owned(),
    };
    format!("{made}; steps {distance:.3} apart (0: alike, 1: none in common){chance}")
}

fn rate(call: &CallComparison, program: &ProgramComparison) -> String {
    let [base, other] = call.rate.map(number);
    format!("{} {other} {}, {base} in the base", call.call, per(program))
}

/// The unit of rates of calls.
fn per(program: &ProgramComparison) -> String {
    match &program.requests {
        Some((metric, _)) => format!("for each of {metric}"),
        None => "in 1,000 calls".to_owned(),
    }
}

/// Whether it is more, or less, likely that the one follows the other, by more than one in a hundred cases.
fn follows_otherwise(step: &StepComparison) -> bool {
    (step.probability[0] - step.probability[1]).abs() > 0.01
}

fn from(step: &StepComparison) -> &str {
    step.from.as_deref().unwrap_or("the beginning")
}

pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A section for each program: what it says, tables of calls and steps, and both chains drawn.
pub(super) fn sections(labels: [&str; 2], programs: &[ProgramComparison]) -> String {
    let mut html = String::new();
    for program in programs {
        let _ = writeln!(
            html,
            "<h2>System calls of {} <span class=\"quiet\">({} and {})</span></h2>\n<p>{}.</p>",
            Text(&program.program),
            Text(labels[0]),
            Text(labels[1]),
            Text(&said(labels, program))
        );
        html += &calls(labels, program);
        html += &machine(labels, program);
        html += "<div class=\"chains\">\n";
        for (side, label) in labels.iter().enumerate() {
            html += &chain(label, side, &program.steps);
        }
        html += "</div>\n";
        html += &steps(labels, &program.steps);
    }
    html
}

fn calls(labels: [&str; 2], program: &ProgramComparison) -> String {
    let per = per(program);
    let heads = labels.map(|label| format!("{label}: {per}"));
    let bytes = labels.map(|label| format!("{label}: bytes each"));
    let times = labels.map(|label| format!("{label}: virtual µs each"));
    let columns = [
        Column::Words("call"),
        Column::Number(&heads[0]),
        Column::Number(&heads[1]),
        Column::Number("error"),
        Column::Number(&bytes[0]),
        Column::Number(&bytes[1]),
        Column::Number(&times[0]),
        Column::Number(&times[1]),
    ];
    let known = |value: Option<f64>| value.map_or("–".into(), number);
    let mut rows = String::new();
    for call in program.calls.iter().take(ROWS[1]) {
        let error = call.error_percent.map_or("–".into(), |error| format!("{error:+.1} %"));
        let row = Row::default().name(&call.call).number(number(call.rate[0])).number(number(call.rate[1]));
        let row = row.number(error).number(known(call.bytes_each[0])).number(known(call.bytes_each[1]));
        rows += &row.number(known(call.virtual_us_each[0])).number(known(call.virtual_us_each[1])).end();
    }
    table(&columns, &rows)
}

/// A table of what programs had of the machine.
fn machine(labels: [&str; 2], program: &ProgramComparison) -> String {
    let columns = [Column::Words(""), Column::Number(labels[0]), Column::Number(labels[1])];
    let row = |name: &str, values: [String; 2]| {
        let [base, other] = values;
        Row::default().name(name).number(base).number(other).end()
    };
    let rows = [
        row("s of a core", program.core_seconds.map(number)),
        row("waited for something, times", program.voluntary_switches.map(|n| n.to_string())),
        row("put aside, times", program.involuntary_switches.map(|n| n.to_string())),
        row("page faults", program.page_faults.map(|n| n.to_string())),
    ];
    table(&columns, &rows.concat())
}

fn steps(labels: [&str; 2], steps: &[StepComparison]) -> String {
    let shares = labels.map(|label| format!("{label}: share of all"));
    let parts = labels.map(|label| format!("{label}: of those after it"));
    let columns = [
        Column::Words("call"),
        Column::Words("then"),
        Column::Number(&shares[0]),
        Column::Number(&shares[1]),
        Column::Number(&parts[0]),
        Column::Number(&parts[1]),
    ];
    let percent = |part: f64| format!("{:.2} %", 100.0 * part);
    let mut rows = String::new();
    for step in steps.iter().take(ROWS[1]) {
        let row = Row::default().name(from(step)).words(&step.to);
        let row = row.number(percent(step.share[0])).number(percent(step.share[1]));
        rows += &row.number(percent(step.probability[0])).number(percent(step.probability[1])).end();
    }
    table(&columns, &rows)
}

/// A Markov chain as a ring of calls: the wider an arrow, the more often one follows the other. Both chains have their
/// calls at the same places.
fn chain(label: &str, side: usize, steps: &[StepComparison]) -> String {
    let mut weights: BTreeMap<&str, f64> = BTreeMap::new();
    for step in steps {
        *weights.entry(&step.to).or_default() += step.share[0] + step.share[1];
    }
    let mut calls: Vec<(&str, f64)> = weights.into_iter().collect();
    calls.sort_by(|a, b| b.1.total_cmp(&a.1));
    calls.truncate(CALLS_DRAWN);
    let mut names: Vec<&str> = calls.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let place = |name: &str| {
        let index = names.iter().position(|one| *one == name)?;
        let angle = TAU * index as f64 / names.len() as f64;
        Some((0.68 * HALF * angle.sin(), -0.68 * HALF * angle.cos()))
    };
    let mut svg = format!(
        "<figure><figcaption>{}</figcaption>\n<svg class=\"chain\" viewBox=\"{:.0} {:.0} {:.0} {:.0}\" role=\"img\">\n",
        Text(label),
        -HALF * 1.3,
        -HALF,
        2.6 * HALF,
        2.0 * HALF
    );
    for step in steps.iter().filter(|step| step.share[side] >= LIGHTEST) {
        let (Some(from), Some(to)) = (step.from.as_deref().and_then(place), place(&step.to)) else { continue };
        let width = 0.6 + 9.0 * step.share[side].sqrt();
        let path = arrow(from, to);
        let _ = writeln!(
            svg,
            "<path class=\"step\" d=\"{path}\" stroke-width=\"{width:.1}\"><title>{} → {}: {:.1} %</title></path>",
            plain(step.from.as_deref().unwrap_or_default()),
            plain(&step.to),
            100.0 * step.probability[side]
        );
    }
    for name in &names {
        let Some((x, y)) = place(name) else { continue };
        let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\">{}</text>", plain(name));
    }
    svg + "</svg></figure>\n"
}

/// From one call to another along an arc that bends to the right, so that the way back is another; from one to itself
/// in a loop away from the centre.
fn arrow((x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> String {
    if (x1, y1) == (x2, y2) {
        let (out_x, out_y) = (1.42 * x1, 1.42 * y1);
        let (side_x, side_y) = (-0.16 * y1, 0.16 * x1);
        return format!(
            "M{x1:.1} {y1:.1}C{:.1} {:.1} {:.1} {:.1} {x1:.1} {y1:.1}",
            out_x + side_x,
            out_y + side_y,
            out_x - side_x,
            out_y - side_y
        );
    }
    let (middle_x, middle_y) = ((x1 + x2) / 2.0, (y1 + y2) / 2.0);
    let (bend_x, bend_y) = (0.15 * (y1 - y2), 0.15 * (x2 - x1));
    format!("M{x1:.1} {y1:.1}Q{:.1} {:.1} {x2:.1} {y2:.1}", middle_x + bend_x, middle_y + bend_y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{HOSTILE, assert_harmless};

    fn compared(chance: Option<f64>) -> ProgramComparison {
        let step = |from: &str, to: &str, share: [f64; 2], probability: [f64; 2]| StepComparison {
            from: Some(from.into()),
            to: to.into(),
            share,
            probability,
        };
        ProgramComparison {
            program: HOSTILE.into(),
            made: [3_000, 4_000],
            distance: Some(0.376),
            chance,
            requests: Some(("latency".into(), [1_000, 1_000])),
            calls: vec![CallComparison {
                call: "read".into(),
                made: [1_000, 2_000],
                rate: [1.0, 2.0],
                error_percent: Some(100.0),
                errors: [0, 0],
                bytes_each: [Some(8_192.0), Some(4_096.0)],
                virtual_us_each: [Some(12.0), None],
                trapped: [0, 0],
            }],
            steps: vec![
                step("read", "read", [0.0, 0.25], [0.0, 0.5]),
                step("read", "write", [0.333, 0.25], [1.0, 0.5]),
                step("write", "read", [0.333, 0.25], [1.0, 1.0]),
            ],
            voluntary_switches: [10, 20],
            involuntary_switches: [1, 2],
            page_faults: [100, 101],
            core_seconds: [0.5, 0.6],
        }
    }

    #[test]
    fn what_differs_is_told_first_and_in_words() {
        let told = text(["baseline", "scaled"], &[compared(Some(0.0))]);
        assert!(told.contains("4000 of them, 3000 in baseline; steps 0.376 apart"), "{told}");
        assert!(told.contains("not by chance"), "{told}");
        assert!(told.contains("  read 2.00 for each of latency, 1.00 in the base\n"), "{told}");
        assert!(told.contains("  read follows read in 50.0 % of all cases, 0.0 % in baseline\n"), "{told}");
        let alike = text(["baseline", "scaled"], &[compared(Some(0.4))]);
        assert!(alike.ends_with("as far by chance in 40 % of draws\n") && alike.lines().count() == 1, "{alike}");
    }

    #[test]
    fn both_chains_are_drawn_with_calls_at_the_same_places() {
        let html = sections(["a", HOSTILE], &[compared(None)]);
        assert_harmless(&html);
        assert_eq!(html.matches("<svg class=\"chain\"").count(), 2, "{html}");
        // The loop of the other is no arrow of the base.
        assert_eq!(html.matches("<path class=\"step\"").count(), 2 + 3, "{html}");
        assert_eq!(html.matches(">write</text>").count(), 2);
        assert!(html.contains("<td class=\"n\">+100.0 %</td>"), "{html}");
    }
}
