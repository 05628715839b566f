//! The thread that serves all ublk devices of a run: it takes requests from the kernel, does them in the files, and
//! answers them when it is time, many with one system call.
//!
//! The kernel takes answers of a device only from the thread that asked for its requests. What takes long, or may have
//! to wait for the host's own disk, is therefore done by others, which hand the answers back.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use disk::Op;
use io_uring::{IoUring, opcode, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags};

use crate::files::clear;
use crate::shared::{Reply, Shared, Taken};
use crate::timer::NEVER;
use crate::ublk::{COMMIT, DEPTH, Device, FETCH, LONGEST, Request};

/// How many requests are done before answers are given that have become due meanwhile.
const AT_A_TIME: usize = 16;
/// From here on a request is done by another thread: to copy so much takes longer than to wake one up.
const LONG: u64 = 64 << 10;
/// The name of the bell's own completion; all others are a disk and a tag.
const BELL: u64 = u64::MAX;

/// Answers on their way to the thread that gives them to the kernel, and what wakes it.
#[derive(Debug)]
pub(crate) struct Answers {
    waiting: Mutex<Unfetched>,
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct Unfetched {
    answers: Vec<Answered>,
    /// Whether the thread sleeps, or is about to.
    asleep: bool,
}

#[derive(Debug)]
struct Answered {
    disk: usize,
    tag: u16,
    /// How many bytes, or an error's number, negative.
    result: i32,
}

impl Answers {
    pub fn new() -> io::Result<Answers> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Answers { waiting: Mutex::default(), bell })
    }

    /// Wakes the thread.
    pub fn ring(&self) {
        // It is full only if it has been rung already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn give(&self, answer: Answered) {
        let mut waiting = self.waiting();
        waiting.answers.push(answer);
        let asleep = std::mem::take(&mut waiting.asleep);
        drop(waiting);
        if asleep {
            self.ring();
        }
    }

    /// Takes what is to be answered. Whoever gives more from now on wakes the thread.
    fn take_before_sleep(&self, answers: &mut Vec<Answered>) {
        let mut waiting = self.waiting();
        answers.append(&mut waiting.answers);
        waiting.asleep = true;
    }

    fn awake(&self) {
        self.waiting().asleep = false;
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Unfetched> {
        // Nobody panics with it locked.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's way back. What nobody answers has failed.
#[derive(Debug)]
pub(crate) struct Answer {
    to: Arc<Answers>,
    disk: usize,
    tag: u16,
    length: i32,
    result: i32,
}

impl Answer {
    /// That all of it was done.
    pub fn done(mut self) {
        self.result = self.length;
    }

    /// That it was not, and why: a number of errno(3).
    pub fn refuse(mut self, errno: i32) {
        self.result = -errno;
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.to.give(Answered { disk: self.disk, tag: self.tag, result: self.result });
    }
}

/// A request that is for another thread.
struct Job {
    taken: Taken,
    tag: u16,
}

/// The thread, before it runs.
pub(crate) struct Server {
    shared: Arc<Shared>,
    devices: Arc<Vec<Device>>,
    answers: Arc<Answers>,
    jobs: Sender<Job>,
    ring: IoUring,
    /// The kernel's data comes here, and goes from here.
    block: Vec<u8>,
}

impl Server {
    /// Whoever calls this is the thread that is to run it.
    pub fn new(
        shared: Arc<Shared>,
        devices: Arc<Vec<Device>>,
        answers: Arc<Answers>,
        jobs: Jobs,
    ) -> io::Result<Server> {
        let entries = (devices.len() * usize::from(DEPTH) + 1).next_power_of_two().clamp(64, 4096);
        let mut builder = IoUring::builder();
        // Completions are worked off only when this thread asks for them, not whenever it enters the kernel.
        builder.setup_single_issuer().setup_defer_taskrun().setup_cqsize(2 * entries as u32).setup_clamp();
        let ring = builder.build(entries as u32)?;
        flusher();
        Ok(Server { shared, devices, answers, jobs: jobs.0, ring, block: vec![0; LONGEST] })
    }

    /// Serves, for ever.
    ///
    /// # Errors
    /// If the kernel cannot be asked any more.
    pub fn run(mut self) -> io::Result<Infallible> {
        for disk in 0..self.devices.len() {
            for tag in 0..DEPTH {
                self.ask(FETCH, &Answered { disk, tag, result: 0 })?;
            }
        }
        self.listen()?;
        let (mut answers, mut completions) = (Vec::new(), Vec::with_capacity(AT_A_TIME));
        loop {
            let next = self.shared.answer_due();
            self.answers.take_before_sleep(&mut answers);
            for answer in answers.drain(..) {
                self.ask(COMMIT, &answer)?;
            }
            self.wait(next)?;
            self.answers.awake();
            self.shared.awake();
            completions.extend(self.ring.completion().take(AT_A_TIME).map(|done| (done.user_data(), done.result())));
            for (data, result) in completions.drain(..) {
                match data {
                    BELL => {
                        let _ = rustix::io::read(&self.answers.bell, &mut [0; 8]);
                        self.listen()?;
                    }
                    // A device that is being removed hands over nothing any more.
                    _ if result < 0 => {}
                    _ => self.serve((data >> 16) as usize, data as u16),
                }
            }
        }
    }

    /// Sleeps until something is to be done.
    fn wait(&mut self, next: scale::RealInstant) -> io::Result<()> {
        let done = match next {
            NEVER => self.ring.submit_and_wait(1),
            next => {
                let rest = next.since(host::now()).as_nanos();
                let time = types::Timespec::new().sec(rest / 1_000_000_000).nsec((rest % 1_000_000_000) as u32);
                self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        match done.map_err(|e| (e.raw_os_error(), e)) {
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY), _)) => Ok(()),
            Err((_, e)) => Err(e),
        }
    }

    /// Asks for a request in the place of one that is answered, or for the first.
    fn ask(&mut self, command: u32, answer: &Answered) -> io::Result<()> {
        // struct ublksrv_io_cmd: queue, tag, result, address.
        let mut bytes = [0; 16];
        bytes[2..4].copy_from_slice(&answer.tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&answer.result.to_ne_bytes());
        let entry = opcode::UringCmd16::new(self.devices[answer.disk].fd(), command).cmd(bytes).build();
        self.push(entry.user_data((answer.disk as u64) << 16 | u64::from(answer.tag)))
    }

    /// Has the bell wake this thread.
    fn listen(&mut self) -> io::Result<()> {
        let bell = types::Fd(self.answers.bell.as_raw_fd());
        self.push(opcode::PollAdd::new(bell, libc::POLLIN as u32).build().user_data(BELL))
    }

    fn push(&mut self, entry: io_uring::squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: none of the entries has memory, and their descriptors are open as long as this is there.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    /// Takes a request, and does it, or has it done.
    fn serve(&mut self, disk: usize, tag: u16) {
        let Server { shared, devices, answers, jobs, block, .. } = self;
        let device = &devices[disk];
        let mut answer = Answer { to: answers.clone(), disk, tag, length: 0, result: -libc::EIO };
        let Some(Request { op, offset, length }) = device.request(tag).filter(Request::fits) else {
            return answer.refuse(libc::EOPNOTSUPP);
        };
        if matches!(op, Op::Read | Op::Write | Op::WriteThrough) {
            answer.length = length as i32;
        }
        let Some(taken) = shared.take(disk, op, offset, length, Reply::Ublk(answer)) else { return };
        let mut before = Vec::new();
        if may_wait(shared, &taken, block, &mut before) {
            // Whoever receives it is there as long as this.
            drop(jobs.send(Job { taken, tag }));
            return;
        }
        let done = match op {
            Op::Read => device.give_data(tag, &block[..length as usize]),
            _ => work(shared, device, tag, &taken, block),
        };
        shared.finish(taken, before, done);
    }
}

/// Whether doing a request may take long. If not, then what is to be read was read to the block, and what was in the
/// place of what is to be written, if that is to be kept, is in `before`.
fn may_wait(shared: &Shared, taken: &Taken, block: &mut [u8], before: &mut Vec<u8>) -> bool {
    let (length, file) = (taken.length as usize, shared.file(taken.disk));
    match taken.op {
        Op::Trim => true,
        Op::Flush => shared.is_durable(taken.disk),
        _ if taken.length > LONG => true,
        Op::Read => !read_now(file, &mut block[..length], taken.offset),
        Op::WriteThrough if shared.is_durable(taken.disk) => true,
        Op::Write | Op::WriteThrough if taken.keep => {
            before.resize(length, 0);
            !read_now(file, before, taken.offset)
        }
        Op::Write | Op::WriteThrough => false,
    }
}

/// Reads what is in the host's page cache. Whether all of it was there.
fn read_now(file: &File, block: &mut [u8], offset: u64) -> bool {
    match rustix::io::preadv2(file, &mut [IoSliceMut::new(block)], offset, ReadWriteFlags::NOWAIT) {
        Ok(read) => read == block.len(),
        // File systems in memory do not know the question, and nobody waits there.
        Err(Errno::OPNOTSUPP) => file.read_exact_at(block, offset).is_ok(),
        Err(_) => false,
    }
}

/// Does a request, whatever it takes.
fn work(shared: &Shared, device: &Device, tag: u16, taken: &Taken, block: &mut [u8]) -> io::Result<()> {
    let file = shared.file(taken.disk);
    match taken.op {
        Op::Read => {
            let block = &mut block[..taken.length as usize];
            file.read_exact_at(block, taken.offset)?;
            device.give_data(tag, block)
        }
        Op::Write | Op::WriteThrough => {
            let block = &mut block[..taken.length as usize];
            device.take_data(tag, block)?;
            file.write_all_at(block, taken.offset)?;
            if taken.op == Op::WriteThrough { shared.flush(taken.disk, file) } else { Ok(()) }
        }
        Op::Flush => shared.flush(taken.disk, file),
        Op::Trim => clear(file, taken.offset, taken.length),
    }
}

/// A thread that does what may take long, before it runs.
#[derive(Clone)]
pub(crate) struct Doer {
    shared: Arc<Shared>,
    devices: Arc<Vec<Device>>,
    jobs: Arc<Mutex<Receiver<Job>>>,
}

/// For whom others do what may take long.
pub(crate) struct Jobs(Sender<Job>);

/// Those who do what may take long, and whoever has it done.
pub(crate) fn doers(shared: &Arc<Shared>, devices: &Arc<Vec<Device>>) -> (Jobs, Doer) {
    let (send, receive) = channel();
    let jobs = Arc::new(Mutex::new(receive));
    (Jobs(send), Doer { shared: shared.clone(), devices: devices.clone(), jobs })
}

impl Doer {
    /// Does what comes, until nobody is there from whom it could.
    pub fn run(self) {
        flusher();
        let mut block = vec![0; LONGEST];
        loop {
            let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { taken, tag }) = job else { return };
            let device = &self.devices[taken.disk];
            self.shared.carry_out(taken, |_, taken| work(&self.shared, device, tag, taken, &mut block));
        }
    }
}

/// Tells the kernel that this thread is behind a block device: to find memory for it, no other request of such a device
/// may be waited for.
fn flusher() {
    /// Of <linux/prctl.h>.
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // Where there are no rights to say so, it stays as it is with other servers of disks.
    // SAFETY: the call takes numbers only.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}
