//! Files of settings, `.env` and those of `env_file`: a setting in each line, with comments, quotes, escapes and
//! variables as Compose has them.

use crate::template;

/// The most settings together.
const MOST: usize = 4000;
/// How long they may be together, in bytes.
const LONGEST: usize = 4 << 20;

/// Reads a file of settings, and adds them to others. A variable in a value stands for what `known` says, else for what
/// has been set before. What is wrong with it has its line.
pub(crate) fn parse(
    text: &str,
    settings: &mut Vec<(String, String)>,
    known: &dyn Fn(&str) -> Option<String>,
) -> Result<(), String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { text, rest: text };
    let mut long = 0;
    while let Some(setting) = reader.next(known, settings)? {
        let Some((name, value)) = setting else { continue };
        long += name.len() + value.len();
        if settings.len() >= MOST || long > LONGEST {
            return Err(too_many());
        }
        match settings.iter_mut().find(|(other, _)| *other == name) {
            Some((_, old)) => *old = value,
            None => settings.push((name, value)),
        }
    }
    Ok(())
}

/// Reads a file of `format: raw`: what follows the `=` is the value, to the letter.
pub(crate) fn parse_raw(text: &str, settings: &mut Vec<(String, String)>) -> Result<(), String> {
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if settings.len() >= MOST {
            return Err(too_many());
        }
        match line.split_once('=') {
            Some((name, value)) if !name.is_empty() => settings.push((name.to_owned(), value.to_owned())),
            _ => return Err(format!("line {}: `{line}` sets nothing: write NAME=VALUE", number + 1)),
        }
    }
    Ok(())
}

/// The line of a text behind which so many bytes are left.
fn line_at(text: &str, left: usize) -> usize {
    text[..text.len() - left].matches('\n').count() + 1
}

fn too_many() -> String {
    format!("there are more than {MOST} settings, or they are longer than {} MiB together", LONGEST >> 20)
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Reader<'_> {
    /// The next setting; nothing of a name alone that nobody knows; the end.
    #[allow(clippy::type_complexity, reason = "one caller")]
    fn next(
        &mut self,
        known: &dyn Fn(&str) -> Option<String>,
        before: &[(String, String)],
    ) -> Result<Option<Option<(String, String)>>, String> {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                break;
            }
            self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (text, length) = (self.text, self.rest.len());
        let at = |what: String| format!("line {}: {what}", line_at(text, length));
        let (name, is_alone) = self.name().map_err(at)?;
        if name.contains(' ') {
            return Err(at(format!("a name cannot contain a space, as `{name}` does")));
        }
        if is_alone {
            return Ok(Some(known(&name).map(|value| (name, value))));
        }
        let look_up = |name: &str| {
            let earlier = || before.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
            known(name).or_else(earlier)
        };
        let value = self.value(&look_up).map_err(at)?;
        Ok(Some(Some((name, value))))
    }

    /// The name that a setting begins with, and whether nothing follows it.
    fn name(&mut self) -> Result<(String, bool), String> {
        if let Some(after) = self.rest.strip_prefix("export")
            && after.starts_with(char::is_whitespace)
        {
            self.rest = after.trim_start_matches(is_blank);
        }
        let is_end = |c: char| matches!(c, '=' | ':' | '\n');
        for c in self.rest.chars().take_while(|c| !is_end(*c)) {
            if !(is_blank(c) || c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '[' | ']')) {
                let line = self.rest.lines().next().unwrap_or_default();
                return Err(format!("`{c}` cannot be part of the name in `{line}`"));
            }
        }
        let Some(end) = self.rest.find(is_end) else {
            // The last line, a name alone without an end, is none for Compose.
            self.rest = "";
            return Ok((String::new(), true));
        };
        let is_alone = self.rest[end..].starts_with('\n');
        let name = self.rest[..end].trim_end().to_owned();
        self.rest = self.rest[end + 1..].trim_start_matches(is_blank);
        Ok((name, is_alone))
    }

    fn value(&mut self, look_up: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
        let expand = |text: &str| template::fill_in(text, look_up).map(|filled| filled.text);
        let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            let value = line.split_once(" #").map_or(line, |(value, _)| value);
            return expand(value.trim_end());
        };
        let mut value = String::new();
        let mut is_escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            if c == quote && !is_escaped {
                self.rest = &self.rest[at + 1..];
                return if quote == '"' { expand(&unescaped(&value)) } else { Ok(value) };
            }
            if c == '\\' && !is_escaped {
                is_escaped = true;
                continue;
            }
            if std::mem::take(&mut is_escaped) && c != quote {
                value.push('\\');
            }
            value.push(c);
        }
        let line = self.rest.lines().next().unwrap_or_default();
        Err(format!("the quotes of {line} are not closed"))
    }
}

