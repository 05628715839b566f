//! A root file system from an image archive: the tar file of an OCI layout, or of `docker save`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use oci_spec::image::{Arch, Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType};

use crate::error::Error;
use crate::layer;

/// Unpacks the image in `archive` below `root`, which must not exist; gives the environment that the image sets.
///
/// # Errors
/// [`Error::Input`] if the archive is none, or not of an image that can be used here.
pub(crate) fn unpack(archive: &Path, root: &Path) -> Result<Vec<String>, Error> {
    let wrong = |why: String| Error::Input(format!("the image {}: {why}", archive.display()));
    let file = File::open(archive).map_err(|e| wrong(e.to_string()))?;
    let mut archive = Archive::index(file).map_err(|e| wrong(format!("is not a tar file of an image: {e}")))?;
    let image = archive.image().map_err(wrong)?;
    let config: ImageConfiguration = archive.json(&image.config).map_err(wrong)?;
    std::fs::create_dir_all(root).map_err(|e| Error::file("make", root, e))?;
    let layers: Vec<_> = image.layers.iter().map(|name| archive.find(name)).collect::<Result<_, _>>().map_err(wrong)?;
    layer::apply(&archive.file, &layers, root).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => wrong(e.to_string()),
        _ => Error::system(format!("cannot unpack an image into {}", root.display()), e),
    })?;
    Ok(config.config().as_ref().and_then(|c| c.env().clone()).unwrap_or_default())
}

/// The names of the parts of one image.
struct Image {
    config: String,
    layers: Vec<String>,
}

/// A tar file whose members can be read in any order.
struct Archive {
    file: File,
    /// Where the content of each member begins, and its length in bytes.
    members: HashMap<PathBuf, (u64, u64)>,
}

impl Archive {
    fn index(file: File) -> io::Result<Archive> {
        let mut members = HashMap::new();
        let mut links = Vec::new();
        let mut tar = tar::Archive::new(&file);
        for entry in tar.entries_with_seek()? {
            let entry = entry?;
            let name = plain(&entry.path()?);
            match entry.link_name()? {
                // `docker save` of old stored equal layers once, with links from the other places.
                Some(target) => links.push((name.clone(), plain(&name.parent().unwrap_or(Path::new("")).join(target)))),
                None => drop(members.insert(name, (entry.raw_file_position(), entry.size()))),
            }
        }
        for (name, target) in links {
            if let Some(place) = members.get(&target).copied() {
                members.insert(name, place);
            }
        }
        Ok(Archive { file, members })
    }

    /// What the archive's one image (for this processor) is made of.
    fn image(&mut self) -> Result<Image, String> {
        if self.members.contains_key(Path::new("index.json")) {
            let index: ImageIndex = self.json("index.json")?;
            return self.choose(&index, 3);
        }
        if !self.members.contains_key(Path::new("manifest.json")) {
            return Err("has neither an index.json (OCI) nor a manifest.json (docker save)".into());
        }
        let images: serde_json::Value = self.json("manifest.json")?;
        let image = &images[0];
        let layers = image["Layers"].as_array().into_iter().flatten();
        let layers = layers.map(|l| l.as_str().map(Into::into)).collect::<Option<_>>();
        match (image["Config"].as_str(), layers) {
            (Some(config), Some(layers)) => Ok(Image { config: config.into(), layers }),
            _ => Err("its manifest.json names no configuration and layers".into()),
        }
    }

    /// The image of an index, which may point to further ones, `depth` times.
    fn choose(&mut self, index: &ImageIndex, depth: usize) -> Result<Image, String> {
        let fits = |d: &&Descriptor| d.platform().as_ref().is_none_or(|p| *p.architecture() == Arch::Amd64);
        let chosen = index.manifests().iter().find(fits).ok_or("has no image for x86-64 (amd64)")?;
        let name = blob(chosen);
        if *chosen.media_type() == MediaType::ImageIndex {
            let index: ImageIndex = self.json(&name)?;
            return self.choose(&index, depth.checked_sub(1).ok_or("its indexes point to one another")?);
        }
        let manifest: ImageManifest = self.json(&name)?;
        Ok(Image { config: blob(manifest.config()), layers: manifest.layers().iter().map(blob).collect() })
    }

    fn json<T: serde::de::DeserializeOwned>(&mut self, name: &str) -> Result<T, String> {
        /// More than any manifest has, and little enough to read whole.
        const LARGEST: u64 = 16 << 20;
        let (start, length) = self.find(name)?;
        self.file.seek(SeekFrom::Start(start)).map_err(|e| e.to_string())?;
        let text = (&self.file).take(length.min(LARGEST));
        serde_json::from_reader(text).map_err(|e| format!("its {name} cannot be read: {e}"))
    }

    fn find(&self, name: &str) -> Result<(u64, u64), String> {
        self.members.get(&plain(Path::new(name))).copied().ok_or(format!("lacks its part {name}"))
    }
}

fn blob(descriptor: &Descriptor) -> String {
    let digest = descriptor.digest();
    format!("blobs/{}/{}", digest.algorithm(), digest.digest())
}

/// A path without `.`, and with `..` taken back.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::Normal(name) => plain.push(name),
            std::path::Component::ParentDir => drop(plain.pop()),
            _ => {}
        }
    }
    plain
}
