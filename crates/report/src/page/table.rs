//! Tables of a page.

use std::fmt::Display;

use super::text;

/// The head of a column.
pub(crate) enum Column<'a> {
    /// Of words, to the left.
    Words(&'a str),
    /// Of numbers, to the right.
    Number(&'a str),
}

/// One row, cell by cell. Whatever a cell shows cannot become markup, except where it says that it is HTML.
#[derive(Clone, Default)]
pub(crate) struct Row {
    class: &'static str,
    cells: String,
}

impl Row {
    /// A row of the given class.
    pub fn of_class(class: &'static str) -> Row {
        Row { class, ..Row::default() }
    }

    /// Subject of the row.
    pub fn name(mut self, name: impl Display) -> Row {
        self.cells += &format!("<th scope=\"row\">{}</th>", text(name));
        self
    }

    pub fn words(mut self, words: impl Display) -> Row {
        self.cells += &format!("<td>{}</td>", text(words));
        self
    }

    pub fn number(mut self, number: impl Display) -> Row {
        self.cells += &format!("<td class=\"n\">{}</td>", text(number));
        self
    }

    /// A cell of the given class.
    pub fn styled(mut self, class: &str, words: impl Display) -> Row {
        self.cells += &format!("<td class=\"{class}\">{}</td>", text(words));
        self
    }

    /// A cell that is HTML.
    pub fn html(mut self, html: &str) -> Row {
        self.cells += &format!("<td>{html}</td>");
        self
    }

    /// The row's HTML.
    pub fn end(self) -> String {
        match self.class {
            "" => format!("<tr>{}</tr>\n", self.cells),
            class => format!("<tr class=\"{class}\">{}</tr>\n", self.cells),
        }
    }
}

/// A table; `rows` are HTML.
pub(crate) fn table(columns: &[Column], rows: &str) -> String {
    let head = columns.iter().map(|column| match column {
        Column::Words(name) => format!("<th scope=\"col\">{}</th>", text(name)),
        Column::Number(name) => format!("<th scope=\"col\" class=\"n\">{}</th>", text(name)),
    });
    let head: String = head.collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\
         </table></div>\n"
    )
}

/// A table under a heading, or nothing if it has no rows.
pub(crate) fn section(title: &str, columns: &[Column], rows: &str) -> String {
    if rows.is_empty() { String::new() } else { format!("<h2>{title}</h2>\n{}", table(columns, rows)) }
}
