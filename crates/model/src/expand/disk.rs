//! The disks of machines.

use super::Entry;
use crate::error::Problems;
use crate::experiment::Disk;
use crate::file::{self, DiskMap, DiskName, WordOr};
use crate::names::did_you_mean;
use crate::tree::{Data, Span, Value, shorten};

/// The smallest disk that has room for a file system with a journal.
const SMALLEST: u64 = 64 << 20;
/// File systems begin and end with a block.
const BLOCK: u64 = 4096;

/// The disk that a machine is described to have; `None`, with a note, if there can be no such disk.
pub(super) fn disk(written: &file::Disk, entry: &Entry<'_, file::Machine>, problems: &mut Problems) -> Option<Disk> {
    let (DiskName(like), size, durable, mut changes) = match written {
        WordOr::Word(name) => (name, None, false, serde_json::Map::new()),
        WordOr::Map(DiskMap { like, size, durable, changes }) => {
            (like, size.as_ref(), durable.unwrap_or(false), changes.clone())
        }
    };
    let node = entry.node.get("disk");
    let known = disk::catalogue::names();
    if !known.contains(&like.as_str()) {
        let near = match did_you_mean(like, &known) {
            near if near.is_empty() => format!(": there are {}", known.join(", ")),
            near => near,
        };
        let at = node.and_then(|node| node.get("like").or(Some(node)));
        problems.add(place(at, entry), format!("there is no disk `{}` in the catalogue{near}", shorten(like)));
        return None;
    }
    if let Some(size) = size {
        if changes.contains_key("capacity-bytes") {
            let what = "`size` and `capacity-bytes` say the same: leave one of them out";
            problems.add(place(node.and_then(|node| node.get("size")), entry), what);
            return None;
        }
        changes.insert("capacity-bytes".into(), (size.0 - size.0 % BLOCK).into());
    }
    if changes.get("write-cache").is_some_and(|cache| cache == "lies") {
        // A drive that says that it has flushed its cache, and has not. Each kind has its own name for the cache.
        let name = match disk::Parameters::like(like, &serde_json::Map::new()) {
            Ok(disk::Parameters::Ssd(_)) => "cache",
            _ => "write-cache",
        };
        changes.remove("write-cache");
        let lies = changes.entry(name).or_insert_with(|| serde_json::json!({}));
        if let Some(lies) = lies.as_object_mut() {
            lies.insert("ignores-flush".into(), true.into());
        }
    }
    match disk::Parameters::like(like, &changes) {
        Ok(parameters) if parameters.capacity_bytes() < SMALLEST => {
            let at = node.and_then(|node| node.get("size").or_else(|| node.get("capacity-bytes")));
            let what = "a node's disk has a file system, and so at least `64MiB`: write a larger `size`";
            problems.add(place(at, entry), what);
            None
        }
        Ok(parameters) => Some(Disk { like: like.clone(), parameters, durable }),
        Err(wrong) => {
            // The size is another name for a parameter, which the message is about.
            let of_size = wrong.field.contains("capacity-bytes") && size.is_some();
            let path = if of_size { "size".to_owned() } else { wrong.field.trim_matches('`').to_owned() };
            let what = match of_size {
                true => format!("`size` is {} bytes; right would be: {}", wrong.is, wrong.right),
                false => wrong.to_string(),
            };
            problems.add(place(node.map(|node| inner(node, &path)), entry), what);
            None
        }
    }
}

/// The value at a path of keys, or as near to it as there is one.
fn inner<'a>(mut node: &'a Value, path: &str) -> &'a Value {
    for key in path.split('.') {
        match node.get(key) {
            Some(value) if matches!(node.data, Data::Map(_)) => node = value,
            _ => break,
        }
    }
    node
}

fn place(value: Option<&Value>, entry: &Entry<'_, file::Machine>) -> Span {
    value.map_or_else(|| entry.at("disk"), |value| value.span)
}
