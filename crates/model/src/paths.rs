//! Paths that an experiment names: inside nodes, inside its own folder, and on the host.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use crate::experiment::Root;
use crate::names::wrong_word;
use crate::tree::shorten;

/// Parts of every node's tree that are not files, or are Diorama's own.
const RESERVED: [&str; 4] = ["/proc", "/sys", "/dev", "/.diorama"];

/// The fault of a path inside a node; none if it is right.
pub(crate) fn wrong_inside(path: &str) -> Option<String> {
    let shown = shorten(path);
    let normal = path.starts_with('/') && !path[1..].split('/').any(|part| matches!(part, "" | "." | ".."));
    if !normal || path.len() > 1000 || path.contains('\0') {
        return Some(format!(
            "`{shown}` is not a path inside a node: write an absolute path, such as `/srv/site.conf`"
        ));
    }
    let reserved = RESERVED.iter().find(|r| path.strip_prefix(**r).is_some_and(|t| t.is_empty() || t.starts_with('/')));
    reserved.map(|r| format!("`{shown}` is in `{r}`, which every node has of its own: choose another path"))
}

/// The file of the experiment's folder that `files` may show to a node: relative, and still in the folder when every
/// symbolic link on the way is followed.
pub(crate) fn in_folder(dir: &Path, path: &str) -> Result<PathBuf, String> {
    let shown = shorten(path);
    let rule = "write a path inside the experiment's folder, such as `nginx.conf`";
    if path.is_empty() || path.contains('\0') {
        return Err(format!("`{shown}` is not a path: {rule}"));
    }
    if Path::new(path).is_absolute() {
        return Err(format!("`{shown}` is an absolute path: {rule}"));
    }
    if Path::new(path).components().any(|c| c == Component::ParentDir) {
        return Err(format!("`{shown}` leads out of the folder by `..`: {rule}"));
    }
    let missing = |e: std::io::Error| format!("`{shown}` cannot be used: {e}; {rule}");
    let home = dir.canonicalize().map_err(missing)?;
    let full = home.join(path).canonicalize().map_err(missing)?;
    if !full.starts_with(&home) {
        return Err(format!("`{shown}` leads out of the folder by a symbolic link: {rule}"));
    }
    let kind = full.metadata().map_err(missing)?;
    if !kind.is_dir() && !kind.is_file() {
        return Err(format!("`{shown}` is neither a file nor a directory: {rule}"));
    }
    match special(&full).map_err(missing)? {
        None => Ok(full),
        Some(inner) => {
            let inner = inner.strip_prefix(&home).unwrap_or(&inner);
            Err(format!("`{shown}` holds `{}`, which is neither a file nor a directory: replace it", inner.display()))
        }
    }
}

/// Opens what may be a file, for reading: one of another kind is not waited for, nor becomes this process's terminal.
pub(crate) fn to_read(file: &Path) -> std::io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(file)
}

/// Something in a directory that cannot be copied into a node, such as a symbolic link; none in a file.
fn special(path: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let kind = path.symlink_metadata()?;
        if kind.is_dir() {
            for entry in path.read_dir()? {
                open.push(entry?.path());
            }
        } else if !kind.is_file() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The prefix of an image that the machine keeps. A file whose name begins so is `./image:…`.
const KEPT: &str = "image:";

/// The root file system that `root` names: `host`, an image of the machine's, or a directory or archive, relative to
/// the experiment's folder or absolute (a root is read, never written).
pub(crate) fn root(dir: &Path, text: &str) -> Result<Root, String> {
    if text == "host" {
        return Ok(Root::Host);
    }
    if let Some(name) = text.strip_prefix(KEPT) {
        return match wrong_word(name) {
            Some(what) => Err(format!("the root is no image: {what}")),
            None => Ok(Root::Image(name.to_owned())),
        };
    }
    let shown = shorten(text);
    let rule = "write `host`, `image:NAME`, a directory, or an OCI image archive (a .tar file)";
    if text.is_empty() || text.contains('\0') {
        return Err(format!("`{shown}` is not a root file system: {rule}"));
    }
    let full = dir.join(text).canonicalize().map_err(|e| format!("the root `{shown}` cannot be used: {e}; {rule}"))?;
    if full == Path::new("/") {
        return Err("the host's own root is not a directory of the node's: write `host`".into());
    }
    match full.metadata() {
        Ok(kind) if kind.is_dir() => Ok(Root::Directory(full)),
        Ok(kind) if kind.is_file() => Ok(Root::OciArchive(full)),
        _ => Err(format!("the root `{shown}` is neither a directory nor a file: {rule}")),
    }
}
