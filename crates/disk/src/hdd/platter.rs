//! The platters' angle, and how long it takes until a sector is under the head.

use scale::{VirtualDuration, VirtualInstant};

use super::geometry::Place;
use super::parameters::HddParameters;
use super::seek::SeekCurve;
use crate::parameters::ParameterError;

/// The part of a turn that a sector may be past and still be caught: less than a tenth of a sector. Instants are
/// rounded down, so that the head is early rather than late.
const CAUGHT: f64 = 1e-5;

/// The turning platters and the arm that moves over them.
#[derive(Debug)]
pub(crate) struct Platter {
    turn_ns: f64,
    turns_per_ns: f64,
    /// The angle at virtual zero.
    phase: f64,
    seek: SeekCurve,
    head_switch_ns: f64,
    write_settle_ns: f64,
    /// Where the arm is.
    cylinder: u32,
    head: u32,
}

impl Platter {
    /// `phase`: the angle at virtual zero, from 0 to 1.
    pub fn new(parameters: &HddParameters, cylinders: u32, phase: f64) -> Result<Platter, ParameterError> {
        Ok(Platter {
            turn_ns: parameters.turn_ms() * 1e6,
            turns_per_ns: 1e-6 / parameters.turn_ms(),
            phase,
            seek: SeekCurve::new(&parameters.seek, cylinders)?,
            head_switch_ns: parameters.head_switch_ms * 1e6,
            write_settle_ns: parameters.write_settle_ms * 1e6,
            cylinder: 0,
            head: 0,
        })
    }

    /// How long so many turns take.
    pub fn turns(&self, turns: f64) -> VirtualDuration {
        VirtualDuration::from_nanos((turns * self.turn_ns) as u64)
    }

    /// How many turns are in a time.
    pub fn turns_in(&self, time: VirtualDuration) -> f64 {
        time.as_nanos() as f64 * self.turns_per_ns
    }

    /// How long it takes from an instant on until a place is under its head, ready to read or to write.
    pub fn positioning(&self, at: VirtualInstant, place: &Place, writes: bool) -> VirtualDuration {
        VirtualDuration::from_nanos(self.positioning_ns(self.angle(at), place, writes) as u64)
    }

    /// The angle at an instant, in turns since virtual zero.
    pub fn angle(&self, at: VirtualInstant) -> f64 {
        at.as_nanos() as f64 * self.turns_per_ns + self.phase
    }

    /// Positioning time in ns, from an angle on, not rounded: for weighing many places against one another.
    pub fn positioning_ns(&self, angle: f64, place: &Place, writes: bool) -> f64 {
        let distance = self.cylinder.abs_diff(place.cylinder);
        let mut moves = self.seek.ms(distance) * 1e6;
        if place.head != self.head {
            moves = moves.max(self.head_switch_ns);
        }
        // A switch of heads is good for writing, too.
        if writes && distance > 0 {
            moves += self.write_settle_ns;
        }
        let behind = angle + moves * self.turns_per_ns - place.angle;
        // The turns passed are positive, except perhaps within the first.
        let mut wait = (behind as i64 + 1) as f64 - behind;
        if wait > 1.0 - CAUGHT {
            wait -= 1.0;
        }
        moves + wait.max(0.0) * self.turn_ns
    }

    /// The arm is there now.
    pub fn moved(&mut self, place: &Place) {
        (self.cylinder, self.head) = (place.cylinder, place.head);
    }
}
