//! The hidden verb `__fillers`: the processes that keep every node's group always runnable, and the
//! poke that keeps slices short.
//!
//! A single-threaded parent forks one child per node, one for what is not sold and two for the poke,
//! before it does anything else. Each child enters its group and waits. Over the parent's standard
//! input and output: `ready` → (`go`) → `going`; `release`, or the end of the input, ends it all. Each child dies
//! with the parent, and the parent with whoever holds its input, so nothing burns the core for longer
//! than there is a run.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use scale::{RealDuration, RealInstant};

use crate::cgroup::{self, Group, Mounts};
use crate::groups::Paths;
use crate::{Error, probe, sched};

/// How often the kernel is made to account, and with that to reconsider, what runs on the core: just after a slice is over.
/// Twice as often would interrupt a node for nothing whenever it is due twice in a row, which nodes with a large share are
/// and scaled ones are not: they then ran 3 % apart.
const POKE: RealDuration = RealDuration::from_nanos(sched::SLICE_NS + 10_000);

/// A poke later than this was not merely preempted by the emulator: somebody else had the core in between.
const LATE: RealDuration = RealDuration::from_nanos(1_000_000);
/// If a fifth of this window went by in such gaps, the poke goes on in real time until this much later.
const WINDOW: RealDuration = RealDuration::from_nanos(100_000_000);
const REAL_TIME: RealDuration = RealDuration::from_nanos(1_000_000_000);

/// The arguments after the verb: run id, core, nodes.
pub fn arguments<'a>(run_id: &str, core: usize, nodes: impl Iterator<Item = &'a str>) -> Vec<String> {
    [run_id.to_owned(), core.to_string()].into_iter().chain(nodes.map(str::to_owned)).collect()
}

/// What a child does for the rest of its life.
enum Role {
    Spin(Group),
    Poke { own: Group, poked: Group },
}

/// The process behind the hidden verb `__fillers`; `args` are those that [`crate::CpuGroups::helper`] gave it.
pub fn main(args: Vec<String>) -> ! {
    let code = match run(&args) {
        Ok(()) => 0,
        Err(error) => {
            println!("error {error}");
            1
        }
    };
    std::process::exit(code)
}

fn run(args: &[String]) -> Result<(), Error> {
    let [run_id, core, nodes @ ..] = args else {
        return Err(Error::Input("__fillers RUN CORE [NODE…] is started by diorama itself".into()));
    };
    let core: usize = core.parse().map_err(|_| Error::Input(format!("`{core}` is not the number of a core")))?;
    let paths = Paths::of(run_id);
    let mounts = Mounts::discover()?;
    let at = |path: String| Group::at(&mounts, &path);
    let poke = Role::Poke { own: at(paths.poke()), poked: at(paths.poked()) };
    let mut roles = vec![
        ("_poke".to_owned(), poke),
        ("_poked".to_owned(), Role::Spin(at(paths.poked()))),
        ("_unsold".to_owned(), Role::Spin(at(paths.unsold()))),
    ];
    roles.extend(nodes.iter().map(|name| (name.clone(), Role::Spin(at(paths.filler(name))))));

    // A terminal's interrupt reaches the whole foreground: the run's end must not begin with the end of its limits.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: SIG_IGN is a valid disposition and no handler of ours is replaced.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let (gate, opener) = rustix::pipe::pipe().map_err(|e| Error::io("make a pipe")(e.into()))?;
    let (news, reporter) = rustix::pipe::pipe().map_err(|e| Error::io("make a pipe")(e.into()))?;
    let parent = rustix::process::getpid();
    let mut children = Vec::new();
    for (name, role) in &roles {
        // SAFETY: this process has one thread, so the child may use everything it inherits.
        match unsafe { libc::fork() } {
            -1 => return Err(Error::io(format!("start the filler of {name}"))(io::Error::last_os_error())),
            0 => {
                drop(opener);
                child(name, role, &mounts, core, parent, gate, reporter)
            }
            pid => children.push((pid, name.as_str())),
        }
    }
    drop((gate, reporter));
    sched::avoid(core).map_err(Error::io("leave the nodes' core"))?;

    let mut reports = String::new();
    File::from(news).read_to_string(&mut reports).map_err(Error::io("hear from the fillers"))?;
    if let Some(bad) = reports.lines().find(|line| *line != "ok") {
        return Err(Error::Fillers(bad.to_owned()));
    }
    if reports.lines().count() != roles.len() {
        return Err(Error::Fillers("one of them died at its start".into()));
    }
    say("ready")?;
    let mut opener = Some(opener);
    loop {
        match command(&children)? {
            Some(word) if word == "go" => {
                opener = None;
                say("going")?;
            }
            _ => break,
        }
    }
    drop(opener);
    for (pid, _) in &children {
        // SAFETY: a child of ours that has not been waited for, so the id is still its own.
        unsafe { libc::kill(*pid, libc::SIGKILL) };
    }
    for (pid, _) in &children {
        // SAFETY: as above; no status is asked for.
        unsafe { libc::waitpid(*pid, std::ptr::null_mut(), 0) };
    }
    Ok(())
}

