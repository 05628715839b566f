//! From the tree to the types of the file format, by way of serde, without losing the place of a mistake.

use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};

use crate::names::did_you_mean;
use crate::tree::{Data, Fault, Key, Span, Value, shorten};

/// Reads a `T` from a value of the tree.
///
/// # Errors
///
/// The place of the mistake, what is wrong there and what would be right.
pub fn read<'a, T: Deserialize<'a>>(value: &'a Value) -> Result<T, Fault> {
    T::deserialize(Reader(value)).map_err(|e| (e.span.unwrap_or(value.span), e.what))
}

/// A mistake whose place is filled in by the innermost value on the way out.
#[derive(Debug)]
pub(crate) struct Mistake {
    span: Option<Span>,
    what: String,
}

impl Mistake {
    fn new(what: impl Into<String>) -> Self {
        Mistake { span: None, what: what.into() }
    }

    fn at(mut self, span: Span) -> Self {
        self.span.get_or_insert(span);
        self
    }
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Mistake {}

impl de::Error for Mistake {
    fn custom<T: std::fmt::Display>(what: T) -> Self {
        Mistake::new(what.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Mistake::new(format!("this is {unexpected}: write {expected}"))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let number = match unexpected {
            Unexpected::Signed(n) => n.to_string(),
            Unexpected::Unsigned(n) => n.to_string(),
            other => other.to_string(),
        };
        Mistake::new(format!("`{number}` is out of range: write {expected}"))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Mistake::new(unknown_key(field, expected))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let choices: Vec<String> = expected.iter().map(|e| format!("`{e}`")).collect();
        let choices = choices.join(", ");
        Mistake::new(format!("`{}` is not one of {choices}{}", shorten(variant), did_you_mean(variant, expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        Mistake::new(format!("the key `{field}` is missing here: add `{field}: …`"))
    }
}

/// The message for a key that is not known, with the nearest one that is.
pub fn unknown_key(key: &str, known: &[&str]) -> String {
    let near = did_you_mean(key, known);
    let near = match near.is_empty() {
        true => format!(": the keys here are {}", known.join(", ")),
        false => near,
    };
    format!("there is no key `{}` here{near}", shorten(key))
}

#[derive(Clone, Copy)]
struct Reader<'a>(&'a Value);

impl<'a> Reader<'a> {
    /// The text of a scalar, and whether it was plain.
    fn scalar(self, expected: &str) -> Result<(&'a str, bool), Mistake> {
        match &self.0.data {
            Data::Scalar { text, plain } if !self.0.is_null() => Ok((text, *plain)),
            _ => Err(self.expected(expected)),
        }
    }

    fn expected(self, expected: &str) -> Mistake {
        Mistake::new(format!("this is {}: write {expected}", self.0.kind())).at(self.0.span)
    }

    /// An integer as written; quoted numbers are text.
    fn integer(self) -> Result<i64, Mistake> {
        let expected = "a whole number, such as 4";
        let (text, plain) = self.scalar(expected)?;
        let digits = text.strip_prefix('-').unwrap_or(text);
        if !plain || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.expected(expected));
        }
        let too_large = || Mistake::new(format!("`{}` is too large a number", shorten(text))).at(self.0.span);
        text.parse().map_err(|_| too_large())
    }
}

macro_rules! integers {
    ($de:lifetime $($method:ident)*) => {
        $(fn $method<V: Visitor<$de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            let n = self.integer()?;
            visitor.visit_i64(n).map_err(|e: Mistake| e.at(self.0.span))
        })*
    };
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.0.data {
            Data::Scalar { text, .. } if !self.0.is_null() => visitor.visit_borrowed_str(text),
            Data::Scalar { .. } => visitor.visit_unit(),
            Data::List(items) => visitor.visit_seq(Items(items.iter())),
            Data::Map(entries) => visitor.visit_map(Entries { entries: entries.iter(), value: None }),
        }
        .map_err(|e| e.at(self.0.span))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.scalar("`true` or `false`")? {
            ("true", true) => visitor.visit_bool(true),
            ("false", true) => visitor.visit_bool(false),
            _ => Err(self.expected("`true` or `false`")),
        }
    }

