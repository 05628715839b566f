//! Rows for people: Netbed's tables as tables, everything else a line each.

use serde_json::Value;

use crate::Row;

/// The whole text.
pub fn text(rows: &[Row]) -> String {
    let (tables, rest) = tables(rows);
    tables + &rest.into_iter().map(line).collect::<String>()
}

fn line(r: &Row) -> String {
    let reference = r.reference.map(|v| format!("  reference {v:.4}")).unwrap_or_default();
    let error = r.error_percent.map(|e| format!("  error {e:+.3} %")).unwrap_or_default();
    let goal = match (r.goal, r.ok) {
        (Some(g), Some(true)) => format!("  goal {g}: met"),
        (Some(g), _) => format!("  goal {g}: MISSED"),
        _ => String::new(),
    };
    let params = if r.params.is_null() { String::new() } else { format!(" {}", r.params) };
    format!("{}{params}: {:.4} {}{reference}{error}{goal}\n", r.name, r.value, r.unit)
}

/// Netbed's three tables for each TDF, with the paper's figures beside our own; and the rows that stand in none.
fn tables(rows: &[Row]) -> (String, Vec<&Row>) {
    let mut text = String::new();
    let mut tdfs: Vec<&Value> = Vec::new();
    for tdf in rows.iter().map(|r| &r.params["tdf"]).filter(|t| !t.is_null()) {
        if !tdfs.contains(&tdf) {
            tdfs.push(tdf);
        }
    }
    for tdf in tdfs {
        let shown = tdf.as_f64().unwrap_or(f64::NAN);
        let at = |names: &[&str]| -> Vec<&Row> {
            rows.iter().filter(|r| r.params["tdf"] == *tdf && names.contains(&r.name.as_str())).collect()
        };
        text += &table(
            &format!("Table 1 at TDF {shown}: round trip, virtual ms"),
            &[
                "delay", "bytes", "observed", "stdev", "% err", "adjusted", "% err", "", "Dummynet", "% err", "nse",
                "% err",
            ],
            at(&["net_round_trip_base", "net_round_trip_adjusted"]).into_iter().map(delay).collect(),
        );
        text += &table(
            &format!("Table 2 at TDF {shown}: bandwidth, kbit per virtual s"),
            &["set", "bytes", "observed", "stdev", "% err", "", "Dummynet", "% err", "nse", "% err"],
            at(&["net_bandwidth"]).into_iter().map(bandwidth).collect(),
        );
        text += &table(
            &format!("Table 3 at TDF {shown}: loss, %"),
            &["set", "bytes", "observed", "99.9 %", "% err", "", "Dummynet", "% err", "nse", "% err"],
            at(&["net_loss"]).into_iter().map(loss).collect(),
        );
    }
    let in_tables = ["net_round_trip_base", "net_round_trip_adjusted", "net_bandwidth", "net_loss"];
    (text, rows.iter().filter(|r| !in_tables.contains(&r.name.as_str())).collect())
}

fn delay(r: &Row) -> Vec<String> {
    let p = &r.params;
    let mut row =
        vec![number(&p["delay_ms"], 0), number(&p["bytes"], 0), number(&p["observed_ms"], 3), number(&p["sd_ms"], 3)];
    row.push(number(&p["observed_error_percent"], 2));
    row.extend(match r.ok {
        Some(_) => [format!("{:.3}", r.value), error(r), met(r)],
        None => [String::new(), String::new(), String::new()],
    });
    let key = if r.ok.is_some() { "adjusted_ms" } else { "observed_ms" };
    row.extend(paper(p, key, 3, 1.0));
    row
}

fn bandwidth(r: &Row) -> Vec<String> {
    let p = &r.params;
    let kbit = |v: &Value| v.as_f64().map_or(String::new(), |v| format!("{:.2}", v / 1e3));
    let set = p["bits_per_s"].as_f64().map_or(String::new(), |v| format!("{}", v / 1e3));
    let mut row = vec![set, number(&p["bytes"], 0), format!("{:.2}", r.value / 1e3), kbit(&p["sd_bits_per_s"])];
    row.extend([error(r), met(r)]);
    row.extend(paper(p, "bits_per_s", 2, 1e3));
    row
}

fn loss(r: &Row) -> Vec<String> {
    let p = &r.params;
    let interval = format!("±{}", number(&p["interval_percent"], 3));
    let mut row = vec![number(&p["loss_percent"], 1), number(&p["bytes"], 0), format!("{:.3}", r.value), interval];
    row.extend([error(r), met(r)]);
    row.extend(paper(p, "loss_percent", 3, 1.0));
    row
}

/// The paper's value and error, of Dummynet and of nse.
fn paper(params: &Value, key: &str, places: usize, unit: f64) -> Vec<String> {
    let of = |system: &str| {
        let cell = &params["paper"][system];
        let value = cell[key].as_f64().map_or("–".into(), |v| format!("{:.places$}", v / unit));
        [value, number(&cell["error_percent"], 2)]
    };
    [of("dummynet"), of("nse")].concat()
}

fn error(r: &Row) -> String {
    r.error_percent.map_or(String::new(), |e| format!("{e:+.3}"))
}

fn met(r: &Row) -> String {
    match r.ok {
        Some(true) => "met".into(),
        Some(false) => "MISSED".into(),
        None => String::new(),
    }
}

fn number(value: &Value, places: usize) -> String {
    value.as_f64().map_or(String::new(), |v| format!("{v:.places$}"))
}

/// Empty if there are no rows.
fn table(title: &str, heads: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells.zip(&widths).map(|(c, w)| format!("{c:>w$}")).collect();
        cells.join("  ") + "\n"
    };
    let rows: String = rows.iter().map(|row| line(&mut row.iter().map(String::as_str))).collect();
    format!("{title}\n{}{rows}\n", line(&mut heads.iter().copied()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_figure_is_a_line_with_what_it_is_compared_with() {
        let row = Row::new("clock-gettime", json!({"tdf": 10}), 1.5, "x native").against(1.0).goal(1.25);
        let line =
            "clock-gettime {\"tdf\":10}: 1.5000 x native  reference 1.0000  error +50.000 %  goal 1.25: MISSED\n";
        assert_eq!(text(&[row]), line);
        assert_eq!(text(&[Row::new("grain", Value::Null, 0.1, "ms").goal(0.2)]), "grain: 0.1000 ms  goal 0.2: met\n");
    }

    #[test]
    fn netbeds_figures_stand_in_tables_and_nowhere_else() {
        let params = json!({"tdf": 1, "loss_percent": 2.5, "bytes": 64, "interval_percent": 0.1,
            "paper": {"dummynet": {"loss_percent": 2.51, "error_percent": 0.4}, "nse": null}});
        let text =
            text(&[Row::new("net_loss", params, 2.45, "%").within(4.0, 2.5), Row::new("x", json!({}), 1.0, "s")]);
        let lines: Vec<&str> = text.lines().collect();
        let [title, heads, row, "", "x {}: 1.0000 s"] = lines[..] else { panic!("{text}") };
        assert_eq!(title, "Table 3 at TDF 1: loss, %");
        assert!(heads.contains("Dummynet") && heads.chars().count() == row.chars().count(), "{text}");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells, ["2.5", "64", "2.450", "±0.100", "-2.000", "met", "2.510", "0.40", "–"]);
    }
}
