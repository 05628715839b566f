//! The socket over which the factor of a command that runs can be changed (`diorama dilate --control SOCKET`).
//!
//! One line a request, one line an answer: `tdf 2.5` → `ok 3.200` (the virtual seconds since the start at which it
//! changed), anything else → `error …`.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use clock::RateChanger;
use host::beneath::Dir;
use scale::Tdf;

use super::Error;

/// More than any request needs.
const LONGEST: u64 = 256;

/// The socket of a running command. It vanishes with this value.
#[derive(Debug)]
pub struct Control {
    /// The directory that it is in, which stays the one that was named: who moves that, or puts a link in its place,
    /// does not choose what root makes and removes.
    dir: Dir,
    name: OsString,
    /// Whose file it was when it was made: another may have taken its place.
    inode: u64,
}

impl Control {
    /// Makes the socket, which only this user may use, and answers on it from a thread of its own until the process
    /// ends.
    pub fn open(path: &Path, rate: &RateChanger) -> Result<Control, Error> {
        let failed = |e: std::io::Error| wrong(path, e);
        let name = path.file_name().ok_or_else(|| wrong(path, "this names no socket"))?;
        let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let dir = Dir::open(parent).map_err(failed)?;
        let place = place(&dir, name);
        // The socket of a killed `dilate` refuses connections.
        let is_socket = place.symlink_metadata().is_ok_and(|m| m.file_type().is_socket());
        if is_socket && UnixStream::connect(&place).is_err() {
            std::fs::remove_file(&place).map_err(failed)?;
        }
        // SAFETY: changes the mask of this process for one call; nothing else makes files meanwhile.
        let mask = unsafe { libc::umask(0o177) };
        let bound = UnixListener::bind(&place);
        // SAFETY: as above.
        unsafe { libc::umask(mask) };
        let listener = bound.map_err(failed)?;
        let inode = place.symlink_metadata().map_err(failed)?.ino();
        let rate = rate.clone();
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let rate = rate.clone();
                // One that says nothing must not keep the others waiting.
                drop(thread::Builder::new().name("control".into()).spawn(move || converse(&stream, &rate)));
            }
        };
        thread::Builder::new().name("control".into()).spawn(serve).map_err(failed)?;
        Ok(Control { dir, name: name.to_owned(), inode })
    }
}

/// A name in a directory that is open.
fn place(dir: &Dir, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(dir.as_fd().as_raw_fd().to_string()).join(name)
}

impl Drop for Control {
    fn drop(&mut self) {
        let place = place(&self.dir, &self.name);
        if place.symlink_metadata().is_ok_and(|m| m.ino() == self.inode) {
            let _ = std::fs::remove_file(place);
        }
    }
}

fn converse(stream: &UnixStream, rate: &RateChanger) {
    let mut requests = BufReader::new(stream);
    loop {
        let mut request = String::new();
        match requests.by_ref().take(LONGEST).read_line(&mut request) {
            Ok(1..) => {}
            _ => return,
        }
        let answer = match request.trim().strip_prefix("tdf ").map(str::parse::<Tdf>) {
            Some(Ok(tdf)) => match rate.set_tdf(tdf) {
                Ok(at) => format!("ok {:.9}\n", at.as_secs_f64()),
                Err(why) => format!("error {why}\n"),
            },
            Some(Err(why)) => format!("error {why}\n"),
            None => "error a request is `tdf N`\n".to_owned(),
        };
        if (&mut &*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Asks the command that answers on `path` to go on at `tdf`; the virtual seconds since its start at which it did.
pub fn ask(path: &Path, tdf: Tdf) -> Result<String, Error> {
    let failed = |e: std::io::Error| wrong(path, format_args!("{e}; is a `diorama dilate --control` running there?"));
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    stream.write_all(format!("tdf {tdf}\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(failed)?;
    match answer.trim().split_once(' ') {
        Some(("ok", at)) => Ok(at.to_owned()),
        Some(("error", why)) => Err(Error::Refused(why.to_owned())),
        _ => Err(wrong(path, "the command has ended")),
    }
}

fn wrong(path: &Path, why: impl Display) -> Error {
    Error::Control { path: path.to_owned(), why: why.to_string() }
}
