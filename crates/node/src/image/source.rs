//! Where an image is read from: the tar file of an OCI layout or of `docker save`, or the directory of a layout.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use host::beneath::{self, Dir};
use host::rights::Rights;
use oci_spec::image::{Arch, Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType};
use serde::Deserialize;

use crate::layer::{Counted, Headers, Part};

/// The most layers of an image; other tools take 127.
const LAYERS: usize = 512;
/// The most parts of an archive.
const PARTS: usize = 100_000;
/// Separator between two parts of an archive: names, in bytes; and what is kept of all of them.
const NAMES: u64 = 1 << 20;
const ALL_NAMES: usize = 8 << 20;

/// An image as `docker save` describes it.
#[derive(Deserialize)]
struct ManifestEntry {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
    #[serde(rename = "RepoTags")]
    names: Option<Vec<String>>,
}

/// The names of the parts of one image.
pub(super) struct Image {
    pub(super) config: String,
    /// The lowest first.
    pub(super) layers: Vec<String>,
    /// The annotations of its manifest.
    pub(super) notes: HashMap<String, String>,
    /// How whoever packed it called it.
    pub(super) names: Vec<String>,
    /// The sum of its manifest.
    pub(super) digest: Option<String>,
}

/// Kinds of files that hold an image.
pub(super) enum Source {
    /// A tar file whose members can be read in any order: where the content of each begins, and its length in bytes.
    Archive { file: File, members: HashMap<PathBuf, (u64, u64)> },
    /// The directory of a layout.
    Layout { dir: Dir, path: PathBuf },
}

impl Source {
    /// Opens an archive, or a layout. The error is what is wrong with it.
    pub(super) fn open(path: &Path) -> Result<Source, String> {
        let rights = Rights::of_caller(path);
        let file = match Dir::open(path) {
            Ok(dir) => return Ok(Source::Layout { dir, path: path.to_owned() }),
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                beneath::open_file(path).map_err(|e| e.to_string())?
            }
            Err(e) => return Err(e.to_string()),
        };
        drop(rights);
        let members = index(&file).map_err(|e| format!("is not a tar file of an image: {e}"))?;
        Ok(Source::Archive { file, members })
    }

    /// Parts of its one image (for this processor).
    pub(super) fn image(&mut self) -> Result<Image, String> {
        if self.has("index.json") {
            let index: ImageIndex = self.json("index.json")?;
            return self.choose(&index, 3);
        }
        if !self.has("manifest.json") {
            return Err("has neither an index.json (OCI) nor a manifest.json (docker save)".into());
        }
        let images: Vec<ManifestEntry> = self.json("manifest.json")?;
        let Some(ManifestEntry { config, layers, names }) = images.into_iter().next() else {
            return Err("its manifest.json names no configuration and layers".into());
        };
        check_layers(layers.len())?;
        Ok(Image { config, layers, notes: HashMap::new(), names: names.unwrap_or_default(), digest: None })
    }

    /// Its configuration.
    pub(super) fn config(&mut self, image: &Image) -> Result<ImageConfiguration, String> {
        self.json(&image.config)
    }

    /// The image of an index, which may point to further ones, `depth` times.
    fn choose(&mut self, index: &ImageIndex, depth: usize) -> Result<Image, String> {
        let fits = |d: &&Descriptor| d.platform().as_ref().is_none_or(|p| *p.architecture() == Arch::Amd64);
        let chosen = index.manifests().iter().find(fits).ok_or("has no image for x86-64 (amd64)")?;
        let name = blob(chosen);
        if *chosen.media_type() == MediaType::ImageIndex {
            let index: ImageIndex = self.json(&name)?;
            let image = self.choose(&index, depth.checked_sub(1).ok_or("its indexes point to one another")?)?;
            return Ok(Image { names: names_of(chosen).into_iter().chain(image.names).collect(), ..image });
        }
        let manifest: ImageManifest = self.json(&name)?;
        let notes = manifest.annotations().clone().unwrap_or_default();
        check_layers(manifest.layers().len())?;
        let layers = manifest.layers().iter().map(blob).collect();
        let digest = Some(chosen.digest().to_string());
        Ok(Image { config: blob(manifest.config()), layers, notes, names: names_of(chosen), digest })
    }

    fn json<T: serde::de::DeserializeOwned>(&mut self, name: &str) -> Result<T, String> {
        /// More than any manifest has, and little enough to read whole: an empty text in a list takes ten times as much
        /// memory.
        const LARGEST: u64 = 2 << 20;
        let mut part = self.find(name)?;
        part.file.seek(SeekFrom::Start(part.start)).map_err(|e| e.to_string())?;
        let text = part.file.take(part.length.min(LARGEST));
        serde_json::from_reader(io::BufReader::new(text)).map_err(|e| format!("its {name} cannot be read: {e}"))
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Source::Archive { members, .. } => members.contains_key(Path::new(name)),
            Source::Layout { dir, .. } => dir.read(Path::new(name)).is_ok(),
        }
    }

    /// One of its parts.
    pub(super) fn find(&self, name: &str) -> Result<Part, String> {
        let lacks = || format!("lacks its part {name}");
        match self {
            Source::Archive { file, members } => {
                let (start, length) = members.get(&plain(Path::new(name))).copied().ok_or_else(lacks)?;
                Ok(Part { file: file.try_clone().map_err(|e| e.to_string())?, start, length })
            }
            Source::Layout { dir, .. } => {
                let file = dir.read(&plain(Path::new(name))).map_err(|e| format!("{}: {e}", lacks()))?;
                let length = file.metadata().map_err(|e| e.to_string())?.len();
                Ok(Part { file, start: 0, length })
            }
        }
    }

    /// Where a part has a file of its own, that file.
    pub(super) fn file_of(&self, name: &str) -> Option<PathBuf> {
        match self {
            Source::Archive { .. } => None,
            Source::Layout { path, .. } => Some(path.join(plain(Path::new(name)))),
        }
    }
}

