//! Names: which are right, and which known name a wrong one is nearest to.

/// The longest DNS label, and so the longest name of a node (RFC 1035, §2.3.4).
const LONGEST: usize = 63;

/// The fault of a name that becomes a host name and a part of link names; none if it is right.
pub fn wrong_label(name: &str) -> Option<String> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let shown = crate::tree::shorten(name);
    if name.len() > LONGEST {
        return Some(format!("the name `{shown}` is longer than {LONGEST} characters"));
    }
    if name.is_empty() || !name.bytes().all(inner) || name.starts_with('-') || name.ends_with('-') {
        return Some(format!(
            "`{shown}` cannot be a name: write lower-case letters, digits and inner hyphens, such as `web-1`"
        ));
    }
    name.contains("--").then(|| format!("`{shown}` cannot be a name: `--` is for the names of links, as in `a--b`"))
}

/// The fault of a node's name; none if it is right.
pub(crate) fn wrong_node(name: &str) -> Option<String> {
    let what = "`localhost` cannot be the name of a node: in every node it stands for that node itself; rename it";
    wrong_label(name).or_else(|| (name == "localhost").then(|| what.to_owned()))
}

/// The fault of a link's name; none if it is right.
pub(crate) fn wrong_link(name: &str) -> Option<String> {
    // `a--b` is the name of a link of which the file gives none.
    let what = wrong_label(&name.replace("--", "-"))?;
    Some(what.replace("such as `web-1`", "such as `backup`"))
}

/// The fault of a name that becomes a file name; none if it is right.
pub fn wrong_word(name: &str) -> Option<String> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let shown = crate::tree::shorten(name);
    if name.len() > LONGEST {
        return Some(format!("the name `{shown}` is longer than {LONGEST} characters"));
    }
    let right = !name.is_empty() && name.bytes().all(inner) && !name.starts_with('-');
    (!right).then(|| format!("`{shown}` cannot be a name: write letters, digits, `_` and `-`, such as `latency`"))
}

/// The known name that is most like `name`, if one is like it at all.
pub fn nearest<'a, S: AsRef<str>>(name: &str, known: &'a [S]) -> Option<&'a str> {
    // Long texts are not misspelt names, and comparing them takes quadratic time.
    if name.len() > 100 {
        return None;
    }
    let lower = name.to_lowercase();
    known
        .iter()
        .map(|k| (strsim::jaro_winkler(&lower, &k.as_ref().to_lowercase()), k.as_ref()))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

/// `: did you mean …?`, or nothing if no known name is near.
pub fn did_you_mean<S: AsRef<str>>(name: &str, known: &[S]) -> String {
    nearest(name, known).map_or(String::new(), |k| format!(": did you mean `{k}`?"))
}
