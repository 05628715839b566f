//! How long a page of the documentation may be, and a row of its limits; marks of merges in them.

use crate::Breach;

/// The longest page, in lines: how something works, what it costs, its limits. Measurements are for the notebook.
const LINES: usize = 150;

/// Pages in which something is looked up, and which nobody reads from end to end.
const REFERENCES: &[&str] = &["docs/command-line.md", "docs/compatibility.md", "docs/experiment-file.md"];

/// The longest row of the limits, in the characters that a reader sees.
const ROW: usize = 200;

/// A page that is read has 150 lines at most; the notebook's may have more.
pub fn length(path: &str, text: &str) -> Option<Breach> {
    let lines = text.lines().count();
    let read = path.starts_with("docs/") && path.split('/').count() == 2 && !REFERENCES.contains(&path);
    (read && lines > LINES).then(|| {
        let says = format!("{lines} lines, where {LINES} are the most: measurements and history go to docs/notebook/");
        Breach::new(path, lines, says)
    })
}

/// Rows of the pages `docs/limits….md` say what it is and how large, and link to the rest.
pub fn rows(path: &str, text: &str) -> Vec<Breach> {
    if !path.starts_with("docs/limits") {
        return Vec::new();
    }
    let rows = text.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    let long = rows.map(|(number, line)| (number, seen(line))).filter(|(_, length)| *length > ROW);
    let says = |length| format!("a row of {length} characters, where {ROW} are the most: what, how large, a link");
    long.map(|(number, length)| Breach::new(path, number + 1, says(length))).collect()
}

/// Marks that a merge has left in a page.
pub fn merges(path: &str, text: &str) -> Vec<Breach> {
    let is_mark = |line: &str| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark)) || line == "=======";
    let marks = text.lines().enumerate().filter(|(_, line)| is_mark(line));
    marks.map(|(number, _)| Breach::new(path, number + 1, "a mark of a merge, where the page should go on")).collect()
}

/// How many characters of a line are seen: without where its links lead.
fn seen(line: &str) -> usize {
    let mut rest = line;
    let mut length = 0;
    while let Some((text, link)) = rest.split_once("](") {
        length += text.chars().count();
        rest = link.split_once(')').map_or("", |(_, behind)| behind);
    }
    length + rest.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_read_is_short() {
        let long = "x\n".repeat(LINES + 1);
        assert_eq!(length("docs/clock.md", &long).unwrap().line, LINES + 1);
        assert_eq!(length("docs/clock.md", &"x\n".repeat(LINES)), None);
        for other in ["docs/notebook/2026-11-clock.md", "docs/command-line.md", "README.md"] {
            assert_eq!(length(other, &long), None, "{other}");
        }
    }

    #[test]
    fn a_merge_leaves_no_marks() {
        let text = "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> dc3e47c9 (d)\n======== e\n";
        assert_eq!(merges("docs/README.md", text).iter().map(|b| b.line).collect::<Vec<_>>(), [2, 4, 6]);
    }

    #[test]
    fn a_limit_is_told_in_a_row() {
        let row = |n: usize| format!("| {} |", "x".repeat(n - 4));
        let text = format!("{}\n{}\n{}", row(ROW), row(ROW + 1), "y".repeat(300));
        assert_eq!(rows("docs/limits.md", &text).iter().map(|b| b.line).collect::<Vec<_>>(), [2]);
        assert_eq!(rows("docs/limits-cpu.md", &text).len(), 1);
        assert_eq!(rows("docs/cpu.md", &text), []);
        assert_eq!(seen("| a [b](c.md#d) e [f](g) |"), "| a [b e [f |".len());
    }
}
