//! Writes what was measured into a page of the documentation, between the marks that the page has for it.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// Where a verb writes its tables.
#[derive(clap::Args, Debug)]
pub struct Page {
    /// Also write what is printed into this file, between the marks that it has for it
    #[arg(long = "into", value_name = "FILE")]
    file: Option<std::path::PathBuf>,
}

impl Page {
    /// Prints Markdown, and writes it between `<!-- PART: begin -->` and `<!-- PART: end -->`.
    pub fn publish(&self, part: &str, text: &str) -> Result<(), Failure> {
        println!("{text}");
        self.file.as_deref().map_or(Ok(()), |file| write(file, part, text))
    }
}

fn write(file: &Path, part: &str, new: &str) -> Result<(), Failure> {
    let named = |e: &dyn Display| Failure::failed(format!("{}: {e}", file.display()));
    let (begin, end) = (format!("<!-- {part}: begin -->\n"), format!("<!-- {part}: end -->"));
    let text = fs::read_to_string(file).map_err(|e| named(&e))?;
    let parts = text.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) =
        parts.ok_or_else(|| named(&format!("it has no marks `<!-- {part}: begin -->` and `{part}: end`")))?;
    fs::write(file, format!("{before}{begin}{new}{end}{after}")).map_err(|e| named(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_goes_between_its_own_marks() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f.md");
        let page = |a: &str, b: &str| {
            format!("x\n<!-- a: begin -->\n{a}<!-- a: end -->\ny\n<!-- b: begin -->\n{b}<!-- b: end -->\nz\n")
        };
        fs::write(&file, page("old\n", "kept\n")).unwrap();
        write(&file, "a", "new\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), page("new\n", "kept\n"));
        assert!(write(&file, "c", "new\n").is_err(), "a page without the marks is left alone");
    }
}
