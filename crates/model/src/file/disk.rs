//! The disk of a machine, as a user writes it.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use super::{Expected, WordOr};
use crate::units::DiskSize;

/// The disk of each machine of a class: its name in the catalogue, or a map of what is different about it.
pub(crate) type Disk = WordOr<DiskName, DiskMap>;

/// The name of a disk of the catalogue, right or wrong.
#[derive(Clone, Debug)]
pub(crate) struct DiskName(pub(crate) String);

impl<'de> Deserialize<'de> for DiskName {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d).map(DiskName)
    }
}

impl JsonSchema for DiskName {
    fn schema_name() -> Cow<'static, str> {
        "DiskName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "A disk of the catalogue", "enum": disk::catalogue::names() })
    }
}

/// A disk of the catalogue with some parameters changed.
#[derive(Clone, Debug)]
pub(crate) struct DiskMap {
    /// Its name.
    pub(crate) like: DiskName,
    /// How large it is.
    pub(crate) size: Option<DiskSize>,
    /// Whether the host is to keep what the node has flushed.
    pub(crate) durable: Option<bool>,
    /// The parameters.
    pub(crate) changes: Map<String, Value>,
}

impl Expected for DiskMap {
    const EXPECTED: &'static str = "a disk such as `hdd-7200`, or a map such as { like: hdd-7200, size: 20GB }";
}

impl<'de> Deserialize<'de> for DiskMap {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = DiskMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(DiskMap::EXPECTED)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DiskMap, A::Error> {
                let (mut like, mut size, mut durable, mut changes) = (None, None, None, Map::new());
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "like" => like = Some(map.next_value()?),
                        "size" => size = Some(map.next_value()?),
                        "durable" => durable = Some(map.next_value()?),
                        _ => drop(changes.insert(key, map.next_value::<Parameter>()?.0)),
                    }
                }
                let like = like.ok_or_else(|| serde::de::Error::missing_field("like"))?;
                Ok(DiskMap { like, size, durable, changes })
            }
        }
        d.deserialize_map(Keys)
    }
}

impl JsonSchema for DiskMap {
    fn schema_name() -> Cow<'static, str> {
        "DiskMap".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A disk of the catalogue with some parameters changed; docs/disk-models.md names them",
            "type": "object",
            "properties": {
                "like": generator.subschema_for::<DiskName>(),
                "size": generator.subschema_for::<DiskSize>(),
                "durable": {
                    "type": "boolean",
                    "description": "Whether the host's own disk is to have what a node has flushed, too",
                },
            },
            "required": ["like"],
        })
    }
}

/// The value of a parameter: what looks like a number is one, and `none` is none.
struct Parameter(Value);

impl<'de> Deserialize<'de> for Parameter {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Parameter;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the value of a parameter")
            }

            fn visit_str<E>(self, text: &str) -> Result<Parameter, E> {
                let number = || {
                    let whole = text.parse::<u64>().ok().map(Number::from);
                    let numeric = text.bytes().all(|b| b.is_ascii_digit() || b".+-eE".contains(&b));
                    whole.or_else(|| Number::from_f64(text.parse().ok().filter(|_| numeric)?))
                };
                Ok(Parameter(match text {
                    "none" => Value::Null,
                    "true" | "false" => Value::Bool(text == "true"),
                    _ => number().map_or_else(|| Value::String(text.into()), Value::Number),
                }))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Parameter, A::Error> {
                let mut all = Vec::new();
                while let Some(Parameter(item)) = items.next_element()? {
                    all.push(item);
                }
                Ok(Parameter(Value::Array(all)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parameter, A::Error> {
                let mut all = Map::new();
                while let Some(key) = map.next_key::<String>()? {
                    let Parameter(value) = map.next_value()?;
                    all.insert(key, value);
                }
                Ok(Parameter(Value::Object(all)))
            }
        }
        d.deserialize_any(Any)
    }
}
