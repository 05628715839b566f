//! The requests of one disk, from their arrival to their answer. Pure: the time is an argument.
//!
//! A request is answered when two things are true: its model says that it is complete, and what it asks for has been
//! done in the file behind the disk. The second comes first, as a rule; a request for which it does not is *late*.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use counters::{DiskCounters, lateness_limit};
use disk::{Disk, Event, EventKind, Lost, Op, Refused, Request};
use scale::{DiskClock, RealDuration, RealInstant, VirtualDuration, VirtualInstant};

use crate::drift::{Change, Kind, Sums};
use crate::request_trace::Watched;

/// A request of a disk, by its number.
pub type RequestId = u64;

/// The requests of one disk.
#[derive(Debug)]
pub struct Queue {
    model: Disk,
    mode: Mode,
    last_id: RequestId,
    /// Requests without an answer yet.
    waiting: HashMap<RequestId, Waiting>,
    /// Those of nodes whose clocks are ahead, and when the model is told of them.
    held: BTreeSet<(RealInstant, RequestId)>,
    /// When those are to be answered of which that is known.
    due: BTreeSet<(RealInstant, RequestId)>,
    counters: DiskCounters,
    /// Until when [`DiskCounters::queued`] and [`DiskCounters::busy`] are counted, and the requests that the model has
    /// since.
    counted: VirtualInstant,
    outstanding: u64,
    /// Until when the model has been asked.
    asked: VirtualInstant,
    events: Vec<Event>,
    /// Writes that have become durable, for whoever wants to know.
    durable: Vec<RequestId>,
    /// How late those were answered that were to be after a time.
    waking: Vec<RealDuration>,
    /// Its clock, while everything is done at once until the disk is as before.
    later: Option<DiskClock>,
    /// Each request that was answered, for whoever wants to know.
    watched: Option<Vec<Watched>>,
    way: Ways,
    /// Requests answered by the model, and how long that should have taken to whoever asked.
    expected: Sums,
    /// How many are to be answered so much sooner than others, of those that have not been.
    sooner: BTreeMap<RealDuration, u32>,
}

/// How long requests are on their way, there and back: short ones of each kind, and so much more for each MiB. What is
/// written is copied before the request is met, and what is read after it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// By how much all are answered sooner than their model says, as the clock of the run knows.
    pub spent: RealDuration,
    /// A short read.
    pub read: RealDuration,
    /// A short write.
    pub write: RealDuration,
    /// A flush.
    pub flush: RealDuration,
    /// Each MiB that is read.
    pub read_mib: RealDuration,
    /// Each that is written.
    pub write_mib: RealDuration,
}

impl Ways {
    fn back(self, op: Op, length: u64) -> RealDuration {
        if op == Op::Read { part(self.read_mib, length) } else { RealDuration::ZERO }
    }

    /// Of a request until it is met, and of its answer but for what [`Ways::back`] has.
    fn whole(self, op: Op, length: u64) -> RealDuration {
        match op {
            Op::Read => self.read,
            Op::Write | Op::WriteThrough => self.write + part(self.write_mib, length),
            Op::Flush => self.flush,
            // Nobody waits for one.
            Op::Trim => self.spent,
        }
    }
}

/// By which part of the way that all have another's changes at most, and how many times as long it gets.
const CHANGES_BY: i64 = 4;
const LONGEST: i64 = 4;
/// Who is answered later than that was not only woken up.
const HELD_UP: RealDuration = RealDuration::from_nanos(200_000);

fn part(of_mib: RealDuration, length: u64) -> RealDuration {
    RealDuration::from_nanos(of_mib.as_nanos().saturating_mul(length) >> 20)
}

