//! Whether what a page of the documentation names is there.
//!
//! A name in backticks that begins with `crates/` or `scripts/` is a promise to the reader:
//!
//! - `crates/net/src/pipe.rs`: there is such a file or directory;
//! - `crates/net/src/pipe.rs:Pipe`: it defines a type, trait, function, constant, static, macro or module of this name;
//! - `crates/net/src/pipe.rs:Pipe::push`: an `impl` or `trait` of `Pipe` in it has such a function, or the type such a
//!   variant or field.
//!
//! A name with `*` or `NAME` in it is a pattern, and not looked for.

use std::path::Path;

use crate::Breach;
use crate::text::{Line, lines};

/// Names in a page that are not there. `root` is the repository's, in which all paths begin.
pub fn breaches(path: &str, text: &str, root: &Path) -> Vec<Breach> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let spans = line.split('`').skip(1).step_by(2);
        found.extend(spans.filter_map(|span| wrong(span, root)).map(|says| Breach::new(path, number + 1, says)));
    }
    found
}

/// Fault of a name in backticks, if it is one of ours.
fn wrong(span: &str, root: &Path) -> Option<String> {
    let looks_like_source = ["/src/", "/tests/", "/guest/", "/bpf/"].iter().any(|part| span.contains(part));
    if span.contains(['*', ' ', '<', '{']) || span.contains("NAME") || span.starts_with('/') || span.contains("://") {
        return None;
    }
    if !span.starts_with("crates/") && !span.starts_with("scripts/") {
        return looks_like_source.then(|| {
            format!("`{span}` does not begin at the repository's root: `crates/…/src/file.rs:Type::function`")
        });
    }
    let (file, name) = span.split_once(':').map_or((span, None), |(file, name)| (file, Some(name)));
    let place = root.join(file);
    if !place.exists() {
        return Some(format!("`{file}` is not there: name the file that it has become, or leave it out"));
    }
    let name = name?.trim_end_matches("()").trim_end_matches('!');
    let Ok(text) = std::fs::read_to_string(&place) else {
        return Some(format!("`{file}` is no text, and `{name}` cannot be looked for in it"));
    };
    let parsed = lines(file, &text);
    let defined = match name.split_once("::") {
        Some((owner, member)) => has_member(&parsed, owner, member),
        None => defines(&parsed, name, file.ends_with(".rs")),
    };
    (!defined).then(|| format!("`{name}` is not defined in {file}: say what it is called now, and where it is"))
}

const KEYWORDS: &[&str] = &["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "union", "macro_rules!"];

/// Whether a file defines something of this name.
fn defines(lines: &[Line], name: &str, rust: bool) -> bool {
    if rust {
        return lines.iter().any(|line| KEYWORDS.iter().any(|keyword| declares(&line.code, keyword, name)));
    }
    // In C and shell a definition begins at the first column; a call does not.
    lines.iter().any(|line| !line.code.starts_with([' ', '\t']) && words(&head(&line.code)).any(|word| word == name))
}

/// Text of a line of C before the arguments or the value of what it defines: without attributes, and with the
/// name that the macro of BPF programs takes first.
fn head(code: &str) -> String {
    let mut code = code.replacen("BPF_PROG(", "", 1);
    while let Some(start) = code.find("__attribute__") {
        let end = closed(&code[start..]).map_or(code.len(), |length| start + length);
        code.replace_range(start..end, "");
    }
    code.split(['(', ',', '=', '{', ';']).next().unwrap_or_default().to_string()
}

/// How long a text is up to the parenthesis that closes its first one.
fn closed(text: &str) -> Option<usize> {
    let mut depth = 0i32;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => return None,
        }
        (depth == 0).then_some(at + 1)
    })
}

/// Whether `KEYWORD NAME` stands in a line of code.
fn declares(code: &str, keyword: &str, name: &str) -> bool {
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '!').filter(|w| !w.is_empty());
    while let Some(word) = words.next() {
        if word == keyword {
            // `const fn`, `static mut`.
            return words.next().is_some_and(|next| next == name || (next == "mut" && words.next() == Some(name)))
                || (keyword != "fn" && declares(code, "fn", name));
        }
    }
    false
}

