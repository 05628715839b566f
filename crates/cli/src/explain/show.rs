//! Pieces of the documentation as text for a terminal.

use super::find::Found;
use super::page::{Body, Piece};

/// The longest line.
const WIDTH: usize = 100;

/// Columns whose name says no more than their cells do.
const PLAIN: &[&str] =
    &["what", "what it is", "what it does", "what it means", "what happened", "value", "its packets"];

/// All that was found, with where it stands.
pub fn text(found: &[Found]) -> String {
    let shown: Vec<String> = found.iter().map(one).collect();
    shown.join("\n")
}

fn one(found: &Found) -> String {
    match found {
        Found::Piece(piece) => match &piece.body {
            Body::Row { columns, cells } => {
                let mut text = format!("{}  ({})\n", plain(&cells[0]), place(piece));
                for (column, cell) in columns.iter().zip(cells).skip(1).filter(|(_, cell)| !cell.is_empty()) {
                    text += &wrapped(&labelled(column, cell), "  ", "  ");
                }
                text
            }
            _ => format!("({})\n{}", place(piece), of_section(piece)),
        },
        Found::Section(pieces) => {
            let heading = pieces.first().map(|piece| format!("({})\n", place(piece))).unwrap_or_default();
            heading + &pieces.iter().map(|piece| of_section(piece)).collect::<String>()
        }
    }
}

/// The page, and the headings that lead to a piece; not that of the page itself.
fn place(piece: &Piece) -> String {
    let headings = piece.headings.iter().skip(1).map(String::as_str);
    [piece.page].into_iter().chain(headings).collect::<Vec<_>>().join(", ")
}

fn of_section(piece: &Piece) -> String {
    match &piece.body {
        Body::Text(text) => {
            let hang = if text.starts_with("- ") { "  " } else { "" };
            wrapped(&plain(text), "  ", hang)
        }
        Body::Code(code) => code.lines().map(|line| format!("      {line}\n")).collect(),
        Body::Row { columns, cells } => {
            let rest = columns.iter().zip(cells).skip(1).filter(|(_, cell)| !cell.is_empty());
            let rest: Vec<String> = rest.map(|(column, cell)| labelled(column, cell)).collect();
            wrapped(&format!("{}: {}", plain(&cells[0]), rest.join("; ")), "    ", "  ")
        }
    }
}

fn labelled(column: &str, cell: &str) -> String {
    match PLAIN.contains(&column) || column.is_empty() {
        true => plain(cell),
        false => format!("{}: {}", plain(column), plain(cell)),
    }
}

/// Text without the marks of Markdown, but for backticks: these tell what is to be written as it stands.
fn plain(text: &str) -> String {
    let mut shown = String::new();
    for (number, part) in text.split('`').enumerate() {
        if number > 0 {
            shown.push('`');
        }
        match number % 2 {
            0 => shown.push_str(&part.replace('*', "")),
            _ => shown.push_str(part),
        }
    }
    let mut rest = shown.as_str();
    let mut without_links = String::new();
    while let Some((before, behind)) = rest.split_once("](") {
        match before.rfind('[') {
            Some(open) => without_links.extend([&before[..open], &before[open + 1..]]),
            None => without_links.push_str(before),
        }
        rest = behind.split_once(')').map_or("", |(_, rest)| rest);
    }
    without_links + rest
}

/// A paragraph in lines, each after `indent`; those after the first after `hang`, too.
fn wrapped(text: &str, indent: &str, hang: &str) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let wide = word.chars().count();
        if length > 0 && length + 1 + wide <= WIDTH {
            lines.push(' ');
            length += 1 + wide;
        } else {
            let indent = if length == 0 { indent.to_string() } else { format!("\n{indent}{hang}") };
            length = indent.trim_start_matches('\n').len() + wide;
            lines += &indent;
        }
        lines += word;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_and_what_is_to_be_written_stays() {
        assert_eq!(plain("a **b**, [`c*`](d.md#e) and [f](g); *h*"), "a b, `c*` and f; h");
        let long = "word ".repeat(50);
        assert!(wrapped(&long, "  ", "").lines().all(|line| line.len() <= WIDTH && line.starts_with("  ")));
    }
}
