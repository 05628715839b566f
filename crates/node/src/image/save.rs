//! Saving what a node has written as an image: the directory of an OCI layout, which other tools read, too.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flate2::Compression;
use flate2::write::GzEncoder;
use oci_spec::OciSpecError;
use oci_spec::image::{
    Descriptor, DescriptorBuilder, HistoryBuilder, ImageConfiguration, ImageIndexBuilder, ImageManifestBuilder,
    MediaType, OciLayoutBuilder, Sha256Digest,
};
use rustix::fs::{Mode, OFlags, openat};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::host::Host;
use super::source::Source;
use super::{MADE_ON, OVER, OVER_HOST};
use crate::error::{Context, Error};
use crate::layer::{self, Found, Part, Tree};
use crate::prepare::mounted_inside;

/// Files below a node's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The host's root: the image holds what is different from it, and can be used on such hosts only.
    Host,
    /// A directory: its files become the image's lowest layer.
    Directory(PathBuf),
    /// An image, as an archive or a layout: its layers become the lower ones of the new image.
    Image(PathBuf),
}

/// Description of an image in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Of what it was made.
    pub source: String,
}

/// Result of saving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The sum that names its manifest, and with it all that is in it: `sha256:…`.
    pub digest: String,
    /// How large it is, in bytes.
    pub bytes: u64,
    /// If it lies over a host's root, of which host.
    pub over: Option<Host>,
    /// Files that no image can hold, and why.
    pub left_out: Vec<String>,
    /// Files that changed while they were read.
    pub changed: Vec<PathBuf>,
}

/// Saves what a node has written into the directory `layout`, which must not exist. `writes` is the directory that
/// [`crate::Node::written`] gives. All is on the disk when this returns. `go_on` is asked again and again, and its
/// failure ends it.
///
/// # Errors
/// [`Error::Machine`] if there is no room; what has been written by then is left.
pub fn save(
    layout: &Path,
    base: &Base,
    writes: &OwnedFd,
    about: &About,
    go_on: &dyn Fn() -> io::Result<()>,
) -> Result<Saved, Error> {
    let (layers, diff_ids) = (Vec::new(), Vec::new());
    let mut image = New { layout, layers, diff_ids, copied: 0, found: Found::default(), go_on };
    let blobs = image.blobs();
    fs::create_dir_all(&blobs).map_err(|e| Error::file("make", &blobs, e))?;
    let mut notes = HashMap::new();
    let mut over = None;
    let config = match base {
        Base::Host => {
            let here = Host::here();
            notes.insert(OVER.to_string(), OVER_HOST.to_string());
            notes.insert(MADE_ON.to_string(), here.name().to_string());
            over = Some(here);
            ImageConfiguration::default()
        }
        Base::Directory(dir) => {
            let top = File::open(dir).map_err(|e| Error::file("open", dir, e))?;
            image.layer_of(&[(top.into(), PathBuf::new())], Tree::Whole)?;
            ImageConfiguration::default()
        }
        Base::Image(source) => {
            let (config, below) = image.copy_of(source)?;
            if below.contains_key(OVER) {
                over = below.get(MADE_ON).map(|name| Host::named(name));
            }
            notes.extend(below);
            config
        }
    };
    image.layer_of(&trees(writes)?, Tree::Changes)?;
    notes.insert("org.opencontainers.image.ref.name".into(), about.name.clone());
    let digest = image.finish(config, notes, about)?;
    let bytes = fs::read_dir(&blobs).and_then(|mut all| all.try_fold(0, |sum, e| Ok(sum + e?.metadata()?.len())));
    let bytes = bytes.map_err(|e| Error::file("read", &blobs, e))?;
    File::open(layout).and_then(|dir| Ok(rustix::fs::syncfs(dir)?)).map_err(|e| Error::file("write out", layout, e))?;
    let Found { left_out, changed } = image.found;
    Ok(Saved { digest, bytes, over, left_out, changed })
}

/// The trees of what a node has written: its root, and what it has over file systems that the host mounts below it.
fn trees(writes: &OwnedFd) -> Result<Vec<(OwnedFd, PathBuf)>, Error> {
    let open = |name: &Path| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(writes, name, flags, Mode::empty()).context(|| "cannot open what the node has written".into())
    };
    let mut trees = vec![(open(Path::new("upper"))?, PathBuf::new())];
    let names = rustix::fs::Dir::read_from(writes).and_then(|dir| dir.collect::<Result<Vec<_>, _>>());
    let names = names.context(|| "cannot read what the node has written".into())?;
    let mut more: Vec<_> = names.iter().filter_map(|e| Some((e.file_name(), mounted_inside(e.file_name())?))).collect();
    more.sort();
    for (name, place) in more {
        let dir = Path::new(std::ffi::OsStr::new(name.to_str().unwrap_or_default()));
        trees.push((open(&dir.join("upper"))?, place));
    }
    Ok(trees)
}

