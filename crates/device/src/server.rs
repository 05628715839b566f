//! The process that serves the disks of a run (`diorama __disks`).
//!
//! Its main thread hears what the engine tells it; two threads take requests from the kernel and do them in the files;
//! one answers them when it is time. It lives in the run's enclosure and dies with it. When it does, however that
//! comes, the kernel fails what is under way, and the devices are free as soon as nobody has them mounted.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use disk::{Disk, Op, Span};
use fuser::{Config, Errno, ReplyData, ReplyEmpty, ReplyWrite, Session, SessionACL};
use host::Lack;
use host::sched::{self, Class};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;
use scale::{DiskClock, RealDuration, RealInstant};

use crate::error::Error;
use crate::files::Files;
use crate::image;
use crate::lacks;
use crate::loops::LoopDevice;
use crate::queue::{Queue, RequestId};
use crate::undo::Undo;
use crate::wire::{Answer, Change, Cut, DiskSetup, Order};

/// Right below the emulator, which a frame waits for: here a request waits, which takes longer by itself.
const PRIORITY: u8 = 49;
/// Threads that take requests. While one copies data, or waits for the host's own disk, the other goes on.
const TAKERS: usize = 2;
/// How long requests take by which the way to here and back is measured, and how many there are.
const PROBE: RealDuration = RealDuration::from_nanos(1_000_000);
const PROBES: usize = 40;

/// A request's way back.
pub(crate) enum Reply {
    /// With what was read.
    Read(ReplyData, Vec<u8>),
    /// With how much was written.
    Write(ReplyWrite, u32),
    /// With nothing.
    Other(ReplyEmpty),
}

impl Reply {
    fn send(self) {
        match self {
            Reply::Read(reply, data) => reply.data(&data),
            Reply::Write(reply, size) => reply.written(size),
            Reply::Other(reply) => reply.ok(),
        }
    }

    fn refuse(self, why: Errno) {
        match self {
            Reply::Read(reply, _) => reply.error(why),
            Reply::Write(reply, _) => reply.error(why),
            Reply::Other(reply) => reply.error(why),
        }
    }
}

/// What the threads have in common.
pub(crate) struct Shared {
    files: Vec<File>,
    capacities: Vec<u64>,
    state: Mutex<State>,
    /// Wakes the thread that answers, if something is to be answered before it would wake up by itself.
    sooner: Condvar,
    /// Wakes who waits until nobody is at a file.
    left: Condvar,
}

struct State {
    queues: Vec<Queue>,
    /// What is done and has not been answered.
    done: HashMap<(usize, RequestId), Reply>,
    /// When there is something to do for each disk, and by time.
    wake: Vec<Option<RealInstant>>,
    by_time: BTreeSet<(RealInstant, usize)>,
    /// Until when the thread that answers sleeps.
    asleep_until: RealInstant,
    /// The disks that do nothing any more.
    broken: Vec<bool>,
    /// Those without power.
    off: Vec<bool>,
    /// How many requests are being done in each file.
    working: Vec<u32>,
    /// What a power cut would take back; none of disks whose power is never cut.
    undo: Vec<Option<Undo>>,
    /// The first request that could not be done, and why.
    failure: Option<String>,
}

/// Later than anything.
const NEVER: RealInstant = RealInstant::from_nanos(u64::MAX);

impl Shared {
    fn new(files: Vec<File>, queues: Vec<Queue>, may_lose_power: impl Iterator<Item = bool>) -> Shared {
        let capacities = queues.iter().map(Queue::capacity_bytes).collect();
        let state = State {
            done: HashMap::new(),
            wake: vec![None; queues.len()],
            broken: vec![false; queues.len()],
            off: vec![false; queues.len()],
            working: vec![0; queues.len()],
            undo: may_lose_power.map(|may| may.then(Undo::default)).collect(),
            by_time: BTreeSet::new(),
            asleep_until: NEVER,
            failure: None,
            queues,
        };
        Shared { files, capacities, state: Mutex::new(state), sooner: Condvar::new(), left: Condvar::new() }
    }

