//! Capture: every frame that enters certain pipes, in pcapng files.
//!
//! The emulator's thread only copies: into a ring without locks and of fixed size ([`Sniffer`]). An ordinary thread
//! takes the records out and writes them ([`file`]). If that thread cannot keep up, the ring fills, and frames pass
//! that are not recorded; they are counted, in the file and in the report. The network never waits for a file.

mod file;

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtrb::{Consumer, RingBuffer};
use scale::RealInstant;
use serde::{Deserialize, Serialize};

use self::file::PacketFile;
use crate::Error;
use crate::links::ids::PipeId;
use crate::links::sniffer::{HEADER, Header, Sniffer};

/// The ring, in bytes: half a second of what one thread forwards, cut to 128 bytes a frame, or of 500 Mbit/s in full.
const RING: usize = 32 << 20;
/// No frame is longer, in bytes: a record has 16 bits for its length.
const LONGEST: usize = u16::MAX as usize;
/// How long the writer sleeps when it has found nothing. A wake-up would cost the emulator's thread a system call.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a frame may stay in the writer's memory, so that a file can be looked at while it grows.
const FLUSH: Duration = Duration::from_secs(1);
const BUFFER: usize = 1 << 18;

/// The date that a frame seen at an instant bears, in nanoseconds since 1970.
pub type Stamp = Box<dyn Fn(RealInstant) -> u64 + Send>;

/// A file to be written.
#[derive(Debug)]
pub struct CaptureFile {
    /// Its name when it is spoken of.
    pub path: PathBuf,
    /// The file, which is empty.
    pub file: File,
    /// The pipes that it records, each as an interface of its own.
    pub pipes: Vec<PipeId>,
    /// How many bytes of each frame it keeps.
    pub snap: usize,
}

/// Content of a file at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Where it is.
    pub path: PathBuf,
    /// Frames in it.
    pub frames: u64,
    /// Frames that passed and are not in it, because it could not be written fast enough.
    pub missed: u64,
}

/// A capture that is going on. Dropped without [`finish`](Capture::finish), it ends with the emulator.
#[derive(Debug)]
pub struct Capture {
    failure: Arc<OnceLock<Error>>,
    thread: JoinHandle<Vec<Captured>>,
}

impl Capture {
    /// Makes the files, and what goes into the emulator's thread.
    pub(crate) fn start(
        files: Vec<CaptureFile>,
        pipe_names: &[String],
        stamp: Stamp,
    ) -> Result<(Capture, Sniffer), Error> {
        let mut snaps = vec![None; pipe_names.len()];
        let mut places = vec![(0, 0); pipe_names.len()];
        let missed: Arc<Vec<AtomicU64>> = Arc::new(pipe_names.iter().map(|_| AtomicU64::new(0)).collect());
        let mut outs = Vec::new();
        for file in files {
            let snap = file.snap.min(LONGEST);
            for (interface, pipe) in file.pipes.iter().enumerate() {
                snaps[pipe.index()] = Some(snap as u16);
                places[pipe.index()] = (outs.len(), interface as u32);
            }
            let names: Vec<&str> = file.pipes.iter().map(|p| pipe_names[p.index()].as_str()).collect();
            let written = PacketFile::new(BufWriter::with_capacity(BUFFER, file.file), &names, snap);
            let packets = written.map_err(Error::system(format!("{}: cannot write", file.path.display())))?;
            outs.push(Out { path: file.path, pipes: file.pipes, packets, frames: 0 });
        }
        let (mut producer, mut consumer) = RingBuffer::new(RING);
        touch(&mut producer, &mut consumer);
        let failure = Arc::new(OnceLock::new());
        let mut writer = Writer { outs, places, consumer, stamp, missed: missed.clone() };
        let told = failure.clone();
        let body = move || {
            if let Err(e) = writer.write_all() {
                drop(told.set(e));
            }
            writer.report()
        };
        let thread = thread::Builder::new().name("capture".into()).spawn(body);
        let thread = thread.map_err(Error::system("cannot start the thread that writes captures"))?;
        Ok((Capture { failure, thread }, Sniffer::new(producer, snaps, missed)))
    }

    /// Why nothing is being written any more, if so.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Waits until all is written that was recorded, once the emulator records no more; what the files came to hold.
    pub(crate) fn join(self) -> Result<Vec<Captured>, Error> {
        let captured = self.thread.join().map_err(|_| Error::Died("the thread that writes captures".into()))?;
        match Arc::into_inner(self.failure).and_then(OnceLock::into_inner) {
            Some(failure) => Err(failure),
            None => Ok(captured),
        }
    }
}

/// Has the kernel supply the ring's memory now, and not page by page to the emulator's thread.
fn touch(producer: &mut rtrb::Producer<u8>, consumer: &mut Consumer<u8>) {
    if let Ok(all) = producer.write_chunk(RING) {
        all.commit_all();
    }
    if let Ok(all) = consumer.read_chunk(RING) {
        all.commit_all();
    }
}

/// The writing thread's side.
struct Writer {
    outs: Vec<Out>,
    /// By pipe: its file, and its interface there.
    places: Vec<(usize, u32)>,
    consumer: Consumer<u8>,
    stamp: Stamp,
    missed: Arc<Vec<AtomicU64>>,
}

struct Out {
    path: PathBuf,
    pipes: Vec<PipeId>,
    packets: PacketFile<BufWriter<File>>,
    frames: u64,
}

impl Out {
    fn missed(&self, missed: &[AtomicU64]) -> u64 {
        self.pipes.iter().map(|p| missed[p.index()].load(Ordering::Relaxed)).sum()
    }
}

impl Writer {
    /// Writes until the emulator's side has ended and everything is written.
    fn write_all(&mut self) -> Result<(), Error> {
        let mut flushed = Instant::now();
        loop {
            // Asked before the ring is emptied: what was recorded before the end must not be missed.
            let ended = self.consumer.is_abandoned();
            self.empty()?;
            if ended {
                return self.close();
            }
            if flushed.elapsed() >= FLUSH {
                self.outs.iter_mut().try_for_each(|out| out.packets.flush().map_err(cannot_write(&out.path)))?;
                flushed = Instant::now();
            }
            thread::sleep(PAUSE);
        }
    }

    fn empty(&mut self) -> Result<(), Error> {
        let mut data = [0; LONGEST];
        loop {
            let mut header = [0; HEADER];
            if self.consumer.pop_entire_slice(&mut header).is_err() {
                return Ok(());
            }
            let header = Header::from_bytes(header);
            let data = &mut data[..usize::from(header.kept)];
            // A record is handed over as a whole, so its frame is there.
            self.consumer.pop_entire_slice(data).expect("a record holds its frame");
            let (out, interface) = self.places[header.pipe as usize];
            let out = &mut self.outs[out];
            let date = (self.stamp)(RealInstant::from_nanos(header.at));
            out.packets.packet(interface, date, &header, data).map_err(cannot_write(&out.path))?;
            out.frames += 1;
        }
    }

    fn close(&mut self) -> Result<(), Error> {
        for out in &mut self.outs {
            let missed = out.pipes.iter().map(|p| self.missed[p.index()].load(Ordering::Relaxed));
            out.packets.close(missed).map_err(cannot_write(&out.path))?;
        }
        Ok(())
    }

    fn report(self) -> Vec<Captured> {
        let missed = &self.missed;
        let captured =
            self.outs.iter().map(|o| Captured { path: o.path.clone(), frames: o.frames, missed: o.missed(missed) });
        captured.collect()
    }
}

fn cannot_write(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
    Error::system(format!("{}: cannot write", path.display()))
}