/// When requests are answered.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// As soon as they are done.
    AtOnce,
    /// So long after they have come.
    After(RealDuration),
    /// When the model says.
    Modelled(DiskClock),
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    op: Op,
    offset: u64,
    length: u64,
    /// In virtual time, if the model has been told of it.
    arrived: Option<VirtualInstant>,
    /// How much sooner it is to be answered than by its model and the way that all have.
    sooner: RealDuration,
    /// The part of that by which the model was told of it too late.
    early: RealDuration,
    /// How much too late it will be answered nevertheless, as the model was told of it too late.
    lost: RealDuration,
    /// When it was met, and when it was made by the clock of its node, which is ahead of the run's or behind.
    met: RealInstant,
    asked: RealInstant,
    /// By how much it is answered later than its model says, as it was complete before it was met.
    put_off: RealDuration,
    /// When it was complete by the model, in the model's time.
    complete: Option<VirtualInstant>,
    /// When it is to be answered.
    due: Option<RealInstant>,
    /// When it was done in the file.
    done: Option<RealInstant>,
}

impl Waiting {
    /// Whether it was not done when it was to be answered; of a fast disk that may be before it was met.
    fn is_late(&self) -> bool {
        self.due.zip(self.done).is_some_and(|(due, done)| due < done)
    }

    /// When its answer comes, by the run's clock: at the instant that its model says, however late it is given.
    fn comes(&self, mode: Mode) -> Option<RealInstant> {
        let Mode::Modelled(clock) = mode else { return None };
        Some(clock.complete(self.complete?) - self.early)
    }
}

impl Queue {
    /// The requests of a disk, answered at once until [`Queue::begin`].
    pub fn new(model: Disk) -> Queue {
        Queue {
            model,
            mode: Mode::AtOnce,
            last_id: 0,
            waiting: HashMap::new(),
            held: BTreeSet::new(),
            due: BTreeSet::new(),
            counters: DiskCounters::default(),
            counted: VirtualInstant::ZERO,
            outstanding: 0,
            asked: VirtualInstant::ZERO,
            events: Vec::new(),
            durable: Vec::new(),
            waking: Vec::new(),
            later: None,
            watched: None,
            way: Ways::default(),
            expected: Sums::default(),
            sooner: BTreeMap::new(),
        }
    }

    /// How many bytes the disk has.
    pub fn capacity_bytes(&self) -> u64 {
        self.model.capacity_bytes()
    }

    /// How long requests are on their way.
    pub fn set_way(&mut self, way: Ways) {
        self.way = way;
    }

    /// Requests answered by the model, and how long that should have taken, by the kernel and who asked.
    pub fn expected(&self) -> Sums {
        self.expected
    }

    /// Whether nothing waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the way of some requests for so much longer from now on.
    pub fn change_way(&mut self, change: Change) {
        let way = match change.kind {
            Kind::Read => &mut self.way.read,
            Kind::Write => &mut self.way.write,
            Kind::Flush => &mut self.way.flush,
        };
        let spent = self.way.spent.as_nanos() as i64;
        // A pause that holds up everybody for a while is no way that is longer.
        let most = spent / CHANGES_BY;
        let changed = way.as_nanos() as i64 + change.longer_ns.clamp(-most, most);
        *way = RealDuration::from_nanos(changed.clamp(0, spent * LONGEST) as u64);
    }

    /// From now on each request is answered so long after it has come.
    pub fn answer_after(&mut self, time: RealDuration) {
        self.mode = Mode::After(time);
        self.waking.clear();
    }

    /// How much later than that they were answered, one by one.
    pub fn waking(&self) -> &[RealDuration] {
        &self.waking
    }

    /// From now on requests are answered when the model says.
    pub fn begin(&mut self, clock: DiskClock) {
        // The model may have served before, and knows no way back.
        self.counted = VirtualInstant::ZERO;
        self.mode = Mode::Modelled(clock.continuing(self.asked));
        self.later = None;
    }

    /// From now on everything takes so many times as long as the model says; nothing happens before it has begun.
    pub fn slow_down(&mut self, now: RealInstant, factor: f64) {
        if let Mode::Modelled(clock) = self.mode {
            self.mode = Mode::Modelled(clock.slowed(now, factor));
        }
        self.later = self.later.map(|clock| clock.slowed(now, factor));
    }

