//! A search for the largest value at which something holds, as a table, a page with plots, and JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::page::{Text, page};
use crate::sweep::{Swept, aligned};

/// A search, as far as it has come.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// The parameter.
    pub path: String,
    /// Criterion in words: `trustworthy`, `latency.p90=5%`.
    pub holds: String,
    /// The last value at which it holds, and the next one that was tried, at which it does not.
    pub bound: [Option<String>; 2],
    /// Cause of its end, a sentence; empty while nothing has.
    pub ended_by: String,
    /// Each value that was tried, the smallest first.
    pub tried: Vec<Tried>,
    /// The runs.
    pub swept: Swept,
}

/// A value at which something was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The value, with its unit.
    pub value: String,
    /// Repetitions of which it holds, and all that were made; none of one that was refused before it began.
    pub held: [usize; 2],
    /// Cores of this machine that its nodes used all the time, on average; `None` if no run says so.
    pub cores: Option<f64>,
    /// Evidence, a sentence of one of the repetitions.
    pub says: String,
}

impl Capacity {
    /// Outcome in a sentence.
    pub fn answer(&self) -> String {
        let of = format!("{} over {}", self.swept.name, self.path);
        let outcome = match &self.bound {
            [Some(last), Some(next)] => format!("{last} holds, {next} does not"),
            [Some(last), None] => format!("{last}, the last value asked for, holds"),
            [None, Some(first)] => format!("{first}, the first value asked for, does not hold"),
            [None, None] => "not known yet".into(),
        };
        let ended = if self.ended_by.is_empty() { String::new() } else { format!("\n  ended by {}", self.ended_by) };
        format!("capacity of {of} ({}): {outcome}{ended}", self.holds)
    }

    /// A line for each value. In Markdown, aligned for a terminal.
    pub fn table(&self) -> String {
        let mut rows = vec![[&*self.path, "holds", "cores used", "says"].map(str::to_owned).to_vec()];
        for Tried { value, held: [held, made], cores, says } in &self.tried {
            let held = if *made == 0 { "refused".into() } else { format!("{held} of {made}") };
            let cores = cores.map_or("–".into(), |cores| format!("{cores:.3}"));
            rows.push(vec![value.clone(), held, cores, says.replace('|', "\\|").replace('\n', " ")]);
        }
        aligned(&rows)
    }

    /// The answer, each value with its evidence, and a chart for each metric over the values.
    pub fn page(&self) -> String {
        let mut body = format!("<h1>Capacity of {}</h1>\n<p>{}</p>\n", Text(&self.swept.name), Text(&self.answer()));
        let _ = writeln!(body, "<h2>Values that were tried</h2>\n<pre>{}</pre>", Text(&self.table()));
        body += &self.swept.charts();
        page(&format!("Capacity of {}", self.swept.name), &body)
    }

    /// For a program.
    pub fn to_json(&self) -> Value {
        let of = |tried: &Tried| {
            let [held, made] = tried.held;
            json!({"value": tried.value, "held": held, "made": made, "cores": tried.cores, "says": tried.says})
        };
        let tried: Vec<Value> = self.tried.iter().map(of).collect();
        json!({
            "experiment": self.swept.name,
            "path": self.path,
            "holds": self.holds,
            "last_that_holds": self.bound[0],
            "first_that_does_not": self.bound[1],
            "ended_by": self.ended_by,
            "tried": tried,
        })
    }
}

#[cfg(test)]
mod tests {
    use record::Variant;

    use super::*;
    use crate::SweepRun;
    use crate::testing::{self, assert_harmless};

    fn capacity() -> Capacity {
        let run = |value: &str| SweepRun {
            settings: vec![("nodes.a.count".into(), value.into())],
            repetition: 1,
            place: format!("runs/{value}/1"),
            result: Some(testing::run("a run", Variant::Scaled, &testing::latencies(1.0), &[]).result),
        };
        let tried =
            |value: &str, held, cores, says: &str| Tried { value: value.into(), held, cores, says: says.into() };
        Capacity {
            path: "nodes.a.count".into(),
            holds: "trustworthy".into(),
            bound: [Some("8".into()), Some("9".into())],
            ended_by: "the harness core: emulator-lateness up to 22 %".into(),
            tried: vec![
                tried("8", [2, 2], Some(0.5), "trustworthy"),
                tried("9", [1, 3], Some(0.55), "late | <b>"),
                tried("16", [0, 0], None, "it does not fit"),
            ],
            swept: Swept { name: "web <half>".into(), runs: vec![run("8"), run("9")] },
        }
    }

    #[test]
    fn the_answer_names_both_sides_and_the_cause() {
        let capacity = capacity();
        let answer = capacity.answer();
        assert!(answer.contains("8 holds, 9 does not") && answer.contains("ended by the harness core"), "{answer}");
        let table = capacity.table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[2].contains("| 2 of 2  | 0.500"), "{table}");
        assert!(lines[3].contains("late \\| <b>") && lines[4].contains("| refused | –"), "{table}");
        let page = capacity.page();
        assert_harmless(&page);
        assert!(page.contains("<svg") && page.contains("Capacity of web &lt;half&gt;"));
        assert_eq!(capacity.to_json()["tried"][2]["cores"], Value::Null);
        let none = Capacity { bound: [None, Some("2".into())], ended_by: String::new(), ..capacity };
        assert!(none.answer().ends_with("2, the first value asked for, does not hold"), "{}", none.answer());
    }
}