/// An image that is being written.
struct New<'a> {
    layout: &'a Path,
    layers: Vec<Descriptor>,
    diff_ids: Vec<String>,
    /// How many of the layers are those of another image.
    copied: usize,
    found: Found,
    go_on: &'a dyn Fn() -> io::Result<()>,
}

impl New<'_> {
    fn blobs(&self) -> PathBuf {
        self.layout.join("blobs/sha256")
    }

    /// Adds a layer of trees of files.
    fn layer_of(&mut self, trees: &[(OwnedFd, PathBuf)], tree: Tree) -> Result<(), Error> {
        let part = self.layout.join("layer.part");
        let failed = |e: io::Error| Error::file("write", &part, e);
        let file = Asking { inner: File::create(&part).map_err(failed)?, go_on: self.go_on };
        let file = BufWriter::with_capacity(1 << 16, file);
        let mut content = Summed::of(GzEncoder::new(Summed::of(file), Compression::fast()));
        layer::collect(trees, tree, &mut content, &mut self.found).map_err(|(at, e)| match e.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => failed(e),
            _ => Error::system(format!("cannot put /{} into the image", at.display()), e),
        })?;
        let (compressed, diff_id, _) = content.end();
        let (mut file, digest, size) = compressed.finish().map_err(failed)?.end();
        file.flush().map_err(failed)?;
        let blob = self.blobs().join(&digest);
        fs::rename(&part, &blob).map_err(|e| Error::file("name", &blob, e))?;
        self.add(MediaType::ImageLayerGzip, &digest, size, format!("sha256:{diff_id}"))
    }

    /// Adds the layers of another image; its configuration, and what its manifest notes.
    fn copy_of(&mut self, source: &Path) -> Result<(ImageConfiguration, HashMap<String, String>), Error> {
        let wrong = |why: String| Error::Input(format!("the image {}: {why}", source.display()));
        let mut from = Source::open(source).map_err(wrong)?;
        let parts = from.image().map_err(wrong)?;
        let config = from.config(&parts).map_err(wrong)?;
        let diff_ids = config.rootfs().diff_ids();
        if diff_ids.len() != parts.layers.len() {
            let (layers, sums) = (parts.layers.len(), diff_ids.len());
            return Err(wrong(format!("has {layers} layers, and the sums of {sums}")));
        }
        for (name, diff_id) in parts.layers.iter().zip(diff_ids) {
            let part = from.find(name).map_err(wrong)?;
            let (kind, digest, size) = self.copy(&part, from.file_of(name).as_deref())?;
            self.add(kind, &digest, size, diff_id.clone())?;
        }
        self.copied = self.layers.len();
        Ok((config, parts.notes))
    }

    /// Copies a layer, or gives its file a second name; its kind, its sum and its length.
    fn copy(&self, part: &Part, file: Option<&Path>) -> Result<(MediaType, String, u64), Error> {
        let failed = |e: io::Error| Error::file("copy a layer into", self.layout, e);
        let mut from = &part.file;
        let mut magic = [0; 2];
        from.seek(SeekFrom::Start(part.start)).map_err(failed)?;
        let read = from.take(part.length).read(&mut magic).map_err(failed)?;
        let kind = if magic[..read] == [0x1f, 0x8b] { MediaType::ImageLayerGzip } else { MediaType::ImageLayer };
        from.seek(SeekFrom::Start(part.start)).map_err(failed)?;
        // Content of an image is never changed, so it may lie in several.
        let own = self.layout.join("layer.part");
        let linked = file.is_some_and(|file| fs::hard_link(file, &own).is_ok());
        let sum = match linked {
            true => Box::new(io::sink()) as Box<dyn Write>,
            false => Box::new(File::create(&own).map_err(failed)?) as Box<dyn Write>,
        };
        let mut sum = Summed::of(Asking { inner: sum, go_on: self.go_on });
        io::copy(&mut from.take(part.length), &mut sum).map_err(failed)?;
        let (_, digest, size) = sum.end();
        fs::rename(&own, self.blobs().join(&digest)).map_err(failed)?;
        Ok((kind, digest, size))
    }

    fn add(&mut self, kind: MediaType, digest: &str, size: u64, diff_id: String) -> Result<(), Error> {
        self.layers.push(descriptor(kind, digest, size, None)?);
        self.diff_ids.push(diff_id);
        Ok(())
    }

    /// Writes what says which layers there are; the sum of the manifest.
    fn finish(
        &self,
        mut config: ImageConfiguration,
        notes: HashMap<String, String>,
        about: &About,
    ) -> Result<String, Error> {
        let made = HistoryBuilder::default().created_by(format!("diorama image save: {}", about.source)).build();
        let made = made.map_err(unwritten)?;
        // Either each layer has its line there, or none has.
        let earlier = config.history().clone().unwrap_or_default();
        let told = earlier.iter().filter(|line| line.empty_layer() != Some(true)).count();
        let own = std::iter::repeat_n(made, self.layers.len() - self.copied);
        config.set_history((told == self.copied).then(|| earlier.into_iter().chain(own).collect()));
        config.rootfs_mut().set_diff_ids(self.diff_ids.clone());
        let (digest, size) = self.json(&config)?;
        let manifest = ImageManifestBuilder::default()
            .schema_version(2u32)
            .media_type(MediaType::ImageManifest)
            .config(descriptor(MediaType::ImageConfig, &digest, size, None)?)
            .layers(self.layers.clone())
            .annotations(notes)
            .build();
        // In one order, so that the same files have the same sum.
        let (digest, size) = self.json(&ordered(&manifest.map_err(unwritten)?)?)?;
        let name = HashMap::from([("org.opencontainers.image.ref.name".to_string(), about.name.clone())]);
        let index = ImageIndexBuilder::default()
            .schema_version(2u32)
            .media_type(MediaType::ImageIndex)
            .manifests([descriptor(MediaType::ImageManifest, &digest, size, Some(name))?])
            .build();
        self.file("index.json", &index.map_err(unwritten)?)?;
        let layout = OciLayoutBuilder::default().image_layout_version("1.0.0").build();
        self.file("oci-layout", &layout.map_err(unwritten)?)?;
        Ok(format!("sha256:{digest}"))
    }

    /// Writes a part in JSON; its sum and length.
    fn json(&self, what: &impl Serialize) -> Result<(String, u64), Error> {
        let text = serde_json::to_vec(what).map_err(io::Error::from).context(|| "cannot describe an image".into())?;
        let digest = hex(&Sha256::digest(&text));
        let path = self.blobs().join(&digest);
        fs::write(&path, &text).map_err(|e| Error::file("write", &path, e))?;
        Ok((digest, text.len() as u64))
    }

    fn file(&self, name: &str, what: &impl Serialize) -> Result<(), Error> {
        let path = self.layout.join(name);
        let text = serde_json::to_vec(what).map_err(io::Error::from).context(|| "cannot describe an image".into())?;
        fs::write(&path, text).map_err(|e| Error::file("write", &path, e))
    }
}

