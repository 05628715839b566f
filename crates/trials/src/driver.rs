//! Drives the `diorama` program by its command line.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use record::{RunDir, RunResult, Status, Variant};
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;
use crate::way::{self, Said};

/// How often a running `diorama` is looked after.
const TICK: Duration = Duration::from_millis(20);

/// The program, and whether a signal has asked this one to end.
pub struct Driver {
    program: PathBuf,
    interrupted: Arc<AtomicBool>,
}

impl Driver {
    /// The `diorama` beside this program. From now on INT, TERM and HUP are heard here, and passed on.
    pub fn new() -> Result<Driver, Failure> {
        let own = std::env::current_exe().map_err(|e| Failure::failed(format!("cannot tell where I am: {e}")))?;
        let program = own.with_file_name("diorama");
        if !program.exists() {
            let message = format!("there is no {}: build it first (cargo build --release, or make)", program.display());
            return Err(Failure { code: 3, message });
        }
        if !rustix::process::geteuid().is_root() {
            let message = "experiments need root: run this as root (sudo make demo)".into();
            return Err(Failure { code: 3, message });
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .map_err(|e| Failure::failed(format!("cannot listen to signals: {e}")))?;
        }
        Ok(Driver { program, interrupted })
    }

    /// Runs an experiment into the directory `out`; its progress goes to standard error, and what it prints at the end
    /// is shown only if `talks`.
    pub fn run(&self, experiment: &Path, variant: Variant, out: &Path, talks: bool) -> Result<RunResult, Failure> {
        self.run_with(experiment, variant, &[], out, talks)
    }

    /// Runs it with values of the experiment changed (`--set`).
    pub fn run_with(
        &self,
        experiment: &Path,
        variant: Variant,
        set: &[(&str, &str)],
        out: &Path,
        talks: bool,
    ) -> Result<RunResult, Failure> {
        let mut command = Command::new(&self.program);
        command.arg("run").arg(experiment).args(["--variant", variant.as_str()]).arg("--out").arg(out);
        if variant == Variant::Naive {
            // A program that takes seconds to start on so little CPU has nothing to show in the few seconds that others
            // are measured for: all of it counts, until its limit.
            command.arg("--set=measure=0s..");
        }
        command.args(set.iter().map(|(path, value)| format!("--set={path}={value}")));
        if !talks {
            command.stdout(Stdio::null());
        }
        let what = format!("{} as {variant}", experiment.display());
        self.finish(command, &what)?;
        let result = RunDir::at(out).result().map_err(Failure::failed)?;
        if result.status == Status::Failed {
            let why = result.why.unwrap_or_else(|| "it does not say why".into());
            return Err(Failure::failed(format!("{what} failed: {why}. Its logs are in {}", out.display())));
        }
        Ok(result)
    }

    /// `diorama bench MECHANISM --json`, as it stands.
    pub fn bench(&self, mechanism: &str) -> Result<serde_json::Value, Failure> {
        let mut command = Command::new(&self.program);
        command.args(["bench", mechanism, "--json"]).stdout(Stdio::piped());
        let printed = self.finish(command, &format!("diorama bench {mechanism}"))?;
        serde_json::from_slice(&printed)
            .map_err(|e| Failure::failed(format!("diorama bench {mechanism} printed no JSON: {e}")))
    }

    /// The `diorama` that is driven.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs a command whose standard output is a pipe to its end, and gives what it said.
    pub fn listen(&self, command: Command, what: &str) -> Result<Said, Failure> {
        self.attend(command, what, way::listen)
    }

    /// Waits for a command and gives what it wrote to standard output, if that is a pipe.
    fn finish(&self, command: Command, what: &str) -> Result<Vec<u8>, Failure> {
        self.attend(command, what, |mut pipe| {
            let mut bytes = Vec::new();
            // Output that could not be read is missed when it is parsed.
            let _ = std::io::Read::read_to_end(&mut pipe, &mut bytes);
            bytes
        })
    }

    /// Waits for a command that must succeed, and gives what `read` makes of its standard output, if that is a pipe.
    fn attend<T, R>(&self, mut command: Command, what: &str, read: R) -> Result<T, Failure>
    where
        T: Default + Send + 'static,
        R: FnOnce(ChildStdout) -> T + Send + 'static,
    {
        let mut child = apart(&mut command).spawn().map_err(|e| {
            let program = command.get_program().display();
            Failure::failed(format!("cannot start {program}: {e}"))
        })?;
        let reader = child.stdout.take().map(|pipe| thread::spawn(move || read(pipe)));
        let status = self.wait(&mut child, what, None)?.expect("without a limit there is an end");
        let said = reader.map(|reader| reader.join().unwrap_or_default()).unwrap_or_default();
        match status.code() {
            Some(0) => Ok(said),
            Some(code) => {
                let message = format!("{what} ended with exit code {code}; its message is above");
                Err(Failure { code: u8::try_from(code).unwrap_or(1), message })
            }
            None => {
                let signal = status.signal().unwrap_or_default();
                Err(Failure::failed(format!("{what} was killed by signal {signal}")))
            }
        }
    }

    /// Waits for a child that was started [`apart`], for no longer than `patience`: `None` if it runs on. A signal
    /// to end is passed on to the child once, and is a failure of code 130 when it has ended.
    pub fn wait(
        &self,
        child: &mut Child,
        what: &str,
        patience: Option<Duration>,
    ) -> Result<Option<ExitStatus>, Failure> {
        let start = Instant::now();
        let mut passed_on = false;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|e| Failure::failed(format!("lost sight of {what}: {e}")))? {
                break Some(status);
            }
            if patience.is_some_and(|patience| start.elapsed() >= patience) {
                break None;
            }
            thread::sleep(TICK);
            if self.interrupted.load(Ordering::Relaxed) && !passed_on {
                passed_on = true;
                // It may just have ended, which the next look shows.
                let _ = rustix::process::kill_process(Pid::from_child(child), Signal::TERM);
            }
        };
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure { code: 130, message: format!("interrupted during {what}; everything is torn down") });
        }
        Ok(status)
    }
}

/// Gives a command a process group of its own, and TERM when this process is gone. Ctrl-C then reaches this process
/// only, which passes it on once; `diorama` takes a second signal as an order to leave at once.
pub fn apart(command: &mut Command) -> &mut Command {
    command.process_group(0);
    // SAFETY: prctl(PR_SET_PDEATHSIG) is async-signal-safe and touches no memory of the parent.
    unsafe { command.pre_exec(|| Ok(rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?)) }
}
