//! Contents of images, for those who make experiments of other people's files.

use std::path::PathBuf;

use super::{LAYOUT, dir_of, share};
use crate::error::Result;

/// An image that a node can have as its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageFile {
    /// One that the machine keeps.
    Kept(String),
    /// An archive.
    Archive(PathBuf),
}

impl ImageFile {
    /// Its own description.
    ///
    /// # Errors
    ///
    /// If it is no image.
    pub fn contents(&self) -> Result<node::Inspected> {
        self.with(node::inspect)
    }

    /// The texts of its `/etc/passwd` and `/etc/group`.
    ///
    /// # Errors
    ///
    /// If it is no image.
    pub fn accounts(&self) -> Result<(String, String)> {
        self.with(node::accounts)
    }

    fn with<T>(&self, read: impl Fn(&std::path::Path) -> std::result::Result<T, node::Error>) -> Result<T> {
        match self {
            ImageFile::Archive(path) => Ok(read(path)?),
            ImageFile::Kept(name) => {
                let (_, _held) = share(name)?;
                Ok(read(&dir_of(name).join(LAYOUT))?)
            }
        }
    }
}
