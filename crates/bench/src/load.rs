//! Loads of a benchmark's nodes, and of cores to be kept awake: processes of this program, for there are
//! control groups that take in no single threads (version 2), and only a process can have a session of its own.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use cpu::{CpuGroups, NodeShare, probe};
use host::Awake;
use host::sched::LightSession;
use rustix::process::Signal;
use scale::{RealDuration, Tdf};

use crate::Error;
use crate::cpu::BURSTS;
use crate::stats::median;

/// The hidden verb, and what follows it.
const VERB: &str = "__load";
const BUSY: &str = "busy";
const BURSTING: &str = "bursts";
const AWAKE: &str = "awake";
/// A process's first byte, once it has begun.
const BEGUN: u8 = b'+';

/// Does that job and never returns, if the arguments of this process (without the program's name) ask for it.
pub(crate) fn become_load(mut arguments: impl Iterator<Item = String>) {
    if arguments.next().as_deref() != Some(VERB) {
        return;
    }
    // Nothing computes in a node of which nobody knows any more.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let said = match arguments.next().as_deref() {
        Some(BUSY) => busy(),
        Some(BURSTING) => bursting(arguments.next()),
        Some(AWAKE) => awake(arguments),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    let told = said.and_then(|said| io::stdout().write_all(&said));
    std::process::exit(i32::from(told.is_err()));
}

fn say_begun() -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(&[BEGUN])?;
    out.flush()
}

/// Keeps cores awake without end, and gives way to everything else on them: also to the kernel's own threads, which
/// serve devices.
fn awake(cores: impl Iterator<Item = String>) -> io::Result<Vec<u8>> {
    let _light = LightSession::begin();
    let kept = cores.filter_map(|core| core.parse().ok()).map(Awake::keep).collect::<Result<Vec<_>, _>>();
    let _kept = kept.inspect_err(|e| eprintln!("diorama: {e}")).map_err(io::Error::other)?;
    say_begun()?;
    loop {
        thread::park();
    }
}

fn bursting(tdf: Option<String>) -> io::Result<Vec<u8>> {
    let tdf = tdf.and_then(|tdf| tdf.parse().ok()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(serde_json::to_vec(&walls(tdf))?)
}

/// Computes without end.
fn busy() -> io::Result<Vec<u8>> {
    say_begun()?;
    let mut n = 0u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}

/// Sleeps, wakes and works, many times; the median by length of burst, in virtual seconds from the moment of waking.
fn walls(tdf: Tdf) -> Vec<f64> {
    // The first call finds out how fast the clock is read.
    probe::work(RealDuration::ZERO);
    let mut phase = 0u64;
    let wall = |(work, times): &(f64, usize)| {
        let work = RealDuration::from_secs_f64(work / 1e3);
        let walls = (0..*times)
            .map(|_| {
                // Steps that fit no period of the scheduler's.
                phase = (phase + 1_618_033) % 5_000_000;
                let start = host::now() + RealDuration::from_nanos(3_000_000 + phase);
                host::time::sleep_until(start);
                tdf.to_virtual(probe::work(work).since(start)).as_secs_f64()
            })
            .collect();
        median(walls)
    };
    BURSTS.iter().map(wall).collect()
}

/// A process that computes in a node, or keeps cores awake, for as long as this lives.
pub(super) struct Load(Child);

impl Load {
    /// Starts one in each of these nodes; returns when all have begun.
    pub fn busy(groups: &CpuGroups, nodes: &[NodeShare]) -> Result<Vec<Load>, Error> {
        let start = |node: &NodeShare| Ok(Load(start(groups, &node.name, &[BUSY])?));
        // All at once: to begin takes the CPU that the node has, and none of it is the next one's to wait for.
        let mut loads = nodes.iter().map(start).collect::<Result<Vec<_>, Error>>()?;
        loads.iter_mut().try_for_each(Load::has_begun)?;
        Ok(loads)
    }

    /// Starts one that keeps these cores from falling asleep; returns when it does.
    pub fn awake(cores: &[usize]) -> Result<Load, Error> {
        let mut command = command(&[AWAKE]);
        command.args(cores.iter().map(usize::to_string));
        let mut load = Load(command.spawn().map_err(Error::failed)?);
        load.has_begun()?;
        Ok(load)
    }

    fn has_begun(&mut self) -> Result<(), Error> {
        let mut begun = [0];
        let out = self.0.stdout.as_mut().ok_or_else(|| Error::failed("a process has no output"))?;
        out.read_exact(&mut begun).map_err(|e| Error::failed(format!("a process has not begun its work: {e}")))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How long bursts of work take in a node: medians, in virtual ms from the moment of waking, by length of burst.
pub(super) fn bursts(groups: &CpuGroups, node: &str, tdf: Tdf) -> Result<Vec<f64>, Error> {
    let output = start(groups, node, &[BURSTING, &tdf.to_string()])?.wait_with_output().map_err(Error::failed)?;
    if !output.status.success() {
        return Err(Error::failed(format!("what works in bursts failed: {}", output.status)));
    }
    let seconds: Vec<f64> = serde_json::from_slice(&output.stdout).map_err(Error::failed)?;
    Ok(seconds.into_iter().map(|s| s * 1e3).collect())
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(VERB).args(words).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn start(groups: &CpuGroups, node: &str, words: &[&str]) -> Result<Child, Error> {
    let joiner = groups.joiner(node)?;
    let mut command = command(words);
    // SAFETY: between fork and exec this makes system calls on open files only; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(move || joiner.join()) };
    command.spawn().map_err(Error::failed)
}