fn index(file: &File) -> io::Result<HashMap<PathBuf, (u64, u64)>> {
    let mut members = HashMap::new();
    let (mut links, mut long) = (Vec::new(), 0);
    // Contents are passed over without being read.
    let headers = Headers::new(NAMES.into());
    let mut tar = tar::Archive::new(Counted { from: file, left: headers.clone() });
    for entry in tar.entries_with_seek()? {
        let entry = entry?;
        headers.set(NAMES);
        if members.len() + links.len() >= PARTS {
            return Err(io::Error::other("it has more than 100,000 parts"));
        }
        let name = plain(&entry.path()?);
        let target = entry.link_name()?.map(|target| plain(&name.parent().unwrap_or(Path::new("")).join(target)));
        long += [Some(&name), target.as_ref()].into_iter().flatten().map(|path| path.as_os_str().len()).sum::<usize>();
        if long > ALL_NAMES {
            return Err(io::Error::other("the names of its parts are longer than 8 MiB"));
        }
        match target {
            // `docker save` of old stored equal layers once, with links from the other places.
            Some(target) => links.push((name, target)),
            None => drop(members.insert(name, (entry.raw_file_position(), entry.size()))),
        }
    }
    for (name, target) in links {
        if let Some(place) = members.get(&target).copied() {
            members.insert(name, place);
        }
    }
    Ok(members)
}

fn check_layers(count: usize) -> Result<(), String> {
    if count <= LAYERS { Ok(()) } else { Err(format!("has {count} layers, and {LAYERS} are the most")) }
}

/// How an index calls one of its images: `docker save` and containerd write the whole name, others the tag alone.
fn names_of(descriptor: &Descriptor) -> Vec<String> {
    let notes = descriptor.annotations().iter().flatten();
    let keys = ["containerd.image.name", "opencontainers.image.ref.name"];
    let mut names: Vec<(usize, String)> = Vec::new();
    for (key, name) in notes {
        names.extend(keys.iter().position(|known| key.ends_with(known)).map(|place| (place, name.clone())));
    }
    names.sort();
    names.into_iter().map(|(_, name)| name).collect()
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
