//! The picture at a terminal, and the keys.

use std::io::{self, stdin, stdout};
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::crossterm::{cursor, execute};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::draw::{self, View};
use super::keys::{Key, Keys};
use super::look::Look;
use super::picture::{Picture, Stage};
use crate::failure::Failure;

/// How often the run is looked at, and the picture is drawn without a key.
const LOOK: Duration = Duration::from_millis(500);
/// How long a signal or another size may go unnoticed, and how long after Esc the rest of a sequence may come.
const GLANCE: Duration = Duration::from_millis(100);
/// By how many rows a page moves.
const PAGE: isize = 10;
/// The exit code of who was told to end, or has lost the terminal.
const INTERRUPTED: u8 = 130;

/// The terminal as it was before, whatever ends this. One that is gone cannot be told anything.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        let _ = execute!(stdout(), cursor::Show);
        let _ = ratatui::try_restore();
    }
}

/// Keys that were typed.
enum Typed {
    Keys(Vec<Key>),
    /// The terminal is gone.
    Gone,
}

/// Shows a run until somebody has seen enough.
pub fn show(mut look: Look, mut picture: Picture) -> Result<ExitCode, Failure> {
    let failed = |e: io::Error| Failure::failed(format!("cannot use the terminal: {e}"));
    let interrupts = engine::interrupts().map_err(failed)?;
    let _restored = Restored;
    // Dropped, it would complain to a terminal that is gone.
    let mut terminal = ManuallyDrop::new(ratatui::try_init().map_err(failed)?);
    let mut view = View::default();
    let mut keys = Keys::default();
    let mut looked: Option<Instant> = None;
    loop {
        if looked.is_none_or(|at| at.elapsed() >= LOOK) {
            looked = Some(Instant::now());
            // Of one that has ended nothing changes any more.
            if matches!(picture.stage, Stage::Live | Stage::Unknown) {
                look.look(&mut picture);
            }
        }
        let draw = |frame: &mut ratatui::Frame| draw::screen(&picture, &mut view, frame.area(), frame.buffer_mut());
        let drawn = match terminal.draw(draw) {
            Err(e) if is_gone(&e) => return Ok(ExitCode::from(INTERRUPTED)),
            drawn => drawn.map_err(failed)?.area.as_size(),
        };
        loop {
            if interrupts.try_recv().is_ok() {
                return Ok(ExitCode::from(INTERRUPTED));
            }
            let left = looked.map_or(Duration::ZERO, |at| LOOK.saturating_sub(at.elapsed()));
            match typed(&mut keys, left.min(GLANCE)).map_err(failed)? {
                Typed::Gone => return Ok(ExitCode::from(INTERRUPTED)),
                Typed::Keys(typed) if typed.is_empty() => {}
                Typed::Keys(typed) => match typed.into_iter().all(|key| obey(key, &mut view)) {
                    true => break,
                    false => return Ok(ExitCode::SUCCESS),
                },
            }
            if left.is_zero() || terminal.size().is_ok_and(|size| size != drawn) {
                break;
            }
        }
    }
}

/// Waits so long for keys.
fn typed(keys: &mut Keys, wait: Duration) -> io::Result<Typed> {
    let stdin = stdin();
    let until = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
    match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&until)) {
        Ok(0) if wait < GLANCE => return Ok(Typed::Keys(Vec::new())),
        Ok(0) => return Ok(Typed::Keys(keys.pause().into_iter().collect())),
        Err(Errno::INTR) => return Ok(Typed::Keys(Vec::new())),
        ready => ready?,
    };
    let mut bytes = [0; 1024];
    match rustix::io::read(&stdin, &mut bytes) {
        Ok(0) | Err(Errno::IO) => Ok(Typed::Gone),
        Err(Errno::INTR | Errno::AGAIN) => Ok(Typed::Keys(Vec::new())),
        Err(e) => Err(e.into()),
        Ok(read) => Ok(Typed::Keys(bytes[..read].iter().filter_map(|byte| keys.byte(*byte)).collect())),
    }
}

/// Whether a terminal is gone that says so.
fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::IO)
}

/// Does what a key asks for; whether to go on.
fn obey(key: Key, view: &mut View) -> bool {
    match key {
        Key::Leave => return false,
        Key::Up => view.scroll(-1),
        Key::Down => view.scroll(1),
        Key::PageUp => view.scroll(-PAGE),
        Key::PageDown => view.scroll(PAGE),
        Key::First => view.scroll(isize::MIN),
        Key::Last => view.scroll(isize::MAX),
        Key::Next => view.next(1),
        Key::Previous => view.next(-1),
    }
    true
}
