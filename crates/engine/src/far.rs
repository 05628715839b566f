//! Machines of a harness, from here: the command that leads to each is started, its site is asked, and what is between
//! is measured.

mod doctor;

use std::fmt;
use std::io::{BufRead, BufReader, BufWriter, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use host::warn;
use rustix::process::{Pid, Signal, kill_process_group};
use site::{Error, Exchange, Kind, Opening, RemoteMachine, Result, Site};

pub use doctor::{Between, Found, Seen, look};

/// How long a machine has for its first word: ssh's own limit, and some for what starts there.
const GREETING: Duration = Duration::from_secs(15);
/// How long a short question may take.
const QUESTION: Duration = Duration::from_secs(10);
/// How long the command has to end after its stream has.
const ENDING: Duration = Duration::from_secs(3);
/// How many lines of what the command says on its standard error are kept for messages.
const KEPT_LINES: usize = 10;
/// How long a line of it is at most, in bytes.
const LONGEST_LINE: u64 = 4096;

/// A machine of the harness: its name, and the command that gives a stream to `diorama site` there.
#[derive(Clone, Debug)]
pub struct Way {
    /// Its name.
    pub name: String,
    /// The command and its arguments.
    pub argv: Vec<String>,
}

/// The machine at the other end of a command's standard input and output.
pub type Stream = RemoteMachine<BufReader<ChildStdout>, BufWriter<ChildStdin>>;

/// A machine that answers.
pub struct Far {
    way: Way,
    child: Child,
    /// None when it is let go of.
    machine: Option<Stream>,
    last_words: Arc<LastWords>,
}

/// The last lines of a command's standard error.
#[derive(Debug, Default)]
struct LastWords {
    /// Its last lines.
    kept: Mutex<Vec<String>>,
    /// Whether the user is told each.
    told: AtomicBool,
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Far").field("way", &self.way).finish_non_exhaustive()
    }
}

