//! The timers that the kernel keeps for dilated processes: taken down before a change of the rate, set up after it.
//!
//! POSIX timers and the itimer belong to a process, which must be made to call the kernel itself. A timerfd may be
//! shared by many: each is fetched (pidfd_getfd) once.

use std::cmp::Ordering;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use libc::{itimerspec, pid_t, timespec};
use scale::{RealDuration, RealInstant, Tdf};

use crate::remote::Remote;
use crate::tracee::{descriptor_of, open_process};

/// Timers taken down: none of them fires.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    processes: Vec<Process>,
    descriptors: Vec<Descriptor>,
}

/// A change of the factor: at which instant it became which, and what it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub old: Tdf,
    pub new: Tdf,
    pub changed: RealInstant,
}

#[derive(Debug)]
struct Process {
    remote: Remote,
    /// Earlier changes that its timers missed.
    owed: Vec<Turn>,
    itimer: Option<Setting>,
    /// By number.
    posix: Vec<(i32, Setting)>,
}

/// A timerfd that was armed.
#[derive(Debug)]
struct Descriptor {
    fd: OwnedFd,
    /// How often it has expired since it was read: setting it would forget that.
    unread: u64,
    setting: Setting,
}

/// When a timer was to fire next, and then how often. An interval of zero: never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    /// `None`: it has fired, and waits for its signal to be taken before it goes on.
    expiry: Option<RealInstant>,
    interval: RealDuration,
}

impl Setting {
    /// From what the kernel says is left; `None` if the timer is not armed.
    fn new(left: RealDuration, interval: RealDuration) -> Option<Setting> {
        match (left, interval) {
            (RealDuration::ZERO, RealDuration::ZERO) => None,
            (RealDuration::ZERO, _) => Some(Setting { expiry: None, interval }),
            // Counted from when the kernel looked, which was before now.
            _ => Some(Setting { expiry: Some(host::now() + left), interval }),
        }
    }

    /// The setting for the same virtual instants after a change.
    fn after(self, Turn { old, new, changed }: &Turn) -> Setting {
        let expiry = self.expiry.map(|expiry| *changed + old.rest_under(*new, expiry.since(*changed)));
        Setting { expiry, interval: old.interval_under(*new, self.interval) }
    }

    /// The interval, and what is left from now on. Not zero.
    fn left(self) -> (RealDuration, RealDuration) {
        let Some(expiry) = self.expiry else { return (self.interval, self.interval) };
        let left = expiry.since(host::now());
        (self.interval, left.max(RealDuration::from_nanos(1)))
    }
}

/// `struct itimerval`, `struct itimerspec`: interval, then value, as seconds and a fraction.
type Raw = [i64; 4];

fn raw((interval, left): (RealDuration, RealDuration), fraction: u64) -> Raw {
    // Rounded up to the unit of the fraction.
    let split = |d: RealDuration| {
        let units = d.as_nanos().div_ceil(1_000_000_000 / fraction);
        [(units / fraction) as i64, (units % fraction) as i64]
    };
    let ([a, b], [c, d]) = (split(interval), split(left));
    [a, b, c, d]
}

fn setting(raw: Raw, fraction: u64) -> Option<Setting> {
    let join = |s: i64, f: i64| {
        RealDuration::from_nanos(
            (s as u64).saturating_mul(1_000_000_000).saturating_add(f as u64 * (1_000_000_000 / fraction)),
        )
    };
    Setting::new(join(raw[2], raw[3]), join(raw[0], raw[1]))
}

const MICRO: u64 = 1_000_000;
const NANO: u64 = 1_000_000_000;
/// Where the old setting is written in the scratch memory; the new one is at 0.
const OLD: usize = size_of::<Raw>();

impl Timers {
    /// Takes down the timers that a process alone has, which lends a thread. `owed` are changes that they missed.
    pub fn take(&mut self, process: pid_t, mut remote: Remote, owed: Vec<Turn>) {
        let itimer = take_itimer(&mut remote).ok().flatten();
        let posix =
            posix_timers(process).filter_map(|timer| Some((timer.id, take_posix(&mut remote, timer).ok()??))).collect();
        self.processes.push(Process { remote, owed, itimer, posix });
    }

    /// Takes down those that its descriptors lead to.
    pub fn take_descriptors(&mut self, process: pid_t) -> io::Result<()> {
        for fd in fetch(process)? {
            if !self.descriptors.iter().any(|known| same_file(&known.fd, &fd) == Ordering::Equal)
                && let Some(taken) = take_descriptor(fd)?
            {
                self.descriptors.push(taken);
            }
        }
        Ok(())
    }

