//! Images for the services of a Compose file: those that were given, those beside it, and those that the machine keeps.

use std::fs;
use std::path::{Path, PathBuf};

use compose::{Image, Wanted};
use engine::{ImageContents, ImageFile, as_root, image_reference};

use crate::failure::Failure;

/// The kinds of archives that other tools write before a path.
const KINDS: [&str; 2] = ["docker-archive:", "oci-archive:"];

/// Where images are looked for.
pub(super) struct Images {
    /// The folder of the Compose file, at which paths in an experiment begin.
    folder: PathBuf,
    /// Archives, each with what it says of itself.
    given: Vec<(PathBuf, ImageContents)>,
    /// Whether one that is nowhere is fetched.
    pull: bool,
}

impl Images {
    /// Looks into the archives that were given: files, or folders of files.
    pub fn new(file: &Path, given: &[String], pull: bool) -> Result<Images, Failure> {
        let parent = file.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let folder = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned());
        let mut archives = Vec::new();
        for path in given {
            let path = Path::new(KINDS.iter().find_map(|kind| path.strip_prefix(kind)).unwrap_or(path));
            let wrong = |e: std::io::Error| Failure::input(format!("--images {}: {e}", path.display()));
            let path = fs::canonicalize(path).map_err(wrong)?;
            if path.join("index.json").exists() {
                let what = "is the directory of a layout, which no node can have as its root: pack it by `tar -C DIR \
                            -cf NAME.tar .`, and give that";
                return Err(Failure::input(format!("--images {}: this {what}", path.display())));
            }
            match path.is_dir() {
                true => archives.extend(tars(&path).map_err(wrong)?),
                false => archives.push(path),
            }
        }
        let inspected = |path: PathBuf| Ok((path.clone(), as_root(|| ImageFile::Archive(path).contents())?));
        let given = archives.into_iter().map(inspected).collect::<Result<_, engine::Error>>()?;
        Ok(Images { folder, given, pull })
    }

    /// Looks for an image.
    pub fn find(&self, wanted: &Wanted<'_>) -> Result<Option<Image>, String> {
        if let Some((path, contents)) = self.given.iter().find(|(path, contents)| is_it(path, contents, wanted)) {
            let inside = path.strip_prefix(&self.folder).ok();
            return Ok(Some(image(inside.unwrap_or(path).display().to_string(), contents)));
        }
        if let Some(beside) = wanted.beside {
            let contents = ImageFile::Archive(self.folder.join(beside)).contents().map_err(|e| e.to_string())?;
            return Ok(Some(image(beside.into(), &contents)));
        }
        let kept = match engine::kept_image(wanted.reference) {
            Some(name) => name,
            None if self.pull => engine::pull_image(wanted.reference, None).map_err(|e| e.to_string())?.name,
            None => return Ok(None),
        };
        let contents = ImageFile::Kept(kept.clone()).contents().map_err(|e| e.to_string())?;
        Ok(Some(image(format!("image:{kept}"), &contents)))
    }

    /// The accounts of an image, by what an experiment writes for it.
    pub fn accounts(&self, root: &str) -> Result<(String, String), String> {
        let file = match root.strip_prefix("image:") {
            Some(name) => ImageFile::Kept(name.into()),
            None => ImageFile::Archive(self.folder.join(root)),
        };
        file.accounts().map_err(|e| e.to_string())
    }
}

/// The archives in a folder, by name.
fn tars(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = paths.collect::<std::io::Result<_>>()?;
    let mut tars: Vec<PathBuf> =
        paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == "tar") && path.is_file()).collect();
    tars.sort();
    Ok(tars)
}

/// Whether an archive has the image: by the name in it, or, where it says none, by the name of its file.
fn is_it(path: &Path, contents: &ImageContents, wanted: &Wanted<'_>) -> bool {
    let Ok(whole) = image_reference(wanted.reference) else { return false };
    let names = contents.names.iter().filter(|name| name.contains(['/', ':']));
    let mut names = names.filter_map(|name| image_reference(name).ok()).peekable();
    if names.peek().is_some() {
        return names.any(|name| name == whole);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let last = whole.rsplit('/').next().unwrap_or_default();
    let (name, tag) = last.split_once([':', '@']).unwrap_or((last, ""));
    stem == name || ["-", "_", ":"].iter().any(|between| stem == format!("{name}{between}{tag}"))
}

fn image(root: String, contents: &ImageContents) -> Image {
    Image {
        root,
        entrypoint: contents.entrypoint.clone(),
        command: contents.command.clone(),
        environment: contents.env.clone(),
        working_dir: contents.working_dir.clone(),
        user: contents.user.clone(),
        ports: contents.ports.clone(),
        stop_signal: contents.stop_signal.clone(),
    }
}
