//! The lines of a source file, taken apart: code, strings, comments; and which of them are tests.

/// One line of a source file in Rust or C.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code, with nothing between the quotes of its strings.
    pub code: String,
    /// Content of its strings, each followed by a line feed.
    pub strings: String,
    /// Content of its comments.
    pub comment: String,
    /// Whether it is part of a test.
    pub test: bool,
}

enum State {
    Code,
    LineComment,
    /// So deep.
    BlockComment(usize),
    Str,
    /// A raw string, closed by a quote and so many hashes.
    RawStr(usize),
}

/// Takes the text of a file apart. It need not compile; raw strings and nested comments are those of Rust.
pub fn lines(path: &str, text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied().unwrap_or('\0');
        let line = lines.last_mut().expect("there is always one");
        if c == '\n' {
            match state {
                State::LineComment => state = State::Code,
                State::Str | State::RawStr(_) => line.strings.push('\n'),
                _ => {}
            }
            lines.push(Line::default());
            at += 1;
            continue;
        }
        let mut taken = 1;
        match &mut state {
            State::Code => match (c, next) {
                ('/', '/') => (state, taken) = (State::LineComment, 2),
                ('/', '*') => (state, taken) = (State::BlockComment(1), 2),
                ('"', _) => {
                    line.code.push(c);
                    state = raw_hashes(&line.code).map_or(State::Str, State::RawStr);
                }
                ('\'', _) if is_char_literal(&chars[at..]) => {
                    taken = char_literal(&chars[at..]);
                    line.code.push_str("' '");
                }
                _ => line.code.push(c),
            },
            State::LineComment => line.comment.push(c),
            State::BlockComment(depth) => match (c, next) {
                ('*', '/') => {
                    taken = 2;
                    *depth -= 1;
                    if *depth == 0 {
                        state = State::Code;
                    }
                }
                ('/', '*') => {
                    taken = 2;
                    *depth += 1;
                }
                _ => line.comment.push(c),
            },
            State::Str => match c {
                // An escaped line feed is still one.
                '\\' if next != '\n' => {
                    taken = 2;
                    line.strings.extend([c, next]);
                }
                '"' => {
                    line.code.push(c);
                    line.strings.push('\n');
                    state = State::Code;
                }
                _ => line.strings.push(c),
            },
            State::RawStr(hashes) => {
                let closes = c == '"' && chars[at + 1..].iter().take_while(|c| **c == '#').count() >= *hashes;
                if closes {
                    line.code.push(c);
                    line.strings.push('\n');
                    state = State::Code;
                } else {
                    line.strings.push(c);
                }
            }
        }
        at += taken;
    }
    if text.ends_with('\n') {
        lines.pop();
    }
    mark_tests(path, &mut lines);
    lines
}

/// How many hashes a raw string has that begins with the quote at the end of `code`; none if it is no raw string.
fn raw_hashes(code: &str) -> Option<usize> {
    let before = code.trim_end_matches('"');
    let head = before.trim_end_matches('#');
    let prefix = head.strip_suffix('r')?;
    let word = prefix.trim_end_matches(['b', 'c']);
    (!word.ends_with(|c: char| c.is_alphanumeric() || c == '_')).then_some(before.len() - head.len())
}

/// Whether a quote begins a character and not a lifetime.
fn is_char_literal(rest: &[char]) -> bool {
    rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')
}

fn char_literal(rest: &[char]) -> usize {
    let mut at = 1;
    while let Some(&c) = rest.get(at) {
        match c {
            '\\' => at += 2,
            '\'' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// Whether all of a file is a test, or a program that only tests run.
pub fn is_test_file(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    path.contains("/tests/")
        || path.contains("/examples/")
        || file.ends_with("_tests.rs")
        || file == "tests.rs"
        || file == "testing.rs"
}

/// Marks the modules behind `#[cfg(test)]`.
fn mark_tests(path: &str, lines: &mut [Line]) {
    if is_test_file(path) {
        lines.iter_mut().for_each(|line| line.test = true);
        return;
    }
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].code.trim_start().starts_with("#[cfg(test)]") {
            at += 1;
            continue;
        }
        // The item that an attribute is of ends with its last brace, or, without any, with a semicolon.
        let (mut depth, mut opened) = (0, false);
        while let Some(line) = lines.get_mut(at) {
            line.test = true;
            at += 1;
            for c in line.code.chars() {
                match c {
                    '{' => (depth, opened) = (depth + 1, true),
                    '}' => depth -= 1,
                    _ => {}
                }
            }
            if (opened && depth <= 0) || (!opened && line.code.contains(';')) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        lines("crates/x/src/x.rs", text).remove(0)
    }

    #[test]
    fn code_strings_and_comments_are_told_apart() {
        let taken = line(r#"let a = "x // y"; // "z""#);
        assert_eq!(
            (taken.code.as_str(), taken.strings.as_str(), taken.comment.as_str()),
            (r#"let a = ""; "#, "x // y\n", r#" "z""#)
        );
        let taken = line(r#"f(b"a\"b", '"', 'x', '\'', &'a str) /* c /* d */ e */ + 1"#);
        assert_eq!(taken.code, r#"f(b"", ' ', ' ', ' ', &'a str)  + 1"#);
        assert_eq!((taken.strings.as_str(), taken.comment.as_str()), ("a\\\"b\n", " c  d  e "));
        let taken = line("let a = br##\"x \"# y\"##; var\"z\"");
        assert_eq!(taken.strings, "x \"# y\nz\n");
    }

    #[test]
    fn strings_and_comments_go_on_from_line_to_line() {
        let all = lines("crates/x/src/x.rs", "a(\"b\nc\\\nd\"); /* e\nf */ g\n// h\ni");
        let of = |n: usize| (all[n].code.as_str(), all[n].strings.trim(), all[n].comment.trim());
        assert_eq!(of(0), ("a(\"", "b", ""));
        assert_eq!(of(1), ("", "c\\", ""));
        assert_eq!(of(2), ("\"); ", "d", "e"));
        assert_eq!(of(3), (" g", "", "f"));
        assert_eq!(of(4), ("", "", "h"));
        assert_eq!((all.len(), of(5)), (6, ("i", "", "")));
    }

    #[test]
    fn tests_are_known() {
        let text = "a\n#[cfg(test)]\nuse x::{y};\nb\n#[cfg(test)]\nmod tests {\n  fn c() { \"}\" }\n}\nd\n\
                    #[cfg(test)]\nmod e;\nf";
        let tests: Vec<bool> = lines("crates/x/src/x.rs", text).iter().map(|l| l.test).collect();
        let expected = [false, true, true, false, true, true, true, true, false, true, true, false];
        assert_eq!(tests, expected);
        assert!(lines("crates/x/tests/x.rs", "a").iter().all(|l| l.test));
        assert!(is_test_file("crates/x/src/y_tests.rs") && !is_test_file("crates/x/src/y.rs"));
    }
}
