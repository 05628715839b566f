//! `--set dotted.path=value`: changes of the file before it is checked.

use crate::error::Problems;
use crate::names::did_you_mean;
use crate::tree::{self, Data, Key, Span, Value};

/// Sections whose entries the user names: a misspelt name there must not become a new entry.
const NAMED: [&str; 3] = ["machines", "nodes", "metrics"];

/// Applies each `(path, value)` in turn. A step of a path is a key; in a list, a place counted from 0, or for a link
/// its `FROM--TO` as written. The value is YAML. What is wrong is noted at the `--set` concerned.
pub(crate) fn apply(root: &mut Value, overrides: &[(String, String)], problems: &mut Problems) {
    for (path, text) in overrides {
        let name = format!("--set {path}={text}");
        let source = problems.source(name, text.clone());
        let whole = Span { source, start: 0, end: text.chars().count() };
        match tree::parse(text, source) {
            Ok((mut value, faults)) => {
                value.span = whole;
                faults.into_iter().for_each(|(at, what)| problems.add(at, what));
                if let Err(what) = set(root, path, value) {
                    problems.add(whole, what);
                }
            }
            Err(_) if text.trim().is_empty() => problems.add(whole, format!("`{path}` is given no value")),
            Err((_, what)) => problems.add(whole, what),
        }
    }
}

fn set(root: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let at = value.span;
    let mut here = root;
    let mut rest = path;
    let mut done = String::new();
    if path.is_empty() || path.ends_with('.') {
        return Err(format!("the path `{path}` is not complete: write dotted keys, such as `nodes.server.cwd`"));
    }
    loop {
        let (step, after) = next_step(here, rest);
        let kind = here.kind();
        here = match &mut here.data {
            Data::List(items) => match place(items, step) {
                Some(i) => &mut items[i],
                None => return Err(no_such_item(&done, items, step)),
            },
            Data::Map(entries) => {
                let found = entries.iter().position(|(k, _)| k.text == step);
                let i = match found {
                    Some(i) => i,
                    None if NAMED.contains(&done.as_str()) && !after.is_empty() => {
                        let known: Vec<&str> = entries.iter().map(|(k, _)| k.text.as_str()).collect();
                        return Err(format!("there is no `{step}` in `{done}`{}", did_you_mean(step, &known)));
                    }
                    None => {
                        let key = Key { span: at, text: step.to_owned(), plain: false };
                        entries.push((key, Value { span: at, data: Data::Map(Vec::new()) }));
                        entries.len() - 1
                    }
                };
                &mut entries[i].1
            }
            Data::Scalar { .. } => return Err(format!("`{done}` is {kind}, which has no key `{step}`")),
        };
        done = if done.is_empty() { step.to_owned() } else { format!("{done}.{step}") };
        if after.is_empty() {
            *here = value;
            return Ok(());
        }
        rest = after;
    }
}

/// The next step of a path. A key may itself contain dots (`files./srv/nginx.conf`): the longest that exists wins.
fn next_step<'a>(here: &Value, rest: &'a str) -> (&'a str, &'a str) {
    if let Data::Map(entries) = &here.data {
        let mut known: Vec<&str> = entries.iter().map(|(k, _)| k.text.as_str()).collect();
        known.sort_by_key(|k| std::cmp::Reverse(k.len()));
        for key in known {
            match rest.strip_prefix(key) {
                Some("") => return (rest, ""),
                Some(after) if after.starts_with('.') && !key.is_empty() => return (&rest[..key.len()], &after[1..]),
                _ => {}
            }
        }
    }
    rest.split_once('.').unwrap_or((rest, ""))
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    match &value.get(key)?.data {
        Data::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

fn link_name(item: &Value) -> Option<String> {
    match text(item, "name") {
        Some(name) => Some(name.to_owned()),
        None => Some(format!("{}--{}", text(item, "from")?, text(item, "to")?)),
    }
}

fn place(items: &[Value], step: &str) -> Option<usize> {
    match step.parse::<usize>() {
        Ok(i) => (i < items.len()).then_some(i),
        Err(_) => items.iter().position(|item| link_name(item).as_deref() == Some(step)),
    }
}

fn no_such_item(done: &str, items: &[Value], step: &str) -> String {
    let names: Vec<String> = items.iter().filter_map(link_name).collect();
    let choices = match (items.len(), names.is_empty()) {
        (0, _) => "the list is empty".to_owned(),
        (n, true) => format!("write a place from 0 to {}", n - 1),
        (n, false) => format!("write a place from 0 to {} or one of {}", n - 1, names.join(", ")),
    };
    format!("there is no `{step}` in the list `{done}`: {choices}")
}