    pub fn disks(&self) -> usize {
        self.files.len()
    }

    pub fn capacity(&self, disk: usize) -> u64 {
        self.capacities[disk]
    }

    /// Takes a request that is met now, does it in the file, and has it answered when it is time.
    pub fn serve(
        &self,
        disk: usize,
        op: Op,
        offset: u64,
        length: u64,
        mut reply: Reply,
        work: impl FnOnce(&File, &mut Reply) -> io::Result<()>,
    ) {
        let met = host::now();
        let (id, keep) = {
            let mut state = self.state();
            if state.broken[disk] || state.off[disk] {
                drop(state);
                return reply.refuse(Errno::EIO);
            }
            match state.queues[disk].arrive(met, op, offset, length) {
                Ok(id) => (id, state.begin(disk, id, op, offset, length)),
                Err(refused) => {
                    state.fail(format!("a request was refused: {refused}"));
                    drop(state);
                    return reply.refuse(Errno::EINVAL);
                }
            }
        };
        let file = &self.files[disk];
        let mut before = vec![0; if keep { length as usize } else { 0 }];
        let done = file.read_exact_at(&mut before, offset).and_then(|()| work(file, &mut reply));
        let mut state = self.state();
        state.working[disk] -= 1;
        self.left.notify_all();
        if state.off[disk] {
            // The power was cut meanwhile: nobody will know.
            state.keep(disk, id, keep, before);
            drop(state);
            return reply.refuse(Errno::EIO);
        }
        state.keep(disk, id, keep, before);
        if let Err(e) = done {
            state.queues[disk].fail(id);
            state.fail(format!("{op:?} of {length} bytes at {offset} in the file behind a disk: {e}"));
            self.reschedule(&mut state, disk);
            drop(state);
            return reply.refuse(Errno::EIO);
        }
        state.queues[disk].done(id, host::now());
        state.done.insert((disk, id), reply);
        let answers = state.answer(disk, host::now());
        self.reschedule(&mut state, disk);
        drop(state);
        answers.into_iter().for_each(Reply::send);
    }

    /// Notes when there is something to do for a disk, and wakes who does it if that is before it would wake up.
    fn reschedule(&self, state: &mut State, disk: usize) {
        state.schedule(disk);
        if state.next() < state.asleep_until {
            self.sooner.notify_one();
        }
    }

    /// Answers what is due, for ever.
    fn answer(&self) {
        let mut state = self.state();
        loop {
            let now = host::now();
            let mut answers = Vec::new();
            while let Some((at, disk)) = state.by_time.first().copied().filter(|(at, _)| *at <= now) {
                answers.extend(state.answer(disk, now));
                state.schedule(disk);
                // A model whose event is a rounding error away: not again at this instant.
                if state.wake[disk] == Some(at) {
                    break;
                }
            }
            if !answers.is_empty() {
                drop(state);
                answers.into_iter().for_each(Reply::send);
                state = self.state();
                continue;
            }
            state.asleep_until = state.next();
            let rest = state.asleep_until.since(host::now());
            state = match state.asleep_until {
                NEVER => self.sooner.wait(state).unwrap_or_else(PoisonError::into_inner),
                _ => self.sooner.wait_timeout(state, rest.into()).unwrap_or_else(PoisonError::into_inner).0,
            };
            state.asleep_until = RealInstant::ZERO;
        }
    }

