//! The captures of a run: one file per link that asks for it, stamped in virtual time.

use net::{Capture, CaptureFile};
use record::RunDir;
use site::{CaptureSetup, Recording, Timeline};

use super::network::Network;
use crate::error::{Error, Result};

/// The captures that go on during a run.
pub struct Captures {
    links: Vec<String>,
    capture: Option<Capture>,
}

impl Captures {
    /// Starts to record, at virtual zero.
    pub fn begin(wanted: &[CaptureSetup], network: &Network, results: &RunDir, timeline: Timeline) -> Result<Captures> {
        let links = wanted.iter().map(|c| c.link.clone()).collect();
        if wanted.is_empty() {
            return Ok(Captures { links, capture: None });
        }
        results.make_captures()?;
        let file = |c: &CaptureSetup| -> Result<CaptureFile> {
            Ok(CaptureFile {
                path: results.path().join(RunDir::capture_file(&c.link)),
                file: results.make_capture(&c.link)?,
                pipes: c.pipes.iter().map(|name| network.pipe(name)).collect::<Result<_>>()?,
                snap: c.snap,
            })
        };
        let files = wanted.iter().map(file).collect::<Result<_>>()?;
        let capture = network.emulator().capture(files, Box::new(move |at| timeline.date(at)))?;
        Ok(Captures { links, capture: Some(capture) })
    }

    /// Fails if nothing is being written any more: a run without what it was to record is of no use.
    pub fn check(&self) -> Result<()> {
        match self.capture.as_ref().and_then(Capture::failure) {
            Some(why) => Err(Error::SiteLost(why.to_string())),
            None => Ok(()),
        }
    }

    /// Writes what is left, and tells what the files hold.
    pub fn finish(self, network: &Network) -> Result<Vec<Recording>> {
        let Some(capture) = self.capture else { return Ok(Vec::new()) };
        let captured = capture.finish(network.emulator())?.into_iter();
        let recording = |(link, captured): (String, net::Captured)| Recording {
            file: RunDir::capture_file(&link),
            link,
            frames: captured.frames,
            missed: captured.missed,
        };
        Ok(self.links.into_iter().zip(captured).map(recording).collect())
    }
}
