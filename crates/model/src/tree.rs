//! YAML as a tree that remembers where every value stood.
//!
//! The parser is saphyr's; the tree is ours because the experiment needs what ready-made ones do not give together: the
//! place of every key and value, scalars as written (`10ms`, `0.50`), duplicate keys as errors, and bounds on depth and
//! size that hold before memory is spent.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// How deep values may be nested; an experiment needs five levels, a Compose file seven.
const DEPTH: usize = 24;
/// How many values a document may have after its aliases are expanded. (All paths between 256 machines are 230,000.)
const VALUES: usize = 240_000;
/// How much text its values may have together after its aliases are expanded, in bytes.
const TEXT: usize = 8 << 20;

/// A range of characters of one source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Which text: 0 is the file, others are `--set` arguments.
    pub source: usize,
    /// The first character, counted from 0.
    pub start: usize,
    /// The character after the last.
    pub end: usize,
}

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Value {
    /// Where it stands.
    pub span: Span,
    /// The value's data.
    pub data: Data,
}

/// The data of a value.
#[derive(Clone, Debug)]
pub enum Data {
    /// A word, a number, a text.
    Scalar {
        /// As written, without quotes.
        text: String,
        /// False if it was quoted or a block, and so can only be text.
        plain: bool,
    },
    /// Values in order.
    List(Vec<Value>),
    /// Keys and their values, in the order of the file.
    Map(Vec<(Key, Value)>),
}

/// A key of a map.
#[derive(Clone, Debug)]
pub struct Key {
    /// Where it stands.
    pub span: Span,
    /// As written, without quotes.
    pub text: String,
    /// False if it was quoted.
    pub plain: bool,
}

impl Value {
    /// The value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|(k, _)| k.text == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Whether nothing was written, or `null`.
    pub fn is_null(&self) -> bool {
        matches!(&self.data, Data::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// Its kind, for messages.
    pub fn kind(&self) -> String {
        match &self.data {
            _ if self.is_null() => "nothing".into(),
            Data::Scalar { text, plain: true } => format!("`{}`", shorten(text)),
            Data::Scalar { text, .. } => format!("the text \"{}\"", shorten(text)),
            Data::List(_) => "a list".into(),
            Data::Map(_) => "a map".into(),
        }
    }

    fn size(&self) -> usize {
        match &self.data {
            Data::Scalar { .. } => 1,
            Data::List(items) => 1 + items.iter().map(Value::size).sum::<usize>(),
            Data::Map(entries) => 1 + entries.iter().map(|(_, v)| 1 + v.size()).sum::<usize>(),
        }
    }

    /// How long all texts in it are, in bytes.
    pub fn length(&self) -> usize {
        match &self.data {
            Data::Scalar { text, .. } => text.len(),
            Data::List(items) => items.iter().map(Value::length).sum(),
            Data::Map(entries) => entries.iter().map(|(k, v)| k.text.len() + v.length()).sum(),
        }
    }

    fn depth(&self) -> usize {
        match &self.data {
            Data::Scalar { .. } => 1,
            Data::List(items) => 1 + items.iter().map(Value::depth).max().unwrap_or(0),
            Data::Map(entries) => 1 + entries.iter().map(|(_, v)| v.depth()).max().unwrap_or(0),
        }
    }
}

/// A text short enough for a message, on one line.
pub fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(40).is_some() {
        short.push('…');
    }
    short
}

/// A mistake and its place.
pub type Fault = (Span, String);

/// Reads one YAML document. `source` is the number that its spans get. The faults that do not prevent a tree
/// (duplicate keys) come with it.
pub(crate) fn parse(text: &str, source: usize) -> Result<(Value, Vec<Fault>), Fault> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| {
            let at = e.marker().index();
            (Span { source, start: at, end: at + 1 }, format!("this is not YAML: {}", e.info()))
        })?;
        let span = Span { source, start: span.start.index(), end: span.end.index() };
        builder.event(event, span)?;
    }
    let start = Span { source, start: 0, end: 0 };
    let value = builder.root.ok_or((start, "the file is empty".into()))?;
    Ok((value, builder.faults))
}

/// A collection whose end has not been met.
#[derive(Debug)]
struct Open {
    value: Value,
    /// The key that waits for its value.
    key: Option<Key>,
    anchor: usize,
    /// The keys met so far.
    keys: HashMap<String, ()>,
}

