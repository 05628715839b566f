//! Values laid over one another: of a service over the one that it extends, of a file over the one before it.
//!
//! Maps are merged key by key and lists appended, but for a few keys, which Compose's specification names.

use std::collections::{HashMap, HashSet};

use model::yaml::Fault;

use crate::tree::{Data, Key, Over, Value};

/// Which of two forms the keys of a service are merged by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The one above replaces the one below.
    Replace,
    /// Lists of `KEY=VALUE`, or maps: by key.
    Pairs,
    /// A text or a list: appended.
    Sequence,
    /// Lists of names, or maps from names: by name.
    Names,
    /// As its own type says.
    Plain,
}

fn rule(path: &[&str]) -> Rule {
    match path {
        ["networks" | "volumes" | "secrets" | "configs", _, "labels"] => Rule::Pairs,
        ["services", _, key] => match *key {
            "annotations" | "environment" | "labels" | "sysctls" => Rule::Pairs,
            "command" | "entrypoint" => Rule::Replace,
            "depends_on" | "models" | "networks" => Rule::Names,
            "dns" | "dns_opt" | "dns_search" | "env_file" | "label_file" | "extra_hosts" | "tmpfs" => Rule::Sequence,
            _ => Rule::Plain,
        },
        ["services", _, "healthcheck", "test"] => Rule::Replace,
        ["services", _, "build", "args" | "additional_contexts" | "labels"] => Rule::Pairs,
        ["services", _, "build", "extra_hosts"] => Rule::Sequence,
        ["services", _, "deploy", "labels"] => Rule::Pairs,
        _ => Rule::Plain,
    }
}

/// Lays a value over another that stands at the same place.
pub(crate) fn merge(below: Value, above: Value, path: &mut Vec<String>) -> Result<Value, Fault> {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    if above.over == Some(Over::Override) {
        return Ok(above);
    }
    match rule(&parts) {
        Rule::Replace => return Ok(above),
        Rule::Pairs => {
            let mut all = pairs(below);
            let span = above.span;
            all.extend(pairs(above));
            return Ok(Value::new(span, Data::List(last_of_each(all, pair_key))));
        }
        Rule::Sequence => {
            let span = above.span;
            return Ok(Value::new(span, Data::List(appended(sequence(below), sequence(above)))));
        }
        Rule::Names => {
            let has_defaults = parts.last() == Some(&"depends_on");
            let (below, above) = (names(below, has_defaults)?, names(above, has_defaults)?);
            return merge_maps(below, above, path);
        }
        Rule::Plain => {}
    }
    match parts[..] {
        ["services", _, "build"] => {
            let map = |value: Value| match value.data {
                Data::Text(_) => {
                    let span = value.span;
                    Value::new(span, Data::Map(vec![(Key { span, text: "context".into() }, value)]))
                }
                _ => value,
            };
            return merge_maps(map(below), map(above), path);
        }
        ["services", _, "logging"]
            if let (Some(own), Some(other)) = (above.get("driver"), below.get("driver"))
                && own != other =>
        {
            return Ok(above);
        }
        ["services", _, "ulimits", _] if !matches!((&below.data, &above.data), (Data::Map(_), Data::Map(_))) => {
            return Ok(above);
        }
        ["networks", _, "ipam", "config"] => return Ok(blocks(below, above)),
        _ => {}
    }
    if above.is_null() {
        return Ok(below);
    }
    match (&below.data, &above.data) {
        (Data::Map(_), Data::Map(_)) => merge_maps(below, above, path),
        (Data::List(_), Data::List(_)) => {
            let span = above.span;
            Ok(Value::new(span, Data::List(appended(sequence(below), sequence(above)))))
        }
        (Data::Map(_) | Data::List(_), _) => {
            let what = format!("this is laid over {} and is {}", below.kind(), above.kind());
            Err((above.span, what))
        }
        _ => Ok(above),
    }
}

fn merge_maps(mut below: Value, above: Value, path: &mut Vec<String>) -> Result<Value, Fault> {
    let Data::Map(entries) = above.data else { return Ok(below) };
    for (key, value) in entries {
        if value.over == Some(Over::Reset) {
            below.remove(&key.text);
            continue;
        }
        let merged = match below.get_mut(&key.text) {
            Some(old) => {
                let old = std::mem::replace(old, Value::new(key.span, Data::Null));
                path.push(key.text.clone());
                let merged = merge(old, value, path)?;
                path.pop();
                merged
            }
            None => value,
        };
        below.set(&key.text, merged);
    }
    Ok(below)
}

/// Blocks of addresses by what they are.
fn blocks(below: Value, above: Value) -> Value {
    let span = above.span;
    let mut all = sequence(below);
    for block in sequence(above) {
        match all.iter_mut().find(|other| other.get("subnet") == block.get("subnet")) {
            Some(other) => {
                for (key, value) in block.entries() {
                    other.set(&key.text, value.clone());
                }
            }
            None => all.push(block),
        }
    }
    Value::new(span, Data::List(all))
}

