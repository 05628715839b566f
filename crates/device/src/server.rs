//! The process that serves the disks of a run (`diorama __disks`).
//!
//! Its main thread hears what the engine tells it. Over FUSE two threads take requests from the kernel and do them in
//! the files, and one answers them when it is time; over ublk one does all that, and two do for it what may take long.
//! Another follows how long requests are on their way.
//! It lives in the run's enclosure and dies with it. When it does, however that comes, the kernel fails what is under
//! way. Loop devices are free then as soon as nobody has them mounted; ublk devices are gone, but for what is left of
//! each for whoever removes it ([`image::remove_devices`]).

use std::fs;
use std::io::{self, BufRead, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use disk::Disk;
use fuser::{Config, Session, SessionACL};
use host::Lack;
use host::node_clock::NodeClock;
use host::sched::{self, Class};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;
use scale::DiskClock;

use crate::blk_queue::BlkQueue;
use crate::error::Error;
use crate::files::Files;
use crate::follow::Follow;
use crate::image::{self, Noted};
use crate::loop_devices::LoopDevice;
use crate::queue::Queue;
use crate::requirements;
use crate::ring::{self, Answers};
use crate::round_trip::{self, Way};
use crate::shared::Shared;
use crate::timer::Alarm;
use crate::transport::Transport;
use crate::ublk;
use crate::wire::{Answer, Change, DiskSetup, Order};

/// Right below the emulator, which a frame waits for: here a request waits, which takes longer by itself.
const PRIORITY: u8 = 49;
/// Threads that do requests. While one copies data, or waits for the host's own disk, the other goes on.
const DOERS: usize = 2;

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
    way: Way,
    follow: Follow,
    devices: Devices,
    /// Where the devices are, and whether their file systems are full.
    places: Vec<(PathBuf, bool)>,
    /// Their queues, but those of devices that will be others' when they are free again.
    blk_queues: Vec<BlkQueue>,
}

/// The devices of the disks.
enum Devices {
    /// Over FUSE, those that nobody has let go of.
    Loop(Vec<LoopDevice>),
    /// They are there as long as this process.
    Ublk,
}

fn obey(order: Order, made: &mut Option<Made>) -> Result<Answer, Error> {
    if let Order::Make { directory, disks, over, asker } = order {
        let (all, because) = make(&directory, &disks, over, asker)?;
        let devices = all.places.iter().map(|(path, _)| path.clone()).collect();
        let over = match all.devices {
            Devices::Loop(_) => Transport::FuseAndLoop,
            Devices::Ublk => Transport::Ublk,
        };
        let answer = Answer::Made { devices, over, because, spent: all.way.ways.spent };
        *made = Some(all);
        return Ok(answer);
    }
    let Made { shared, way, follow, devices, places, blk_queues } =
        made.as_mut().ok_or_else(|| Error::Server("it has been told of no disks".into()))?;
    Ok(match order {
        Order::Begin { zero, tdf } => {
            let clock = DiskClock::new(zero, tdf, way.ways.spent, way.waking);
            shared.change(|queue| queue.begin(clock));
            follow.anew();
            blk_queues.iter().for_each(|queue| queue.scale(tdf));
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
                Change::Slow(factor) => state.disks[disk].queue.slow_down(now, factor),
                Change::Fail => state.disks[disk].broken = true,
                Change::PowerOff => unreachable!("done above"),
                Change::PowerOn => state.disks[disk].off = false,
                Change::Resume => state.disks[disk].queue.resume(),
            }
            shared.reschedule(&mut state, disk);
            Answer::Done
        }
        Order::LetGo { all } => {
            let state = shared.state();
            let mut disk = 0..;
            if let Devices::Loop(devices) = devices {
                devices.retain(|_| !all && disk.next().is_some_and(|disk| state.disks[disk].undo.is_some()));
            }
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
            let disks = state.disks.iter_mut().map(|disk| disk.queue.counters(now)).collect();
            Answer::Counted { disks, cpu: host::time::of_this_process(), failure: state.failure.clone() }
        }
        Order::Watch { disk } if disk < shared.disks() => Answer::Watched(shared.state().disks[disk].queue.watch()),
        Order::Watch { disk } => return Err(Error::Server(format!("there is no disk {disk}"))),
        Order::Null => {
            shared.null();
            Answer::Done
        }
        Order::Make { .. } => unreachable!("done above"),
    })
}