    /// Cuts the power of a disk: puts back what was there before all that is lost.
    fn cut_power(&self, disk: usize) -> io::Result<Cut> {
        let mut state = self.state();
        state.off[disk] = true;
        while state.working[disk] > 0 {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let lost = state.queues[disk].cut_power(host::now());
        state.note_durable(disk);
        let unanswered: Vec<_> = state.done.extract_if(|(of, _), _| *of == disk).map(|(_, reply)| reply).collect();
        self.reschedule(&mut state, disk);
        let back = state.undo[disk].as_mut().map(|undo| undo.cut(&lost)).unwrap_or_default();
        let mut cut = Cut::default();
        for lost in &lost {
            *(if lost.completed { &mut cut.lost } else { &mut cut.unfinished }) += 1;
        }
        cut.lost_bytes = back.iter().map(|(_, before)| before.len() as u64).sum();
        drop(state);
        // Nobody else is at the file: it has no power.
        back.iter().try_for_each(|(offset, before)| self.files[disk].write_all_at(before, *offset))?;
        unanswered.into_iter().for_each(|reply| reply.refuse(Errno::EIO));
        Ok(cut)
    }

    /// Changes how all disks answer.
    fn change(&self, change: impl Fn(&mut Queue)) {
        let mut state = self.state();
        for disk in 0..self.disks() {
            change(&mut state.queues[disk]);
            self.reschedule(&mut state, disk);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Who panicked has left a request unanswered at most.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What is to be answered of a disk.
    fn answer(&mut self, disk: usize, now: RealInstant) -> Vec<Reply> {
        let mut ids = Vec::new();
        self.queues[disk].advance(now, &mut ids);
        self.note_durable(disk);
        ids.into_iter().filter_map(|id| self.done.remove(&(disk, id))).collect()
    }

    /// Notes that a request is being done; whether what was there before is to be kept.
    fn begin(&mut self, disk: usize, id: RequestId, op: Op, offset: u64, length: u64) -> bool {
        self.working[disk] += 1;
        let modelled = self.queues[disk].is_modelled();
        let Some(undo) = self.undo[disk].as_mut().filter(|_| modelled) else { return false };
        let writes = matches!(op, Op::Write | Op::WriteThrough);
        if writes || op == Op::Trim {
            undo.begin(id, Span { begin: offset, end: offset + length });
        }
        // What is trimmed is so at once.
        if op == Op::Trim {
            undo.durable(id);
        }
        writes
    }

    fn keep(&mut self, disk: usize, id: RequestId, keep: bool, before: Vec<u8>) {
        if let Some(undo) = self.undo[disk].as_mut().filter(|_| keep) {
            undo.before(id, before);
        }
    }

    fn note_durable(&mut self, disk: usize) {
        let undo = self.undo[disk].as_mut();
        let durable = self.queues[disk].durable();
        match undo {
            Some(undo) => durable.for_each(|id| undo.durable(id)),
            None => drop(durable),
        }
    }

    fn schedule(&mut self, disk: usize) {
        if let Some(old) = self.wake[disk].take() {
            self.by_time.remove(&(old, disk));
        }
        self.wake[disk] = self.queues[disk].next_event();
        if let Some(at) = self.wake[disk] {
            self.by_time.insert((at, disk));
        }
    }

    fn next(&self) -> RealInstant {
        self.by_time.first().map_or(NEVER, |(at, _)| *at)
    }

    fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }
}

/// The hidden verb `__disks`. Never returns.
pub fn disks_main() -> ! {
    let mut output = io::stdout().lock();
    let mut say = |answer: &Answer| -> io::Result<()> {
        writeln!(output, "{}", serde_json::to_string(answer)?)?;
        output.flush()
    };
    let mut made: Option<Made> = None;
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let answer = match serde_json::from_str(&line) {
            Ok(order) => obey(order, &mut made).unwrap_or_else(|e| Answer::Failed(e.into())),
            Err(e) => Answer::Failed(Error::Server(format!("nothing is known of `{line}`: {e}")).into()),
        };
        if say(&answer).is_err() {
            break;
        }
    }
    // Not by returning: that would wait for requests that nobody will answer.
    std::process::exit(0)
}

/// The disks, once they are there.
struct Made {
    shared: Arc<Shared>,
    spent: RealDuration,
    waking: RealDuration,
    devices: Vec<LoopDevice>,
    /// Where the devices are, and whether their file systems are full.
    places: Vec<(PathBuf, bool)>,
}

fn obey(order: Order, made: &mut Option<Made>) -> Result<Answer, Error> {
    if let Order::Make { directory, disks } = order {
        let (devices, all) = make(&directory, &disks)?;
        let answer = Answer::Made { devices, spent: all.spent };
        *made = Some(all);
        return Ok(answer);
    }
    let Made { shared, spent, waking, devices, places } =
        made.as_mut().ok_or_else(|| Error::Server("it has been told of no disks".into()))?;
    Ok(match order {
        Order::Begin { zero, tdf } => {
            let clock = DiskClock::new(zero, tdf, *spent, *waking);
            shared.change(|queue| queue.begin(clock));
            Answer::Done
        }
        Order::Change { disk, change } => {
            if disk >= shared.disks() {
                return Err(Error::Server(format!("there is no disk {disk}")));
            }
            if change == Change::PowerOff {
                let failed = |e| Error::system("cannot take back what a disk has lost", e);
                return Ok(Answer::Cut(shared.cut_power(disk).map_err(failed)?));
            }
            let (place, full) = &mut places[disk];
            *full |= change == Change::Full;
            // The kernel forgets it with the mount.
            if *full && matches!(change, Change::Full | Change::Resume) {
                image::fill(place, shared.capacity(disk))?;
            }
            let (now, mut state) = (host::now(), shared.state());
            match change {
                Change::Full => {}
                Change::Slow(factor) => state.queues[disk].slow_down(now, factor),
                Change::Fail => state.broken[disk] = true,
                Change::PowerOff => unreachable!("done above"),
                Change::PowerOn => state.off[disk] = false,
                Change::Resume => state.queues[disk].resume(),
            }
            shared.reschedule(&mut state, disk);
            Answer::Done
        }
        Order::LetGo { all } => {
            let state = shared.state();
            let mut disk = 0..;
            devices.retain(|_| !all && disk.next().is_some_and(|disk| state.undo[disk].is_some()));
            Answer::Done
        }
        Order::Pass => {
            let now = host::now();
            shared.change(|queue| queue.pass(now));
            Answer::Done
        }
        Order::Count => {
            let now = host::now();
            let mut state = shared.state();
            let disks = state.queues.iter_mut().map(|queue| queue.counters(now)).collect();
            Answer::Counted { disks, cpu: host::time::of_this_process(), failure: state.failure.clone() }
        }
        Order::Make { .. } => unreachable!("done above"),
    })
}

/// Makes the disks: files, file systems, FUSE, loop devices.
fn make(directory: &Path, disks: &[DiskSetup]) -> Result<(Vec<PathBuf>, Made), Error> {
    let mut queues = Vec::new();
    for DiskSetup { name, parameters, seed, .. } in disks {
        let model = Disk::new(parameters, *seed).map_err(|e| Error::Input(format!("the disk of {name}: {e}")))?;
        queues.push(Queue::new(model));
    }
    let sizes: Vec<_> =
        disks.iter().zip(&queues).map(|(disk, queue)| (disk.name.clone(), queue.capacity_bytes())).collect();
    let seed = disks.first().map_or(0, |disk| disk.seed);
    let files = image::make_all(directory, &sizes, seed)?;
    let may_lose_power = disks.iter().map(|disk| disk.may_lose_power);
    let shared = Arc::new(Shared::new(files, queues, may_lose_power));
    let mount = directory.join("fuse");
    start(&shared, &mount)?;
    let mut devices = Vec::new();
    for disk in 0..shared.disks() {
        let file = mount.join(disk.to_string());
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(CWD, &file, flags, Mode::empty()).map_err(|e| Error::file("open", &file, e))?;
        let device = LoopDevice::on(file.as_fd())?;
        if let Some(number) = device.new {
            image::note_device(directory, number)?;
        }
        devices.push(device);
    }
    let (spent, waking) = match devices.first() {
        Some(device) => on_the_way(&shared, &device.path)?,
        None => (RealDuration::ZERO, RealDuration::ZERO),
    };
    let paths: Vec<_> = devices.iter().map(|device| device.path.clone()).collect();
    let places = paths.iter().map(|path| (path.clone(), false)).collect();
    Ok((paths, Made { shared, spent, waking, devices, places }))
}

/// Mounts the files where nobody else sees them, and starts the threads.
fn start(shared: &Arc<Shared>, mount: &Path) -> Result<(), Error> {
    fs::create_dir_all(mount).map_err(|e| Error::file("make", mount, e))?;
    // SAFETY: of what threads share only the root and the working directory are unshared, which nobody here changes;
    // and there is but one thread yet.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|e| Error::system("cannot make a mount namespace for the disks", e))?;
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|e| Error::system("cannot make the disks' mounts private", e))?;
    let fuse = open_fuse()?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", fuse.as_raw_fd());
    let options = std::ffi::CString::new(options).map_err(io::Error::from);
    let options = options.map_err(|e| Error::system("cannot name the disks' files", e))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("diorama-disks", mount, "fuse", flags, Some(options.as_c_str()))
        .map_err(|e| Error::file("mount a FUSE file system at", mount, e))?;
    let mut config = Config::default();
    config.n_threads = Some(TAKERS);
    let session = Session::from_fd(Files(shared.clone()), fuse, SessionACL::All, config)
        .map_err(|e| Error::system("cannot agree with the kernel's FUSE", e))?;
    let punctual = || -> io::Result<()> {
        // The threads that the library starts are to be punctual too.
        sched::set(Class::RealTime { priority: PRIORITY, inherited: true })?;
        host::time::precise_sleep()
    };
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        let (ready, told) = std::sync::mpsc::channel();
        let work = move || {
            let punctual = punctual();
            let go_on = punctual.is_ok();
            let _ = ready.send(punctual);
            if go_on {
                body();
            }
        };
        let started = thread::Builder::new().name(name.into()).spawn(work).map(drop);
        started.and_then(|()| told.recv().unwrap_or_else(|_| Err(io::Error::other("it ended at once"))))
    };
    let answering = shared.clone();
    spawn("answer", Box::new(move || answering.answer()))
        .and_then(|()| spawn("disks", Box::new(move || drop(session.run()))))
        .map_err(|e| {
            Error::Machine(Lack::new(
                format!("whoever serves the disks may not be scheduled in real time: {e}"),
                "run as root; if this shell is in a cpu control group of version 1, move it to the root group",
            ))
        })
}

