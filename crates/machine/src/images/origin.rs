//! Of which run, and over what, the files are that become an image.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use record::Variant;
use site::{Base, KeptAbout, Origin, Root, Source, Told};

use super::{LAYOUT, share};
use crate::control::{self, VisitRequest, VisitWish};
use crate::error::{Error, Result};
use crate::live::LiveRun;
use crate::logs::find_live;
use crate::suspended::{Files, read_experiment, suspended_runs, take_suspended};

/// The base of a root, with `here` to find what the experiment names.
pub(crate) fn base_of(root: &Root, here: impl Fn(&Source) -> PathBuf) -> Base {
    match root {
        Root::Host => Base::Host,
        Root::Directory(dir) => Base::Directory(here(dir)),
        Root::OciArchive(file) => Base::Archive(here(file)),
        Root::Image(name) => Base::Image(name.clone()),
    }
}

/// The root of a node of an experiment on this machine.
fn base_of_node(node: &model::Node) -> Base {
    match &node.root {
        model::Root::Host => Base::Host,
        model::Root::Directory(dir) => Base::Directory(dir.clone()),
        model::Root::OciArchive(file) => Base::Archive(file.clone()),
        model::Root::Image(name) => Base::Image(name.clone()),
    }
}

/// A run whose nodes' files are there.
#[derive(Debug)]
pub enum ImageSource {
    /// It lives.
    Live(LiveRun),
    /// It is suspended.
    Suspended(String),
}

/// A suspended node's files, ready to be read, and the lock that keeps them where they are.
pub(super) struct Opened {
    pub(super) origin: Origin,
    pub(super) base: Base,
    pub(super) written: OwnedFd,
    pub(super) _held: Files,
}

impl ImageSource {
    /// The run that the user means: a live one, as for `exec`, or one that was suspended, as for `swap in`.
    ///
    /// # Errors
    ///
    /// If there is none, with what becomes of the files of a run that has ended.
    pub fn find(run: &str) -> Result<ImageSource> {
        if suspended_runs().iter().any(|listed| listed.run.id == run) {
            return Ok(ImageSource::Suspended(run.into()));
        }
        match find_live(run) {
            Ok(live) => Ok(ImageSource::Live(live)),
            Err(_) if suspended_runs().iter().any(|listed| listed.run.name == run) => {
                Ok(ImageSource::Suspended(run.into()))
            }
            Err(_) if record::RunDir::at(run).has_logs() => Err(Error::Usage(format!(
                "`{run}` has ended, and with it its nodes' files are gone: save them while it lives (`diorama run \
                 --keep` leaves nodes running), or suspend it first (`diorama swap out`)"
            ))),
            Err(e) => Err(e),
        }
    }
}

/// The files below a node's own, and the lock of an image that they are of.
pub(super) fn base_to_read(base: Base) -> Result<(node::Base, Option<File>)> {
    Ok(match base {
        Base::Host => (node::Base::Host, None),
        Base::Directory(dir) => (node::Base::Directory(dir), None),
        Base::Archive(file) => (node::Base::Image(file), None),
        Base::Image(name) => {
            let (dir, lock) = share(&name)?;
            (node::Base::Image(dir.join(LAYOUT)), Some(lock))
        }
    })
}

/// Has a live run keep what a node of it has written.
pub(super) fn save_live(run: &LiveRun, node: &str, name: &str) -> Result<KeptAbout> {
    let request = VisitRequest { node: node.into(), wish: VisitWish::Save { image: name.into() } };
    let socket = control::visit(run, &request)?;
    match control::receive_message::<Told>(&socket).map_err(|e| Error::unreachable(run, e))? {
        Some(Told::Saved(about)) => Ok(*about),
        Some(Told::Refused(told)) => Err(Error::Reported(told)),
        _ => Err(Error::SiteLost(format!("run {} ended before the files of {node} were saved", run.name))),
    }
}

/// Files of a node whose run is suspended.
pub(super) fn open_suspended(which: &str, node: &str) -> Result<Opened> {
    let (found, files) = take_suspended(which)?;
    let suspended = found.run;
    let experiment = read_experiment(&suspended)?;
    let Some(of) = experiment.nodes.iter().find(|n| n.name == node) else {
        let known = experiment.nodes.iter().map(|n| n.name.clone()).collect();
        return Err(Error::NoSuchNode { name: node.into(), known });
    };
    if experiment.machines[of.machine].disk.is_some() {
        let what = format!(
            "the files of {node} are on a disk of its own, which nobody has mounted: go on with the run (`diorama swap \
             in {}`), and save them while it lives",
            suspended.id
        );
        return Err(Error::Usage(what));
    }
    let dir: &Path = &files.nodes().join(node);
    let written = File::open(dir).map_err(Error::file(dir, "open"))?;
    let versions =
        record::RunDir::at(&suspended.out).plan().ok().flatten().map(|plan| plan.versions).unwrap_or_default();
    let origin =
        Origin { experiment: suspended.name, variant: Variant::Scaled.to_string(), run: suspended.out, versions };
    Ok(Opened { origin, base: base_of_node(of), written: written.into(), _held: files })
}