    /// Cuts the power: which writes are not on the medium. What waits is never answered, and what comes from now on is
    /// done at once, until [`Queue::resume`]. Nothing is lost of a disk that has no model's time, before virtual zero.
    pub fn cut_power(&mut self, now: RealInstant) -> Vec<Lost> {
        let mut lost = Vec::new();
        if let Mode::Modelled(clock) = self.mode {
            let at = clock.arrival(now).max(self.asked);
            self.count(clock.shown(at));
            let mut events = Vec::new();
            lost = self.model.cut_power(at, &mut events);
            self.durable.extend(events.iter().filter(|e| e.kind == EventKind::Durable).map(|e| e.id));
            self.asked = at;
            (self.later, self.mode) = (Some(clock), Mode::AtOnce);
        }
        self.waiting.clear();
        self.held.clear();
        self.sooner.clear();
        self.due.clear();
        self.outstanding = 0;
        lost
    }

    /// From now on the disk takes its model's time again, after a power cut.
    pub fn resume(&mut self) {
        if let Some(clock) = self.later.take() {
            self.mode = Mode::Modelled(clock);
        }
    }

    /// The writes that have become durable since this was last asked, by the model.
    pub fn durable(&mut self) -> impl Iterator<Item = RequestId> {
        self.durable.drain(..)
    }

    /// Whether the model is asked now, so that what is written may be lost for a while.
    pub fn is_modelled(&self) -> bool {
        matches!(self.mode, Mode::Modelled(_))
    }

    /// From now on requests are answered at once, those too that wait.
    pub fn pass(&mut self, now: RealInstant) {
        (self.mode, self.later) = (Mode::AtOnce, None);
        self.held.clear();
        for (id, waiting) in &mut self.waiting {
            if let Some(due) = waiting.due.replace(now) {
                self.due.remove(&(due, *id));
            }
            // It is no answer of the model's any more.
            (waiting.arrived, waiting.complete) = (None, None);
            self.due.insert((now, *id));
        }
        self.outstanding = 0;
    }

    /// Takes a request that is met at `now`. Requests come in the order of time.
    ///
    /// # Errors
    /// If no such disk can be asked for that.
    pub fn arrive(&mut self, now: RealInstant, op: Op, offset: u64, length: u64) -> Result<RequestId, Refused> {
        self.ask(now, now, op, offset, length)
    }

    /// Takes a request that is met at `now` and was made at `asked` by the clock of its node: the model is
    /// told of one from a node whose clock is ahead when the run's has come so far. Of one that is behind it is told as
    /// of one of that instant, so that what the node has waited for its core does not count as the disk's time.
    ///
    /// # Errors
    /// If no such disk can be asked for that.
    pub fn ask(
        &mut self,
        now: RealInstant,
        asked: RealInstant,
        op: Op,
        offset: u64,
        length: u64,
    ) -> Result<RequestId, Refused> {
        let id = self.last_id + 1;
        let none = RealDuration::ZERO;
        let mut waiting = Waiting {
            op,
            offset,
            length,
            arrived: None,
            sooner: none,
            early: none,
            lost: none,
            met: now,
            asked,
            put_off: none,
            complete: None,
            due: None,
            done: None,
        };
        match self.mode {
            Mode::AtOnce => waiting.due = Some(now),
            Mode::After(time) => waiting.due = Some(now + time),
            Mode::Modelled(_) if asked > now => {
                self.model.check(Request { id, op, offset, length })?;
                self.held.insert((asked, id));
            }
            Mode::Modelled(clock) => self.submit(id, &mut waiting, asked, clock)?,
        }
        self.last_id = id;
        waiting.due.map(|due| self.due.insert((due, id)));
        *self.sooner.entry(waiting.sooner).or_default() += 1;
        self.waiting.insert(id, waiting);
        Ok(id)
    }

