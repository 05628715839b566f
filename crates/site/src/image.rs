//! Images of nodes' files as a run and a machine speak of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An image that is to be made of a node's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaveImage {
    /// The image's name.
    pub name: String,
    /// Notes on its origin.
    pub origin: Origin,
}

/// The run of a node whose files become an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The experiment.
    pub experiment: String,
    /// The variant.
    pub variant: String,
    /// The run's directory.
    pub run: PathBuf,
    /// The versions of programs and of the kernel in it, as far as they are known.
    pub versions: BTreeMap<String, String>,
}

/// The description of an image that a machine keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptAbout {
    /// Its name.
    pub name: String,
    /// The experiment whose run had the node.
    pub experiment: String,
    /// The variant.
    pub variant: String,
    /// The run's directory.
    pub run: PathBuf,
    /// The node.
    pub node: String,
    /// When it was saved: s since 1970.
    pub saved_unix_s: u64,
    /// Its name where it was fetched from; none of one that was saved from a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The sum that names all that is in it.
    pub digest: String,
    /// How large it is, in bytes.
    pub bytes: u64,
    /// If it holds what is different from a host's root, of which host; else all is in it.
    pub over: Option<String>,
    /// The versions of programs and of the kernel in that run, as far as its plan knew them.
    pub versions: BTreeMap<String, String>,
    /// Files that no image can hold, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Files that changed while they were read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<PathBuf>,
}
