//! Running programs natively and dilated, through the library.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diorama_clock::{ClockPage, Injector, VirtualCpu, dilate_exec_file, launch, launch_by, wait};
use host::node_clock::NodeClock;
use scale::Tdf;

/// A program's output and times.
#[allow(dead_code, reason = "each test binary uses its part")]
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: String,
    /// How long it took, in real time.
    pub real: Duration,
    /// Delay that the machine may have added to any of its waits meanwhile, in real time.
    pub noise: Duration,
}

/// A reference for everything that asserts how long something took: what a wait of a few ms and a bit of work, neither
/// of them dilated, take too long at worst while that something goes on.
#[allow(dead_code, reason = "each test binary uses its part")]
#[derive(Debug)]
pub struct Noise {
    done: Arc<AtomicBool>,
    worst: JoinHandle<Duration>,
}

#[allow(dead_code, reason = "each test binary uses its part")]
impl Noise {
    /// Begins to listen.
    pub fn begin() -> Noise {
        let done = Arc::new(AtomicBool::new(false));
        let ended = done.clone();
        let worst = std::thread::spawn(move || {
            const WAIT: Duration = Duration::from_millis(5);
            const WORK: Duration = Duration::from_micros(300);
            let cpu = || {
                let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
            };
            let mut worst = Duration::ZERO;
            while !ended.load(Ordering::Relaxed) {
                let start = Instant::now();
                std::thread::sleep(WAIT);
                let begin = cpu();
                while cpu() - begin < WORK {}
                worst = worst.max(start.elapsed() - WAIT - WORK);
            }
            worst
        });
        Noise { done, worst }
    }

    /// The latest end of a wait: on a quiet machine `least`, else some times as much as the reference was at worst,
    /// because a program that forks, executes or wakes another waits for the processor more than once.
    pub fn end(self, least: Duration) -> Duration {
        self.done.store(true, Ordering::Relaxed);
        least + self.worst.join().expect("it does not panic") * 10
    }
}

/// An injector with a started page.
#[allow(dead_code, reason = "each test binary uses its part")]
pub struct Dilation {
    pub page: ClockPage,
    pub injector: Injector,
    pub refusals: Arc<Mutex<Vec<String>>>,
    exec: OwnedFd,
    cpu: VirtualCpu,
}

#[allow(dead_code, reason = "each test binary uses its part")]
impl Dilation {
    pub fn new(tdf: &str) -> Dilation {
        let tdf: Tdf = tdf.parse().unwrap();
        let page = ClockPage::new(tdf).unwrap();
        let refusals = Arc::new(Mutex::new(Vec::new()));
        let told = refusals.clone();
        let injector = Injector::start(&page, None, move |s| told.lock().unwrap().push(s.to_owned())).unwrap();
        page.start();
        Dilation { page, injector, refusals, exec: dilate_exec_file().unwrap(), cpu: VirtualCpu::undivided(tdf) }
    }

    /// Also for rdtsc.
    pub fn with_dilated_tsc(mut self) -> Dilation {
        self.cpu = self.cpu.with_dilated_tsc();
        self
    }

    /// For programs that stay on one core.
    pub fn on_one_core(mut self) -> Dilation {
        self.cpu = self.cpu.on_one_core();
        self
    }

    /// For programs that see so many CPUs, and stay on one core.
    pub fn with_cpus(mut self, count: u32) -> Dilation {
        self.cpu = self.cpu.on_one_core().with_cpus(count);
        self
    }

    /// For a virtual CPU of this speed.
    pub fn with_speed(mut self, speed: f64) -> Dilation {
        self.cpu = VirtualCpu::speed(speed).unwrap();
        self
    }

    pub fn command<S: AsRef<OsStr>>(&self, argv: impl IntoIterator<Item = S>) -> Command {
        launch(self.exec.as_fd(), self.injector.admit(self.cpu).unwrap(), argv)
    }

    /// In a node with this clock.
    pub fn command_in_node<S: AsRef<OsStr>>(&self, clock: &NodeClock, argv: impl IntoIterator<Item = S>) -> Command {
        let admitted = self.injector.admit_as("", self.cpu, Some(clock)).unwrap();
        launch_by(self.exec.as_fd(), admitted, &["--looks"], argv)
    }

    pub fn run<S: AsRef<OsStr>>(&self, argv: impl IntoIterator<Item = S>) -> Ran {
        run(self.command(argv))
    }
}

#[allow(dead_code, reason = "each test binary uses its part")]
pub fn native<S: AsRef<OsStr>>(argv: impl IntoIterator<Item = S>) -> Ran {
    let mut argv = argv.into_iter();
    let mut command = Command::new(argv.next().expect("a command"));
    command.args(argv);
    run(command)
}

pub fn run(mut command: Command) -> Ran {
    let (start, noise) = (Instant::now(), Noise::begin());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    let status = wait(&mut child).unwrap();
    Ran { status, stdout, real: start.elapsed(), noise: noise.end(Duration::from_millis(100)) }
}

/// Compiles `programs/NAME.c`; `flags` such as `-static`. Tests that run side by side may want the same one: each
/// compiles its own and gives it the name at once, for what is being written cannot be executed.
#[allow(dead_code, reason = "each test binary uses its part")]
pub fn compile(name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}{}", flags.concat()));
    let mine = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let written = mine.path().join("program");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(flags);
    let status = cc.arg("-o").arg(&written).arg(source).args(["-lrt", "-lm"]).status();
    assert!(status.expect("the tests need a C compiler: apt install gcc").success(), "{name}.c does not compile");
    fs::rename(written, &output).unwrap();
    output
}