    /// Tells the model of a request that is met at `met`.
    fn submit(
        &mut self,
        id: RequestId,
        waiting: &mut Waiting,
        met: RealInstant,
        clock: DiskClock,
    ) -> Result<(), Refused> {
        let Waiting { op, offset, length, .. } = *waiting;
        // Whoever waited for the latest answer asks anew at the instant at which that was due, not before.
        let met = met + self.way.spent - self.way.whole(op, length);
        let asked = clock.arrival(met);
        let at = self.model.submit(asked, Request { id, op, offset, length })?;
        // The model is ahead by the way, as answers have to be; and an answer whose way back was shorter than most has
        // been seen too early, and the next request comes as much too early. Where the model does not go back, whoever
        // asks would wait for longer than it says.
        let (early, rest) = clock.early(asked, at);
        (waiting.sooner, waiting.early, waiting.lost) = (self.way.back(op, length) + early, early, rest);
        let shown = clock.shown(at);
        self.count(shown);
        self.outstanding += 1;
        waiting.arrived = Some(shown);
        Ok(())
    }

    /// Tells the model of a request that was held until `met`.
    fn submit_held(&mut self, met: RealInstant, id: RequestId, clock: DiskClock) {
        self.held.remove(&(met, id));
        let Some(mut waiting) = self.forget(id) else { return };
        // It was checked when it came, and no other has its name.
        if self.submit(id, &mut waiting, met, clock).is_err() {
            waiting.due = Some(met);
            self.due.insert((met, id));
        }
        *self.sooner.entry(waiting.sooner).or_default() += 1;
        self.waiting.insert(id, waiting);
    }

