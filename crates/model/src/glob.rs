//! Names with `*` in them.

/// Whether `name` matches `pattern`, in which each `*` stands for any characters, also none.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_is_any_characters() {
        for (pattern, name, expected) in [
            ("web", "web", true),
            ("web", "web-1", false),
            ("client-*", "client-12", true),
            ("client-*", "client", false),
            ("*", "x", true),
            ("*-1", "a-1", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("aa*aa", "aaa", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
