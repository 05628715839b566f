//! Pages of the documentation, as they were when the program was built, taken apart into what can be shown by itself.

/// The pages in which words are explained, in the order in which a reader should meet them.
macro_rules! pages {
    ($($name:literal),+ $(,)?) => {
        &[$((concat!("docs/", $name), include_str!(concat!("../../../../docs/", $name)))),+]
    };
}

const PAGES: &[(&str, &str)] = pages![
    "checks.md",
    "experiment-file.md",
    "guests.md",
    "faults.md",
    "traffic.md",
    "run-directory.md",
    "results.md",
    "fidelity.md",
    "compare.md",
    "observe.md",
    "words.md",
    "disk-models.md",
    "bench.md",
    "bench-trust.md",
    "harness.md",
];

/// A piece of a page.
#[derive(Debug)]
pub struct Piece {
    /// The page, from the root of the repository.
    pub page: &'static str,
    /// The headings that it stands under, the innermost last, without their marks.
    pub headings: Vec<String>,
    pub body: Body,
}

/// Text of a piece, with its marks.
#[derive(Debug, PartialEq)]
pub enum Body {
    /// A paragraph, or an item of a list, in one line.
    Text(String),
    /// A row of a table, beside the names of its columns. Cells that are empty in the first column mean the one above.
    Row { columns: Vec<String>, cells: Vec<String> },
    /// Lines between fences.
    Code(String),
}

/// All pieces of all pages.
pub fn all() -> Vec<Piece> {
    PAGES.iter().flat_map(|(page, text)| pieces(page, text)).collect()
}

fn pieces(page: &'static str, text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut open: Vec<(usize, String)> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let bodies = if line.starts_with("```") {
            vec![Body::Code(lines.by_ref().take_while(|line| !line.starts_with("```")).fold(String::new(), add_line))]
        } else if let Some((depth, heading)) = heading(line) {
            open.retain(|(of, _)| *of < depth);
            open.push((depth, heading));
            continue;
        } else if line.starts_with('|') {
            let mut table = vec![line];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                table.push(row);
            }
            rows(&table)
        } else if line.trim().is_empty() {
            continue;
        } else {
            let mut text = line.trim().to_string();
            while let Some(more) = lines.next_if(|line| goes_on(line)) {
                text.push(' ');
                text.push_str(more.trim());
            }
            vec![Body::Text(text)]
        };
        let headings: Vec<String> = open.iter().map(|(_, heading)| heading.clone()).collect();
        found.extend(bodies.into_iter().map(|body| Piece { page, headings: headings.clone(), body }));
    }
    found
}

fn add_line(mut text: String, line: &str) -> String {
    text.push_str(line);
    text.push('\n');
    text
}

/// Whether a line belongs to the paragraph or the item before it.
fn goes_on(line: &str) -> bool {
    let begins = ["- ", "|", "```", "#"].iter().any(|mark| line.trim_start().starts_with(mark));
    let numbered = line.split_once(". ").is_some_and(|(n, _)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    !line.trim().is_empty() && !begins && !numbered
}

fn heading(line: &str) -> Option<(usize, String)> {
    let text = line.trim_start_matches('#');
    let depth = line.len() - text.len();
    (depth > 0 && text.starts_with(' ')).then(|| (depth, text.trim().replace('`', "")))
}

fn rows(table: &[&str]) -> Vec<Body> {
    let columns = cells(table[0]);
    let mut above = String::new();
    let row = |line: &&str| {
        let mut cells = cells(line);
        match cells.first_mut() {
            Some(first) if first.is_empty() => first.clone_from(&above),
            Some(first) => above.clone_from(first),
            None => {}
        }
        Body::Row { columns: columns.clone(), cells }
    };
    table.iter().skip(2).map(row).collect()
}

/// The cells of a row; `\|` is a character of one.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|');
    let line = line.strip_suffix('|').unwrap_or(line).replace("\\|", "\u{0}");
    line.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_taken_apart() {
        let page = "# Top\nOne\nparagraph.\n- an item\n  of two lines\n- another\n## `b`\n| x | y |\n| --- | --- |\n\
                    | a | 1 \\| 2 |\n| | 3 |\n```\ncode\n```\n# Next\nend";
        let found = pieces("p", page);
        let row = |cells: [&str; 2]| Body::Row {
            columns: vec!["x".into(), "y".into()],
            cells: cells.map(String::from).to_vec(),
        };
        let bodies = [
            Body::Text("One paragraph.".into()),
            Body::Text("- an item of two lines".into()),
            Body::Text("- another".into()),
            row(["a", "1 | 2"]),
            row(["a", "3"]),
            Body::Code("code\n".into()),
            Body::Text("end".into()),
        ];
        assert!(found.iter().map(|piece| &piece.body).eq(&bodies), "{found:#?}");
        assert_eq!(found[3].headings, ["Top", "b"]);
        assert_eq!(found[6].headings, ["Next"]);
    }
}
