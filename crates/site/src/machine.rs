//! A machine before there is a run on it: what a coordinator asks, and its answers over a byte stream.
//!
//! [`serve_machine`] stands where the machine is, [`RemoteMachine`] where the coordinator is. Both begin with a
//! [line](crate::wire::VERSION) that says which version they speak; then requests go one way and answers the other, in
//! CBOR (RFC 8949), one after the other.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use counters::Speed;
use host::beneath::Dir;
use scale::RealInstant;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::Site;
use crate::error::{Error, Result};
use crate::far_clock::Exchange;
use crate::findings::Finding;
use crate::hello::greet;
use crate::wire::{Bounded, RemoteSite, broken, send, serve_greeted};

/// The longest piece by which the stream's bandwidth is measured, in bytes.
pub const LONGEST_PIECE: u32 = 16 << 20;

/// A machine's name, kernel and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The name that it has for itself.
    pub host_name: String,
    /// Which boot of which machine this is: two sites with the same are on one machine.
    pub boot: String,
    /// Its processor, as Rust names it: `x86_64`.
    pub processor: String,
    /// Its kernel, with its version.
    pub kernel: String,
    /// Whether the site is root's.
    pub root: bool,
    /// The cores that the site may use.
    pub cores: Vec<usize>,
    /// How much memory programs can get, in bytes, if the machine tells.
    pub memory_bytes: Option<u64>,
    /// How fast one of its cores usually is, if that is known there.
    pub speed: Option<Speed>,
}

/// A directory that a coordinator and a machine have under one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedDir {
    path: PathBuf,
    /// The numbers of its file system and of itself there.
    is: [u64; 2],
}

impl SharedDir {
    /// A directory of the coordinator's.
    ///
    /// # Errors
    ///
    /// If it cannot be found.
    pub fn of(path: &Path) -> Result<SharedDir> {
        let found = std::path::absolute(path).and_then(|path| Ok((Dir::open(&path)?.identity()?, path)));
        let (is, path) = found.map_err(|e| Error::failed(format_args!("{}: {e}", path.display())))?;
        Ok(SharedDir { path, is })
    }

    /// Where it is on this machine.
    ///
    /// # Errors
    ///
    /// If there is nothing at its path here, or another directory.
    pub fn here(&self) -> Result<&Path> {
        match Dir::open(&self.path).and_then(|dir| dir.identity()) {
            Ok(is) if is == self.is => Ok(&self.path),
            _ => Err(Error::machine(
                format_args!("{} is not the directory there that it is here", self.path.display()),
                "a site has to see the coordinator's files: they do not travel yet",
            )),
        }
    }
}

/// A run that is to take place on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// The cores of its plan.
    pub cores: Vec<usize>,
    /// The experiment's folder.
    pub folder: SharedDir,
    /// The run directory, into which logs and captures go.
    pub results: SharedDir,
}

/// Questions that a machine answers before there is a run on it.
pub trait Machine {
    /// Tells what it is.
    fn about(&mut self) -> Result<About>;

    /// The time on its `CLOCK_MONOTONIC`.
    fn now(&mut self) -> Result<RealInstant>;

    /// Looks what it offers and lacks, which takes some seconds.
    fn findings(&mut self) -> Result<Vec<Finding>>;

