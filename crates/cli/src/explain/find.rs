//! Which pieces of the documentation explain a word.

use super::page::{Body, Piece};

/// A piece or a whole section that explains a word.
pub enum Found<'a> {
    Piece(&'a Piece),
    /// All that stands directly under a heading.
    Section(Vec<&'a Piece>),
}

/// How many pieces are shown that only mention a word.
const MENTIONS: usize = 5;

/// The explanation of `word`, or of the last of several that are joined by dots, within those before it.
pub fn explained<'a>(pieces: &'a [Piece], word: &str) -> Vec<Found<'a>> {
    let parts: Vec<&str> = word.split('.').map(str::trim).collect();
    let Some((last, before)) = parts.split_last() else { return Vec::new() };
    // `links.queue.max_p`: of the nearest that has one.
    let within = before.iter().rev().map(|outer| inside(pieces, outer, last)).find(|found| !found.is_empty());
    within.unwrap_or_else(|| alone(pieces, last))
}

/// The explained word that is most like `word`.
pub fn near(pieces: &[Piece], word: &str) -> Option<String> {
    let names = pieces.iter().flat_map(names).filter(|name| !name.contains(' '));
    let likeness = |name: &String| strsim::jaro_winkler(&name.to_lowercase(), &word.to_lowercase());
    let best = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) > 0.85).then_some(best)
}

fn alone<'a>(pieces: &'a [Piece], word: &str) -> Vec<Found<'a>> {
    let mut found: Vec<Found<'a>> = Vec::new();
    let mut sections: Vec<&[String]> = Vec::new();
    for piece in pieces {
        let heading = piece.headings.last().filter(|heading| heading.eq_ignore_ascii_case(word));
        if heading.is_some() && !sections.contains(&&piece.headings[..]) {
            sections.push(&piece.headings);
            found.push(Found::Section(pieces.iter().filter(|p| p.headings == piece.headings).collect()));
        } else if heading.is_none() && (is_named(piece, word) || has_form(piece, word)) {
            found.push(Found::Piece(piece));
        }
    }
    if found.is_empty() {
        found.extend(pieces.iter().filter(|piece| mentions(piece, word)).take(MENTIONS).map(Found::Piece));
    }
    found
}

/// Pieces on `word` in the section on `outer`, or that are on both.
fn inside<'a>(pieces: &'a [Piece], outer: &str, word: &str) -> Vec<Found<'a>> {
    let under = |piece: &Piece| piece.headings.iter().any(|heading| heading.eq_ignore_ascii_case(outer));
    let of_outer = |piece: &Piece| is_named(piece, outer) || has_form(piece, outer);
    let named = pieces.iter().filter(|piece| under(piece) && is_named(piece, word));
    let found: Vec<Found<'a>> = named.map(Found::Piece).collect();
    if !found.is_empty() {
        return found;
    }
    let form = |piece: &Piece| {
        (under(piece) && has_form(piece, word)) || (of_outer(piece) && (has_form(piece, word) || mentions(piece, word)))
    };
    let found: Vec<Found<'a>> = pieces.iter().filter(|piece| form(piece)).map(Found::Piece).collect();
    if !found.is_empty() {
        return found;
    }
    let mentioned = pieces.iter().filter(|piece| under(piece) && mentions(piece, word));
    mentioned.take(MENTIONS).map(Found::Piece).collect()
}

/// The words that a piece is about: those in the first column of a table, and those in bold letters at the beginning.
pub fn names(piece: &Piece) -> Vec<String> {
    let head = match &piece.body {
        Body::Row { cells, .. } => cells.first().map(String::as_str),
        Body::Text(text) => text.trim_start_matches("- ").strip_prefix("**").and_then(|text| text.split("**").next()),
        Body::Code(_) => None,
    };
    let Some(head) = head else { return Vec::new() };
    let plain = head.trim_end_matches(['.', ':']);
    let mut names: Vec<String> = between(head, '`').chain(between(head, '*')).map(String::from).collect();
    if names.is_empty() && matches!(piece.body, Body::Text(_)) {
        names.push(plain.to_string());
    }
    names
}

fn is_named(piece: &Piece, word: &str) -> bool {
    names(piece).iter().any(|name| {
        // `NAME-loss` is that of any flow.
        let of_flow = name.strip_prefix("NAME-").and_then(|end| word.strip_suffix(end)?.strip_suffix('-'));
        name.eq_ignore_ascii_case(word) || of_flow.is_some_and(|flow| !flow.is_empty())
    })
}

/// Whether a piece shows how `word` is written, as `{ at: 8s, do: kill }` shows `do` and `kill`.
fn has_form(piece: &Piece, word: &str) -> bool {
    let shows = |text: &str| between(text, '`').any(|span| span.contains(": ") && tokens(span).any(|t| t == word));
    match &piece.body {
        Body::Row { cells, .. } => cells.iter().any(|cell| shows(cell)),
        Body::Text(_) => names(piece).iter().any(|name| name.contains(": ") && tokens(name).any(|t| t == word)),
        Body::Code(_) => false,
    }
}

/// Whether `word` stands in a piece as a word of the language, or in bold letters; in an example, as a key.
fn mentions(piece: &Piece, word: &str) -> bool {
    let said = |span: &str| span.eq_ignore_ascii_case(word) || (span.contains(": ") && tokens(span).any(|t| t == word));
    let says = |text: &str| between(text, '`').chain(between(text, '*')).any(said);
    match &piece.body {
        Body::Row { cells, .. } => cells.iter().any(|cell| says(cell)),
        Body::Text(text) => says(text),
        Body::Code(code) => code.split(": ").any(|before| tokens(before).last() == Some(word)),
    }
}

fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_')
}

/// The text between two marks, such as backticks.
fn between(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2).filter(|span| !span.is_empty())
}
