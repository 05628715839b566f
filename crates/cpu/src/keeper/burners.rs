//! The hidden verb `__keeper`: the processes that keep every node's group always runnable, and the
//! poke that keeps slices short.
//!
//! A single-threaded parent forks two children before it does anything else: the poke, and the fillers, which are
//! threads of one process, or processes that share one memory where groups hold no threads. Each enters its group and
//! waits. Over the parent's standard input and output it answers [words](crate::keeper::helper) of the engine. Both
//! children end with the parent, and the parent when its input is closed, so nothing spins on the core for longer than
//! there is a run.
//!
//! One process, because a core remembers the translations of few address spaces (Linux gives each core six): between
//! two turns of a scaled node many more fillers run than in the baseline, and as processes they drove out the node's
//! translations at each turn, which made a scaled web server's requests 6 % dearer.

mod processes;

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;

use host::cgroup::{Group, Joiner};
use host::cores;
use host::sched::{self, Class};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::Pid;
use scale::RealDuration;

use crate::Error;
use crate::keeper::counters::{Board, Meter, OfCore};
use crate::keeper::helper::{FAILED, Word};
use crate::keeper::reschedule::{self, Burner, Ender, SeveralCpus, Way};
use crate::measure::yardstick::Laps;
use crate::share::layout::{self, Layout};

/// What stands between what is burnt and the place of its core; no name of a group has it.
const AT: char = '@';

/// What is to burn beside a node, or in place of one: its [place](Layout::place), on which core, and how many slices
/// its turns last.
pub type Burnt = (String, usize, f64);

/// A node with several CPUs: its name, its place among the nodes, and what it has beside its siblings while one of its
/// CPUs is at work.
pub type Several = (String, usize, f64);

/// The arguments after the verb: run id, cores, slice in ns, what ends turns, the nodes with several CPUs, and of each
/// of `burnt` its place with that of its core among those, and how many slices its turns last.
pub fn arguments(
    run_id: &str,
    cores: &[usize],
    slice: RealDuration,
    way: Way,
    several: &[Several],
    burnt: impl Iterator<Item = Burnt>,
) -> Vec<String> {
    let numbers = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let several = several.iter().map(|(name, node, fraction)| format!("{name}{AT}{node}{AT}{fraction}"));
    let several = several.collect::<Vec<_>>().join(",");
    let first = [run_id.to_owned(), numbers, slice.as_nanos().to_string(), way.word().to_owned(), several];
    let among = |core| cores.iter().position(|other| *other == core).unwrap_or(0);
    let each = burnt.flat_map(|(place, core, stretch)| [format!("{place}{AT}{}", among(core)), stretch.to_string()]);
    first.into_iter().chain(each).collect()
}

/// What is to spin, and on which of the cores.
struct Spinner {
    name: String,
    group: Group,
    /// The core's number.
    core: usize,
    /// Its place among those that hold nodes.
    place: usize,
    /// How many slices a turn of it lasts.
    stretch: f64,
}

impl Spinner {
    /// The slices that it asks for, if nodes' last `slice`.
    fn slice(&self, slice: RealDuration) -> RealDuration {
        RealDuration::from_secs_f64(slice.as_secs_f64() * self.stretch)
    }
}

/// What the arguments say.
struct Task {
    layout: Layout,
    slice: RealDuration,
    way: Way,
    several: Vec<SeveralCpus>,
    spinners: Vec<Spinner>,
}

impl Task {
    fn of(args: &[String]) -> Result<Task, Error> {
        let [run_id, cores, slice, way, several, burnt @ ..] = args else {
            return Err(Error::Input(
                "__keeper RUN CORE[,CORE…] SLICE WAY [NODE@PLACE@FRACTION[,…]] [PLACE@CORE STRETCH]… is started by \
                 diorama itself"
                    .into(),
            ));
        };
        let number =
            |core: &str| core.parse::<usize>().map_err(|_| Error::Input(format!("`{core}` is no core's number")));
        let cores = cores.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        let slice = slice.parse().map_err(|_| Error::Input(format!("`{slice}` is not a slice in ns")))?;
        let way = Way::read(way).ok_or_else(|| Error::Input(format!("`{way}` ends no turns")))?;
        let layout = Layout::of(run_id, &cores)?;
        let mut spinners = Vec::new();
        for (place, &core) in cores.iter().enumerate() {
            let name = format!("_poked of core {core}");
            spinners.push(Spinner { name, group: layout.poked(), core, place, stretch: 1.0 });
        }
        for one in burnt.chunks(2) {
            let spinner = Task::spinner(&layout, one);
            spinners.push(spinner.ok_or_else(|| Error::Input(format!("{one:?} is not a place, a core and turns")))?);
        }
        let each = several.split(',').filter(|one| !one.is_empty()).map(|one| {
            let of = Task::several(&layout, one);
            of.ok_or_else(|| Error::Input(format!("`{one}` is not a node, its place and a fraction")))
        });
        let several = each.collect::<Result<_, Error>>()?;
        Ok(Task { layout, slice: RealDuration::from_nanos(slice), way, several, spinners })
    }

