//! What describes a disk, and what is wrong with a description.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::catalogue;
use crate::cloud::CloudParameters;
use crate::hdd::HddParameters;
use crate::ssd::SsdParameters;

/// What describes a disk: a kind of model, and its parameters.
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
        let mut all = serde_json::to_value(&base).expect("parameters are plain data");
        merge(&mut all, changes);
        let changed: Parameters = serde_json::from_value(all).map_err(|wrong| ParameterError {
            field: format!("a parameter of `{name}`"),
            is: "not understood".into(),
            right: wrong.to_string(),
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

    /// How many bytes the disk has.
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Parameters::Hdd(hdd) => hdd.capacity_bytes,
            Parameters::Ssd(ssd) => ssd.capacity_bytes,
            Parameters::Cloud(cloud) => cloud.capacity_bytes,
        }
    }
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
    /// What it is.
    pub is: String,
    /// What it should be.
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
