//! Threads that work beside a run.

use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// A thread that goes on until this is dropped, and has ended then.
pub struct Background {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts one. It is to end when the channel does that `stop` sends to.
    pub fn start(name: &str, stop: Sender<()>, work: impl FnOnce() + Send + 'static) -> Result<Background> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(work).map_err(Error::io("a thread"))?;
        Ok(Background { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It holds nothing that its panic could leave half done.
            drop(thread.join());
        }
    }
}