/// Makes the disks: files, file systems, devices. Also says why not over ublk, if nobody has asked for anything else.
fn make(
    directory: &Path,
    disks: &[DiskSetup],
    over: Option<Transport>,
    asker: Option<usize>,
) -> Result<(Made, Option<String>), Error> {
    let (mut queues, mut clocks) = (Vec::new(), Vec::new());
    for DiskSetup { name, parameters, seed, clock, .. } in disks {
        clocks.push(clock.map(NodeClock::open).transpose()?);
        let model = Disk::new(parameters, *seed).map_err(|e| Error::Input(format!("the disk of {name}: {e}")))?;
        queues.push(Queue::new(model));
    }
    let sizes: Vec<_> =
        disks.iter().zip(&queues).map(|(disk, queue)| (disk.name.clone(), queue.capacity_bytes())).collect();
    let seed = disks.first().map_or(0, |disk| disk.seed);
    let files = image::make_all(directory, &sizes, seed)?;
    let (added, because) = match over {
        Some(Transport::FuseAndLoop) => (None, None),
        Some(Transport::Ublk) => (Some(add_ublk(directory, disks.len())?), None),
        None => match add_ublk(directory, disks.len()) {
            Ok(added) => (Some(added), None),
            Err(e) => (None, Some(e.to_string())),
        },
    };
    let (shared, devices, paths) = match added {
        Some((control, devices)) => {
            let answers = Answers::new().map_err(|e| Error::system("cannot have an eventfd", e))?;
            let answers = Arc::new(answers);
            let shared = Arc::new(Shared::new(files, queues, clocks, disks, Alarm::Bell(answers.clone())));
            let paths = serve_ublk(&shared, control, devices, answers)?;
            (shared, Devices::Ublk, paths)
        }
        None => {
            let alarm = Alarm::timer().map_err(|e| Error::system("cannot have a timer", e))?;
            let shared = Arc::new(Shared::new(files, queues, clocks, disks, alarm));
            let devices = serve_loop(&shared, directory)?;
            let paths = devices.iter().map(|device| device.path.clone()).collect();
            (shared, Devices::Loop(devices), paths)
        }
    };
    let way = match paths.first() {
        Some(path) => round_trip::measure(&shared, path, asker)?,
        None => Way::default(),
    };
    shared.change(|queue| queue.set_way(way.ways));
    let follow = Follow::start(&shared, &paths, way.outside)?;
    let own = |disk: usize| match &devices {
        Devices::Loop(devices) => devices[disk].new.is_some(),
        Devices::Ublk => true,
    };
    let of = |(disk, (path, setup)): (usize, (&PathBuf, &DiskSetup))| {
        own(disk).then(|| BlkQueue::of(path, setup.parameters.rotates()))
    };
    let blk_queues = paths.iter().zip(disks).enumerate().filter_map(of).collect();
    let places = paths.into_iter().map(|path| (path, false)).collect();
    Ok((Made { shared, way, follow, devices, places, blk_queues }, because))
}

/// Adds ublk devices, which are not there for anybody yet.
fn add_ublk(directory: &Path, count: usize) -> Result<(ublk::Control, Vec<ublk::Device>), Error> {
    ublk::load();
    let mut control = ublk::Control::open().map_err(|e| Error::file("use", Path::new(ublk::CONTROL), e))?;
    let token = token();
    image::note_device(directory, Noted::Ublk(token))?;
    let devices = ublk::add(&mut control, count, token)?;
    Ok((control, devices))
}

/// By which devices are told from those of others: no other run's, in the time in which a device can be there.
fn token() -> u64 {
    host::now().since(scale::RealInstant::ZERO).as_nanos() << 8 ^ u64::from(std::process::id())
}

