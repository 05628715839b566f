//! Terminals: one of the caller's, and pseudo-terminals that stand for it where it must not be handed out.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use serde::{Deserialize, Serialize};

/// A pseudo-terminal: when the harness's end is closed, whoever has the other one has lost it.
#[derive(Debug)]
pub struct Pty {
    /// The harness's end.
    pub ours: File,
    /// That of a program.
    pub theirs: OwnedFd,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
    /// Width and height in pixels; 0 where nobody knows.
    pub pixels: [u16; 2],
}

/// The size and the settings of a terminal, as another one can have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Its size.
    pub size: Size,
    /// Flags of its input, output, line and keys, as `struct termios` has them.
    pub flags: [u32; 4],
    /// Its keys, likewise; what a kernel does not know of them is left as it is.
    pub keys: Vec<u8>,
}

/// A terminal that passes on what is typed as it is, but for the keys that send INT and QUIT; until this is dropped.
#[derive(Debug)]
pub struct PassedOn {
    terminal: OwnedFd,
    before: libc::termios,
}

/// Whether a descriptor is a terminal.
pub fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    settings(fd).is_ok()
}

/// Whether the calling process may read what is typed at a terminal: others would be stopped.
pub fn is_in_front(terminal: BorrowedFd<'_>) -> bool {
    // SAFETY: both calls take nothing but a descriptor that is open, and change nothing.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}

impl Pty {
    /// A new one that looks like a terminal.
    pub fn new(look: &Look) -> io::Result<Pty> {
        // SAFETY: these calls take a descriptor and flags; a descriptor that they give is nobody else's yet.
        let (ours, theirs) = unsafe {
            let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
            let ours = OwnedFd::from_raw_fd(checked(libc::posix_openpt(flags))?);
            checked(libc::grantpt(ours.as_raw_fd()))?;
            checked(libc::unlockpt(ours.as_raw_fd()))?;
            // Not by its name, which may be another's in another mount namespace.
            let theirs = checked(libc::ioctl(ours.as_raw_fd(), libc::TIOCGPTPEER, flags))?;
            (ours, OwnedFd::from_raw_fd(theirs))
        };
        let mut like = settings(theirs.as_fd())?;
        [like.c_iflag, like.c_oflag, like.c_cflag, like.c_lflag] = look.flags;
        for (key, wanted) in like.c_cc.iter_mut().zip(&look.keys) {
            *key = *wanted;
        }
        set(theirs.as_fd(), &like)?;
        let pty = Pty { ours: ours.into(), theirs };
        resize(pty.ours.as_fd(), look.size)?;
        Ok(pty)
    }
}

impl Look {
    /// That of a terminal.
    pub fn of(terminal: BorrowedFd<'_>) -> io::Result<Look> {
        let like = settings(terminal)?;
        let flags = [like.c_iflag, like.c_oflag, like.c_cflag, like.c_lflag];
        Ok(Look { size: size_of(terminal)?, flags, keys: like.c_cc.to_vec() })
    }
}

/// The size of a terminal.
pub fn size_of(terminal: BorrowedFd<'_>) -> io::Result<Size> {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: the call fills in the structure, for which zeros are a value too.
    let size = unsafe {
        checked(libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, size.as_mut_ptr()))?;
        size.assume_init()
    };
    Ok(Size { rows: size.ws_row, columns: size.ws_col, pixels: [size.ws_xpixel, size.ws_ypixel] })
}

/// Gives a pseudo-terminal a size; who has it is told by WINCH.
pub fn resize(pty: BorrowedFd<'_>, size: Size) -> io::Result<()> {
    let Size { rows: ws_row, columns: ws_col, pixels: [ws_xpixel, ws_ypixel] } = size;
    let size = libc::winsize { ws_row, ws_col, ws_xpixel, ws_ypixel };
    // SAFETY: the call only reads the structure.
    checked(unsafe { libc::ioctl(pty.as_raw_fd(), libc::TIOCSWINSZ, &size) }).map(drop)
}