/// A list of `KEY=VALUE`, whatever form it had.
fn pairs(value: Value) -> Vec<Value> {
    let Data::Map(entries) = value.data else { return sequence(value) };
    let mut all = Vec::new();
    for (key, value) in entries {
        let items = match &value.data {
            Data::Null => vec![key.text.clone()],
            Data::List(items) => {
                items.iter().filter_map(Value::shown).map(|item| format!("{}={item}", key.text)).collect()
            }
            _ => value.shown().map(|text| format!("{}={text}", key.text)).into_iter().collect(),
        };
        all.extend(items.into_iter().map(|text| Value::text(value.span, text)));
    }
    all
}

/// A list, of one text if it is one.
pub(crate) fn sequence(value: Value) -> Vec<Value> {
    match value.data {
        Data::List(items) => items,
        Data::Text(_) => vec![value],
        _ => Vec::new(),
    }
}

/// A map from names, whatever form it had.
fn names(value: Value, has_defaults: bool) -> Result<Value, Fault> {
    let span = value.span;
    let items = match value.data {
        Data::Map(_) => return Ok(value),
        Data::Null => Vec::new(),
        Data::Text(_) => vec![value],
        Data::List(items) => items,
        _ => return Err((span, format!("this is a list of names, or a map, and not {}", value.kind()))),
    };
    let mut map = Value::new(span, Data::Map(Vec::new()));
    let mut known = HashSet::new();
    for item in items {
        let Some(name) = item.as_text() else {
            return Err((item.span, format!("a name belongs here, and this is {}", item.kind())));
        };
        let value = if has_defaults { dependency(item.span) } else { Value::new(item.span, Data::Null) };
        if let Data::Map(entries) = &mut map.data
            && known.insert(name.to_owned())
        {
            entries.push((Key { span: item.span, text: name.to_owned() }, value));
        }
    }
    Ok(map)
}

/// The settings of a dependency that is only named.
pub(crate) fn dependency(span: model::yaml::Span) -> Value {
    let mut value = Value::new(span, Data::Map(Vec::new()));
    value.set("condition", Value::text(span, "service_started"));
    value.set("required", Value::new(span, Data::Bool(true)));
    value
}

/// A list and what is not in it yet of another.
fn appended(mut below: Vec<Value>, above: Vec<Value>) -> Vec<Value> {
    for item in above {
        if !below.contains(&item) {
            below.push(item);
        }
    }
    below
}

/// The items of which no later one has the same key, each in the place of the first.
fn last_of_each(items: Vec<Value>, key: impl Fn(&Value) -> Option<String>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    let mut places = HashMap::new();
    for item in items {
        let place = key(&item).map_or(kept.len(), |name| *places.entry(name).or_insert(kept.len()));
        match kept.get_mut(place) {
            Some(old) => *old = item,
            None => kept.push(item),
        }
    }
    kept
}

fn pair_key(item: &Value) -> Option<String> {
    let text = item.as_text()?;
    Some(text.split_once('=').map_or(text, |(key, _)| key).to_owned())
}

/// Leaves of each list of a service, of items which must differ in something, the last that are alike in it.
pub(crate) fn unique(root: &mut Value) {
    for (_, service) in entries_of(root, "services") {
        let Data::Map(options) = &mut service.data else { continue };
        for (key, value) in options {
            let Some(index) = index_of(&key.text) else { continue };
            if let Data::List(items) = &mut value.data {
                *items = last_of_each(std::mem::take(items), index);
            }
        }
    }
}

/// The entries below a key of the file.
pub(crate) fn entries_of<'a>(root: &'a mut Value, key: &str) -> &'a mut [(Key, Value)] {
    match root.get_mut(key).map(|value| &mut value.data) {
        Some(Data::Map(entries)) => entries,
        _ => &mut [],
    }
}

fn index_of(option: &str) -> Option<fn(&Value) -> Option<String>> {
    Some(match option {
        "annotations" | "cap_add" | "cap_drop" | "dns" | "dns_opt" | "dns_search" | "environment" | "labels"
        | "links" | "profiles" | "sysctls" | "tmpfs" => pair_key,
        "expose" => Value::shown,
        "env_file" => |item| item.as_text().or_else(|| item.get("path")?.as_text()).map(str::to_owned),
        "volumes" => |item| match item.as_text() {
            Some(text) => crate::short::volume(text).ok().map(|volume| volume.target),
            None => item.get("target")?.shown(),
        },
        "devices" => |item| match item.as_text() {
            Some(text) => text.split(':').nth(1).or(Some(text)).map(str::to_owned),
            None => item.get("target")?.shown(),
        },
        "ports" => |item| match &item.data {
            Data::Map(_) => {
                let part = |key: &str, other: &str| item.get(key).and_then(Value::shown).unwrap_or(other.into());
                let (host, published) = (part("host_ip", "0.0.0.0"), part("published", "<nil>"));
                Some(format!("{host}:{published}:{}/{}", part("target", ""), part("protocol", "tcp")))
            }
            _ => item.shown(),
        },
        "configs" | "secrets" => |item| match item.as_text() {
            Some(text) => Some(text.to_owned()),
            None => item.get("target").or_else(|| item.get("source"))?.shown(),
        },
        _ => return None,
    })
}
