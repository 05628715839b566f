//! Terminals: one of the caller's, and pseudo-terminals that stand for it where it must not be handed out.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A pseudo-terminal: when the harness's end is closed, whoever has the other one has lost it.
#[derive(Debug)]
pub struct Pty {
    /// The harness's end.
    pub ours: File,
    /// That of a program.
    pub theirs: OwnedFd,
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
    /// A new one, with the settings and the size of a terminal.
    pub fn like(terminal: BorrowedFd<'_>) -> io::Result<Pty> {
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
        set(theirs.as_fd(), &settings(terminal)?)?;
        let pty = Pty { ours: ours.into(), theirs };
        pty_size(terminal, pty.ours.as_fd())?;
        Ok(pty)
    }
}

/// Makes a pseudo-terminal as large as a terminal.
pub fn pty_size(terminal: BorrowedFd<'_>, pty: BorrowedFd<'_>) -> io::Result<()> {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: the first call fills in the structure, for which zeros are a value too; the second only reads it.
    unsafe {
        checked(libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, size.as_mut_ptr()))?;
        checked(libc::ioctl(pty.as_raw_fd(), libc::TIOCSWINSZ, size.as_ptr()))?;
    }
    Ok(())
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
        // SAFETY: as in `Pty::like`.
        unsafe {
            let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
            let ours = OwnedFd::from_raw_fd(checked(libc::posix_openpt(flags)).unwrap());
            checked(libc::grantpt(ours.as_raw_fd())).unwrap();
            checked(libc::unlockpt(ours.as_raw_fd())).unwrap();
            let theirs = checked(libc::ioctl(ours.as_raw_fd(), libc::TIOCGPTPEER, flags)).unwrap();
            Pty { ours: ours.into(), theirs: OwnedFd::from_raw_fd(theirs) }
        }
    }

    #[test]
    fn who_has_the_other_end_loses_it_with_ours() {
        let own = terminal();
        assert!(is_terminal(own.theirs.as_fd()) && !is_terminal(File::open("/dev/null").unwrap().as_fd()));
        let Pty { mut ours, theirs } = Pty::like(own.theirs.as_fd()).unwrap();
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