/// Starts the threads, and the devices. Where these are.
fn serve_ublk(
    shared: &Arc<Shared>,
    mut control: ublk::Control,
    devices: Vec<ublk::Device>,
    answers: Arc<Answers>,
) -> Result<Vec<PathBuf>, Error> {
    let devices = Arc::new(devices);
    let (jobs, doer) = ring::doers(shared, &devices);
    for _ in 0..DOERS {
        let doer = doer.clone();
        spawn("doer", || Ok(()), move |()| doer.run())?;
    }
    let serving = (shared.clone(), devices.clone());
    let server = move || ring::Server::new(serving.0, serving.1, answers, jobs);
    spawn("disks", server, |server| {
        // Nobody answers any more: the kernel fails all that is asked when this process is gone.
        let Err(e) = server.run();
        eprintln!("diorama: requests to disks cannot be taken any more: {e}");
        std::process::exit(1)
    })?;
    for (disk, device) in devices.iter().enumerate() {
        control.start(device, shared.capacity(disk))?;
    }
    Ok(devices.iter().map(|device| device.path.clone()).collect())
}

/// Mounts the FUSE files, starts the threads, and has a loop device on each file.
fn serve_loop(shared: &Arc<Shared>, directory: &Path) -> Result<Vec<LoopDevice>, Error> {
    let mount = directory.join("fuse");
    start(shared, &mount)?;
    let (token, mut devices) = (token(), Vec::new());
    for disk in 0..shared.disks() {
        let file = mount.join(disk.to_string());
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(CWD, &file, flags, Mode::empty()).map_err(|e| Error::file("open", &file, e))?;
        let noted = |own| image::note_device(directory, Noted::Loop(own));
        devices.push(LoopDevice::on(file.as_fd(), token, noted)?);
    }
    Ok(devices)
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
    config.n_threads = Some(DOERS);
    let session = Session::from_fd(Files(shared.clone()), fuse, SessionACL::All, config)
        .map_err(|e| Error::system("cannot agree with the kernel's FUSE", e))?;
    let answering = shared.clone();
    spawn("answer", || Ok(()), move |()| answering.answer())?;
    spawn("disks", || Ok(()), move |()| drop(session.run()))
}

/// Starts a thread that is on time, as are those that it starts. It runs `body` with what it has prepared.
fn spawn<R>(
    name: &str,
    prepare: impl FnOnce() -> io::Result<R> + Send + 'static,
    body: impl FnOnce(R) + Send + 'static,
) -> Result<(), Error> {
    let (ready, told) = std::sync::mpsc::channel();
    let punctual = || -> io::Result<()> {
        sched::set(Class::RealTime { priority: PRIORITY, inherited: true })?;
        host::time::precise_sleep()
    };
    let lack = |e| {
        Error::Machine(Lack::new(
            format!("whoever serves the disks may not be scheduled in real time: {e}"),
            "run as root; if this shell is in a cpu control group of version 1, move it to the root group",
        ))
    };
    let work = move || {
        let failed = |e| Error::system("whoever serves the disks cannot begin", e);
        let prepared = punctual().map_err(lack).and_then(|()| prepare().map_err(failed));
        let (prepared, said) = match prepared {
            Ok(prepared) => (Some(prepared), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let _ = ready.send(said);
        if let Some(prepared) = prepared {
            body(prepared);
        }
    };
    let started = thread::Builder::new().name(name.into()).spawn(work);
    started.map_err(|e| Error::system("cannot start a thread for the disks", e))?;
    told.recv().unwrap_or_else(|_| Err(Error::Server("a thread of it ended at once".into())))
}

fn open_fuse() -> Result<OwnedFd, Error> {
    openat(CWD, "/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| match e {
        rustix::io::Errno::NOENT | rustix::io::Errno::NODEV | rustix::io::Errno::NXIO => {
            Error::Machine(requirements::no_fuse())
        }
        e => Error::file("open", Path::new("/dev/fuse"), e),
    })
}
