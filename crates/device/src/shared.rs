//! What the threads of the process have in common: the requests of all disks, from the kernel to their answers.

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

use crate::alarm::{Alarm, NEVER};
use crate::blocks::{Block, Blocks};
use crate::queue::{Queue, RequestId};
use crate::ring::Answer;
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

/// What the threads have in common.
pub(crate) struct Shared {
    files: Vec<File>,
    /// Where these are.
    paths: Vec<PathBuf>,
    capacities: Vec<u64>,
    /// Which are to be durable on the host.
    durable: Vec<bool>,
    /// The clocks of the nodes that have them, if those have clocks of their own.
    clocks: Vec<Option<NodeClock>>,
    state: Mutex<State>,
    /// Wakes the thread that answers.
    alarm: Alarm,
    /// Wakes who waits until nobody is at a file.
    left: Condvar,
    blocks: Blocks,
    /// Whether nothing is done any more.
    null: AtomicBool,
}

pub(crate) struct State {
    pub queues: Vec<Queue>,
    /// What is done and has not been answered.
    done: HashMap<(usize, RequestId), Reply>,
    /// When there is something to do for each disk, and by time.
    wake: Vec<Option<RealInstant>>,
    by_time: BTreeSet<(RealInstant, usize)>,
    /// Until when the thread that answers sleeps: its alarm is set to that. None while it is awake.
    asleep_until: Option<RealInstant>,
    /// The disks that do nothing any more.
    pub broken: Vec<bool>,
    /// Those without power.
    pub off: Vec<bool>,
    /// How many requests are being done in each file.
    working: Vec<u32>,
    /// What a power cut would take back; none of disks whose power is never cut.
    pub undo: Vec<Option<Undo>>,
    /// The first request that could not be done, and why.
    pub failure: Option<String>,
}

impl Shared {
    pub fn new(
        files: Vec<(PathBuf, File)>,
        queues: Vec<Queue>,
        clocks: Vec<Option<NodeClock>>,
        setups: &[DiskSetup],
        alarm: Alarm,
    ) -> Shared {
        let capacities = queues.iter().map(Queue::capacity_bytes).collect();
        let state = State {
            done: HashMap::new(),
            wake: vec![None; queues.len()],
            broken: vec![false; queues.len()],
            off: vec![false; queues.len()],
            working: vec![0; queues.len()],
            undo: setups.iter().map(|disk| disk.may_lose_power.then(Undo::default)).collect(),
            by_time: BTreeSet::new(),
            asleep_until: None,
            failure: None,
            queues,
        };
        let (left, blocks) = (Condvar::new(), Blocks::default());
        let (paths, files) = files.into_iter().unzip();
        let (state, null) = (Mutex::new(state), AtomicBool::new(false));
        let durable = setups.iter().map(|disk| disk.durable).collect();
        Shared { files, paths, capacities, durable, clocks, state, alarm, left, blocks, null }
    }

    pub fn disks(&self) -> usize {
        self.files.len()
    }

    pub fn capacity(&self, disk: usize) -> u64 {
        self.capacities[disk]
    }

    /// What is behind a disk.
    pub fn file(&self, disk: usize) -> &File {
        &self.files[disk]
    }

    /// Whether what a disk has made durable is to be durable on the host.
    pub fn is_durable(&self, disk: usize) -> bool {
        self.durable[disk]
    }

    /// Makes durable on the host what a disk's file has, if that was asked for.
    pub fn flush(&self, disk: usize, file: &File) -> io::Result<()> {
        if self.durable[disk] { file.sync_data() } else { Ok(()) }
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
        if state.broken[disk] || state.off[disk] {
            drop(state);
            reply.refuse(Errno::EIO);
            return None;
        }
        let asked = self.clocks[disk].as_ref().map_or(met, |clock| clock.at(met));
        match state.queues[disk].ask(met, asked, op, offset, length) {
            Ok(id) => {
                let keep = state.begin(disk, id, op, offset, length);
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
        state.working[disk] -= 1;
        if state.off[disk] {
            // Whoever cuts the power waits for this.
            self.left.notify_all();
            // The power was cut meanwhile: nobody will know.
            state.keep(disk, id, keep, before);
            drop(state);
            return reply.refuse(Errno::EIO);
        }
        state.keep(disk, id, keep, before);
        if let Err(e) = done {
            state.queues[disk].fail(id);
            state.fail(failure(&self.paths[disk], op, offset, length, &e));
            self.reschedule(&mut state, disk);
            drop(state);
            return reply.refuse(Errno::EIO);
        }
        state.queues[disk].done(id, host::now());
        state.done.insert((disk, id), reply);
        let answers = state.answer(disk, host::now());
        self.reschedule(&mut state, disk);
        drop(state);
        answers.into_iter().for_each(|reply| reply.send(&self.blocks));
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
                answers.extend(state.answer(disk, now));
                state.schedule(disk);
                // A model whose event is a rounding error away: not again at this instant.
                if state.wake[disk] == Some(at) {
                    break;
                }
            }
            if !answers.is_empty() {
                drop(state);
                answers.into_iter().for_each(|reply| reply.send(&self.blocks));
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
    pub fn change(&self, change: impl Fn(&mut Queue)) {
        let mut state = self.state();
        for disk in 0..self.disks() {
            change(&mut state.queues[disk]);
            self.reschedule(&mut state, disk);
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // Who panicked has left a request unanswered at most.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is said of a request that could not be done.
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