impl Far {
    /// Starts the command that leads to a machine, and has its site say which version it is. Both have to be of
    /// `release`.
    ///
    /// # Errors
    ///
    /// If there is no such command, nobody answers, or it is another version: with the machine's name, and the last
    /// line that the command said.
    pub fn reach(way: &Way, release: &str) -> Result<Far> {
        let [program, arguments @ ..] = &way.argv[..] else {
            return Err(Error::input(format_args!("there is no command that leads to `{}`", way.name)));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A ^C at the terminal is for the coordinator, who then ends what it has begun.
        command.process_group(0);
        let mut child = command.spawn().map_err(|e| {
            let what = format!("`{}` cannot be reached: `{program}` cannot be started here: {e}", way.name);
            Error::machine(what, "install it, or name it with its path")
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(to), Some(from), Some(errors)) = pipes else {
            return Err(Error::failed("a command that was started with pipes has none"));
        };
        let last_words = Arc::new(LastWords::default());
        let (heard, name) = (Arc::clone(&last_words), way.name.clone());
        thread::spawn(move || heard.hear(errors, &name));
        let mut far = Far { way: way.clone(), child, machine: None, last_words };
        let greeted = far.within(GREETING, || RemoteMachine::new(BufReader::new(from), BufWriter::new(to), release));
        far.machine = Some(greeted?);
        Ok(far)
    }

    /// The machine's name.
    pub fn name(&self) -> &str {
        &self.way.name
    }

    /// Asks the machine something that takes no longer than `limit`.
    ///
    /// # Errors
    ///
    /// Its own, with the machine's name; if it takes longer, and the machine is given up then.
    pub fn ask<T>(&mut self, limit: Duration, what: impl FnOnce(&mut Stream) -> Result<T>) -> Result<T> {
        let Some(mut machine) = self.machine.take() else {
            return Err(Error::lost(format_args!("`{}` has been given up", self.way.name)));
        };
        // Where it fails its stream ends here, and the command with it.
        let answer = self.within(limit, || what(&mut machine))?;
        self.machine = Some(machine);
        Ok(answer)
    }

    /// Does something with the stream; what takes longer than `limit` is ended by ending the command.
    fn within<T>(&mut self, limit: Duration, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let group = Pid::from_child(&self.child);
        let (done, wait) = bounded::<()>(0);
        let watch = thread::spawn(move || {
            let late = wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if late {
                // It has not been waited for: its number is still its own.
                let _ = kill_process_group(group, Signal::KILL);
            }
            late
        });
        let result = work();
        drop(done);
        let late = watch.join().unwrap_or(false);
        result.map_err(|e| self.told(e, late.then_some(limit)))
    }

    /// A failure with the machine's name, and what the command said of it.
    fn told(&mut self, e: Error, late: Option<Duration>) -> Error {
        let (name, command) = (&self.way.name, shown(&self.way.argv));
        if let Some(limit) = late {
            let what = format!("`{name}` did not answer within {limit:?}");
            return Error::machine(what, format_args!("see what hangs there: `{command}`"));
        }
        if e.kind != Kind::Lost {
            return Error { what: format!("`{name}`: {}", e.what), ..e };
        }
        // Its last line comes with its end.
        let end = Instant::now() + Duration::from_millis(500);
        let mut status = None;
        while status.is_none() && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
            status = self.child.try_wait().ok().flatten();
        }
        let words = self.last_words.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let said = words.last().map(|line| line.trim());
        let said = match (said, status) {
            (Some(line), _) => format!("says `{}`", line.escape_debug()),
            (None, Some(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with code {code}"),
                (None, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
            },
            (None, None) => e.what,
        };
        let program = self.way.argv.first().map_or("", String::as_str);
        let what = format!("`{name}` cannot be reached: `{program}` {said}");
        Error::machine(
            what,
            format_args!("try it: `{command} </dev/null` has to print a line that begins with diorama-site"),
        )
    }

    /// Makes sure that a run can have its site at the other end as long as files, and instants of the clock, are this
    /// machine's.
    ///
    /// # Errors
    ///
    /// If it is another machine, has another clock, or its site is not root's.
    pub fn must_be_here(&mut self) -> Result<()> {
        let about = self.ask(QUESTION, Stream::about)?;
        let name = &self.way.name;
        if !about.root {
            let what = format!("the site of `{name}` is not root's, and a run needs root");
            return Err(Error::machine(what, "start it by `sudo`, in the harness file's `command`"));
        }
        if about.boot != host::time::boot().unwrap_or_default() {
            let what =
                format!("`{name}` is another machine ({}), and a run takes place on this one yet", about.host_name);
            return Err(Error::machine(what, "start `diorama run` there; docs/harness.md says what is missing"));
        }
        let off = |exchange: &Exchange| {
            let [low, high] = exchange.bounds();
            low > 0 || high < 0
        };
        let exchanges =
            self.ask(QUESTION, |machine| (0..10).map(|_| machine.exchange(host::now)).collect::<Result<Vec<_>>>())?;
        if exchanges.iter().any(off) {
            let what =
                format!("`{}` has another clock than this machine, which a run does not follow yet", self.way.name);
            return Err(Error::machine(what, "start its site outside of a time namespace"));
        }
        Ok(())
    }

    /// Opens a run there: its site, and what is to be held until the site has been taken down. What the site says on
    /// its standard error is told the user from then on.
    ///
    /// # Errors
    ///
    /// As of [`Far::ask`], and if the machine cannot have the run.
    pub fn open(mut self, opening: Opening) -> Result<(Box<dyn Site>, Far)> {
        let Some(machine) = self.machine.take() else {
            return Err(Error::lost(format_args!("`{}` has been given up", self.way.name)));
        };
        let site = self.within(QUESTION, || machine.open(opening))?;
        self.last_words.told.store(true, Ordering::Relaxed);
        Ok((Box::new(site), self))
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // Its site ends with its stream, and the command with that.
        drop(self.machine.take());
        let end = Instant::now() + ENDING;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A command as it is typed, as far as one can tell without a shell.
fn shown(argv: &[String]) -> String {
    let plain =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./=:@%+,".contains(&b));
    let word = |word: &String| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

impl LastWords {
    /// Hears what a command says until it ends. A line that is too long comes in several.
    fn hear(&self, from: impl Read, name: &str) {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while let Ok(1..) = (&mut from).take(LONGEST_LINE).read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if text.is_empty() {
                continue;
            }
            if self.told.load(Ordering::Relaxed) {
                warn(format_args!("{name}: {}", text.strip_prefix("diorama: ").unwrap_or(&text)));
            }
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(text);
            let too_many = kept.len().saturating_sub(KEPT_LINES);
            kept.drain(..too_many);
        }
    }
}