    /// Sets them up again after a change, or after what is owed alone, and gives the threads back.
    pub fn set_up(self, turn: Option<Turn>) {
        let after = |setting: Setting, owed: &[Turn]| {
            owed.iter().chain(&turn).fold(setting, |setting, turn| setting.after(turn)).left()
        };
        for Descriptor { fd, unread, setting } in self.descriptors {
            let [a, b, c, d] = raw(after(setting, &[]), NANO);
            let again = itimerspec {
                it_interval: timespec { tv_sec: a, tv_nsec: b },
                it_value: timespec { tv_sec: c, tv_nsec: d },
            };
            // SAFETY: `again` is read, and nothing is written.
            unsafe { libc::timerfd_settime(fd.as_raw_fd(), 0, &again, std::ptr::null_mut()) };
            if unread > 0 {
                const TFD_IOC_SET_TICKS: libc::Ioctl = 0x4008_5400;
                // Without CONFIG_CHECKPOINT_RESTORE they are lost, until it expires again.
                // SAFETY: the argument is a number that is read.
                unsafe { libc::ioctl(fd.as_raw_fd(), TFD_IOC_SET_TICKS, &raw const unread) };
            }
        }
        for mut process in self.processes {
            // These fail only if the process was killed.
            if let Some(setting) = process.itimer {
                let _ = process
                    .remote
                    .put(0, &raw(after(setting, &process.owed), MICRO))
                    .and_then(|at| process.remote.call(libc::SYS_setitimer, [libc::ITIMER_REAL as u64, at, 0, 0]));
            }
            for (id, setting) in process.posix {
                let _ = process
                    .remote
                    .put(0, &raw(after(setting, &process.owed), NANO))
                    .and_then(|at| process.remote.call(libc::SYS_timer_settime, [id as u64, 0, at, 0]));
            }
            let _ = process.remote.end();
        }
    }
}

fn take_itimer(remote: &mut Remote) -> io::Result<Option<Setting>> {
    let (new, old) = (remote.put(0, &Raw::default())?, remote.put(OLD, &Raw::default())?);
    remote.call(libc::SYS_setitimer, [libc::ITIMER_REAL as u64, new, old, 0])?;
    Ok(setting(remote.get(OLD)?, MICRO))
}

fn take_posix(remote: &mut Remote, timer: PosixTimer) -> io::Result<Option<Setting>> {
    let (new, old) = (remote.put(0, &Raw::default())?, remote.put(OLD, &Raw::default())?);
    let id = timer.id as u64;
    remote.call(libc::SYS_timer_gettime, [id, old, 0, 0])?;
    let mut found = setting(remote.get(OLD)?, NANO);
    if let Some(setting) = &mut found {
        // Setting it takes back a signal that is on its way: that one is due.
        remote.call(libc::SYS_timer_settime, [id, 0, new, 0])?;
        if timer.signalled {
            setting.expiry = Some(RealInstant::ZERO);
        }
    }
    Ok(found)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PosixTimer {
    id: i32,
    /// Its signal waits to be taken.
    signalled: bool,
}

/// Whether the kernel tells about POSIX timers, without which they cannot be moved.
pub(crate) fn posix_timers_are_listed() -> bool {
    Path::new("/proc/self/timers").exists()
}

/// A process's timers on a wall clock, which are all on the kernel's MONOTONIC (guest/timers.c).
fn posix_timers(process: pid_t) -> impl Iterator<Item = PosixTimer> {
    let text = fs::read_to_string(format!("/proc/{process}/timers")).unwrap_or_default();
    let pending = if text.is_empty() { 0 } else { pending_signals(process) };
    wall_timers(&text, pending).into_iter()
}

/// Reads lines `ID: 0`, `signal: 14/…`, …, `ClockID: 1`, one group for each timer.
fn wall_timers(text: &str, pending: u64) -> Vec<PosixTimer> {
    let (mut id, mut signalled) = (None, false);
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let number = value.trim().split('/').next().and_then(|n| n.parse::<i32>().ok());
        match (name, number) {
            ("ID", number) => id = number,
            ("signal", Some(signal @ 1..=64)) => signalled = pending >> (signal - 1) & 1 != 0,
            ("ClockID", Some(libc::CLOCK_MONOTONIC)) => found.extend(id.map(|id| PosixTimer { id, signalled })),
            _ => (),
        }
    }
    found
}

/// The signals that wait to be taken by any thread of a process, as the kernel's bit mask.
fn pending_signals(process: pid_t) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    texts.fold(0, |set, text| {
        let lines = text.lines().filter_map(|l| l.strip_prefix("SigPnd:").or(l.strip_prefix("ShdPnd:")));
        lines.fold(set, |set, mask| set | u64::from_str_radix(mask.trim(), 16).unwrap_or(0))
    })
}