impl PassedOn {
    /// Begins with a terminal: its lines, echo and keys are then the business of who reads it.
    pub fn begin(terminal: BorrowedFd<'_>) -> io::Result<PassedOn> {
        let before = settings(terminal)?;
        let mut raw = before;
        raw.c_iflag &= !(libc::ICRNL | libc::INLCR | libc::IGNCR | libc::IXON | libc::ISTRIP | libc::BRKINT);
        raw.c_oflag &= !libc::OPOST;
        raw.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ECHONL | libc::IEXTEN);
        // Stopped, this process would leave the terminal as it is now.
        raw.c_cc[libc::VSUSP] = libc::_POSIX_VDISABLE;
        raw.c_cc[libc::VMIN] = 1;
        raw.c_cc[libc::VTIME] = 0;
        let passed_on = PassedOn { terminal: terminal.try_clone_to_owned()?, before };
        set(terminal, &raw)?;
        Ok(passed_on)
    }
}

impl Drop for PassedOn {
    fn drop(&mut self) {
        let _ = set(self.terminal.as_fd(), &self.before);
    }
}

fn settings(terminal: BorrowedFd<'_>) -> io::Result<libc::termios> {
    let mut settings = MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the call fills in the structure, for which zeros are a value too.
    unsafe {
        checked(libc::tcgetattr(terminal.as_raw_fd(), settings.as_mut_ptr()))?;
        Ok(settings.assume_init())
    }
}

fn set(terminal: BorrowedFd<'_>, settings: &libc::termios) -> io::Result<()> {
    // SAFETY: the call only reads the structure.
    checked(unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, settings) }).map(drop)
}

fn checked(code: libc::c_int) -> io::Result<libc::c_int> {
    if code == -1 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// A terminal that nobody sits at.
    fn terminal() -> Pty {
        let size = Size { rows: 24, columns: 80, pixels: [0, 0] };
        let usual = (libc::ICRNL, libc::OPOST | libc::ONLCR, libc::CS8 | libc::CREAD, libc::ICANON | libc::ECHO);
        Pty::new(&Look { size, flags: [usual.0, usual.1, usual.2, usual.3], keys: Vec::new() }).unwrap()
    }

    #[test]
    fn one_that_looks_like_another_has_its_size_and_its_settings() {
        let own = terminal();
        let mut look = Look::of(own.theirs.as_fd()).unwrap();
        look.size = Size { rows: 33, columns: 101, pixels: [808, 528] };
        look.flags[3] &= !libc::ECHO;
        look.keys[libc::VEOF] = 7;
        let like = Pty::new(&look).unwrap();
        assert_eq!(Look::of(like.theirs.as_fd()).unwrap(), look);
        resize(like.ours.as_fd(), Size { rows: 5, ..look.size }).unwrap();
        assert_eq!(size_of(like.theirs.as_fd()).unwrap().rows, 5);
    }

    #[test]
    fn who_has_the_other_end_loses_it_with_ours() {
        let own = terminal();
        assert!(is_terminal(own.theirs.as_fd()) && !is_terminal(File::open("/dev/null").unwrap().as_fd()));
        let Pty { mut ours, theirs } = Pty::new(&Look::of(own.theirs.as_fd()).unwrap()).unwrap();
        assert!(is_terminal(theirs.as_fd()));
        let mut theirs = File::from(theirs);
        ours.write_all(b"typed\n").unwrap();
        let mut line = [0; 16];
        let read = theirs.read(&mut line).unwrap();
        assert_eq!(&line[..read], b"typed\n");
        drop(ours);
        assert!(matches!(theirs.read(&mut line), Ok(0) | Err(_)));
        assert!(theirs.write_all(b"a prompt").is_err());
    }

    #[test]
    fn a_terminal_is_afterwards_as_it_was() {
        let own = terminal();
        let lines = || settings(own.theirs.as_fd()).unwrap().c_lflag & libc::ICANON != 0;
        let passed_on = PassedOn::begin(own.theirs.as_fd()).unwrap();
        assert!(!lines());
        drop(passed_on);
        assert!(lines());
    }
}
