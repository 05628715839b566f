//! The captures of a run: one file per link that asks for it, stamped in virtual time.

use std::path::PathBuf;

use model::Experiment;
use net::{Capture, CaptureFile, Emulator};

use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::rundir::RunDir;
use crate::timeline::Timeline;

/// What was recorded of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The link.
    pub link: String,
    /// The file, relative to the run directory.
    pub file: PathBuf,
    /// Frames in it.
    pub frames: u64,
    /// Frames that passed and are not in it: it could not be written fast enough.
    pub missed: u64,
}

/// The captures that go on during a run.
pub struct Captures {
    links: Vec<String>,
    capture: Option<Capture>,
}

impl Captures {
    /// Starts to record, at virtual zero.
    pub fn begin(
        experiment: &Experiment,
        plan: &Plan,
        emulator: &Emulator,
        dir: &RunDir,
        line: Timeline,
    ) -> Result<Captures> {
        let mut links = Vec::new();
        let mut files = Vec::new();
        for link in &experiment.links {
            let Some(snap) = link.capture else { continue };
            links.push(link.name.clone());
            files.push(CaptureFile {
                path: dir.path().join(record::RunDir::capture_file(&link.name)),
                pipes: plan.pipe_ids_of(&link.name),
                snap: usize::try_from(snap).unwrap_or(usize::MAX),
            });
        }
        if files.is_empty() {
            return Ok(Captures { links, capture: None });
        }
        dir.files().make_captures()?;
        let capture = emulator.capture(files, Box::new(move |at| line.date(at)))?;
        Ok(Captures { links, capture: Some(capture) })
    }

    /// Fails if nothing is being written any more: a run without what it was to record is of no use.
    pub fn check(&self) -> Result<()> {
        match self.capture.as_ref().and_then(Capture::failure) {
            Some(why) => Err(Error::Failed(why.to_string())),
            None => Ok(()),
        }
    }

    /// Writes what is left, and tells what the files hold.
    pub fn finish(self, emulator: &Emulator) -> Result<Vec<Recording>> {
        let Some(capture) = self.capture else { return Ok(Vec::new()) };
        let captured = capture.finish(emulator)?.into_iter();
        let recording = |(link, captured): (String, net::Captured)| Recording {
            file: record::RunDir::capture_file(&link),
            link,
            frames: captured.frames,
            missed: captured.missed,
        };
        Ok(self.links.into_iter().zip(captured).map(recording).collect())
    }
}
