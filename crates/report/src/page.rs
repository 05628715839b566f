//! Pages for a browser: one file each, without scripts, fonts or anything else to fetch.
//!
//! Colours are Okabe and Ito's, which stay apart for the colour-blind, in a light and a dark set; lines differ in their
//! dashes too, and nothing is said by colour alone.

mod table;

use std::fmt;

use fidelity::wording::number;
use record::{Check, Fidelity, Verdict};

use crate::numbers::percent_range;

pub(crate) use self::table::{Column, Row, section, table};

/// Text that is shown as it is, whatever it holds.
pub(crate) struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Control characters have no place in a page; an escape sequence would be invisible.
                c if c.is_control() && !c.is_whitespace() => f.write_str("\u{fffd}")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// Text of anything that can be printed.
pub(crate) fn text(value: impl fmt::Display) -> String {
    Text(&value.to_string()).to_string()
}

/// A whole page. `title` is plain text, `body` is HTML.
pub(crate) fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         <footer>Written by Diorama. All times and rates are virtual unless they say <em>real</em>.</footer>\n\
         </body>\n</html>\n",
        Text(title),
        include_str!("style.css"),
    )
}

pub(crate) fn verdict(verdict: Verdict) -> String {
    let sign = match verdict {
        Verdict::Trustworthy => "✓",
        Verdict::Suspect => "⚠",
    };
    format!("<span class=\"badge {verdict}\">{sign} {verdict}</span>")
}

/// Why a run is suspect; nothing, if it is not.
pub(crate) fn reasons(fidelity: &Fidelity) -> String {
    let items: String = fidelity.reasons().iter().map(|why| format!("<li>{}</li>\n", Text(why))).collect();
    if items.is_empty() { String::new() } else { format!("<ul>\n{items}</ul>\n") }
}

/// A table of checks, breaches first to the eye.
pub(crate) fn checks(checks: &[Check]) -> String {
    let effects = checks.iter().any(|c| c.effect_range_percent.is_some());
    let mut rows = String::new();
    for check in checks {
        let (class, held) = match check.ok {
            Some(true) => ("held", "✓ held"),
            Some(false) => ("breach", "⚠ breached"),
            None => ("unknown", "– not measured"),
        };
        let shown = |v: Option<f64>| v.map_or("–".to_string(), number);
        let row = Row::of_class(class).name(check.name).styled("sign", held).number(shown(check.value));
        let row = match effects {
            true => row.words(&check.unit).number(check.effect_range_percent.map_or("–".into(), percent_range)),
            // Of a version that judged by limits.
            false => row.number(shown(check.limit)).words(&check.unit),
        };
        rows += &row.styled("says", &check.says).end();
    }
    let mut columns = vec![Column::Words("check"), Column::Words(""), Column::Number("worst")];
    columns.extend(match effects {
        true => [Column::Words("unit"), Column::Number("times longer by")],
        false => [Column::Number("limit"), Column::Words("unit")],
    });
    columns.push(Column::Words("what was seen"));
    table(&columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let hostile = "<script>alert('x')</script> & \"quoted\" \u{1b}[31m\n";
        let shown = Text(hostile).to_string();
        assert_eq!(shown, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;quoted&quot; \u{fffd}[31m\n");
    }
}