#[derive(Debug, Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Value>,
    anchors: HashMap<usize, Value>,
    values: usize,
    text: usize,
    faults: Vec<Fault>,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if tag.is_some() {
                    return Err((span, "a YAML tag (`!…`) has no meaning here: remove it".into()));
                }
                let plain = style == ScalarStyle::Plain;
                self.complete(Value { span, data: Data::Scalar { text: text.into_owned(), plain } }, anchor)
            }
            Event::SequenceStart(anchor, tag) => self.begin(Data::List(Vec::new()), anchor, tag.is_some(), span),
            Event::MappingStart(anchor, tag) => self.begin(Data::Map(Vec::new()), anchor, tag.is_some(), span),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(mut done) = self.open.pop() else { return Ok(()) };
                done.value.span.end = span.end.max(done.value.span.start);
                self.complete(done.value, done.anchor)
            }
            Event::Alias(anchor) => {
                let Some(mut value) = self.anchors.get(&anchor).cloned() else {
                    return Err((span, "this alias stands inside the value that it names: write the value out".into()));
                };
                // A text by itself is counted below.
                if !matches!(value.data, Data::Scalar { .. }) {
                    self.spend(value.size() - 1, value.length(), span)?;
                }
                if self.open.len() + value.depth() > DEPTH {
                    return Err((span, too_deep()));
                }
                value.span = span;
                self.complete(value, 0)
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                Err((span, "a second YAML document begins here: keep one, in a file of its own".into()))
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
            return Err((span, format!("this is more than {VALUES} values: such a file has a few hundred")));
        }
        Ok(())
    }

    fn begin(&mut self, data: Data, anchor: usize, tagged: bool, span: Span) -> Result<(), Fault> {
        if tagged {
            return Err((span, "a YAML tag (`!…`) has no meaning here: remove it".into()));
        }
        if self.open.len() >= DEPTH {
            return Err((span, too_deep()));
        }
        if let Some(Open { value: Value { data: Data::Map(_), .. }, key: None, .. }) = self.open.last() {
            return Err((span, "a list or map cannot be a key: write `key: value`".into()));
        }
        self.open.push(Open { value: Value { span, data }, key: None, anchor, keys: HashMap::new() });
        Ok(())
    }

    fn complete(&mut self, value: Value, anchor: usize) -> Result<(), Fault> {
        let own = if let Data::Scalar { text, .. } = &value.data { text.len() } else { 0 };
        self.spend(1, own, value.span)?;
        if anchor != 0 {
            self.spend(value.size(), value.length(), value.span)?;
            self.anchors.insert(anchor, value.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        match (&mut open.value.data, open.key.take()) {
            (Data::List(items), _) => items.push(value),
            (Data::Map(entries), Some(key)) => {
                if open.keys.insert(key.text.clone(), ()).is_some() {
                    let what = format!("the key `{}` is here for the second time: keep one", shorten(&key.text));
                    self.faults.push((key.span, what));
                } else {
                    entries.push((key, value));
                }
            }
            (Data::Map(_), None) => match value.data {
                Data::Scalar { text, plain } => open.key = Some(Key { span: value.span, text, plain }),
                _ => return Err((value.span, "a list or map cannot be a key: write `key: value`".into())),
            },
            (Data::Scalar { .. }, _) => {}
        }
        Ok(())
    }
}

fn too_deep() -> String {
    format!("this is nested more than {DEPTH} levels deep: such a file needs a few")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_scalars_as_written_and_knows_where_they_are() {
        let text = "a: 0.50\nb: [x, \"y\"]\n";
        let (value, faults) = parse(text, 0).unwrap();
        assert!(faults.is_empty());
        let a = value.get("a").unwrap();
        assert!(matches!(&a.data, Data::Scalar { text, plain: true } if text == "0.50"));
        assert_eq!((a.span.start, a.span.end), (3, 7));
        let Data::List(items) = &value.get("b").unwrap().data else { panic!() };
        assert!(matches!(&items[1].data, Data::Scalar { text, plain: false } if text == "y"));
    }

    #[test]
    fn aliases_are_values_but_not_bombs() {
        let (value, _) = parse("a: &x {k: v}\nb: *x\n", 0).unwrap();
        assert!(value.get("b").unwrap().get("k").is_some());
        assert!(parse("a: &x [*x]\n", 0).unwrap_err().1.contains("inside the value"));
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..30 {
            let refs = vec![format!("*a{}", i - 1); 10].join(",");
            bomb.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
        }
        assert!(parse(&bomb, 0).unwrap_err().1.contains("more than 240000 values"));
        let long = format!("a: &x \"{}\"\nb: [{}]\n", "y".repeat(1 << 19), "*x,".repeat(100));
        assert!(parse(&long, 0).unwrap_err().1.contains("more than 8 MiB of text"));
    }
}
