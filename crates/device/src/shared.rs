//! State that the threads of the process share: the requests of all disks, from the kernel to their answers.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use disk::{Op, Span};
use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use host::node_clock::NodeClock;
use scale::RealInstant;

use crate::blocks::{Block, Blocks};
use crate::queue::{Queue, RequestId};
use crate::ring::Answer;
use crate::timer::{Alarm, NEVER};
use crate::undo::Undo;
use crate::wire::{Cut, DiskSetup};

/// A request's way back.
pub(crate) enum Reply {
    /// With what was read.
    Read(ReplyData, Block),
    /// With how much was written.
    Write(ReplyWrite, u32),
    /// With nothing.
    Other(ReplyEmpty),
    /// By ublk, where its data has gone already, if it has any.
    Ublk(Answer),
}

impl Reply {
    fn send(self, blocks: &Blocks) {
        match self {
            Reply::Read(reply, block) => {
                reply.data(block.used());
                blocks.give(block);
            }
            Reply::Write(reply, size) => reply.written(size),
            Reply::Other(reply) => reply.ok(),
            Reply::Ublk(answer) => answer.done(),
        }
    }

    fn refuse(self, why: Errno) {
        match self {
            Reply::Read(reply, _) => reply.error(why),
            Reply::Write(reply, _) => reply.error(why),
            Reply::Other(reply) => reply.error(why),
            Reply::Ublk(answer) => answer.refuse(why.code()),
        }
    }
}

/// A request that has been taken, and is to be done.
pub(crate) struct Taken {
    /// Of which disk, by its place.
    pub disk: usize,
    id: RequestId,
    pub op: Op,
    /// In bytes.
    pub offset: u64,
    pub length: u64,
    /// Whether what was there before is to be kept.
    pub keep: bool,
    pub reply: Reply,
}

/// A reply that is due.
struct Due {
    /// Of which disk, by its place.
    disk: usize,
    /// When it comes, by the run's clock, if a model says so.
    comes: Option<RealInstant>,
    reply: Reply,
}

/// State that the threads share.
pub(crate) struct Shared {
    backings: Vec<Backing>,
    state: Mutex<State>,
    /// Wakes the thread that answers.
    alarm: Alarm,
    /// Wakes who waits until nobody is at a file.
    left: Condvar,
    blocks: Blocks,
    /// Whether nothing is done any more.
    null: AtomicBool,
}

/// A disk's file on the host, and what never changes of the disk.
struct Backing {
    file: File,
    path: PathBuf,
    capacity: u64,
    /// Whether it is to be durable on the host.
    durable: bool,
    /// The clock of the node that has it, if that has one of its own.
    clock: Option<NodeClock>,
}

pub(crate) struct State {
    /// By the disks' places.
    pub disks: Vec<DiskState>,
    /// When there is something to do for which disk.
    by_time: BTreeSet<(RealInstant, usize)>,
    /// Until when the thread that answers sleeps: its alarm is set to that. None while it is awake.
    asleep_until: Option<RealInstant>,
    /// The first request that could not be done, and why.
    pub failure: Option<String>,
}

pub(crate) struct DiskState {
    pub queue: Queue,
    /// Replies to requests that are done, not sent yet.
    done: HashMap<RequestId, Reply>,
    /// When there is something to do.
    wake: Option<RealInstant>,
    /// It does nothing any more.
    pub broken: bool,
    /// It has no power.
    pub off: bool,
    /// How many requests are being done in the file.
    working: u32,
    /// Undo log of writes that a power cut would lose; none where the power is never cut.
    pub undo: Option<Undo>,
}

impl Shared {
    pub fn new(
        files: Vec<(PathBuf, File)>,
        queues: Vec<Queue>,
        clocks: Vec<Option<NodeClock>>,
        setups: &[DiskSetup],
        alarm: Alarm,
    ) -> Shared {
        let mut backings = Vec::new();
        for ((((path, file), clock), setup), queue) in files.into_iter().zip(clocks).zip(setups).zip(&queues) {
            backings.push(Backing { file, path, capacity: queue.capacity_bytes(), durable: setup.durable, clock });
        }
        let disk = |(queue, setup): (Queue, &DiskSetup)| DiskState {
            queue,
            done: HashMap::new(),
            wake: None,
            broken: false,
            off: false,
            working: 0,
            undo: setup.may_lose_power.then(Undo::default),
        };
        let disks = queues.into_iter().zip(setups).map(disk).collect();
        let state = Mutex::new(State { disks, by_time: BTreeSet::new(), asleep_until: None, failure: None });
        let (left, blocks, null) = (Condvar::new(), Blocks::default(), AtomicBool::new(false));
        Shared { backings, state, alarm, left, blocks, null }
    }

    pub fn disks(&self) -> usize {
        self.backings.len()
    }

    pub fn capacity(&self, disk: usize) -> u64 {
        self.backings[disk].capacity
    }

