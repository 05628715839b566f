//! The console of a guest: how it came to its end, and its last lines.

/// How many lines say what a guest did last.
const LAST: usize = 3;
/// How much of one.
const LONGEST: usize = 200;

/// By these words Linux says that it has given up; what follows says why.
const PANIC: &str = "Kernel panic - not syncing";
/// By these it says that it has started.
const BOOT: &str = "Linux version ";

/// The last words of a guest's kernel that gave up, by the end of its console; `None` if it did not, or has booted
/// since.
pub fn gave_up(console: &[u8]) -> Option<String> {
    let lines = lines(console);
    let at = lines.iter().rposition(|line| line.contains(PANIC) && !line.contains("end Kernel panic"))?;
    let booted = lines[at..].iter().any(|line| line.contains(BOOT));
    (!booted).then(|| lines[at][lines[at].find(PANIC).unwrap_or(0)..].to_owned())
}

/// The last lines of a guest's console, as one; `None` if there are none.
pub fn last_lines(console: &[u8]) -> Option<String> {
    let lines = lines(console);
    let last = &lines[lines.len().saturating_sub(LAST)..];
    (!last.is_empty()).then(|| last.join(" | "))
}

/// Lines with something in them, without what moves a terminal's cursor.
fn lines(console: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(console);
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            // ECMA-48: after `ESC [` come parameters, up to a letter or so.
            '\x1b' => match rest.next() {
                Some('[') => drop(rest.find(|c| ('@'..='~').contains(c))),
                _ => plain.push(' '),
            },
            '\n' | '\r' => plain.push('\n'),
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    let lines = plain.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.chars().take(LONGEST).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANICKED: &[u8] = b"[    1.0] Run /init as init process\r\n\
        [    1.1] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\r\n\
        [    1.1] CPU: 0 PID: 1 Comm: init Not tainted\r\n[    1.2] Kernel Offset: disabled\r\n";

    #[test]
    fn a_kernel_that_gave_up_is_told_from_one_that_was_switched_off() {
        let why = "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100";
        assert_eq!(gave_up(PANICKED).as_deref(), Some(why));
        let ended = [PANICKED, b"[    1.3] ---[ end Kernel panic - not syncing: Attempted ]---\r\n"].concat();
        assert_eq!(gave_up(&ended).as_deref(), Some(why));
        let again = [PANICKED, b"[    0.0] Linux version 6.1.0\r\n[    2.0] reboot: Power down\r\n"].concat();
        assert_eq!(gave_up(&again), None);
        assert_eq!(gave_up(b"[    9.0] reboot: Power down\r\n"), None);
    }

    #[test]
    fn the_last_lines_are_plain_text() {
        let bios = b"\x1bc\x1b[?7l\x1b[2J\x1b[0mSeaBIOS (version 1.16.2)\r\n\r\nBooting from Hard Disk...\r\n\
                     Boot failed: not a bootable disk\r\n\r\nNo bootable device.\r\n";
        let last = "Booting from Hard Disk... | Boot failed: not a bootable disk | No bootable device.";
        assert_eq!(last_lines(bios).as_deref(), Some(last));
        assert_eq!(last_lines(b"\r\n \r\n"), None);
        assert_eq!(last_lines(&[b"x".repeat(500), vec![0xff, 7]].concat()).map(|l| l.len()), Some(LONGEST));
    }
}