/// A value as JSON whose maps are in the order of their keys.
fn ordered(what: &impl Serialize) -> Result<serde_json::Value, Error> {
    fn sorted(value: serde_json::Value) -> serde_json::Value {
        match value {
            serde_json::Value::Object(map) => {
                let map: BTreeMap<_, _> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
                serde_json::Value::Object(map.into_iter().collect())
            }
            serde_json::Value::Array(all) => all.into_iter().map(sorted).collect(),
            other => other,
        }
    }
    let value = serde_json::to_value(what).map_err(io::Error::from).context(|| "cannot describe an image".into())?;
    Ok(sorted(value))
}

fn descriptor(
    kind: MediaType,
    digest: &str,
    size: u64,
    notes: Option<HashMap<String, String>>,
) -> Result<Descriptor, Error> {
    let digest = Sha256Digest::from_str(digest).map_err(unwritten)?;
    let new = DescriptorBuilder::default().media_type(kind).digest(digest).size(size);
    let new = match notes {
        Some(notes) => new.annotations(notes),
        None => new,
    };
    new.build().map_err(unwritten)
}

fn unwritten(error: OciSpecError) -> Error {
    Error::system("cannot describe an image", io::Error::other(error.to_string()))
}

/// A writer that keeps the sum and length of what goes through it.
struct Summed<W> {
    inner: W,
    sum: Sha256,
    length: u64,
}

impl<W> Summed<W> {
    fn of(inner: W) -> Summed<W> {
        Summed { inner, sum: Sha256::new(), length: 0 }
    }

    fn end(self) -> (W, String, u64) {
        (self.inner, hex(&self.sum.finalize()), self.length)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A writer that asks at each piece whether it is to go on.
struct Asking<'a, W> {
    inner: W,
    go_on: &'a dyn Fn() -> io::Result<()>,
}

impl<W: Write> Write for Asking<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.go_on)()?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
