//! Variables in a Compose file, by its specification: `$VAR`, `${VAR}`, and what stands for one that is not there.

use std::collections::HashMap;
use std::path::Path;

/// What variables stand for.
pub(crate) struct Variables<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    /// Of the file `.env`.
    beside: HashMap<String, String>,
}

impl<'a> Variables<'a> {
    pub fn new(folder: &Path, environment: &'a dyn Fn(&str) -> Option<String>) -> Variables<'a> {
        let text = std::fs::read_to_string(folder.join(".env")).unwrap_or_default();
        Variables { environment, beside: settings(&text).into_iter().collect() }
    }

    fn get(&self, name: &str) -> Option<String> {
        (self.environment)(name).or_else(|| self.beside.get(name).cloned())
    }

    /// The text with all variables replaced, and those that were nowhere set. What is wrong, if something is.
    pub fn fill_in(&self, text: &str) -> Result<(String, Vec<String>), String> {
        let (mut filled, mut unset) = (String::new(), Vec::new());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            filled += &rest[..at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                filled.push('$');
                rest = after;
            } else if let Some(after) = rest.strip_prefix('{') {
                let end = closing(after).ok_or_else(|| format!("`${{` without `}}` in `{text}`"))?;
                filled += &self.braced(&after[..end], &mut unset)?;
                rest = &after[end + 1..];
            } else {
                let end = name_length(rest);
                if end == 0 {
                    return Err(format!("`$` without a name in `{text}`: write `$$` for the sign itself"));
                }
                filled += &self.plain(&rest[..end], &mut unset);
                rest = &rest[end..];
            }
        }
        Ok((filled + rest, unset))
    }

    fn plain(&self, name: &str, unset: &mut Vec<String>) -> String {
        self.get(name).unwrap_or_else(|| {
            unset.push(name.to_owned());
            String::new()
        })
    }

    /// What stands between braces: a name, and what is to be done if it is not set (`-`, `?`, `+`), or empty (`:-` …).
    fn braced(&self, inside: &str, unset: &mut Vec<String>) -> Result<String, String> {
        let (name, rest) = inside.split_at(name_length(inside));
        if name.is_empty() {
            return Err(format!("`${{{inside}}}` has no name"));
        }
        if rest.is_empty() {
            return Ok(self.plain(name, unset));
        }
        let (or_empty, rest) = rest.strip_prefix(':').map_or((false, rest), |rest| (true, rest));
        let value = self.get(name).filter(|value| !(or_empty && value.is_empty()));
        let mut signs = rest.chars();
        let sign = signs.next();
        let other = || {
            let (filled, more) = self.fill_in(signs.as_str())?;
            Ok::<_, String>((filled, more))
        };
        match (sign, value) {
            (Some('-' | '?'), Some(value)) => Ok(value),
            (Some('-'), None) | (Some('+'), Some(_)) => {
                let (filled, more) = other()?;
                unset.extend(more);
                Ok(filled)
            }
            (Some('+'), None) => Ok(String::new()),
            (Some('?'), None) => Err(format!("`{name}` must be set: {}", other()?.0)),
            _ => Err(format!("`${{{inside}}}` is not understood: write ${{NAME}}, ${{NAME:-VALUE}} or ${{NAME:?WHY}}")),
        }
    }
}

/// The brace that closes, of those inside braces too.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            _ => (),
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

fn name_length(text: &str) -> usize {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match text.chars().next() {
        Some(first) if first.is_ascii_alphabetic() || first == '_' => text.find(|c| !inner(c)).unwrap_or(text.len()),
        _ => 0,
    }
}

/// The settings of a file with a line `NAME=VALUE` for each; quotes around a value are none of it.
pub(crate) fn settings(text: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let line = line.trim();
        let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
        let value = value.trim();
        let quoted = |sign: char| value.strip_prefix(sign).and_then(|v| v.strip_suffix(sign));
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
        (!line.starts_with('#')).then(|| (name.trim().to_owned(), value.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let known = |name: &str| match name {
            "TAG" => Some("7".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let variables = Variables { environment: &known, beside: HashMap::from([("BESIDE".into(), "b".into())]) };
        variables
            .fill_in(text)
            .map(|(filled, unset)| filled + &unset.iter().map(|u| format!(" !{u}")).collect::<String>())
    }

    #[test]
    fn variables_are_replaced_as_the_specification_says() {
        for (text, expected) in [
            ("redis:$TAG", "redis:7"),
            ("${TAG}.${BESIDE}", "7.b"),
            ("$$TAG costs $$5", "$TAG costs $5"),
            ("${NONE:-x${TAG}}${EMPTY:-y}${EMPTY-z}", "x7y"),
            ("${TAG:+set}${NONE+set}", "set"),
            ("a${NONE}", "a !NONE"),
            ("${TAG:?must}", "7"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_variable_is_told() {
        for (text, says) in [
            ("${TAG", "without `}`"),
            ("5 $", "without a name"),
            ("${}", "no name"),
            ("${TAG!x}", "not understood"),
            ("${NONE:?the tag is needed}", "must be set: the tag is needed"),
        ] {
            assert!(filled(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn files_of_settings_have_one_in_each_line() {
        let read = settings("# none\nA=1\n export B = 'x y' \nC=\"=\"\nno setting\n");
        let read: Vec<(&str, &str)> = read.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(read, [("A", "1"), ("B", "x y"), ("C", "=")]);
    }
}
