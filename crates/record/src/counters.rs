//! Counters by name: how many there are and what they are called is known to who counts, and to the file's header.

use std::sync::Arc;

/// Some counters, in the order in which their file has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Shared by all rows of a table.
    names: Arc<[String]>,
    values: Vec<Option<u64>>,
}

impl Counters {
    /// As many counters as there are names. A value is `None`, an empty cell, where it is not known.
    ///
    /// # Panics
    ///
    /// If there are more or fewer values than names.
    pub fn new<V: Into<Option<u64>>>(names: &[&str], values: impl IntoIterator<Item = V>) -> Counters {
        Counters::shared(&names.iter().map(|n| n.to_string()).collect(), values.into_iter().map(Into::into).collect())
    }

    pub(crate) fn shared(names: &Arc<[String]>, values: Vec<Option<u64>>) -> Counters {
        assert_eq!(names.len(), values.len(), "a value for each of {names:?}");
        Counters { names: Arc::clone(names), values }
    }

    /// The value of the counter `name`; `None` if there is no such counter, or its value is not known.
    pub fn get(&self, name: &str) -> Option<u64> {
        let index = self.names.iter().position(|n| n == name)?;
        self.values[index]
    }

    /// All counters, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<u64>)> {
        self.names.iter().map(String::as_str).zip(self.values.iter().copied())
    }

    /// The values as cells of a row.
    pub(crate) fn cells(&self) -> impl Iterator<Item = String> {
        self.values.iter().map(|v| v.map_or(String::new(), |v| v.to_string()))
    }
}