    fn several(layout: &Layout, one: &str) -> Option<SeveralCpus> {
        let mut fields = one.split(AT);
        let (name, node, fraction) = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(SeveralCpus { group: layout.node(name), node, fraction })
    }

    fn spinner(layout: &Layout, burnt: &[String]) -> Option<Spinner> {
        let [what, stretch] = burnt else { return None };
        let (name, place) = what.split_once(AT)?;
        let place = place.parse().ok()?;
        let (core, stretch) = (*layout.cores().get(place)?, stretch.parse().ok()?);
        Some(Spinner { name: name.into(), group: layout.filler_at(name), core, place, stretch })
    }
}

/// The process behind the hidden verb `__keeper`; `args` are those that [`crate::CpuGroups::helper`] gave it.
pub fn main(args: Vec<String>) -> ! {
    let code = match run(&args) {
        Ok(()) => 0,
        Err(error) => {
            println!("{FAILED}{error}");
            1
        }
    };
    std::process::exit(code)
}

fn run(args: &[String]) -> Result<(), Error> {
    let Task { layout, slice, way, several, spinners } = Task::of(args)?;
    let cores = layout.cores();

    // A terminal's interrupt reaches the whole foreground: the run's end must not begin with the end of its limits.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: SIG_IGN is a valid disposition and no handler of ours is replaced.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let places: Vec<usize> = spinners.iter().map(|s| s.place).collect();
    let board = Board::new(cores.len(), &places).map_err(Error::io("share memory"))?;
    board.set_slice(slice);
    let (gate, opener) = rustix::pipe::pipe().map_err(|e| Error::io("make a pipe")(e.into()))?;
    let (news, reporter) = rustix::pipe::pipe().map_err(|e| Error::io("make a pipe")(e.into()))?;
    let reports_due = spinners.len() + 1;
    let parent = rustix::process::getpid();
    let mut children = Vec::new();
    for name in ["poke", "fillers"] {
        // SAFETY: this process has one thread, so the child may use everything it inherits.
        match unsafe { libc::fork() } {
            -1 => return Err(Error::io(format!("start the {name}"))(io::Error::last_os_error())),
            0 => {
                drop(opener);
                let child = Child::born(parent, gate, reporter);
                match name {
                    "poke" => child.poke(&layout, way, board, &several, &spinners),
                    _ => child.spin(&layout.poke(), &spinners, board),
                }
            }
            pid => children.push((pid, name)),
        }
    }
    drop((gate, reporter));
    cores::avoid(cores).map_err(Error::io("leave the nodes' cores"))?;

    // It ends early if both children have died.
    let reports = io::BufReader::new(File::from(news)).lines().take(reports_due);
    let reports = reports.collect::<io::Result<Vec<_>>>().map_err(Error::io("hear from the fillers"))?;
    if let Some(bad) = reports.iter().find(|line| *line != "ok") {
        return Err(Error::Fillers(bad.to_owned()));
    }
    if reports.len() != reports_due {
        return Err(Error::Fillers("one of them died at its start".into()));
    }
    say("ready")?;
    let mut opener = Some(opener);
    while let Some(word) = command(&children)? {
        match Word::read(&word)? {
            Word::Go => {
                opener = None;
                say("going")?;
            }
            Word::Keep(core, orders) => {
                known(board, core)?.order(orders);
                say("kept")?;
            }
            Word::Clocks(maps) => {
                board.set_maps(maps);
                say("kept")?;
            }
            Word::Burn(burner, orders) => {
                // Before those that are told, there is one for each core.
                let filler = cores.len() + burner;
                if filler >= places.len() {
                    return Err(Error::Fillers(format!("there is no burner at place {burner}")));
                }
                board.order_burner(filler, orders);
                say("kept")?;
            }
            Word::Work => {
                let books = board.cores().map(|core| core.books()).collect::<Option<Vec<_>>>();
                let now = host::now();
                let work = books.map(|books| books.into_iter().map(|books| books.work(now)).collect::<Vec<_>>());
                say(&work.map_or_else(|| Word::NOTHING.into(), |work| Word::of_work(&work)))?;
            }
            Word::Release => break,
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

/// The core at a place that the engine named.
fn known(board: Board, place: usize) -> Result<OfCore, Error> {
    board.cores().nth(place).ok_or_else(|| Error::Fillers(format!("there is no core at place {place}")))
}

/// The next word from standard input, `None` at its end. Fails if a child dies meanwhile, however often it is asked.
fn command(children: &[(libc::pid_t, &str)]) -> Result<Option<String>, Error> {
    let mut word = Vec::new();
    loop {
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        let second = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
        if poll(&mut fds, Some(&second)).map_err(|e| Error::io("wait for commands")(e.into()))? == 0 {
            all_alive(children)?;
            continue;
        }
        let mut byte = [0];
        match rustix::io::read(stdin.as_fd(), &mut byte) {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) if byte == *b"\n" => {
                all_alive(children)?;
                return Ok(Some(String::from_utf8_lossy(&word).into_owned()));
            }
            Ok(_) => word.push(byte[0]),
        }
    }
}

fn all_alive(children: &[(libc::pid_t, &str)]) -> Result<(), Error> {
    // SAFETY: waiting for any child of this process without a status is always allowed.
    let dead = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    match children.iter().find(|(pid, _)| *pid == dead) {
        Some((_, name)) => Err(Error::Fillers(format!("the process of the {name} was killed"))),
        None => Ok(()),
    }
}

fn say(word: &str) -> Result<(), Error> {
    let mut out = io::stdout();
    writeln!(out, "{word}").and_then(|()| out.flush()).map_err(Error::io("answer the engine"))
}

/// One of the two children, before it has taken up its work.
struct Child {
    gate: File,
    reporter: File,
}

impl Child {
    fn born(parent: rustix::process::Pid, gate: OwnedFd, reporter: OwnedFd) -> Child {
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
        // Only the parent may hold the pipes, or its reader would never see it die.
        // SAFETY: these descriptors belong to this process and nothing uses them after this.
        unsafe {
            libc::close(0);
            libc::close(1);
        }
        if rustix::process::getppid() != Some(parent) {
            std::process::exit(1);
        }
        Child { gate: gate.into(), reporter: reporter.into() }
    }

    /// The poke is accounted to the run, but scheduled like any task: the run's tree outweighs all else on a core.
    fn poke(self, layout: &Layout, way: Way, board: Board, several: &[SeveralCpus], spinners: &[Spinner]) -> ! {
        let settle = || {
            join(layout.poke().accounting_joiner()?)?;
            cores::avoid(layout.cores()).map_err(Error::io("leave the nodes' cores"))?;
            Ender::of(way, layout)
        };
        match settle() {
            Ok(ender) => {
                self.report("_poke", Ok(()));
                self.wait();
                // The parent says who died; there is nobody left to say why.
                let burners: Vec<Burner> = spinners[layout.cores().len()..]
                    .iter()
                    .map(|s| Burner { group: &s.group, place: s.place, takes_slack: layout::is_unsold(&s.name) })
                    .collect();
                let _why = reschedule::poke(board, layout, &burners, several, way, ender);
            }
            Err(error) => self.report("_poke", Err(error)),
        }
        std::process::exit(1)
    }

    /// `home` is where the process itself is counted and found; its first thread does nothing.
    fn spin(self, home: &Group, spinners: &[Spinner], board: Board) -> ! {
        self.report("_fillers", home.process_joiner().map_err(Error::from).and_then(join));
        if !home.holds_threads() {
            self.spin_apart(spinners, board)
        }
        thread::scope(|scope| {
            for (i, spinner) in spinners.iter().enumerate() {
                let (this, meter) = (&self, board.meter(i));
                let body = move || {
                    this.report(&spinner.name, settle(None, spinner, board.slice()));
                    this.wait();
                    spin(meter)
                };
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, body) {
                    self.report(&spinner.name, Err(Error::io("start a thread")(error)));
                }
            }
        });
        unreachable!("the scope ends after its threads, which have no end")
    }

    /// The same by processes, which this one settles and then waits for: if one ends, so does this, and with it all.
    fn spin_apart(self, spinners: &[Spinner], board: Board) -> ! {
        for (i, spinner) in spinners.iter().enumerate() {
            let started = processes::start(self.gate.as_raw_fd(), board.meter(i)).map_err(Error::io("start a process"));
            self.report(&spinner.name, started.and_then(|pid| settle(Some(pid), spinner, board.slice())));
        }
        // SAFETY: waits for any child, without a status.
        unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
        std::process::exit(1)
    }

    /// Tells the parent how the start went: one line in one write, so that those of several threads do not mix. After
    /// an error the process ends.
    fn report(&self, name: &str, outcome: Result<(), Error>) {
        let line = match &outcome {
            Ok(()) => "ok\n".to_owned(),
            Err(error) => format!("{name}: {error}\n"),
        };
        if (&self.reporter).write_all(line.as_bytes()).is_err() || outcome.is_err() {
            std::process::exit(1);
        }
    }

    /// Until the parent closes the other end.
    fn wait(&self) {
        if (&self.gate).read(&mut [0]).is_err() {
            std::process::exit(1);
        }
    }
}

fn join(joiner: Joiner) -> Result<(), Error> {
    joiner.join().map_err(Error::io("enter a control group"))
}

/// Puts a process, or else the calling thread, on its core, into its group and under its scheduling.
fn settle(process: Option<Pid>, spinner: &Spinner, slice: RealDuration) -> Result<(), Error> {
    let Spinner { group, core, .. } = spinner;
    let pin = || cores::pin_other(process, *core);
    // First, if that can be: load that a group once had on another core would lower its weight here for a while. It
    // cannot where the core belongs to the run's groups alone, of which none has been entered yet.
    let _ = pin();
    match process {
        Some(process) => group.admit(process.as_raw_nonzero().get().unsigned_abs())?,
        None => join(group.thread_joiner()?)?,
    }
    // Entering a group that the cpuset controller knows undoes it (Linux 6.1).
    pin().map_err(Error::io(format!("run on core {core}")))?;
    sched::set_other(process, Class::Slices(spinner.slice(slice))).map_err(Error::io("set a scheduling slice"))
}

/// Burns the core for ever with the yardstick, and writes down how fast that goes: in user mode, without a system call
/// and without PAUSE (hypervisors take a loop of PAUSEs for a lock and deschedule the whole virtual CPU). It has five
/// cache lines, so that it takes next to nothing of a node's.
fn spin(meter: Meter) -> ! {
    let mut laps = Laps::start();
    loop {
        if let Some(cycles) = laps.lap() {
            meter.add(cycles);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(cores: &[usize], burnt: &[(&str, usize)]) -> Result<Task, Error> {
        let burnt = burnt.iter().map(|(place, core)| ((*place).to_owned(), *core, 1.5));
        Task::of(&arguments("x1", cores, crate::DEFAULT_SLICE, Way::Interrupt, &[("db".into(), 3, 0.05)], burnt))
    }

    #[test]
    fn every_filler_is_on_the_core_of_its_node() {
        let two = task(&[0, 5], &[("web-1", 5), ("db", 0), ("_small-1-5/_spare", 5), ("_unsold-5_1", 5)]).unwrap();
        let of = |s: &Spinner| (s.name.clone(), s.core, s.place, s.stretch);
        let nodes: Vec<_> = two.spinners[2..].iter().map(of).collect();
        let others = ["_small-1-5/_spare", "_unsold-5_1"].map(|place| (place.to_owned(), 5, 1, 1.5));
        let nodes_and_others = [("web-1".into(), 5, 1, 1.5), ("db".into(), 0, 0, 1.5)].into_iter().chain(others);
        assert_eq!(nodes, nodes_and_others.collect::<Vec<_>>());
        let own: Vec<_> = two.spinners[..2].iter().map(|s| (s.core, s.place, s.stretch)).collect();
        assert_eq!(own, [(0, 0, 1.0), (5, 1, 1.0)], "each core is poked");
        assert!(format!("{:?}", two.spinners[5].group).contains("emu/_unsold-5_1\""), "which no container is in");
        assert_eq!((two.layout.cores(), two.slice), (&[0, 5][..], crate::DEFAULT_SLICE));
        assert_eq!(two.way, Way::Interrupt);
        assert_eq!(task(&[3], &[("a", 3)]).unwrap().spinners.len(), 2);
    }

    #[test]
    fn arguments_that_nobody_wrote_are_refused() {
        let of = |args: &[&str]| Task::of(&args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
        for wrong in [
            &["x1", "0", "100"][..],
            &["x1", "zero", "100", "account"],
            &["x1", "0", "long", "account"],
            &["x1", "0", "100", "hope"],
            &["x1", "0", "100", "account", "a", "1"],
            &["x1", "0", "100", "account", "a@0"],
            &["x1", "0", "100", "account", "a@0", "much"],
        ] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        assert!(of(&["x1", "0,1", "100", "account", "a@2", "1"]).is_err(), "there is no third core");
    }
}
