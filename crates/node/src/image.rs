//! Images: root file systems from archives and layouts (OCI image specification), and images of what nodes have
//! written.

mod accounts;
mod host;
mod inspect;
mod save;
mod source;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::source::Source;
use crate::error::Error;
use crate::layer::{self, Below};

pub use self::accounts::accounts;
pub use self::host::Host;
pub use self::inspect::{Inspected, inspect};
pub use self::save::{About, Base, Saved, save};

/// The note in an image's manifest that says what its layers lie over, if it is not nothing.
const OVER: &str = "diorama.over";
/// Directories that are there of the one that lies over a host's root.
const OVER_HOST: &str = "host";
/// The note that says which host that was.
const MADE_ON: &str = "diorama.host";

/// An image that has been unpacked: a directory that any number of nodes may have as their root, for it is only read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacked {
    /// Where its files are.
    pub root: PathBuf,
    /// The environment that it sets, `NAME=value`.
    pub env: Vec<String>,
    /// If its files lie over a host's root, of which host.
    pub over: Option<Host>,
}

impl Unpacked {
    /// Whether it can be used on this machine.
    ///
    /// # Errors
    /// [`Error::Input`] if it lies over the root of another host.
    pub fn check(&self) -> Result<(), Error> {
        self.over.as_ref().map_or(Ok(()), Host::check)
    }
}

/// Unpacks the image in `source`, an archive or the directory of a layout, below `root`, which must not exist.
///
/// # Errors
/// [`Error::Input`] if it is no image, or not one that can be used here.
pub fn unpack(source: &Path, root: &Path) -> Result<Unpacked, Error> {
    let wrong = |why: String| Error::Input(format!("the image {}: {why}", source.display()));
    let mut image = Source::open(source).map_err(&wrong)?;
    let parts = image.image().map_err(&wrong)?;
    let config = image.config(&parts).map_err(&wrong)?;
    let over = match parts.notes.get(OVER).map(String::as_str) {
        None => None,
        Some(OVER_HOST) => Some(Host::named(parts.notes.get(MADE_ON).map_or("", String::as_str))),
        Some(other) => return Err(wrong(format!("lies over `{other}`, which this version does not know"))),
    };
    let unpacked = Unpacked {
        root: root.to_owned(),
        env: config.config().as_ref().and_then(|c| c.env().clone()).unwrap_or_default(),
        over,
    };
    unpacked.check()?;
    fs::create_dir_all(root).map_err(|e| Error::file("make", root, e))?;
    let layers: Vec<_> = parts.layers.iter().map(|name| image.find(name)).collect::<Result<_, _>>().map_err(&wrong)?;
    let below = if unpacked.over.is_some() { Below::Others } else { Below::Nothing };
    layer::apply(&layers, root, below).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => wrong(e.to_string()),
        _ => Error::system(format!("cannot unpack an image into {}", root.display()), e),
    })?;
    Ok(unpacked)
}
