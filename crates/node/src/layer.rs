//! Layers of images (OCI image specification, *Image Layer Filesystem Changeset*): applied to a directory, and made of
//! what a node has written.

mod apply;
mod bounds;
mod collect;
mod entry;
mod pax;
mod sparse;

pub(crate) use apply::{Below, Part, apply, reader};
pub(crate) use bounds::{Bounds, Budget, Counted, Headers};
pub(crate) use collect::{Found, Tree, collect};

/// Prefix of a name that hides the same name of the layers below.
const WHITEOUT: &[u8] = b".wh.";
/// Name that hides all that the layers below have in a directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// The attributes by which the overlay file system knows what it has to do with a name. They mean something in the
/// directory of one overlay, and must come into no other one from outside.
const OVERLAY: &[u8] = b"trusted.overlay.";
/// The attribute of a directory that hides all that the layers below have in it.
const OVERLAY_OPAQUE: &str = "trusted.overlay.opaque";