    /// The file or model behind a disk.
    pub fn file(&self, disk: usize) -> &File {
        &self.backings[disk].file
    }

    /// Whether what a disk has made durable is to be durable on the host.
    pub fn is_durable(&self, disk: usize) -> bool {
        self.backings[disk].durable
    }

    /// Makes durable on the host what a disk's file has, if that was asked for.
    pub fn flush(&self, disk: usize, file: &File) -> io::Result<()> {
        if self.is_durable(disk) { file.sync_data() } else { Ok(()) }
    }

    /// From now on nothing is done: each request is answered as soon as it has come.
    pub fn null(&self) {
        self.null.store(true, Ordering::Relaxed);
    }

    /// Memory for what is read.
    pub fn block(&self, length: usize) -> Block {
        self.blocks.take(length)
    }

    /// Takes a request that is met now, does it in the file, and has it answered when it is time.
    pub fn serve(
        &self,
        disk: usize,
        op: Op,
        offset: u64,
        length: u64,
        reply: Reply,
        work: impl FnOnce(&File, &mut Reply) -> io::Result<()>,
    ) {
        if let Some(taken) = self.take(disk, op, offset, length, reply) {
            self.carry_out(taken, |file, taken| work(file, &mut taken.reply));
        }
    }

    /// Does in the file what was taken, whatever that takes, and has it answered when it is time.
    pub fn carry_out(&self, mut taken: Taken, work: impl FnOnce(&File, &mut Taken) -> io::Result<()>) {
        let file = self.file(taken.disk);
        let mut before = vec![0; if taken.keep { taken.length as usize } else { 0 }];
        let done = file.read_exact_at(&mut before, taken.offset).and_then(|()| work(file, &mut taken));
        self.finish(taken, before, done);
    }

    /// Takes a request that is met now. None: it has been answered.
    pub fn take(&self, disk: usize, op: Op, offset: u64, length: u64, reply: Reply) -> Option<Taken> {
        if self.null.load(Ordering::Relaxed) {
            reply.send(&self.blocks);
            return None;
        }
        let met = host::now();
        let mut state = self.state();
        let of_disk = &mut state.disks[disk];
        if of_disk.broken || of_disk.off {
            drop(state);
            reply.refuse(Errno::EIO);
            return None;
        }
        let asked = self.backings[disk].clock.as_ref().map_or(met, |clock| clock.when_asked(met));
        match of_disk.queue.ask(met, asked, op, offset, length) {
            Ok(id) => {
                let keep = of_disk.begin(id, op, offset, length);
                Some(Taken { disk, id, op, offset, length, keep, reply })
            }
            Err(refused) => {
                state.fail(format!("a request was refused: {refused}"));
                drop(state);
                reply.refuse(Errno::EINVAL);
                None
            }
        }
    }

    /// Has a request answered when it is time. `before` is what was there, if that was to be kept, and `done` whether
    /// the request could be done.
    pub fn finish(&self, taken: Taken, before: Vec<u8>, done: io::Result<()>) {
        let Taken { disk, id, op, offset, length, keep, reply } = taken;
        let mut state = self.state();
        let of_disk = &mut state.disks[disk];
        of_disk.working -= 1;
        of_disk.keep(id, keep, before);
        if of_disk.off {
            // Whoever cuts the power waits for this. It was cut meanwhile: nobody will know.
            self.left.notify_all();
            drop(state);
            return reply.refuse(Errno::EIO);
        }
        if let Err(e) = done {
            of_disk.queue.fail(id);
            state.fail(failure(&self.backings[disk].path, op, offset, length, &e));
            self.reschedule(&mut state, disk);
            drop(state);
            return reply.refuse(Errno::EIO);
        }
        of_disk.queue.done(id, host::now());
        of_disk.done.insert(id, reply);
        let answers = of_disk.answer(disk, host::now());
        self.reschedule(&mut state, disk);
        drop(state);
        self.send(answers);
    }

    /// Gives answers, and has the clocks of their nodes show when these come.
    fn send(&self, answers: Vec<Due>) {
        for Due { disk, comes, reply } in answers {
            if let (Some(clock), Some(comes)) = (&self.backings[disk].clock, comes) {
                clock.answer(comes);
            }
            reply.send(&self.blocks);
        }
    }

    /// Notes when there is something to do for a disk, and has who does it wake up by then.
    pub fn reschedule(&self, state: &mut State, disk: usize) {
        state.schedule(disk);
        let next = state.next();
        if state.asleep_until.is_some_and(|until| next < until) {
            state.asleep_until = Some(next);
            self.alarm.set_sooner(next);
        }
    }

    /// Answers what is due, for ever.
    pub fn answer(&self) {
        loop {
            self.answer_due();
            self.alarm.wait();
            self.awake();
        }
    }