/// The next word from standard input, `None` at its end. Fails if a child dies meanwhile.
fn command(children: &[(libc::pid_t, &str)]) -> Result<Option<String>, Error> {
    let mut word = Vec::new();
    loop {
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        let second = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
        if poll(&mut fds, Some(&second)).map_err(|e| Error::io("wait for commands")(e.into()))? > 0 {
            let mut byte = [0];
            match rustix::io::read(stdin.as_fd(), &mut byte) {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) if byte == *b"\n" => return Ok(Some(String::from_utf8_lossy(&word).into_owned())),
                Ok(_) => word.push(byte[0]),
            }
            continue;
        }
        // SAFETY: waiting for any child of this process without a status is always allowed.
        let dead = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
        if let Some((_, name)) = children.iter().find(|(pid, _)| *pid == dead) {
            return Err(Error::Fillers(format!("the filler of {name} was killed")));
        }
    }
}

fn say(word: &str) -> Result<(), Error> {
    let mut out = io::stdout();
    writeln!(out, "{word}").and_then(|()| out.flush()).map_err(Error::io("answer the engine"))
}

fn child(
    name: &str,
    role: &Role,
    mounts: &Mounts,
    core: usize,
    parent: rustix::process::Pid,
    gate: OwnedFd,
    reporter: OwnedFd,
) -> ! {
    let mut reporter = File::from(reporter);
    let outcome = settle(role, mounts, core);
    let report = match &outcome {
        Ok(()) => "ok\n".to_owned(),
        Err(error) => format!("{name}: {error}\n"),
    };
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // Only the parent may hold the pipes, or its reader would never see it die.
    let told = reporter.write_all(report.as_bytes());
    drop(reporter);
    // SAFETY: these descriptors belong to this process and nothing uses them after this.
    unsafe {
        libc::close(0);
        libc::close(1);
    }
    let orphan = rustix::process::getppid() != Some(parent);
    let opened = File::from(gate).read(&mut [0]);
    if outcome.is_err() || told.is_err() || opened.is_err() || orphan {
        std::process::exit(1)
    }
    match role {
        Role::Spin(_) => spin(),
        Role::Poke { poked, .. } => poke(poked),
    }
}

/// Puts the calling process on its core, into its group and under its scheduling.
fn settle(role: &Role, mounts: &Mounts, core: usize) -> Result<(), Error> {
    let enter = |doors: &[File]| cgroup::enter(doors).map_err(Error::io("enter a control group"));
    match role {
        Role::Spin(group) => {
            // Pinned first: load that a group once had on another core would lower its weight here for a while.
            sched::pin(core).map_err(Error::io(format!("run on core {core}")))?;
            enter(&group.doors()?)?;
            sched::set_slice(sched::SLICE_NS).map_err(Error::io("set a scheduling slice"))
        }
        Role::Poke { own, .. } => {
            // Accounted to the run, but scheduled like any task: the run's tree outweighs all else on a core.
            enter(&own.doors()?)?;
            enter(&[Group::at(mounts, "/").sched_door()?])?;
            sched::avoid(core).map_err(Error::io("leave the nodes' core"))
        }
    }
}

/// Burns the core for ever, in user mode and without PAUSE: hypervisors take a loop of PAUSEs for a lock and deschedule
/// the whole virtual CPU.
fn spin() -> ! {
    let mut n = 0u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}

/// Makes the kernel account for the nodes' core every [`POKE`], from another core, for ever.
///
/// Changing the weight of a queued group charges whatever runs beside it, and the kernel then sees that a slice is over and
/// interrupts the core. `poked` is a group of its own with a spinner and almost no weight: poking one that competes can
/// starve the others.
///
/// It waits by spinning, because a timer costs ten times the poke in a virtual machine, and lets everybody else on its core go
/// first. Where others want that core for long, it sleeps between pokes, in real time, until they have stopped.
fn poke(poked: &Group) -> ! {
    let weight = poked.weight_file().unwrap_or_else(|_| std::process::exit(1));
    let mut next = probe::now() + POKE;
    let (mut window, mut lost) = (next, 0);
    let mut real_time_until: Option<RealInstant> = None;
    for turn in (0u8..2).cycle() {
        match real_time_until {
            Some(_) => probe::sleep_until(next),
            None => while probe::now() < next {},
        }
        if weight.write_at(&[b'2' + turn], 0).is_err() {
            std::process::exit(1);
        }
        rustix::thread::sched_yield();
        let now = probe::now();
        if let Some(until) = real_time_until {
            if now > until && sched::set_slice(0).is_ok() {
                (real_time_until, window, lost) = (None, now, 0);
            }
        } else {
            let gap = now.since(next);
            lost += if gap > LATE { gap.as_nanos() } else { 0 };
            if lost > WINDOW.as_nanos() / 5 && sched::set_fifo().is_ok() {
                real_time_until = Some(now + REAL_TIME);
            }
            if now.since(window) > WINDOW {
                (window, lost) = (now, 0);
            }
        }
        next = now + POKE;
    }
    unreachable!("the cycle has no end")
}
