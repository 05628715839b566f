//! The tree written back as YAML, for the record of a run.

use crate::tree::{Data, Value};

/// A YAML document equal to the tree: block style, one value a line, comments and anchors gone.
pub(crate) fn document(root: &Value) -> String {
    let mut out = String::new();
    value(root, 0, &mut out);
    out
}

fn value(v: &Value, indent: usize, out: &mut String) {
    match &v.data {
        Data::Scalar { text, plain } => {
            out.push_str(&scalar(text, *plain));
            out.push('\n');
        }
        Data::List(items) if items.is_empty() => out.push_str("[]\n"),
        Data::Map(entries) if entries.is_empty() => out.push_str("{}\n"),
        Data::List(items) => {
            for (i, item) in items.iter().enumerate() {
                pad(if i == 0 && !out.ends_with('\n') { 0 } else { indent }, out);
                out.push_str("- ");
                value(item, indent + 2, out);
            }
        }
        Data::Map(entries) => {
            for (i, (key, item)) in entries.iter().enumerate() {
                pad(if i == 0 && !out.ends_with('\n') { 0 } else { indent }, out);
                out.push_str(&scalar(&key.text, key.plain));
                out.push(':');
                match &item.data {
                    Data::List(l) if !l.is_empty() => out.push('\n'),
                    Data::Map(m) if !m.is_empty() => out.push('\n'),
                    _ => out.push(' '),
                }
                value(item, indent + 2, out);
            }
        }
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Bare where that is surely the same scalar again; else in double quotes, in which YAML reads JSON's escapes.
fn scalar(text: &str, plain: bool) -> String {
    // A plain number or truth would be mere text in quotes.
    if plain && (text.parse::<f64>().is_ok() || matches!(text, "true" | "false")) {
        return text.to_owned();
    }
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./%+µ".contains(c);
    let start = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '/');
    // Quoted text that would read as a number, a truth or nothing must stay quoted.
    let unambiguous = plain || text.chars().next().is_some_and(|c| c == '/');
    if start && unambiguous && text.chars().all(safe) {
        return text.to_owned();
    }
    if plain && matches!(text, "" | "~") {
        return "null".to_owned();
    }
    quoted(text)
}

/// A text in double quotes, in which YAML reads JSON's escapes. Escaped is also what YAML would take for the end of a
/// line or refuse, and what a terminal obeys: all characters of control, and those that turn what follows.
pub fn quoted(text: &str) -> String {
    let written = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    let json = serde_json::Value::from(text).to_string();
    if !json.contains(written) {
        return json;
    }
    let of = |c: char| if written(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    json.chars().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_is_itself_again_and_no_terminal_obeys_it() {
        assert_eq!(quoted("a \"b\" ü"), "\"a \\\"b\\\" ü\"");
        let text = "\u{1b}]0;x\u{7}\u{7f}\u{85}\u{9b}2J\u{2028}\u{202e}\u{feff}\u{ffff}\n\t";
        let quoted = quoted(text);
        assert!(quoted.is_ascii() && !quoted.contains(char::is_control), "{quoted}");
        assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
        let (root, _) = crate::tree::parse(&format!("a: {quoted}\n"), 0).unwrap();
        let Data::Map(entries) = root.data else { panic!("a map") };
        assert!(matches!(&entries[0].1.data, Data::Scalar { text: again, .. } if again == text));
    }
}
