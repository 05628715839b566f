//! A disk: one of the models behind one interface.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use scale::{VirtualDuration, VirtualInstant};
use serde::{Deserialize, Serialize};

use crate::cloud::Cloud;
use crate::hdd::Hdd;
use crate::parameters::{ParameterError, Parameters};
use crate::request::{Event, LONGEST, Lost, Op, Refused, Request, SECTOR};
use crate::ssd::Ssd;

/// A disk that takes requests and says when they are done.
///
/// Instants are those of the virtual clock and never go back: one that is earlier than the latest that the disk has
/// been told counts as that.
#[derive(Debug)]
pub struct Disk {
    capacity: u64,
    now: VirtualInstant,
    model: Model,
    /// Requests due before the latest one came, and not told yet.
    untold: Vec<Event>,
}

#[derive(Debug)]
enum Model {
    Hdd(Box<Hdd>),
    Ssd(Box<Ssd>),
    Cloud(Box<Cloud>),
}

/// Counters of a disk, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Reads that came from a cache of the disk.
    pub cache_hits: u64,
    /// Bytes that were written to it.
    pub written: u64,
    /// Bytes that it wrote to its medium: more than were written to it where it collects garbage, fewer where it has
    /// written over what was in its cache.
    pub written_to_medium: u64,
    /// How long the arm of a drive with platters was busy, reading ahead not counted; zero for other disks.
    pub busy: VirtualDuration,
}

/// By how much a request may be handed over too late.
const MOST_LATE: VirtualDuration = VirtualDuration::from_nanos(1_000_000);

/// Repeats an expression in each arm, whichever the model is.
macro_rules! each {
    ($model:expr, $it:ident => $does:expr) => {
        match $model {
            Model::Hdd($it) => $does,
            Model::Ssd($it) => $does,
            Model::Cloud($it) => $does,
        }
    };
}

impl Disk {
    /// A disk at virtual zero, with nothing written and nothing outstanding. What is left to chance (the angle of the
    /// platters, how long flash memory or a network takes) follows from the seed.
    ///
    /// # Errors
    /// If no such disk can be: which parameter is wrong, and what would be right.
    pub fn new(parameters: &Parameters, seed: u64) -> Result<Disk, ParameterError> {
        parameters.check()?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let model = match parameters {
            Parameters::Hdd(hdd) => Model::Hdd(Box::new(Hdd::new(hdd, random.random())?)),
            Parameters::Ssd(ssd) => Model::Ssd(Box::new(Ssd::new(ssd, random))),
            Parameters::Cloud(cloud) => Model::Cloud(Box::new(Cloud::new(cloud, random))),
        };
        Ok(Disk { capacity: parameters.capacity_bytes(), now: VirtualInstant::ZERO, model, untold: Vec::new() })
    }

    /// How many bytes it has.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity
    }

    /// Takes a request that has arrived at an instant; requests are to be handed over in the order of their arrival.
    /// Requests due by then are done first, and told by the next call of [`Disk::advance`]. Says when it has arrived
    /// for the disk.
    ///
    /// That may be up to 1 ms before the latest instant that the disk knows of, for whoever has to know early what will
    /// be complete. Flash memory and volumes, which know from the beginning of a request when it ends, take it as if it
    /// had been handed over in time; a drive with platters, whose arm is on its way, as one of that latest instant.
    ///
    /// # Errors
    /// If it asks for what no disk of this size has or for more than [`LONGEST`], or there is one of its name.
    pub fn submit(&mut self, at: VirtualInstant, request: Request) -> Result<VirtualInstant, Refused> {
        self.check(request)?;
        let Request { id, op, length, .. } = request;
        self.now = self.now.max(at);
        let (now, at) = (self.now, at.max(self.now - MOST_LATE));
        each!(&mut self.model, it => it.advance(now, &mut self.untold));
        if each!(&self.model, it => it.ledger.has(id)) {
            return Err(Refused::SameName(id));
        }
        Ok(each!(&mut self.model, it => {
            if matches!(op, Op::Write | Op::WriteThrough) {
                it.counters.written += length;
            }
            it.submit(at, request)
        }))
    }

    /// Says whether such a disk can be asked for that.
    ///
    /// # Errors
    /// As of [`Disk::submit`], but for the name.
    pub fn check(&self, Request { op, offset, length, .. }: Request) -> Result<(), Refused> {
        if op == Op::Flush {
            return Ok(());
        }
        if length == 0 || !offset.is_multiple_of(SECTOR) || !length.is_multiple_of(SECTOR) {
            return Err(Refused::NoSectors { offset, length });
        }
        if op != Op::Trim && length > LONGEST {
            return Err(Refused::TooLong { length });
        }
        let end = offset.saturating_add(length);
        if end > self.capacity {
            return Err(Refused::BehindTheEnd { begin: offset, end, capacity: self.capacity });
        }
        Ok(())
    }

    /// When [`Disk::advance`] will have something to do, if no request comes before; none: nothing is outstanding, and
    /// nothing is to be written.
    pub fn next_event(&mut self) -> Option<VirtualInstant> {
        match self.untold.first() {
            Some(event) => Some(event.at),
            None => each!(&mut self.model, it => it.next_event()),
        }
    }

    /// Does all that is due by an instant, and adds what has been done to `events`, in the order of time.
    pub fn advance(&mut self, to: VirtualInstant, events: &mut Vec<Event>) {
        self.now = self.now.max(to);
        let now = self.now;
        events.append(&mut self.untold);
        each!(&mut self.model, it => it.advance(now, events));
    }

    /// The writes that are complete and would not survive a power cut now, as of the latest call of [`Disk::advance`]
    /// or [`Disk::submit`], in the order in which the disk has taken them.
    pub fn at_risk(&self) -> Vec<u64> {
        each!(&self.model, it => it.ledger.at_risk().collect())
    }

    /// Cuts the power at an instant, after all that is due by then. Says which writes are not on the medium, complete
    /// or not, by their names; no other request that is outstanding will be answered. The disk is as after power-on: it
    /// takes requests again from that instant on, and its caches are empty.
    pub fn cut_power(&mut self, at: VirtualInstant, events: &mut Vec<Event>) -> Vec<Lost> {
        self.advance(at, events);
        let now = self.now;
        each!(&mut self.model, it => it.cut_power(now))
    }

    /// Its counters so far.
    pub fn counters(&self) -> Counters {
        each!(&self.model, it => it.counters)
    }
}
