//! Links of the target: the vocabulary of [`scale::link`] in virtual time.

use scale::Virtual;
use scale::link;

/// A link of the target between two nodes or switches.
pub type Link = link::Link<Virtual>;
/// One direction of a link of the target.
pub type Pipe = link::Pipe<Virtual>;
/// Variation of a delay from packet to packet.
pub type Jitter = link::Jitter<Virtual>;
/// A change of one direction of a link.
pub type PipeChange = link::PipeChange<Virtual>;
/// A change of a link.
pub type LinkChange = link::LinkChange<Virtual>;