    /// Claims the cores for a run, and gives the site that makes it; nothing is asked of the machine from then on.
    fn open(&mut self, opening: Opening) -> Result<Box<dyn Site>>;
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Question {
    About,
    Now,
    Findings,
    /// Bytes for nothing.
    Take(ByteBuf),
    /// As many bytes for nothing, at most [`LONGEST_PIECE`].
    Give(u32),
    /// The last one: if that can be, calls of [`Site`] follow.
    Open(Opening),
}

/// Answers questions with what `machine` says, and then the calls of a run if there is one, until the other side closes
/// the stream.
///
/// # Errors
///
/// If the stream breaks, or the other side is of another version.
pub fn serve_machine(
    machine: &mut dyn Machine,
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    release: &str,
) -> Result<()> {
    greet(&mut from, &mut to, release)?;
    let mut from = Bounded::new(from);
    loop {
        let question = match from.message() {
            Ok(question) => question,
            Err(ciborium::de::Error::Io(e)) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(e) => return Err(broken(e)),
        };
        match question {
            Question::About => send(&mut to, &machine.about()),
            Question::Now => send(&mut to, &machine.now()),
            Question::Findings => send(&mut to, &machine.findings()),
            Question::Take(_) => send(&mut to, &Result::<()>::Ok(())),
            Question::Give(most) => send(&mut to, &Result::<ByteBuf>::Ok(piece(most))),
            Question::Open(opening) => match machine.open(opening) {
                Ok(mut site) => {
                    send(&mut to, &Result::<()>::Ok(()))?;
                    return serve_greeted(&mut *site, from, to);
                }
                Err(e) => send(&mut to, &Result::<()>::Err(e)),
            },
        }?;
    }
}

/// So many bytes for nothing, at most [`LONGEST_PIECE`].
fn piece(bytes: u32) -> ByteBuf {
    ByteBuf::from(vec![0; bytes.min(LONGEST_PIECE) as usize])
}

/// A machine at the other end of a byte stream.
#[derive(Debug)]
pub struct RemoteMachine<R, W> {
    from: Bounded<R>,
    to: W,
}

impl<R: Read, W: Write> RemoteMachine<R, W> {
    /// The machine for which [`serve_machine`] answers at the other end.
    ///
    /// # Errors
    ///
    /// If nobody is there, that is no site, or of another version.
    pub fn new(mut from: R, mut to: W, release: &str) -> Result<RemoteMachine<R, W>> {
        greet(&mut from, &mut to, release)?;
        Ok(RemoteMachine { from: Bounded::new(from), to })
    }

    fn ask<T: DeserializeOwned>(&mut self, question: &Question) -> Result<T> {
        send(&mut self.to, question)?;
        self.from.message::<Result<T>>().map_err(broken)?
    }

    /// Asks for the time there, between two readings of `clock`.
    ///
    /// # Errors
    ///
    /// If the stream breaks.
    pub fn exchange(&mut self, clock: impl Fn() -> RealInstant) -> Result<Exchange> {
        let sent = clock();
        let there = self.ask(&Question::Now)?;
        Ok(Exchange { sent, there, received: clock() })
    }

    /// Sends as many bytes, at most [`LONGEST_PIECE`], and waits until they are there.
    ///
    /// # Errors
    ///
    /// If the stream breaks.
    pub fn take(&mut self, bytes: u32) -> Result<()> {
        self.ask(&Question::Take(piece(bytes)))
    }

    /// Has as many bytes sent from there, at most [`LONGEST_PIECE`].
    ///
    /// # Errors
    ///
    /// If the stream breaks, or others come.
    pub fn give(&mut self, bytes: u32) -> Result<()> {
        let wanted = bytes.min(LONGEST_PIECE);
        let got: ByteBuf = self.ask(&Question::Give(wanted))?;
        match got.len() == wanted as usize {
            true => Ok(()),
            false => Err(Error::failed(format_args!("{} bytes came where {wanted} were asked for", got.len()))),
        }
    }
}

impl<R: Read + Send + 'static, W: Write + Send + 'static> RemoteMachine<R, W> {
    /// Opens a run there, whose calls have the stream from then on.
    ///
    /// # Errors
    ///
    /// If the machine cannot have it, such as where others have the cores.
    pub fn open(mut self, opening: Opening) -> Result<RemoteSite<W>> {
        self.ask::<()>(&Question::Open(opening))?;
        RemoteSite::greeted(self.from, self.to)
    }

    /// Tells what it is.
    ///
    /// # Errors
    ///
    /// If the stream breaks.
    pub fn about(&mut self) -> Result<About> {
        self.ask(&Question::About)
    }

