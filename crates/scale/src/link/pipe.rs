//! One direction of a link, and changes of it.

use serde::{Deserialize, Serialize};

use super::{Jitter, Loss, Queue};
use crate::{Real, Tdf, Time, Virtual};

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Pipe<T: Time> {
    /// Bandwidth, in bits per second; `None`: a packet takes no time to transmit.
    pub rate: Option<T::Rate>,
    /// How long a packet travels, on average, once it has been transmitted (propagation delay).
    pub delay: T::Duration,
    /// How much longer or shorter each one travels.
    pub jitter: Jitter<T>,
    /// Which packets are lost on entering.
    pub loss: Loss,
    /// The probability, from 0 to 1, that a packet is followed by a copy of itself.
    pub duplicate: f64,
    /// The probability, from 0 to 1, that one bit of a packet is flipped.
    pub corrupt: f64,
    /// How much may wait or be in transmission.
    pub queue: Queue,
    /// Whether it carries anything; a pipe that is down loses everything.
    pub up: bool,
}

impl<T: Time> Default for Pipe<T> {
    /// A perfect wire with a queue of 100 packets.
    fn default() -> Self {
        Pipe {
            rate: None,
            delay: T::Duration::default(),
            jitter: Jitter::default(),
            loss: Loss::NONE,
            duplicate: 0.0,
            corrupt: 0.0,
            queue: Queue::default(),
            up: true,
        }
    }
}

impl<T: Time> Pipe<T> {
    /// The pipe after a change.
    pub fn with(&self, change: &PipeChange<T>) -> Pipe<T> {
        Pipe {
            rate: change.rate.unwrap_or(self.rate),
            delay: change.delay.unwrap_or(self.delay),
            jitter: change.jitter.unwrap_or(self.jitter),
            loss: change.loss.as_ref().unwrap_or(&self.loss).clone(),
            duplicate: change.duplicate.unwrap_or(self.duplicate),
            corrupt: change.corrupt.unwrap_or(self.corrupt),
            queue: change.queue.unwrap_or(self.queue),
            up: change.up.unwrap_or(self.up),
        }
    }

    /// A complaint about a number, for a link whose largest frame has this many bytes; none if all are in their range.
    pub fn wrong(&self, largest: usize) -> Option<String> {
        let rate = self.rate.map(T::bits_per_s).filter(|rate| !(rate.is_finite() && *rate > 0.0));
        let chance = |name: &str, p: f64| {
            (!(0.0..=1.0).contains(&p)).then(|| format!("a probability of {name} of {p}; it must be from 0 to 1"))
        };
        rate.map(|rate| format!("a rate of {rate} bit/s; it must be above 0"))
            .or_else(|| self.loss.wrong())
            .or_else(|| chance("duplication", self.duplicate))
            .or_else(|| chance("corruption", self.corrupt))
            .or_else(|| self.queue.wrong(largest))
    }
}

impl Pipe<Virtual> {
    /// The pipe of the harness that nodes see as this one: 100 Mbit/s with 10 ms are, at TDF 10, 10 Mbit/s with
    /// 100 ms (NSDI 2006, §2.1).
    pub fn to_harness(&self, tdf: Tdf) -> Pipe<Real> {
        Pipe {
            rate: self.rate.map(|rate| tdf.to_real_rate(rate)),
            delay: tdf.to_real(self.delay),
            jitter: self.jitter.to_harness(tdf),
            loss: self.loss.clone(),
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            queue: self.queue,
            up: self.up,
        }
    }
}

/// A change of one direction of a link; what is `None` stays as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct PipeChange<T: Time> {
    /// A new rate (`Some(None)`: no limit), for what has not been transmitted yet.
    #[serde(with = "rate_or_unlimited")]
    pub rate: Option<Option<T::Rate>>,
    /// A new delay, for what has not been transmitted yet; packets overtake one another only where the jitter lets
    /// them.
    pub delay: Option<T::Duration>,
    /// A new jitter, for what has not been transmitted yet.
    pub jitter: Option<Jitter<T>>,
    /// A new loss, for packets that enter from now on; it starts from its beginning, even if it is the same as before.
    pub loss: Option<Loss>,
    /// A new probability of duplication, for packets that enter from now on.
    pub duplicate: Option<f64>,
    /// A new probability of corruption, for packets that enter from now on.
    pub corrupt: Option<f64>,
    /// A new queue, for packets that enter from now on; what waits already keeps its place.
    pub queue: Option<Queue>,
    /// Takes the pipe down, losing what is in it, or up again.
    pub up: Option<bool>,
}

impl<T: Time> Default for PipeChange<T> {
    /// Everything stays as it is.
    fn default() -> Self {
        PipeChange {
            rate: None,
            delay: None,
            jitter: None,
            loss: None,
            duplicate: None,
            corrupt: None,
            queue: None,
            up: None,
        }
    }
}

impl<T: Time> PipeChange<T> {
    /// Undoes this change: gives all that it changes the values of a pipe.
    pub fn back_to(&self, pipe: &Pipe<T>) -> PipeChange<T> {
        PipeChange {
            rate: self.rate.map(|_| pipe.rate),
            delay: self.delay.map(|_| pipe.delay),
            jitter: self.jitter.map(|_| pipe.jitter),
            loss: self.loss.as_ref().map(|_| pipe.loss.clone()),
            duplicate: self.duplicate.map(|_| pipe.duplicate),
            corrupt: self.corrupt.map(|_| pipe.corrupt),
            queue: self.queue.map(|_| pipe.queue),
            up: self.up.map(|_| pipe.up),
        }
    }

    /// This change, but for what `other` says.
    pub fn but(&self, other: &PipeChange<T>) -> PipeChange<T> {
        PipeChange {
            rate: other.rate.or(self.rate),
            delay: other.delay.or(self.delay),
            jitter: other.jitter.or(self.jitter),
            loss: other.loss.as_ref().or(self.loss.as_ref()).cloned(),
            duplicate: other.duplicate.or(self.duplicate),
            corrupt: other.corrupt.or(self.corrupt),
            queue: other.queue.or(self.queue),
            up: other.up.or(self.up),
        }
    }
}

impl PipeChange<Virtual> {
    /// The change on the harness that nodes see as this one.
    pub fn to_harness(&self, tdf: Tdf) -> PipeChange<Real> {
        PipeChange {
            rate: self.rate.map(|rate| rate.map(|rate| tdf.to_real_rate(rate))),
            delay: self.delay.map(|delay| tdf.to_real(delay)),
            jitter: self.jitter.map(|jitter| jitter.to_harness(tdf)),
            loss: self.loss.clone(),
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            queue: self.queue,
            up: self.up,
        }
    }
}

/// An option in an option, written so that "no limit" and "no change" differ, as two nulls would not.
mod rate_or_unlimited {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Written<R> {
        Unlimited,
        BitsPerS(R),
    }

    pub fn serialize<R: Serialize + Copy, S: Serializer>(rate: &Option<Option<R>>, s: S) -> Result<S::Ok, S::Error> {
        rate.map(|rate| rate.map_or(Written::Unlimited, Written::BitsPerS)).serialize(s)
    }

    pub fn deserialize<'de, R: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<Option<Option<R>>, D::Error> {
        let written = Option::<Written<R>>::deserialize(d)?;
        Ok(written.map(|written| match written {
            Written::Unlimited => None,
            Written::BitsPerS(rate) => Some(rate),
        }))
    }
}
