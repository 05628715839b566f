//! Descriptions of disks, and what is wrong with one.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::catalogue;
use crate::cloud::CloudParameters;
use crate::hdd::HddParameters;
use crate::ssd::SsdParameters;

/// A description of a disk: a kind of model, and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Parameters {
    /// A drive with turning platters.
    Hdd(HddParameters),
    /// A drive of flash memory.
    Ssd(SsdParameters),
    /// A volume that a cloud provider rents out.
    Cloud(CloudParameters),
}

impl Parameters {
    /// A disk of the [catalogue] with some parameters changed. Changes go by the names of the fields, in kebab-case,
    /// inner ones as maps: `{"rpm": 5400, "write-cache": {"bytes": 0}}`.
    ///
    /// # Errors
    /// If the catalogue has no such disk, or a change names no parameter, is of the wrong type or out of range.
    pub fn like(name: &str, changes: &Map<String, Value>) -> Result<Parameters, ParameterError> {
        let base = catalogue::named(name).ok_or_else(|| ParameterError {
            field: "the disk".into(),
            is: format!("`{name}`"),
            right: format!("one of {}", catalogue::names().join(", ")),
        })?;
        let base = serde_json::to_value(&base).expect("parameters are plain data");
        if let Some(kind) = changes.get("kind").filter(|kind| **kind != base["kind"]) {
            return Err(ParameterError::new("kind", kind, format!("{}, what `{name}` is", base["kind"])));
        }
        let changed = with(&base, changes).map_err(|wrong| {
            // Which change it is: the first one that cannot be made alone.
            let each = one_by_one(&base, changes);
            let alone = each.iter().find_map(|(path, change)| Some((path, with(&base, change).err()?)));
            match alone {
                Some((path, wrong)) => misread(name, path, changes, &wrong),
                None => misread(name, &[], changes, &wrong),
            }
        })?;
        changed.check()?;
        Ok(changed)
    }

    /// Whether a disk can be made of them.
    ///
    /// # Errors
    /// The first parameter that is out of range, or does not fit the others, and what would be right.
    pub fn check(&self) -> Result<(), ParameterError> {
        match self {
            Parameters::Hdd(hdd) => hdd.check(),
            Parameters::Ssd(ssd) => ssd.check(),
            Parameters::Cloud(cloud) => cloud.check(),
        }
    }

    /// Whether it has platters that turn.
    pub fn rotates(&self) -> bool {
        matches!(self, Parameters::Hdd(_))
    }

    /// How many bytes the disk has.
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Parameters::Hdd(hdd) => hdd.capacity_bytes,
            Parameters::Ssd(ssd) => ssd.capacity_bytes,
            Parameters::Cloud(cloud) => cloud.capacity_bytes,
        }
    }
}

fn with(base: &Value, changes: &Map<String, Value>) -> Result<Parameters, serde_json::Error> {
    let mut all = base.clone();
    merge(&mut all, changes);
    serde_json::from_value(all)
}

/// Every change by itself, and the names that lead to it, outermost first.
fn one_by_one(base: &Value, changes: &Map<String, Value>) -> Vec<(Vec<String>, Map<String, Value>)> {
    let mut each = Vec::new();
    for (name, change) in changes {
        let alone = |value: Value| Map::from_iter([(name.clone(), value)]);
        match (base.get(name), change) {
            (Some(inner @ Value::Object(_)), Value::Object(deeper)) if !other_variant(inner, deeper) => {
                for (mut path, change) in one_by_one(inner, deeper) {
                    path.insert(0, name.clone());
                    each.push((path, alone(Value::Object(change))));
                }
            }
            _ => each.push((vec![name.clone()], alone(change.clone()))),
        }
    }
    each
}

/// Words for a change that cannot be read, found by its path.
fn misread(disk: &str, path: &[String], changes: &Map<String, Value>, wrong: &serde_json::Error) -> ParameterError {
    let said = wrong.to_string();
    let (what, right) = said.split_once(", expected ").unwrap_or((&said, "what the others have"));
    let right = match right {
        "u32" => "a whole number, up to 4294967295",
        "u64" => "a whole number",
        "f64" => "a number",
        other => other,
    };
    let (first, inner) = path.split_first().map_or((None, path), |(first, inner)| (changes.get(first), inner));
    let value = inner.iter().try_fold(first, |value, name| Some(value?.get(name))).flatten();
    let is = match value {
        Some(value) if !what.starts_with("unknown field") => value.to_string(),
        _ => format!("not one of `{disk}`: {what}"),
    };
    let field = if path.is_empty() { "a parameter".into() } else { format!("`{}`", path.join(".")) };
    ParameterError { field, is, right: right.into() }
}

/// Puts changes into a value; maps are merged, unless they name another variant (`{"measured": …}` for
/// `{"published": …}`), everything else is replaced.
fn merge(base: &mut Value, changes: &Map<String, Value>) {
    let Value::Object(fields) = base else {
        *base = Value::Object(changes.clone());
        return;
    };
    for (name, change) in changes {
        match (fields.get_mut(name), change) {
            (Some(inner @ Value::Object(_)), Value::Object(deeper)) if !other_variant(inner, deeper) => {
                merge(inner, deeper);
            }
            _ => {
                fields.insert(name.clone(), change.clone());
            }
        }
    }
}

/// Whether both look like variants of one type, and not the same: a single field each, with different names, that holds
/// a map or a list.
fn other_variant(value: &Value, change: &Map<String, Value>) -> bool {
    let Value::Object(fields) = value else { return false };
    let mut both = fields.iter().zip(change.iter());
    let (Some(((old, holds), (new, _))), 1, 1) = (both.next(), fields.len(), change.len()) else { return false };
    old != new && (holds.is_object() || holds.is_array())
}

/// A parameter that is wrong: which one, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {is}; right would be: {right}")]
pub struct ParameterError {
    /// Which parameter, by the name of its field.
    pub field: String,
    /// The value.
    pub is: String,
    /// The value that would be right.
    pub right: String,
}

impl ParameterError {
    pub(crate) fn new(field: &str, is: impl ToString, right: impl ToString) -> Self {
        ParameterError { field: format!("`{field}`"), is: is.to_string(), right: right.to_string() }
    }
}

/// That a parameter lies between two values, both included, of a unit.
pub(crate) fn within(field: &str, is: f64, least: f64, most: f64, unit: &str) -> Result<(), ParameterError> {
    match (least..=most).contains(&is) {
        true => Ok(()),
        false => Err(ParameterError::new(field, is, format!("from {least} to {most} {unit}").trim_end())),
    }
}

/// That a number of bytes is a multiple of a sector, and lies between two values, both included.
pub(crate) fn sectors(field: &str, is: u64, least: u64, most: u64) -> Result<(), ParameterError> {
    let whole = is.is_multiple_of(crate::request::SECTOR);
    match whole && (least..=most).contains(&is) {
        true => Ok(()),
        false => Err(ParameterError::new(field, is, format!("a multiple of 512, from {least} to {most} bytes"))),
    }
}

/// The largest disk: 256 TiB.
pub(crate) const LARGEST: u64 = 256 << 40;