/// A text in double quotes with its escapes replaced, before variables are. A dollar sign that is escaped becomes two,
/// which variables leave as one.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain += &rest[..at];
        rest = &rest[at + 1..];
        let simple = match rest.as_bytes().first() {
            Some(b'a') => Some("\u{7}"),
            Some(b'b') => Some("\u{8}"),
            Some(b'f') => Some("\u{c}"),
            Some(b'n') => Some("\n"),
            Some(b'r') => Some("\r"),
            Some(b't') => Some("\t"),
            Some(b'v') => Some("\u{b}"),
            Some(b'"') => Some("\""),
            Some(b'\\') => Some("\\"),
            Some(b'$') => Some("$$"),
            _ => None,
        };
        let octal = rest.get(1..4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (simple, octal) {
            (Some(simple), _) => {
                plain += simple;
                rest = &rest[1..];
            }
            (None, Some(code)) if rest.starts_with('0') => {
                plain.push(char::from(code));
                rest = &rest[4..];
            }
            _ => {
                plain.push('\\');
                rest = rest.strip_prefix('0').unwrap_or(rest);
            }
        }
    }
    plain + rest
}

fn is_blank(c: char) -> bool {
    matches!(c, '\t' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{85}' | '\u{a0}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        let mut settings = Vec::new();
        parse(text, &mut settings, &|name| (name == "HOME").then(|| "/root".to_owned()))?;
        Ok(settings)
    }

    #[test]
    fn settings_are_read_as_compose_reads_them() {
        for (text, expected) in [
            ("A=1\n# none\n\n export B = 'x y' \nC=\"=\"\n", vec![("A", "1"), ("B", "x y"), ("C", "=")]),
            ("V=VAL # comment\nW=VAL# none\nX='a' # c\n", vec![("V", "VAL"), ("W", "VAL# none"), ("X", "a")]),
            ("A=\"a\\tb\\$HOME\\0101\\q\"\nB='a\\tb'\n", vec![("A", "a\tb$HOMEA\\q"), ("B", "a\\tb")]),
            ("A=x\nB=${A}y\nC='${A}'\nD=\"$HOME\"\n", vec![("A", "x"), ("B", "xy"), ("C", "${A}"), ("D", "/root")]),
            ("A='it\\'s'\nB=\"two\nlines\"\n", vec![("A", "it's"), ("B", "two\nlines")]),
            ("HOME\nNONE\nY: yaml\nE=\n", vec![("HOME", "/root"), ("Y", "yaml"), ("E", "")]),
            ("A=1\nA=2\n", vec![("A", "2")]),
        ] {
            let read = read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let read: Vec<(&str, &str)> = read.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_setting_is_told_with_its_line() {
        for (text, says) in [
            ("A=1\nB='x\n", "line 2: the quotes of 'x are not closed"),
            ("A=1\n\n#\nb%=2\n", "line 4: `%` cannot"),
            ("A B=2\n", "line 1: a name cannot contain a space"),
            ("A=${B:?missing}\n", "line 1: `B` must be set: missing"),
        ] {
            assert!(read(text).unwrap_err().contains(says), "{text}: {:?}", read(text));
        }
    }
}