/// Whether an `impl`, `trait`, `enum` or `struct` of `owner` has a function, variant or field `member`.
fn has_member(lines: &[Line], owner: &str, member: &str) -> bool {
    let mut at = 0;
    while at < lines.len() {
        let code = &lines[at].code;
        let of_owner = ["impl", "trait", "enum", "struct", "mod"].iter().any(|keyword| {
            let mut all = words(code).skip_while(|word| word != keyword);
            all.next().is_some() && all.any(|word| word == owner)
        });
        if !of_owner || !(code.trim_start().starts_with("impl") || declares_type(code, owner)) {
            at += 1;
            continue;
        }
        let mut depth = 0i32;
        let mut opened = false;
        while let Some(line) = lines.get(at) {
            let inside = depth == 1;
            let as_field = line.code.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            if inside && (declares(&line.code, "fn", member) || words(as_field).next().as_deref() == Some(member)) {
                return true;
            }
            for c in line.code.chars() {
                match c {
                    '{' => (depth, opened) = (depth + 1, true),
                    '}' => depth -= 1,
                    _ => {}
                }
            }
            at += 1;
            if (opened && depth <= 0) || (!opened && line.code.contains(';')) {
                break;
            }
        }
    }
    false
}

fn declares_type(code: &str, name: &str) -> bool {
    ["trait", "enum", "struct", "mod"].iter().any(|keyword| declares(code, keyword, name))
}

fn words(code: &str) -> impl Iterator<Item = String> {
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.map(str::to_string).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUST: &str = "
/// fn gone() {}
pub struct Pipe {
    pub(crate) rate: u64,
}

impl Pipe {
    pub fn push(&mut self) {
        helper();
    }
}

impl<T: Clone> Other<T> for Queue<T> {
    fn pop(&self) {}
}

pub const fn helper() {}
const LONGEST: u64 = 1;
enum Way {
    Out,
}
";
    const C: &str = "static int turn(int x)\n{\n\treturn twist(x);\n}\n#define LIMIT 3\n\
        __attribute__((used, visibility(\"hidden\"))) void begin(long *stack)\n{\n}\n\
        void BPF_PROG(pace, struct sock *sk)\n{\n}\n";

    fn tree() -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("diorama-rules-{}", std::process::id()));
        std::fs::create_dir_all(root.join("crates/net/src")).unwrap();
        std::fs::write(root.join("crates/net/src/pipe.rs"), RUST).unwrap();
        std::fs::write(root.join("crates/net/src/turn.c"), C).unwrap();
        root
    }

    #[test]
    fn what_is_named_must_be_there() {
        let root = tree();
        for right in [
            "crates/net",
            "crates/net/src/pipe.rs",
            "crates/net/src/pipe.rs:Pipe",
            "crates/net/src/pipe.rs:Pipe::push",
            "crates/net/src/pipe.rs:Pipe::rate",
            "crates/net/src/pipe.rs:Queue::pop",
            "crates/net/src/pipe.rs:Way::Out",
            "crates/net/src/pipe.rs:helper",
            "crates/net/src/pipe.rs:helper()",
            "crates/net/src/pipe.rs:LONGEST",
            "crates/net/src/turn.c:turn",
            "crates/net/src/turn.c:LIMIT",
            "crates/net/src/turn.c:begin",
            "crates/net/src/turn.c:pace",
            "crates/*/tests",
            "crates/NAME",
            "make test",
            "/usr/src/linux",
            "https://example.org/src/",
        ] {
            assert_eq!(wrong(right, &root), None);
        }
        for gone in [
            "crates/gone",
            "crates/net/src/gone.rs",
            "crates/net/src/pipe.rs:gone",
            "crates/net/src/pipe.rs:Pipe::pop",
            "crates/net/src/pipe.rs:Pipe::helper",
            "crates/net/src/pipe.rs:Gone::push",
            "crates/net/src/pipe.rs:push_more",
            "crates/net/src/turn.c:twist",
            "crates/net/src/turn.c:used",
            "crates/net/src/turn.c:stack",
            "crates/net/src/turn.c:sk",
            "net/src/pipe.rs",
        ] {
            assert!(wrong(gone, &root).is_some(), "{gone}");
        }
        let page = "See `crates/net`.\n```\n`crates/gone`\n```\nAnd `x`, `crates/gone`.";
        let found: Vec<String> = breaches("docs/x.md", page, &root).iter().map(|b| b.to_string()).collect();
        assert_eq!(
            found,
            ["docs/x.md:5: `crates/gone` is not there: name the file that it has become, or leave it out"]
        );
        std::fs::remove_dir_all(root).unwrap();
    }
}
