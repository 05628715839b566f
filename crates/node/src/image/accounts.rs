//! The accounts of an image, by which names of users become numbers.

use std::io::{self, Read};
use std::path::Path;

use super::source::Source;
use crate::error::Error;
use crate::layer;

/// More than a list of accounts has.
const LARGEST: u64 = 1 << 20;

/// The text of `/etc/passwd` and that of `/etc/group` of the image in `source`, an archive or the directory of a
/// layout; empty where there is none. Reads its layers from the top, until it has both.
///
/// # Errors
/// [`Error::Input`] if it is no image.
pub fn accounts(source: &Path) -> Result<(String, String), Error> {
    let wrong = |why: String| Error::Input(format!("the image {}: {why}", source.display()));
    let mut image = Source::open(source).map_err(&wrong)?;
    let parts = image.image().map_err(&wrong)?;
    let mut found: [Option<String>; 2] = [None, None];
    for name in parts.layers.iter().rev() {
        let part = image.find(name).map_err(&wrong)?;
        look_into(&part, &mut found).map_err(|e| wrong(e.to_string()))?;
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    let [users, groups] = found.map(Option::unwrap_or_default);
    Ok((users, groups))
}

/// Takes what a layer has of what is still missing.
fn look_into(part: &layer::Part, found: &mut [Option<String>; 2]) -> io::Result<()> {
    let mut here: [Option<String>; 2] = [None, None];
    let (headers, mut budget) = (layer::Headers::default(), layer::Budget::default());
    let mut bounds = layer::Bounds::of(&mut budget, part.length, &headers);
    for entry in layer::reader(part, &headers)?.entries()? {
        let mut entry = entry?;
        bounds.begin(&entry)?;
        let path = entry.path()?.into_owned();
        let path = path.strip_prefix("/").or_else(|_| path.strip_prefix("./")).unwrap_or(&path);
        for (place, file) in ["etc/passwd", "etc/group"].into_iter().enumerate() {
            if path == Path::new(file) && entry.header().entry_type().is_file() {
                let mut text = Vec::new();
                entry.by_ref().take(LARGEST).read_to_end(&mut text)?;
                here[place] = Some(String::from_utf8_lossy(&text).into_owned());
            }
        }
        // The part that has been read is less.
        bounds.pass(&entry)?;
    }
    for (known, own) in found.iter_mut().zip(here) {
        *known = known.take().or(own);
    }
    Ok(())
}
