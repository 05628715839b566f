//! How long data that are not used stay in a core's caches.
//!
//! Under dilation the real time between two uses of the same data grows by the TDF. On a machine of one's own that
//! alone does no harm: data leave a cache when others need the room. In a virtual machine *others* are the neighbours,
//! who need it in real time.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

pub use counters::Staleness;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use scale::RealDuration;

use host::sched::{self, Class};
use host::time::sleep_until;

use crate::NodeJoiner;

const LINES: usize = Staleness::LINES;
/// Steps between two lines that follow each other: odd, so that all are visited, and far, so that nothing is fetched
/// ahead.
const STRIDE: usize = 389;
const REPEATS: usize = 15;

/// A cache line, so that an array of them is aligned as the cache is.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct CacheLine(usize);

/// How long a busy program leaves its data alone where it has a core to itself.
pub const SOON: RealDuration = RealDuration::from_nanos(1_000_000);
/// Beyond this a cache forgets no more.
const LONGEST: RealDuration = RealDuration::from_nanos(20_000_000);

/// Measures a core that has nothing else to do, with data left alone for each of `aways` (of which at most 20 ms
/// count). Takes some fifteen times as long as all of them. `None` if this process may not use the core.
pub fn measure(core: usize, aways: &[RealDuration]) -> Option<Vec<Staleness>> {
    let probe = || {
        host::pin(core).ok()?;
        let soon = fetch_after(SOON);
        let aways = aways.iter().map(|away| (*away).min(LONGEST));
        Some(aways.map(|away| Staleness { soon, away, late: fetch_after(away) }).collect())
    };
    std::thread::scope(|threads| threads.spawn(probe).join().ok().flatten())
}

/// The mean real time to fetch a line of memory that was last touched `away` ago, while the calling thread's core ran
/// nothing that needs memory. Takes some fifteen times `away`; the median of as many.
fn fetch_after(away: RealDuration) -> RealDuration {
    let lines = Lines::new();
    let mut took: Vec<u64> = (0..=REPEATS)
        .map(|_| {
            let leave = host::now();
            while host::now().since(leave) < away {}
            lines.fetch()
        })
        .skip(1)
        .collect();
    took.sort_unstable();
    RealDuration::from_nanos(took[took.len() / 2] / LINES as u64)
}

/// Memory to come back to.
struct Lines(Vec<CacheLine>);

impl Lines {
    fn new() -> Lines {
        Lines((0..LINES).map(|i| CacheLine((i + STRIDE) % LINES)).collect())
    }

    /// Fetches every line, one after the other; nanoseconds.
    fn fetch(&self) -> u64 {
        let start = host::now();
        let last = (0..LINES).fold(0, |at, _| self.0[at].0);
        std::hint::black_box(last);
        host::now().since(start).as_nanos()
    }
}

/// Measures a core while a run has it: twice a second for some tenths of a millisecond, in real time. In between the
/// core does what the run wants.
#[derive(Debug)]
pub struct Sampler {
    away: RealDuration,
    who: Who,
}

#[derive(Debug)]
enum Who {
    /// A thread, which ends when its channel does.
    Thread(Sender<()>, JoinHandle<Vec<Pair>>),
    /// A process, which ends with its input: threads of one process cannot be in different groups of version 2.
    Process(Child),
}

/// The times of all lines that were touched [`SOON`] ago, and of all that were left alone for longer; ns.
type Pair = [u64; 2];

/// From one sample to the next.
const PAUSE: Duration = Duration::from_millis(500);
/// The pause as the kernel takes it.
const PAUSE_OF_KERNEL: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
/// Fewer samples than this say nothing.
const LEAST: usize = 6;

impl Sampler {
    /// Starts to measure, with data left alone for `away` (at most 20 ms count).
    pub fn start(core: usize, away: RealDuration) -> io::Result<Sampler> {
        let away = away.min(LONGEST);
        let (stop, stopped) = channel();
        let body = move || {
            let ready = host::pin(core).and_then(|()| sched::set(CLASS));
            let mut samples = Vec::new();
            if ready.is_ok() {
                sample(away, || pauses(&stopped), |pair| samples.push(pair));
            }
            samples
        };
        let thread = std::thread::Builder::new().name("caches".into()).spawn(body)?;
        Ok(Sampler { away, who: Who::Thread(stop, thread) })
    }

