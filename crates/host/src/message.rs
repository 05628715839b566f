//! Messages to the user on standard error, whatever a terminal makes of them.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;

/// Tells the user something on standard error. A terminal that has gone, or a full disk behind it, must not end a run.
pub fn warn(what: impl Display) {
    let what = what.to_string();
    let _ = writeln!(std::io::stderr(), "diorama: {}", visible(&what));
}

/// A text without what a terminal obeys: characters of control are written out, such as `\x1b`, but for the ends of
/// lines and tabs; so are those that change the direction of what follows. Nodes may have written any of it.
pub fn visible(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(|c| obeyed(c) || turns(c)) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if obeyed(c) => shown += &format!("\\x{:02x}", u32::from(c)),
            c if turns(c) => shown += &format!("\\u{{{:x}}}", u32::from(c)),
            c => shown.push(c),
        }
    }
    shown.into()
}

/// A text in one line: names in somebody else's record may have any character, and must not make lines of their own.
pub fn one_line(text: &str) -> String {
    text.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::{one_line, visible};

    #[test]
    fn no_terminal_obeys_what_is_shown() {
        assert_eq!(visible("plain ü \t text\n"), "plain ü \t text\n");
        assert_eq!(visible("\u{1b}]0;pwn\u{7}\r\u{9b}2J\u{7f}"), "\\x1b]0;pwn\\x07\\x0d\\x9b2J\\x7f");
        assert_eq!(visible("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(one_line("a\n\tb\n"), "a\\n\tb\\n");
    }
}
