//! A Compose file's YAML as a tree: merge keys are resolved, scalars have the types that Compose gives them, and every
//! value remembers where it stood.
//!
//! The parser is saphyr's. The tree is not the one of experiments, in which tags and merge keys mean nothing, and in
//! which `0755` stays what was written: Compose makes 493 of it.

use std::collections::{HashMap, HashSet};

use model::yaml::{Fault, Span, shorten};
use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::scalar;

/// How deep values may be nested; a Compose file needs eight levels.
const DEPTH: usize = 32;
/// How many values a file may have after its aliases are expanded, as many as Compose allows.
const VALUES: usize = 100_000;
/// How much text its values may have together after its aliases are expanded, in bytes.
const TEXT: usize = 8 << 20;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub span: Span,
    pub data: Data,
    /// Its merge tag, where several files are laid over one another.
    pub over: Option<Over>,
}

/// A tag that says what becomes of the value that this one is laid over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// `!reset`: it is gone.
    Reset,
    /// `!override`: this one replaces it.
    Override,
}

/// The data of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    /// The digits, decimal, with a `-` if it is below zero.
    Int(String),
    /// As Compose writes it.
    Float(String),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(Key, Value)>),
}

/// A key of a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub span: Span,
    pub text: String,
}

/// Values are alike if they say the same, wherever they stand.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (&self.data, &other.data) {
            (Data::Map(own), Data::Map(others)) => {
                own.len() == others.len() && own.iter().all(|(key, value)| other.get(&key.text) == Some(value))
            }
            (own, others) => own == others,
        }
    }
}

impl Value {
    pub fn new(span: Span, data: Data) -> Value {
        Value { span, data, over: None }
    }

    pub fn text(span: Span, text: impl Into<String>) -> Value {
        Value::new(span, Data::Text(text.into()))
    }