    integers!('de deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
              deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64);

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let expected = "a number, such as 0.5";
        let (text, plain) = self.scalar(expected)?;
        // Rust also reads `inf`, `nan` and `infinity`.
        let numeric = text.bytes().all(|b| b.is_ascii_digit() || b".+-eE".contains(&b));
        match text.parse::<f64>() {
            Ok(v) if plain && numeric && v.is_finite() => visitor.visit_f64(v),
            _ => Err(self.expected(expected)),
        }
        .map_err(|e| e.at(self.0.span))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let (text, _) = self.scalar("text")?;
        visitor.visit_borrowed_str(text).map_err(|e: Mistake| e.at(self.0.span))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self).map_err(|e| e.at(self.0.span))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.0.data {
            Data::List(items) => visitor.visit_seq(Items(items.iter())),
            Data::Scalar { text, .. } if !self.0.is_null() => {
                Err(self.expected(&format!("a list, such as [{}]", shorten(text))))
            }
            _ => Err(self.expected("a list, such as [a, b]")),
        }
        .map_err(|e| e.at(self.0.span))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.0.data {
            Data::Map(entries) => visitor.visit_map(Entries { entries: entries.iter(), value: None }),
            _ => Err(self.expected("a map, such as { key: value }")),
        }
        .map_err(|e| e.at(self.0.span))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        match &self.0.data {
            Data::Map(_) => self.deserialize_map(visitor),
            _ => Err(self.expected(&format!("a map with the keys {}", fields.join(", ")))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let (text, _) = self.scalar(&format!("one of {}", variants.join(", ")))?;
        visitor.visit_enum(Word(text)).map_err(|e| e.at(self.0.span))
    }

    serde::forward_to_deserialize_any! {
        i128 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

struct Items<'a>(std::slice::Iter<'a, Value>);

impl<'a> SeqAccess<'a> for Items<'a> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        let Some(value) = self.0.next() else { return Ok(None) };
        seed.deserialize(Reader(value)).map(Some).map_err(|e| e.at(value.span))
    }
}

struct Entries<'a> {
    entries: std::slice::Iter<'a, (Key, Value)>,
    value: Option<&'a (Key, Value)>,
}

impl<'a> MapAccess<'a> for Entries<'a> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(entry);
        let key: StrDeserializer<'_, Mistake> = entry.0.text.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|e| e.at(entry.0.span))
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let Some((key, value)) = self.value.take() else {
            return Err(Mistake::new("a value without a key"));
        };
        if value.is_null() {
            let what = format!("`{}` has no value: write one, or remove the key", shorten(&key.text));
            return Err(Mistake::new(what).at(key.span));
        }
        seed.deserialize(Reader(value)).map_err(|e| e.at(value.span))
    }
}

/// A word that stands for a variant without contents.
struct Word<'a>(&'a str);

impl<'a> EnumAccess<'a> for Word<'a> {
    type Error = Mistake;
    type Variant = Bare;

    fn variant_seed<V: DeserializeSeed<'a>>(self, seed: V) -> Result<(V::Value, Bare), Mistake> {
        let word: StrDeserializer<'_, Mistake> = self.0.into_deserializer();
        Ok((seed.deserialize(word)?, Bare))
    }
}

struct Bare;

impl<'a> VariantAccess<'a> for Bare {
    type Error = Mistake;

    fn unit_variant(self) -> Result<(), Mistake> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, _: T) -> Result<T::Value, Mistake> {
        Err(Mistake::new("write one word"))
    }

    fn tuple_variant<V: Visitor<'a>>(self, _: usize, _: V) -> Result<V::Value, Mistake> {
        Err(Mistake::new("write one word"))
    }

    fn struct_variant<V: Visitor<'a>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Mistake> {
        Err(Mistake::new("write one word"))
    }
}
