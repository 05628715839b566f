//! Short forms written out, so that each option of a service has one form.

use std::collections::HashSet;

use model::yaml::{Fault, Problems, Span};

use crate::merge::{dependency, entries_of};
use crate::short;
use crate::tree::{Data, Key, Value};

/// The most ports that a service's ranges may be written out to: as many as there are of one protocol.
const MOST_PORTS: usize = 1 << 16;

/// Writes out the short forms of all services.
pub(crate) fn canonical(root: &mut Value, problems: &mut Problems) {
    for (_, service) in entries_of(root, "services") {
        let Data::Map(options) = &mut service.data else { continue };
        for (key, value) in options {
            if value.is_null() && !matches!(key.text.as_str(), "depends_on" | "env_file") {
                continue;
            }
            if let Err((at, what)) = option(&key.text, value) {
                problems.add(at, what);
            }
        }
    }
}

fn option(name: &str, value: &mut Value) -> Result<(), Fault> {
    let span = value.span;
    match (name, &mut value.data) {
        ("env_file", Data::Text(_)) => {
            let file = std::mem::replace(value, Value::new(span, Data::Null));
            value.data = Data::List(vec![settings_file(file)]);
        }
        ("env_file", Data::List(items)) => {
            for item in items {
                let file = std::mem::replace(item, Value::new(span, Data::Null));
                *item = settings_file(file);
            }
        }
        ("dns" | "dns_search" | "label_file" | "tmpfs", Data::Text(_)) => {
            let one = std::mem::replace(value, Value::new(span, Data::Null));
            value.data = Data::List(vec![one]);
        }
        ("networks", Data::List(items)) => {
            let mut map = Vec::new();
            for item in items {
                map.push((name_of(item)?, Value::new(item.span, Data::Null)));
            }
            value.data = Data::Map(map);
        }
        ("depends_on", Data::List(items)) => {
            let mut map: Vec<(Key, Value)> = Vec::new();
            let mut known = HashSet::new();
            for item in items {
                let key = name_of(item)?;
                if !known.insert(key.text.clone()) {
                    return Err((item.span, format!("`{}` is here for the second time: keep one", key.text)));
                }
                map.push((key, dependency(item.span)));
            }
            value.data = Data::Map(map);
        }
        ("depends_on", Data::Map(entries)) => {
            for (key, entry) in entries {
                if !matches!(entry.data, Data::Map(_)) {
                    let what = format!("`{}` is a map here, such as {{ condition: service_healthy }}", key.text);
                    return Err((entry.span, what));
                }
                let span = key.span;
                if entry.get("condition").is_none() {
                    let what = format!("`{}` has no condition: write {{ condition: service_started }}", key.text);
                    return Err((entry.span, what));
                }
                if entry.get("required").is_none() {
                    entry.set("required", Value::new(span, Data::Bool(true)));
                }
            }
        }
        ("volumes", Data::List(items)) => {
            for item in items {
                if let Some(text) = item.as_text() {
                    let volume = short::volume(text).map_err(|what| (item.span, what))?;
                    *item = of_volume(volume, item.span);
                }
            }
        }
        ("ports", Data::List(items)) => {
            let mut all = Vec::new();
            for item in std::mem::take(items) {
                match &item.data {
                    Data::Text(text) | Data::Int(text) => {
                        let ports = short::ports(text).map_err(|what| (item.span, what))?;
                        if all.len() + ports.len() > MOST_PORTS {
                            return Err((item.span, format!("with this range there are more than {MOST_PORTS} ports")));
                        }
                        all.extend(ports.into_iter().map(|port| of_port(port, item.span)));
                    }
                    _ => all.push(item),
                }
            }
            *items = all;
        }
        ("configs" | "secrets", Data::List(items)) => {
            for item in items {
                if item.as_text().is_some() {
                    let mut map = Value::new(item.span, Data::Map(Vec::new()));
                    map.set("source", std::mem::replace(item, Value::new(span, Data::Null)));
                    *item = map;
                }
            }
        }
        ("extends", Data::Text(_)) => wrapped(value, "service"),
        ("build", Data::Text(_)) => wrapped(value, "context"),
        _ => {}
    }
    Ok(())
}

fn wrapped(value: &mut Value, key: &str) {
    let span = value.span;
    let inner = std::mem::replace(value, Value::new(span, Data::Map(Vec::new())));
    value.set(key, inner);
}

fn name_of(item: &Value) -> Result<Key, Fault> {
    match item.as_text() {
        Some(text) => Ok(Key { span: item.span, text: text.to_owned() }),
        None => Err((item.span, format!("a name belongs here, and this is {}", item.kind()))),
    }
}

fn settings_file(mut file: Value) -> Value {
    let span = file.span;
    if file.as_text().is_some() {
        wrapped(&mut file, "path");
    }
    if matches!(file.data, Data::Map(_)) && file.get("required").is_none() {
        file.set("required", Value::new(span, Data::Bool(true)));
    }
    file
}

fn of_volume(volume: short::Volume, span: Span) -> Value {
    let mut map = Value::new(span, Data::Map(Vec::new()));
    map.set("type", Value::text(span, volume.kind));
    if let Some(source) = volume.source {
        map.set("source", Value::text(span, source));
    }
    map.set("target", Value::text(span, volume.target));
    if volume.read_only {
        map.set("read_only", Value::new(span, Data::Bool(true)));
    }
    map
}

fn of_port(port: short::Port, span: Span) -> Value {
    let mut map = Value::new(span, Data::Map(Vec::new()));
    map.set("target", Value::new(span, Data::Int(port.target.to_string())));
    for (key, value) in [("published", port.published), ("protocol", Some(port.protocol)), ("host_ip", port.host_ip)] {
        if let Some(value) = value {
            map.set(key, Value::text(span, value));
        }
    }
    map
}