    /// Starts on a core on which only members of some groups can be, by a process that enters one of them.
    pub(crate) fn start_inside(joiner: NodeJoiner, away: RealDuration) -> io::Result<Sampler> {
        let away = away.min(LONGEST);
        let mut command = Command::new("/proc/self/exe");
        command.arg("__caches").arg(away.as_nanos().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: between fork and exec this makes system calls on open files only; it takes no lock and allocates
        // nothing.
        unsafe { command.pre_exec(move || joiner.join()) };
        Ok(Sampler { away, who: Who::Process(command.spawn()?) })
    }

    /// The mean over all the time; `None` if that was too short, or if this process may not measure.
    pub fn finish(self) -> Option<Staleness> {
        let samples = match self.who {
            Who::Thread(stop, thread) => {
                drop(stop);
                thread.join().ok()
            }
            Who::Process(process) => told(process),
        };
        let samples = samples.filter(|s| s.len() >= LEAST)?;
        let [soon, late] = [0, 1].map(|i| line_of(samples.iter().map(|s| s[i]).collect()));
        Some(Staleness { soon, away: self.away, late })
    }
}

/// It preempts whatever the run has on the core.
const CLASS: Class = Class::RealTime { priority: 1, inherited: true };

/// Takes a sample after each pause, until there is none.
fn sample(away: RealDuration, pauses: impl Fn() -> bool, mut tell: impl FnMut(Pair)) {
    let lines = Lines::new();
    while pauses() {
        tell([SOON, away].map(|away| {
            lines.fetch();
            sleep_until(host::now() + away);
            lines.fetch()
        }));
    }
}

/// Whether nobody has stopped it for the length of a pause.
fn pauses(stopped: &Receiver<()>) -> bool {
    stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout)
}

/// The process behind the hidden verb `__caches`, which is on its core already; `args` are those that
/// [`crate::CpuGroups::sampler`] gave it. A sample a line, when its input ends.
pub fn main(args: &[String]) -> ! {
    let away = args.first().and_then(|away| away.parse().ok()).map(RealDuration::from_nanos);
    let mut told = String::new();
    if let Some(away) = away.filter(|_| sched::set(CLASS).is_ok()) {
        // Whoever would read it has gone if this fails, and then so does it.
        let nobody_stops = || {
            let stdin = io::stdin();
            poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&PAUSE_OF_KERNEL)) == Ok(0)
        };
        sample(away, nobody_stops, |[soon, late]| told += &format!("{soon} {late}\n"));
    }
    let written = io::stdout().write_all(told.as_bytes());
    std::process::exit(i32::from(written.is_err()))
}

/// Reads the samples of such a process.
fn told(mut process: Child) -> Option<Vec<Pair>> {
    drop(process.stdin.take());
    let lines = BufReader::new(process.stdout.take()?).lines();
    let samples = lines.map_while(Result::ok).map(|line| pair(&line)).collect();
    // It has no more to say, and ends.
    let _ = process.wait();
    samples
}

fn pair(line: &str) -> Option<Pair> {
    let (soon, late) = line.split_once(' ')?;
    Some([soon.parse().ok()?, late.parse().ok()?])
}

/// The mean time of a line, of samples of all lines. Of twenty samples the longest is left out: an interrupt came.
fn line_of(mut samples: Vec<u64>) -> RealDuration {
    samples.sort_unstable();
    samples.truncate(samples.len() - samples.len() / 20);
    let mean = samples.iter().sum::<u64>() / samples.len().max(1) as u64;
    RealDuration::from_nanos(mean / LINES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_twenty_samples_the_longest_does_not_count() {
        let ns = |lines: u64| lines * LINES as u64;
        let mut samples = vec![ns(4); 10];
        samples.extend([ns(8); 9]);
        samples.push(1_000_000_000);
        assert_eq!(line_of(samples), RealDuration::from_nanos((40 + 72) / 19));
        assert_eq!(line_of(vec![ns(7)]), RealDuration::from_nanos(7));
        assert_eq!(line_of(Vec::new()), RealDuration::ZERO);
    }

    #[test]
    fn every_line_is_fetched() {
        let lines = Lines::new();
        let mut at = 0;
        let visited: std::collections::HashSet<usize> = (0..LINES)
            .map(|_| {
                at = lines.0[at].0;
                at
            })
            .collect();
        assert_eq!(visited.len(), LINES);
    }

    #[test]
    fn what_a_process_says_is_read() {
        let says = |text: &str| {
            let mut command = Command::new("printf");
            told(command.arg(text).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
        };
        assert_eq!(says("12 34\\n56 78\\n"), Some(vec![[12, 34], [56, 78]]));
        assert_eq!((says(""), says("12\\n")), (Some(Vec::new()), None));
    }

    #[test]
    fn who_is_stopped_at_once_has_found_nothing() {
        let sampler = Sampler::start(0, SOON).unwrap();
        assert_eq!(sampler.finish(), None);
    }
}
