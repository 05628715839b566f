//! Of which run, and over what, the files are that become an image.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use record::Variant;
use site::{Base, Root, Source};

use super::{LAYOUT, share};
use crate::control::{self, ExecReply, NodeRequest};
use crate::error::{Error, Result};
use crate::live::{LiveRun, control_socket_of};
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

/// Which run it is.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) experiment: String,
    pub(super) variant: String,
    pub(super) run: PathBuf,
}

/// A node's files, ready to be read.
pub(super) struct Opened {
    pub(super) origin: Origin,
    pub(super) base: node::Base,
    pub(super) written: OwnedFd,
    /// Locks that keep them where they are.
    _held: (Option<Files>, Option<File>),
}

impl ImageSource {
    /// The run that the user means: a live one, as for `exec`, or one that was put aside, as for `swap in`.
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
                 --keep` leaves nodes running), or put it aside first (`diorama swap out`)"
            ))),
            Err(e) => Err(e),
        }
    }

    pub(super) fn open(&self, node: &str) -> Result<Opened> {
        let (origin, base, written, files) = match self {
            ImageSource::Live(run) => {
                let (base, written) = ask(run, node)?;
                let (experiment, variant) = (run.name.clone(), run.variant.clone());
                (Origin { experiment, variant, run: run.out.clone() }, base, written, None)
            }
            ImageSource::Suspended(id) => aside(id, node)?,
        };
        let (base, image) = match base {
            Base::Host => (node::Base::Host, None),
            Base::Directory(dir) => (node::Base::Directory(dir), None),
            Base::Archive(file) => (node::Base::Image(file), None),
            Base::Image(name) => {
                let (dir, lock) = share(&name)?;
                (node::Base::Image(dir.join(LAYOUT)), Some(lock))
            }
        };
        Ok(Opened { origin, base, written, _held: (files, image) })
    }
}

/// Asks a live run for what a node of it has written.
fn ask(run: &LiveRun, node: &str) -> Result<(Base, OwnedFd)> {
    let path = control_socket_of(run);
    let gone = |source: std::io::Error| {
        let what = format!("run {}: cannot reach it at {}", run.name, path.display());
        Error::Io { what, source }
    };
    let socket = control::connect_to(&path).map_err(gone)?;
    control::send_message(&socket, &NodeRequest::Written { node: node.into() }).map_err(gone)?;
    match control::receive_message::<ExecReply>(&socket).map_err(gone)? {
        Some((ExecReply::Written(base), fds)) => match <[OwnedFd; 1]>::try_from(fds) {
            Ok([written]) => Ok((base, written)),
            Err(_) => Err(Error::SiteLost(format!("run {} does not show the files of {node}", run.name))),
        },
        Some((ExecReply::Refused(told), _)) => Err(Error::Reported(told)),
        Some((ExecReply::Exit(_), _)) | None => {
            Err(Error::SiteLost(format!("run {} ended before it showed the files of {node}", run.name)))
        }
    }
}

/// Files of a node whose run is suspended.
fn aside(which: &str, node: &str) -> Result<(Origin, Base, OwnedFd, Option<Files>)> {
    let (found, files) = take_suspended(which)?;
    let aside = found.run;
    let experiment = read_experiment(&aside)?;
    let Some(of) = experiment.nodes.iter().find(|n| n.name == node) else {
        let known = experiment.nodes.iter().map(|n| n.name.clone()).collect();
        return Err(Error::NoSuchNode { name: node.into(), known });
    };
    if experiment.machines[of.machine].disk.is_some() {
        let what = format!(
            "the files of {node} are on a disk of its own, which nobody has mounted: go on with the run (`diorama swap \
             in {}`), and save them while it lives",
            aside.id
        );
        return Err(Error::Usage(what));
    }
    let dir: &Path = &files.nodes().join(node);
    let written = File::open(dir).map_err(Error::file(dir, "open"))?;
    let origin = Origin { experiment: aside.name, variant: Variant::Scaled.to_string(), run: aside.out };
    Ok((origin, base_of_node(of), written.into(), Some(files)))
}
