//! Paths in a Compose file, which start at the folder of the file that has them.

use std::path::{Path, PathBuf};

use crate::merge::entries_of;
use crate::short::clean;
use crate::tree::{Data, Value};

/// A path that starts at a folder, without `.` and `..`. One that starts at a user's home is left so: it leads out.
pub(crate) fn absolute(path: &str, base: &Path) -> PathBuf {
    // Of Windows, `C:\\docker`: it leads nowhere here, whatever it is put behind.
    let is_drive = path.as_bytes().get(1) == Some(&b':') && path.starts_with(|c: char| c.is_ascii_alphabetic());
    if path.starts_with('~') || is_drive {
        return PathBuf::from(path);
    }
    PathBuf::from(clean(&base.join(path).to_string_lossy()))
}

/// Makes the paths of files and folders absolute that are not.
pub(crate) fn resolve_paths(root: &mut Value, base: &Path) {
    let resolve = |value: &mut Value| {
        if let Data::Text(path) = &mut value.data
            && !path.is_empty()
        {
            *path = absolute(path, base).to_string_lossy().into_owned();
        }
    };
    for (_, service) in entries_of(root, "services") {
        for (option, key) in [("env_file", "path"), ("volumes", "source")] {
            let Some(Data::List(items)) = service.get_mut(option).map(|value| &mut value.data) else { continue };
            for item in items {
                let is_path = option == "env_file" || item.get("type").and_then(Value::as_text) == Some("bind");
                if is_path && let Some(path) = item.get_mut(key) {
                    resolve(path);
                }
            }
        }
        if let Some(Data::List(items)) = service.get_mut("label_file").map(|value| &mut value.data) {
            items.iter_mut().for_each(resolve);
        }
        if let Some(file) = service.get_mut("extends").and_then(|extends| extends.get_mut("file")) {
            resolve(file);
        }
        if let Some(context) = service.get_mut("build").and_then(|build| build.get_mut("context"))
            && !context.as_text().is_some_and(|text| text.contains("://") || text.starts_with("git@"))
        {
            resolve(context);
        }
    }
    for kind in ["configs", "secrets"] {
        for (_, value) in entries_of(root, kind) {
            if let Some(file) = value.get_mut("file") {
                resolve(file);
            }
        }
    }
}
