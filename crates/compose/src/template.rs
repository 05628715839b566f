//! Variables in a text: `$VAR`, `${VAR}`, and what stands for one that is not there, as Compose replaces them.

/// The longest text that variables may make of another, in bytes.
const LONGEST: usize = 1 << 20;
/// How deep defaults of variables may stand in one another.
const DEPTH: usize = 50;

/// A text with its variables replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    pub text: String,
    /// Those that were nowhere set, and for which nothing else was given: nothing stands for them.
    pub unset: Vec<String>,
}

/// Replaces all variables of a text by what `get` knows of them; what is wrong with it, if something is.
pub(crate) fn fill_in(text: &str, get: &dyn Fn(&str) -> Option<String>) -> Result<Filled, String> {
    fill_in_at(DEPTH, text, get)
}

fn fill_in_at(depth: usize, text: &str, get: &dyn Fn(&str) -> Option<String>) -> Result<Filled, String> {
    let depth = depth.checked_sub(1).ok_or("variables stand in one another, more than 50 levels deep")?;
    let mut filled = Filled::default();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled.text += &rest[..at];
        rest = &rest[at + 1..];
        let name = name_length(rest);
        if let Some(after) = rest.strip_prefix('$') {
            filled.text.push('$');
            rest = after;
        } else if name > 0 {
            filled.plain(&rest[..name], get);
            rest = &rest[name..];
        } else if let Some(after) = rest.strip_prefix('{') {
            let end = closing(after).ok_or_else(|| not_understood(after))?;
            filled.braced(depth, &after[..end], get)?;
            rest = &after[end + 1..];
        } else {
            filled.text.push('$');
        }
        if filled.text.len() > LONGEST {
            return Err("with its variables replaced it is longer than 1 MiB".into());
        }
    }
    filled.text += rest;
    Ok(filled)
}

impl Filled {
    fn plain(&mut self, name: &str, get: &dyn Fn(&str) -> Option<String>) {
        match get(name) {
            Some(value) => self.text += &value,
            None => self.unset.push(name.to_owned()),
        }
    }

    /// Replaces what stands between braces: a name, and what is to be done if it is not set (`-`, `?`, `+`), or empty
    /// (`:-` …).
    fn braced(&mut self, depth: usize, inside: &str, get: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
        let (name, rest) = inside.split_at(name_length(inside));
        if name.is_empty() {
            return Err(not_understood(inside));
        }
        if rest.is_empty() {
            self.plain(name, get);
            return Ok(());
        }
        let (or_empty, rest) = rest.strip_prefix(':').map_or((false, rest), |rest| (true, rest));
        let mut signs = rest.chars();
        let sign = signs.next();
        if !matches!(sign, Some('-' | '?' | '+')) {
            return Err(not_understood(inside));
        }
        let known = get(name);
        let counts = known.as_ref().is_some_and(|value| !(or_empty && value.is_empty()));
        match (sign, counts) {
            (Some('+'), true) | (Some('-'), false) => {
                let other = fill_in_at(depth, signs.as_str(), get)?;
                self.text += &other.text;
                self.unset.extend(other.unset);
            }
            (Some('?'), false) => {
                let why = fill_in_at(depth, signs.as_str(), get)?.text;
                let why = if why.is_empty() { why } else { format!(": {why}") };
                return Err(format!("`{name}` must be set{why}"));
            }
            _ => self.text += &known.unwrap_or_default(),
        }
        Ok(())
    }
}

fn not_understood(inside: &str) -> String {
    let shown: String = inside.chars().take(30).collect();
    format!("`${{{shown}` is not understood: write ${{NAME}}, ${{NAME:-VALUE}}, ${{NAME:?WHY}}, or $$ for the sign")
}

/// Where the brace is that closes, which is not one of braces inside; in the same line, as Compose looks for it.
fn closing(text: &str) -> Option<usize> {
    let line = &text[..text.find('\n').unwrap_or(text.len())];
    if !line[name_length(line)..].starts_with([':', '-', '?', '+']) {
        return line.find('}').filter(|end| *end == name_length(line));
    }
    let line = &line[..=line.rfind('}')?];
    // The character behind an opening brace closes nothing.
    let (mut open, mut skip) = (1, true);
    for (at, c) in line.char_indices() {
        match c {
            _ if std::mem::take(&mut skip) => {}
            '{' => (open, skip) = (open + 1, true),
            '}' if open == 1 => return Some(at),
            '}' => open -= 1,
            _ => (),
        }
    }
    line.rfind('}')
}

fn name_length(text: &str) -> usize {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match text.chars().next() {
        Some(first) if first.is_ascii_alphabetic() || first == '_' => text.find(|c| !inner(c)).unwrap_or(text.len()),
        _ => 0,
    }
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
        let filled = fill_in(text, &known)?;
        Ok(filled.text + &filled.unset.iter().map(|u| format!(" !{u}")).collect::<String>())
    }

    #[test]
    fn variables_are_replaced_as_the_specification_says() {
        for (text, expected) in [
            ("redis:$TAG", "redis:7"),
            ("$$TAG costs $$5 or $5 $", "$TAG costs $5 or $5 $"),
            ("${NONE:-x${TAG}}${EMPTY:-y}${EMPTY-z}", "x7y"),
            ("${TAG:+set}${NONE+set}${EMPTY+there}${EMPTY:+not}", "setthere"),
            ("a${NONE}", "a !NONE"),
            ("${TAG:?must}", "7"),
            ("${NONE:-a:-b?c}", "a:-b?c"),
            ("${NONE:-{}", "{"),
            ("${NONE:-{\"a\": 1}}", "{\"a\": 1}"),
            ("${NONE-$NONE2}", " !NONE2"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_variable_is_told() {
        for (text, says) in [
            ("${TAG", "not understood"),
            ("${}", "not understood"),
            ("${TAG!x}", "not understood"),
            ("${NONE:-a\nb}", "not understood"),
            ("${NONE:?the tag is needed}", "must be set: the tag is needed"),
        ] {
            assert!(filled(text).unwrap_err().contains(says), "{text}");
        }
        let deep = format!("{}{}", "${N:-".repeat(100_000), "}".repeat(100_000));
        assert!(filled(&deep).unwrap_err().contains("50 levels"));
        let grown = fill_in(&"$A".repeat(100), &|_| Some("x".repeat(100_000)));
        assert!(grown.unwrap_err().contains("longer than 1 MiB"));
    }
}