/// Copies of all descriptors of a process that are timers.
fn fetch(process: pid_t) -> io::Result<Vec<OwnedFd>> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else { return Ok(Vec::new()) };
    let mut pidfd = None;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if !fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == "anon_inode:[timerfd]") {
            continue;
        }
        let Some(number) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let pidfd = match &mut pidfd {
            Some(pidfd) => pidfd,
            none => match open_process(process) {
                Ok(opened) => none.insert(opened),
                // It has ended.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => break,
                Err(e) => return Err(e),
            },
        };
        match descriptor_of(pidfd, number) {
            Ok(descriptor) => found.push(descriptor),
            // It is ending.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ESRCH | libc::EBADF)) => (),
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

/// Whether two descriptors of this process are one open file, as a dup or a fork leaves it.
fn same_file(a: &OwnedFd, b: &OwnedFd) -> Ordering {
    const KCMP_FILE: libc::c_long = 0;
    let own = std::process::id();
    // SAFETY: only numbers.
    match unsafe { libc::syscall(libc::SYS_kcmp, own, own, KCMP_FILE, a.as_raw_fd(), b.as_raw_fd()) } {
        0 => Ordering::Equal,
        1 => Ordering::Less,
        _ => Ordering::Greater,
    }
}

fn take_descriptor(fd: OwnedFd) -> io::Result<Option<Descriptor>> {
    // SAFETY: plain integers; every bit pattern is a value.
    let (none, mut old): (itimerspec, itimerspec) = unsafe { std::mem::zeroed() };
    // SAFETY: `old` is a valid place to write to.
    if unsafe { libc::timerfd_gettime(fd.as_raw_fd(), &mut old) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let old = [old.it_interval.tv_sec, old.it_interval.tv_nsec, old.it_value.tv_sec, old.it_value.tv_nsec];
    let Some(setting) = setting(old, NANO) else { return Ok(None) };
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))?;
    let unread = info.lines().find_map(|l| l.strip_prefix("ticks:")).and_then(|n| n.trim().parse().ok()).unwrap_or(0);
    // SAFETY: `none` is read, and nothing is written.
    unsafe { libc::timerfd_settime(fd.as_raw_fd(), 0, &none, std::ptr::null_mut()) };
    Ok(Some(Descriptor { fd, unread, setting }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_on_cpu_clocks_are_left_alone() {
        let text = "ID: 0\nsignal: 14/0000000000000000\nnotify: signal/pid.7\nClockID: 1\n\
                    ID: 3\nsignal: 14/0000000000000000\nnotify: signal/pid.7\nClockID: 2\n\
                    ID: 5\nsignal: 34/0000000000000000\nnotify: thread/tid.7\nClockID: 1\n";
        let timer = |id, signalled| PosixTimer { id, signalled };
        assert_eq!(wall_timers(text, 1 << 13), [timer(0, true), timer(5, false)]);
    }

    #[test]
    fn what_is_left_grows_with_the_factor_and_is_rounded_up() {
        let (one, ten) = (Tdf::ONE, "10".parse::<Tdf>().unwrap());
        let ms = |n: u64| RealDuration::from_nanos(n * 1_000_000);
        let hour = host::now() + ms(3_600_000);
        let armed = Setting { expiry: Some(hour + ms(5)), interval: ms(7) };
        let turn = Turn { old: one, new: ten, changed: hour };
        let (interval, left) = armed.after(&turn).left();
        assert_eq!(interval, ms(70));
        let expiry = host::now() + left;
        assert!(expiry >= hour + ms(50) && expiry < hour + ms(51), "{expiry:?}");
        // It should have fired while everything stood: at once, but not never.
        let due = Setting { expiry: Some(RealInstant::from_nanos(1)), interval: ms(0) };
        assert_eq!(
            due.after(&Turn { changed: RealInstant::from_nanos(2), ..turn }).left().1,
            RealDuration::from_nanos(1)
        );
        // There and back again after 20 of the 50 ms: 3 of the 5 are left.
        let back = Turn { old: ten, new: one, changed: hour + ms(20) };
        let again = armed.after(&turn).after(&back);
        let expiry = again.expiry.unwrap();
        assert!(expiry >= hour + ms(23) && expiry < hour + ms(24) && again.interval == ms(7), "{again:?}");
        assert_eq!(raw((ms(1), RealDuration::from_nanos(1)), MICRO), [0, 1000, 0, 1]);
        assert_eq!(Setting::new(ms(0), ms(0)), None);
        assert_eq!(Setting::new(ms(0), ms(3)), Some(Setting { expiry: None, interval: ms(3) }));
    }
}