    /// Looks what it offers and lacks, which takes some seconds.
    ///
    /// # Errors
    ///
    /// If the stream breaks.
    pub fn findings(&mut self) -> Result<Vec<Finding>> {
        self.ask(&Question::Findings)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::os::unix::net::UnixStream;
    use std::thread::{self, JoinHandle};

    use super::*;
    use crate::quiet_site::QuietSite;

    struct Still;

    impl Machine for Still {
        fn about(&mut self) -> Result<About> {
            Ok(About {
                host_name: "still".into(),
                boot: "b".into(),
                processor: "x86_64".into(),
                kernel: "Linux 6.1".into(),
                root: false,
                cores: vec![0, 3],
                memory_bytes: Some(1 << 40),
                speed: Speed::from_units_per_us(1234.5),
            })
        }

        fn now(&mut self) -> Result<RealInstant> {
            Ok(RealInstant::from_nanos(7))
        }

        fn findings(&mut self) -> Result<Vec<Finding>> {
            Err(Error::machine("no findings", "look again"))
        }

        fn open(&mut self, opening: Opening) -> Result<Box<dyn Site>> {
            match opening.cores[..] {
                [0] => Ok(Box::new(QuietSite::default())),
                _ => Err(Error::machine(format_args!("{:?} are in use", opening.cores), "wait")),
            }
        }
    }

    fn reach(release: &'static str) -> (Result<RemoteMachine<UnixStream, UnixStream>>, JoinHandle<Result<()>>) {
        let (near, far) = UnixStream::pair().unwrap();
        let serve = move || serve_machine(&mut Still, far.try_clone().unwrap(), far, "1 (a)");
        let served = thread::spawn(serve);
        (RemoteMachine::new(near.try_clone().unwrap(), near, release), served)
    }

    #[test]
    fn a_machine_answers_until_the_stream_ends() {
        let (machine, served) = reach("1 (a)");
        let mut machine = machine.unwrap();
        assert_eq!(machine.about(), Still.about());
        assert_eq!(machine.findings(), Still.findings());
        let at = RealInstant::from_nanos(5);
        let exchange = machine.exchange(|| at).unwrap();
        assert_eq!(exchange, Exchange { sent: at, there: RealInstant::from_nanos(7), received: at });
        for bytes in [0, 1, 3 << 20, u32::MAX] {
            machine.take(bytes).unwrap();
            machine.give(bytes).unwrap();
        }
        drop(machine);
        assert_eq!(served.join().unwrap(), Ok(()));
    }

    #[test]
    fn a_run_that_cannot_be_is_refused() {
        let (machine, _served) = reach("1 (a)");
        let dir = SharedDir::of(Path::new("/")).unwrap();
        let opening = Opening { cores: vec![3], folder: dir.clone(), results: dir };
        let refused = machine.unwrap().open(opening).unwrap_err();
        assert_eq!((refused.code(), refused.what.as_str()), (3, "[3] are in use"));
    }

    #[test]
    fn a_run_has_the_stream_from_then_on() {
        let (machine, served) = reach("1 (a)");
        let dir = SharedDir::of(Path::new("/")).unwrap();
        let mut machine = machine.unwrap();
        machine.about().unwrap();
        let mut site = machine.open(Opening { cores: vec![0], folder: dir.clone(), results: dir }).unwrap();
        assert!(site.now().unwrap() > RealInstant::from_nanos(7));
        site.tear_down().unwrap();
        assert_eq!(served.join().unwrap(), Ok(()));
    }

    #[test]
    fn a_directory_is_the_same_or_refused() {
        let dir = SharedDir::of(Path::new("/etc")).unwrap();
        assert_eq!(dir.here(), Ok(Path::new("/etc")));
        let other = SharedDir { is: [dir.is[0], dir.is[1] + 1], ..dir };
        assert_eq!(other.here().unwrap_err().code(), 3);
        assert!(SharedDir::of(Path::new("/none/at/all")).is_err());
    }

    #[test]
    fn another_release_is_refused_on_both_sides() {
        let (machine, served) = reach("1 (b)");
        for refused in [machine.unwrap_err(), served.join().unwrap().unwrap_err()] {
            assert!(refused.what.contains("1 (a)") && refused.what.contains("1 (b)"), "{refused}");
        }
    }

    #[test]
    fn a_question_that_is_none_ends_it() {
        let hello = format!("diorama-site {} 1 (a)\n", crate::wire::VERSION);
        for bytes in [&b"\xff"[..], b"\x65Never", b"\xa1\x64Take\x9b\xff\xff\xff\xff\xff\xff\xff\xff"] {
            let from = [hello.as_bytes(), bytes].concat();
            let served = serve_machine(&mut Still, Cursor::new(from), Vec::new(), "1 (a)");
            // A stream that breaks off was closed.
            assert!(served.is_err() || bytes.len() > 10, "{bytes:?}");
        }
    }
}