    /// The value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries().iter().find(|(k, _)| k.text == key).map(|(_, v)| v)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        match &mut self.data {
            Data::Map(entries) => entries.iter_mut().find(|(k, _)| k.text == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Gives a key a value, in the place of the one that it had.
    pub fn set(&mut self, key: &str, value: Value) {
        let Data::Map(entries) = &mut self.data else { return };
        match entries.iter_mut().find(|(k, _)| k.text == key) {
            Some((_, old)) => *old = value,
            None => entries.push((Key { span: value.span, text: key.into() }, value)),
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let Data::Map(entries) = &mut self.data else { return None };
        let at = entries.iter().position(|(k, _)| k.text == key)?;
        Some(entries.remove(at).1)
    }

    /// The entries of a map; none if it is something else.
    pub fn entries(&self) -> &[(Key, Value)] {
        match &self.data {
            Data::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none if it is something else.
    pub fn items(&self) -> &[Value] {
        match &self.data {
            Data::List(items) => items,
            _ => &[],
        }
    }

    pub fn is_null(&self) -> bool {
        self.data == Data::Null
    }

    /// A text as such; nothing of a number.
    pub fn as_text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A text, or what Compose writes for a number or a truth.
    pub fn shown(&self) -> Option<String> {
        match &self.data {
            Data::Text(text) | Data::Int(text) | Data::Float(text) => Some(text.clone()),
            Data::Bool(truth) => Some(truth.to_string()),
            _ => None,
        }
    }

    /// Its kind, for messages.
    pub fn kind(&self) -> String {
        match &self.data {
            Data::Null => "nothing".into(),
            Data::Bool(truth) => format!("the truth `{truth}`"),
            Data::Int(number) | Data::Float(number) => format!("the number `{}`", shorten(number)),
            Data::Text(text) => format!("the text \"{}\"", shorten(text)),
            Data::List(_) => "a list".into(),
            Data::Map(_) => "a map".into(),
        }
    }

    /// How many values it has, itself and keys among them.
    pub fn size(&self) -> usize {
        let below: usize = match &self.data {
            Data::List(items) => items.iter().map(Value::size).sum(),
            Data::Map(entries) => entries.iter().map(|(_, v)| 1 + v.size()).sum(),
            _ => 0,
        };
        1 + below
    }

    fn own_length(&self) -> usize {
        match &self.data {
            Data::Text(text) | Data::Int(text) | Data::Float(text) => text.len(),
            _ => 0,
        }
    }

    /// How long all texts in it are, in bytes.
    pub fn length(&self) -> usize {
        let below: usize = match &self.data {
            Data::List(items) => items.iter().map(Value::length).sum(),
            Data::Map(entries) => entries.iter().map(|(k, v)| k.text.len() + v.length()).sum(),
            _ => 0,
        };
        self.own_length() + below
    }

    fn depth(&self) -> usize {
        let below = match &self.data {
            Data::List(items) => items.iter().map(Value::depth).max(),
            Data::Map(entries) => entries.iter().map(|(_, v)| v.depth()).max(),
            _ => None,
        };
        1 + below.unwrap_or(0)
    }
}

/// Reads the documents of a file. `source` is the number that their spans get. The faults that do not prevent a tree
/// come with them.
pub(crate) fn parse(text: &str, source: usize) -> Result<(Vec<Value>, Vec<Fault>), Fault> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| {
            let at = e.marker().index();
            (Span { source, start: at, end: at + 1 }, format!("this is not YAML: {}", e.info()))
        })?;
        builder.event(event, Span { source, start: span.start.index(), end: span.end.index() })?;
    }
    Ok((builder.documents, builder.faults))
}

/// A collection whose end has not been met.
#[derive(Debug)]
struct Open {
    value: Value,
    /// The key that waits for its value.
    key: Option<Key>,
    anchor: usize,
    /// Entries that `<<` brings, which give way to the map's own.
    merged: Vec<(Key, Value)>,
    has_merge: bool,
    /// The keys met so far.
    keys: HashSet<String>,
}

#[derive(Debug, Default)]
struct Builder {
    open: Vec<Open>,
    documents: Vec<Value>,
    anchors: HashMap<usize, Value>,
    values: usize,
    text: usize,
    faults: Vec<Fault>,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                if let Some(open) = self.open.last_mut()
                    && matches!(open.value.data, Data::Map(_))
                    && open.key.is_none()
                {
                    return self.key(text.into_owned(), is_plain, span);
                }
                let (data, over) = match tag.as_deref() {
                    None if is_plain => (scalar::resolve(&text).map_err(|what| (span, what))?, None),
                    None => (Data::Text(text.into_owned()), None),
                    Some(tag) => self.tagged(&text, is_plain, tag, span)?,
                };
                self.complete(Value { span, data, over }, anchor)
            }
            Event::SequenceStart(anchor, tag) => self.begin(Data::List(Vec::new()), anchor, tag.as_deref(), span),
            Event::MappingStart(anchor, tag) => self.begin(Data::Map(Vec::new()), anchor, tag.as_deref(), span),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(mut done) = self.open.pop() else { return Ok(()) };
                done.value.span.end = span.end.max(done.value.span.start);
                for (key, value) in done.merged {
                    if done.keys.insert(key.text.clone())
                        && let Data::Map(entries) = &mut done.value.data
                    {
                        entries.push((key, value));
                    }
                }
                self.complete(done.value, done.anchor)
            }
            Event::Alias(anchor) => {
                let Some(mut value) = self.anchors.get(&anchor).cloned() else {
                    return Err((span, "this alias stands inside the value that it names: write the value out".into()));
                };
                self.spend(value.size(), value.length(), span)?;
                if self.open.len() + value.depth() > DEPTH {
                    return Err((span, too_deep()));
                }
                value.span = span;
                self.complete(value, 0)
            }
            _ => Ok(()),
        }
    }

    fn spend(&mut self, values: usize, text: usize, span: Span) -> Result<(), Fault> {
        self.values += values;
        self.text += text;
        if self.text > TEXT {
            return Err((span, format!("this is more than {} MiB of text, aliases written out", TEXT >> 20)));
        }
        if self.values > VALUES {
            return Err((span, format!("this is more than {VALUES} values, which Compose refuses")));
        }
        Ok(())
    }

    fn tagged(&self, text: &str, plain: bool, tag: &Tag, span: Span) -> Result<(Data, Option<Over>), Fault> {
        let own = |over| {
            Ok((if plain { scalar::resolve(text).map_err(|w| (span, w))? } else { Data::Text(text.into()) }, over))
        };
        match (tag.handle.as_str(), tag.suffix.as_str()) {
            ("!", "reset") => own(Some(Over::Reset)),
            ("!", "override") => own(Some(Over::Override)),
            ("tag:yaml.org,2002:", "str") | ("", "!" | "") => Ok((Data::Text(text.into()), None)),
            ("tag:yaml.org,2002:", kind @ ("int" | "float" | "bool" | "null")) => {
                let data = match (kind, scalar::resolve(text).map_err(|what| (span, what))?) {
                    ("float", Data::Int(digits)) => Data::Float(digits),
                    (_, data) => data,
                };
                let fits = matches!(
                    (kind, &data),
                    ("int", Data::Int(_)) | ("float", Data::Float(_)) | ("bool", Data::Bool(_)) | ("null", Data::Null)
                );
                if fits { Ok((data, None)) } else { Err((span, format!("`{}` is no {kind}", shorten(text)))) }
            }
            _ => Err((span, format!("Compose has no tag `{tag}`: there are !reset and !override"))),
        }
    }

    fn begin(&mut self, data: Data, anchor: usize, tag: Option<&Tag>, span: Span) -> Result<(), Fault> {
        let over = match tag.map(|tag| (tag.handle.as_str(), tag.suffix.as_str())) {
            None | Some(("tag:yaml.org,2002:", "map" | "seq")) => None,
            Some(("!", "reset")) => Some(Over::Reset),
            Some(("!", "override")) => Some(Over::Override),
            Some((handle, suffix)) => {
                return Err((span, format!("Compose has no tag `{handle}{suffix}`: there are !reset and !override")));
            }
        };
        if self.open.len() >= DEPTH {
            return Err((span, too_deep()));
        }
        if let Some(Open { value: Value { data: Data::Map(_), .. }, key: None, .. }) = self.open.last() {
            return Err((span, "a list or map cannot be a key: write `key: value`".into()));
        }
        let value = Value { span, data, over };
        self.open.push(Open { value, key: None, anchor, merged: Vec::new(), has_merge: false, keys: HashSet::new() });
        Ok(())
    }

    fn key(&mut self, text: String, is_plain: bool, span: Span) -> Result<(), Fault> {
        let is_text = !is_plain || text == "<<" || matches!(scalar::resolve(&text), Ok(Data::Text(_)));
        if !is_text {
            let what = format!("a key is a text: write it in quotes, \"{}\"", shorten(&text));
            self.faults.push((span, what));
        }
        if let Some(open) = self.open.last_mut() {
            open.key = Some(Key { span, text });
        }
        Ok(())
    }

    fn complete(&mut self, value: Value, anchor: usize) -> Result<(), Fault> {
        self.spend(1, value.own_length(), value.span)?;
        if anchor != 0 {
            self.spend(value.size(), value.length(), value.span)?;
            self.anchors.insert(anchor, value.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.documents.push(value);
            return Ok(());
        };
        match (&mut open.value.data, open.key.take()) {
            (Data::List(items), _) => items.push(value),
            (Data::Map(_), Some(key)) if key.text == "<<" => {
                if std::mem::replace(&mut open.has_merge, true) {
                    self.faults.push((key.span, "`<<` is here for the second time: write `<<: [*a, *b]`".into()));
                }
                merge(&mut open.merged, &value, true)?;
            }
            (Data::Map(entries), Some(key)) => {
                if !open.keys.insert(key.text.clone()) {
                    let what = format!("the key `{}` is here for the second time: keep one", shorten(&key.text));
                    self.faults.push((key.span, what));
                } else {
                    entries.push((key, value));
                }
            }
            // Only a list or a map that an alias stands for comes here.
            (Data::Map(_), None) => {
                let Some(text) = value.as_text() else {
                    return Err((value.span, "a list or map cannot be a key: write `key: value`".into()));
                };
                open.key = Some(Key { span: value.span, text: text.to_owned() });
            }
            _ => {}
        }
        Ok(())
    }
}

/// Adds what a merge key brings: the entries of a map, or of maps of which earlier ones win.
fn merge(merged: &mut Vec<(Key, Value)>, value: &Value, may_be_list: bool) -> Result<(), Fault> {
    match &value.data {
        Data::Map(entries) => {
            for (key, value) in entries {
                if !merged.iter().any(|(k, _)| k.text == key.text) {
                    merged.push((key.clone(), value.clone()));
                }
            }
            Ok(())
        }
        Data::List(items) if may_be_list => items.iter().try_for_each(|item| merge(merged, item, false)),
        _ => Err((value.span, format!("`<<` takes over the keys of a map, and this is {}", value.kind()))),
    }
}

fn too_deep() -> String {
    format!("this is nested more than {DEPTH} levels deep: such a file needs a few")
}
