//! Descriptions of images in themselves, without unpacking them.

use std::path::Path;

use super::source::Source;
use crate::error::Error;

/// Description of an image in itself: its names, and the command that a container of it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// Its names, such as `redis:7`, as whoever packed it wrote them; there need not be any.
    pub names: Vec<String>,
    /// The sum that names all that is in it, as far as its source says it.
    pub digest: Option<String>,
    /// The program that is run.
    pub entrypoint: Vec<String>,
    /// The arguments behind that, if nobody says anything else.
    pub command: Vec<String>,
    /// Its environment, `NAME=value`.
    pub env: Vec<String>,
    /// Where its program begins; empty: at the root.
    pub working_dir: String,
    /// As whom it runs, by name or by number, with or without a group; empty: as root.
    pub user: String,
    /// The ports on which it may listen, such as `80/tcp`.
    pub ports: Vec<String>,
    /// The signal by which it is ended; empty: SIGTERM.
    pub stop_signal: String,
}

/// Reads what the image in `source`, an archive or the directory of a layout, says of itself.
///
/// # Errors
/// [`Error::Input`] if it is no image.
pub fn inspect(source: &Path) -> Result<Inspected, Error> {
    let wrong = |why: String| Error::Input(format!("the image {}: {why}", source.display()));
    let mut image = Source::open(source).map_err(&wrong)?;
    let parts = image.image().map_err(&wrong)?;
    let config = image.config(&parts).map_err(&wrong)?;
    let mut found = Inspected { names: parts.names, digest: parts.digest, ..Inspected::default() };
    if let Some(config) = config.config() {
        found.entrypoint = config.entrypoint().clone().unwrap_or_default();
        found.command = config.cmd().clone().unwrap_or_default();
        found.env = config.env().clone().unwrap_or_default();
        found.working_dir = config.working_dir().clone().unwrap_or_default();
        found.user = config.user().clone().unwrap_or_default();
        found.ports = config.exposed_ports().clone().unwrap_or_default();
        found.stop_signal = config.stop_signal().clone().unwrap_or_default();
    }
    found.ports.sort();
    Ok(found)
}