    /// Answers what is due. Whoever calls this sleeps until the instant that it says then, or the alarm goes off, and
    /// says when it is [`awake`](Shared::awake).
    pub fn answer_due(&self) -> RealInstant {
        let mut state = self.state();
        loop {
            let now = host::now();
            let mut answers = Vec::new();
            while let Some((at, disk)) = state.by_time.first().copied().filter(|(at, _)| *at <= now) {
                answers.extend(state.disks[disk].answer(disk, now));
                state.schedule(disk);
                // A model whose event is a rounding error away: not again at this instant.
                if state.disks[disk].wake == Some(at) {
                    break;
                }
            }
            if !answers.is_empty() {
                drop(state);
                self.send(answers);
                state = self.state();
                continue;
            }
            let next = state.next();
            state.asleep_until = Some(next);
            self.alarm.set(next);
            return next;
        }
    }

    /// Whoever answers is awake.
    pub fn awake(&self) {
        self.state().asleep_until = None;
    }

    /// Cuts the power of a disk: puts back what was there before all that is lost.
    pub fn cut_power(&self, disk: usize) -> io::Result<Cut> {
        let mut state = self.state();
        state.disks[disk].off = true;
        while state.disks[disk].working > 0 {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let of_disk = &mut state.disks[disk];
        let lost = of_disk.queue.cut_power(host::now());
        of_disk.note_durable();
        let unanswered = std::mem::take(&mut of_disk.done);
        let back = of_disk.undo.as_mut().map(|undo| undo.cut(&lost)).unwrap_or_default();
        self.reschedule(&mut state, disk);
        let mut cut = Cut::default();
        for lost in &lost {
            *(if lost.completed { &mut cut.lost } else { &mut cut.unfinished }) += 1;
        }
        cut.lost_bytes = back.iter().map(|(_, before)| before.len() as u64).sum();
        drop(state);
        // Nobody else is at the file: it has no power.
        back.iter().try_for_each(|(offset, before)| self.file(disk).write_all_at(before, *offset))?;
        unanswered.into_values().for_each(|reply| reply.refuse(Errno::EIO));
        Ok(cut)
    }

    /// Changes how all disks answer.
    pub fn change(&self, change: impl Fn(&mut Queue)) {
        let mut state = self.state();
        for disk in 0..self.disks() {
            change(&mut state.disks[disk].queue);
            self.reschedule(&mut state, disk);
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // Who panicked has left a request unanswered at most.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Words for a request that could not be done.
fn failure(path: &Path, op: Op, offset: u64, length: u64, e: &io::Error) -> String {
    let what = match op {
        Op::Read => "read",
        Op::Write | Op::WriteThrough => "write",
        Op::Flush => "flush",
        Op::Trim => "trim",
    };
    let helps = match e.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => "; free some of that file system, or write less to the nodes' disks",
        _ => "",
    };
    format!("cannot {what} {length} bytes at {offset} of {}, which is behind a disk: {e}{helps}", path.display())
}

impl DiskState {
    /// Collects the replies that are due, of the disk at this place.
    fn answer(&mut self, disk: usize, now: RealInstant) -> Vec<Due> {
        let mut answers = Vec::new();
        self.queue.advance(now, &mut answers);
        self.note_durable();
        let due = |(id, comes)| Some(Due { disk, comes, reply: self.done.remove(&id)? });
        answers.into_iter().filter_map(due).collect()
    }

    /// Notes that a request is being done; whether what was there before is to be kept.
    fn begin(&mut self, id: RequestId, op: Op, offset: u64, length: u64) -> bool {
        self.working += 1;
        let modelled = self.queue.is_modelled();
        let Some(undo) = self.undo.as_mut().filter(|_| modelled) else { return false };
        let writes = matches!(op, Op::Write | Op::WriteThrough);
        if writes || op == Op::Trim {
            undo.begin(id, Span { begin: offset, end: offset + length });
        }
        // A trim is done at once.
        if op == Op::Trim {
            undo.durable(id);
        }
        writes
    }

    fn keep(&mut self, id: RequestId, keep: bool, before: Vec<u8>) {
        if let Some(undo) = self.undo.as_mut().filter(|_| keep) {
            undo.before(id, before);
        }
    }

    fn note_durable(&mut self) {
        let durable = self.queue.durable();
        match self.undo.as_mut() {
            Some(undo) => durable.for_each(|id| undo.durable(id)),
            None => drop(durable),
        }
    }
}

impl State {
    fn schedule(&mut self, disk: usize) {
        let State { disks, by_time, .. } = self;
        let of_disk = &mut disks[disk];
        if let Some(old) = of_disk.wake.take() {
            by_time.remove(&(old, disk));
        }
        of_disk.wake = of_disk.queue.next_event();
        if let Some(at) = of_disk.wake {
            by_time.insert((at, disk));
        }
    }

    fn next(&self) -> RealInstant {
        self.by_time.first().map_or(NEVER, |(at, _)| *at)
    }

    fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }
}