    /// That a request has been done in the file.
    pub fn done(&mut self, id: RequestId, now: RealInstant) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.done = Some(now);
            // It may have been taken out as one that is due and not done.
            if let Some(due) = waiting.due {
                self.due.insert((due, id));
            }
        }
    }

    /// That a request could not be done: it is answered with an error, by the caller and at once.
    pub fn fail(&mut self, id: RequestId) {
        self.counters.failed += 1;
        if let Some(due) = self.forget(id).and_then(|waiting| waiting.due) {
            self.due.remove(&(due, id));
        }
    }

    fn forget(&mut self, id: RequestId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        if let Entry::Occupied(mut as_soon) = self.sooner.entry(waiting.sooner) {
            *as_soon.get_mut() -= 1;
            if *as_soon.get() == 0 {
                as_soon.remove();
            }
        }
        Some(waiting)
    }

    /// The most by which one that waits is to be answered sooner than others.
    fn ahead(&self) -> RealDuration {
        self.sooner.last_key_value().map_or(RealDuration::ZERO, |(sooner, _)| *sooner)
    }

    /// When [`Queue::advance`] will have something to do, if nothing happens before; none: when something does.
    pub fn next_event(&mut self) -> Option<RealInstant> {
        let due = self.due.first().map(|(due, _)| *due);
        let Mode::Modelled(clock) = self.mode else { return due };
        let ahead = self.ahead();
        let model = self.model.next_event().map(|at| clock.answer(at) - ahead);
        let held = self.held.first().map(|(met, _)| *met);
        [due, model, held].into_iter().flatten().min()
    }

    /// Does what is due by `now`, and adds the requests that are to be answered now, each with the instant at which its
    /// answer comes by the run's clock, where the model says so: earlier than now where its node had been behind when
    /// it asked.
    pub fn advance(&mut self, now: RealInstant, answers: &mut Vec<(RequestId, Option<RealInstant>)>) {
        if let Mode::Modelled(clock) = self.mode {
            while let Some((met, id)) = self.held.first().copied().filter(|(met, _)| *met <= now) {
                self.advance_model(met, clock);
                self.submit_held(met, id, clock);
            }
            self.advance_model(now, clock);
        }
        while let Some((due, id)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, id));
            let Some(waiting) = self.waiting.get_mut(&id) else { continue };
            if waiting.done.is_none() {
                // `done` puts it back.
                continue;
            }
            let Some(answered) = self.forget(id) else { continue };
            if let Mode::After(_) = self.mode {
                self.waking.push(now.since(due));
            }
            self.answered(&answered, now);
            answers.push((id, answered.comes(self.mode)));
        }
    }

    /// Has the model do what is due by `now`: from one event to the next, and not to this instant. Whoever answers may
    /// have woken up late, and what is asked because of the answer must not come later for that.
    fn advance_model(&mut self, now: RealInstant, clock: DiskClock) {
        let mut events = std::mem::take(&mut self.events);
        let mut before = None;
        let due = clock.due(now + self.ahead());
        while let Some(at) = self.model.next_event().filter(|at| *at <= due && before != Some(*at)) {
            self.asked = self.asked.max(at);
            self.model.advance(self.asked, &mut events);
            before = Some(at);
        }
        for event in events.drain(..) {
            self.note(event, clock);
        }
        self.events = events;
    }

    /// The requests that were answered since this was last asked, in that order; none the first time.
    pub fn watch(&mut self) -> Vec<Watched> {
        self.watched.replace(Vec::new()).unwrap_or_default()
    }

    /// Counts up to `now`.
    pub fn counters(&mut self, now: RealInstant) -> DiskCounters {
        if let Mode::Modelled(clock) = self.mode {
            self.count(clock.shown(clock.arrival(now)));
        }
        self.counters
    }

    fn note(&mut self, event: Event, clock: DiskClock) {
        if event.kind == EventKind::Durable {
            self.durable.push(event.id);
            return;
        }
        self.count(clock.shown(event.at));
        self.outstanding = self.outstanding.saturating_sub(1);
        if let Some(waiting) = self.waiting.get_mut(&event.id) {
            let due = clock.answer(event.at) - waiting.sooner;
            waiting.put_off = waiting.met.since(due).min(waiting.met.since(waiting.asked));
            let due = due + waiting.put_off;
            (waiting.complete, waiting.due) = (Some(event.at), Some(due));
            self.due.insert((due, event.id));
        }
    }

    /// Counts what was under way until an instant.
    fn count(&mut self, until: VirtualInstant) {
        let passed = until.since(self.counted);
        self.counted = self.counted.max(until);
        if self.outstanding > 0 {
            self.counters.busy = self.counters.busy + passed;
            let all = passed.as_nanos().saturating_mul(self.outstanding);
            self.counters.queued = self.counters.queued + VirtualDuration::from_nanos(all);
        }
    }

    fn answered(&mut self, request: &Waiting, now: RealInstant) {
        let (Some(arrived), Some(complete), Mode::Modelled(clock)) = (request.arrived, request.complete, self.mode)
        else {
            return;
        };
        if let Some(watched) = &mut self.watched {
            let Waiting { op, offset, length, .. } = *request;
            watched.push(Watched { op, offset, length, arrived, complete: clock.shown(complete) });
        }
        // Whoever asked while its node was behind knows nothing of what it was put off by.
        let in_time = now + request.sooner - request.put_off;
        let behind = clock.late(complete, in_time);
        if let Some(kind) = Kind::of(request.op) {
            let late = in_time.since(clock.answer(complete));
            // The known lateness of whoever serves is no longer way; nor is what was lost.
            let late = if request.is_late() || late > HELD_UP { late } else { RealDuration::ZERO };
            let sum = &mut self.expected[kind as usize];
            sum.count += 1;
            sum.bytes += request.length;
            // The kernel counts from when it was met, and not from when the node asked by its own clock.
            let (ahead, behind) = (request.asked.since(request.met), request.met.since(request.asked));
            let took = clock.lasts(arrived, complete) + late + request.lost + ahead + request.put_off;
            sum.took = sum.took + took.saturating_sub(behind);
        }
        let counters = &mut self.counters;
        counters.latest = counters.latest.max(behind);
        let last = counters.lateness.len() - 1;
        let place = (0..last).find(|place| behind <= lateness_limit(*place)).unwrap_or(last);
        counters.lateness[place] += 1;
        let kind = match request.op {
            Op::Read => &mut counters.reads,
            Op::Write | Op::WriteThrough => &mut counters.writes,
            Op::Flush => &mut counters.flushes,
            Op::Trim => &mut counters.trims,
        };
        kind.count += 1;
        kind.bytes += request.length;
        kind.took = kind.took + clock.shown(complete).since(arrived);
        if request.is_late() {
            kind.late += 1;
            kind.late_by = kind.late_by + behind;
        } else {
            kind.behind = kind.behind + behind;
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
