//! Tables for people.

/// Rows of as many cells each, which stand below one another.
pub fn table(rows: impl Iterator<Item = impl AsRef<[String]>>) -> String {
    let rows: Vec<_> = rows.collect();
    let cells = rows.first().map_or(0, |row| row.as_ref().len());
    let width = |column: usize| rows.iter().map(|row| row.as_ref()[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..cells).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.as_ref().iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text += "\n";
    }
    text
}