fn open_fuse() -> Result<OwnedFd, Error> {
    openat(CWD, "/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| match e {
        rustix::io::Errno::NOENT | rustix::io::Errno::NODEV | rustix::io::Errno::NXIO => {
            Error::Machine(lacks::no_fuse())
        }
        e => Error::file("open", Path::new("/dev/fuse"), e),
    })
}

/// A block of memory as direct I/O needs it.
#[repr(align(4096))]
struct Page([u8; 4096]);

/// How long a request is on its way to whoever serves it, and back: what requests take that are answered after a
/// millisecond, without that. And how much of that whoever answers needs to wake up.
fn on_the_way(shared: &Shared, device: &Path) -> Result<(RealDuration, RealDuration), Error> {
    let failed = |e: rustix::io::Errno| Error::file("read", device, e);
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let open = openat(CWD, device, flags, Mode::empty()).map_err(failed)?;
    shared.change(|queue| queue.answer_after(PROBE));
    let mut page = Page([0; 4096]);
    let mut took = Vec::new();
    for n in 0..PROBES as u64 {
        let before = host::now();
        rustix::io::pread(&open, &mut page.0[..], n * 4096).map_err(failed)?;
        took.push(host::now().since(before).saturating_sub(PROBE));
    }
    let now = host::now();
    shared.change(|queue| queue.pass(now));
    let mut waking = shared.state().queues[0].waking().to_vec();
    took.sort_unstable();
    waking.sort_unstable();
    let spent = took[PROBES / 2];
    Ok((spent, waking.get(waking.len() / 2).copied().unwrap_or_default().min(spent)))
}
