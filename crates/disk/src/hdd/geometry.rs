//! Where on the platters a sector lies.
//!
//! Sectors are numbered along a track, then from head to head within a cylinder, then from the outermost cylinder
//! inwards. Cylinders belong to zones of as many sectors a track each. The first sector of a track lies behind the last
//! one of the track before by the *skew*, so that the head arrives just in time (Ruemmler and Wilkes, *An Introduction
//! to Disk Drive Modeling*, IEEE Computer 27(3), 1994, "Data layout").

use super::parameters::{Band, HddParameters, Zones};
use crate::request::SECTOR;

/// Where a sector lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// Counted from the outermost.
    pub cylinder: u32,
    pub head: u32,
    /// Its place on the track.
    pub sector: u32,
    /// Where on the turn of the platter it begins, from 0 to 1.
    pub angle: f64,
    zone: usize,
}

#[derive(Debug)]
struct Zone {
    /// Its first sector, counted from the beginning of the disk.
    begin: u64,
    first_cylinder: u32,
    sectors_per_track: u32,
    /// Skew from head to head and from cylinder to cylinder, in turns.
    head_skew: f64,
    cylinder_skew: f64,
    /// The angle of its first sector.
    origin: f64,
}

/// All zones of a drive.
#[derive(Debug)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    heads: u32,
    sectors: u64,
    cylinders: u32,
}

impl Geometry {
    /// The layout that parameters describe. They must have been checked.
    pub fn new(parameters: &HddParameters) -> Geometry {
        let heads = parameters.heads;
        let sectors = parameters.capacity_bytes / SECTOR;
        let (head_switch, track_switch) = parameters.switches_in_turns();
        let mut zones = Vec::new();
        let (mut begin, mut cylinder, mut origin) = (0_u64, 0_u32, 0.0);
        for Band { cylinders, sectors_per_track } in bands(parameters) {
            let spt = sectors_per_track;
            let skew = |turns: f64| (turns * f64::from(spt)).ceil() / f64::from(spt);
            let zone = Zone {
                begin,
                first_cylinder: cylinder,
                sectors_per_track: spt,
                head_skew: skew(head_switch),
                cylinder_skew: skew(track_switch),
                origin,
            };
            // The next zone begins where the next cylinder of this one would.
            origin = (origin + f64::from(cylinders) * zone.skew_of_a_cylinder(heads)).fract();
            begin += u64::from(cylinders) * u64::from(heads) * u64::from(spt);
            cylinder += cylinders;
            zones.push(zone);
        }
        Geometry { zones, heads, sectors, cylinders: cylinder }
    }

    /// How many cylinders there are.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// How many sectors the disk has.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Where a sector lies.
    pub fn locate(&self, sector: u64) -> Place {
        let zone = self.zones.partition_point(|z| z.begin <= sector) - 1;
        let z = &self.zones[zone];
        let (inside, spt, heads) = (sector - z.begin, u64::from(z.sectors_per_track), u64::from(self.heads));
        let (track, rest) = (inside / spt, inside % spt);
        let (cylinder, head) = (track / heads, track % heads);
        let skew = (track - cylinder) as f64 * z.head_skew + cylinder as f64 * z.cylinder_skew;
        Place {
            cylinder: z.first_cylinder + cylinder as u32,
            head: head as u32,
            sector: rest as u32,
            angle: (z.origin + skew + rest as f64 / spt as f64).fract(),
            zone,
        }
    }

    /// How many turns pass while a head reads or writes `sectors` from a place on, and where it ends: behind the last.
    pub fn sweep(&self, from: &Place, sectors: u64) -> f64 {
        let (mut at, mut left, mut turns) = (*from, sectors, 0.0);
        loop {
            let spt = self.zones[at.zone].sectors_per_track;
            let here = left.min(u64::from(spt - at.sector));
            turns += here as f64 / f64::from(spt);
            left -= here;
            if left == 0 {
                return turns;
            }
            turns += self.step(&mut at);
        }
    }

    /// How many whole sectors from a place on pass under a head in so many turns, but no more than `most`.
    pub fn passed(&self, from: &Place, turns: f64, most: u64) -> u64 {
        let (mut at, mut left, mut passed) = (*from, turns, 0_u64);
        loop {
            let spt = self.zones[at.zone].sectors_per_track;
            let rest = spt - at.sector;
            // What has been rounded to a nanosecond may be a little short.
            let here = (left * f64::from(spt) + 1e-3) as u64;
            if here < u64::from(rest) {
                return (passed + here).min(most);
            }
            passed += u64::from(rest);
            left -= f64::from(rest) / f64::from(spt);
            if passed >= most {
                return most;
            }
            left -= self.step(&mut at);
            if left <= 0.0 {
                return passed;
            }
        }
    }

    /// Goes on to the beginning of the next track; the turns that pass from the end of the one before.
    fn step(&self, at: &mut Place) -> f64 {
        let zone = &self.zones[at.zone];
        at.sector = 0;
        at.head += 1;
        if at.head < self.heads {
            return zone.head_skew;
        }
        at.head = 0;
        at.cylinder += 1;
        if self.zones.get(at.zone + 1).is_some_and(|next| next.first_cylinder == at.cylinder) {
            at.zone += 1;
        }
        zone.cylinder_skew
    }
}

impl Zone {
    fn skew_of_a_cylinder(&self, heads: u32) -> f64 {
        f64::from(heads - 1) * self.head_skew + self.cylinder_skew
    }
}

/// The zones, each as wide as the others, whose rates go from the outer to the inner one in equal steps, and which
/// together hold what the drive does; or those that were measured.
pub(super) fn bands(parameters: &HddParameters) -> Vec<Band> {
    let (count, outer, inner) = match &parameters.zones {
        Zones::Measured(bands) => return bands.clone(),
        Zones::Published { count, outer_bytes_per_s, inner_bytes_per_s } => {
            (*count, *outer_bytes_per_s, *inner_bytes_per_s)
        }
    };
    let step = if count > 1 { (outer - inner) / f64::from(count - 1) } else { 0.0 };
    let tracks: Vec<u32> =
        (0..count).map(|i| parameters.sectors_per_track(outer - step * f64::from(i)).round() as u32).collect();
    let a_cylinder_each: u64 = tracks.iter().map(|spt| u64::from(*spt)).sum::<u64>() * u64::from(parameters.heads);
    let sectors = parameters.drive_bytes / SECTOR;
    let cylinders = sectors.div_ceil(a_cylinder_each.max(1)).max(1) as u32;
    tracks.into_iter().map(|spt| Band { cylinders, sectors_per_track: spt }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::parameters::Parameters;

    fn geometry(name: &str) -> (HddParameters, Geometry) {
        let Some(Parameters::Hdd(parameters)) = catalogue::named(name) else { panic!("{name} has platters") };
        let geometry = Geometry::new(&parameters);
        (parameters, geometry)
    }

    #[test]
    fn tracks_are_as_many_as_the_manual_says() {
        // Constellation ES.3 SAS Product Manual (Seagate 100671510 Rev. C), section 4.1: 320,800 tracks a surface. What
        // follows from rates and capacity is within 8 %.
        let (_, es3) = geometry("hdd-7200");
        let cylinders = f64::from(es3.cylinders());
        assert!((cylinders / 320_800.0 - 1.0).abs() < 0.08, "{cylinders}");
    }

    #[test]
    fn places_follow_one_another_without_a_gap_but_the_skew() {
        let (_, disk) = geometry("hdd-15k");
        let mut turns = 0.0;
        let from = disk.locate(0);
        for sector in 1..30_000 {
            turns += disk.sweep(&disk.locate(sector - 1), 1);
            let place = disk.locate(sector);
            let ahead = (place.angle - from.angle - turns).rem_euclid(1.0);
            if place.sector > 0 {
                assert!(ahead.min(1.0 - ahead) < 1e-6, "sector {sector} is {ahead} turns behind its neighbour");
                continue;
            }
            assert!((0.05..0.4).contains(&ahead), "a switch of head or cylinder: {ahead}");
            turns += ahead;
            let swept = disk.sweep(&from, sector + 1) - disk.sweep(&place, 1);
            assert!((swept - turns).abs() < 1e-6, "sector {sector}: {swept}, {turns}");
        }
    }

    #[test]
    fn what_has_passed_is_what_a_sweep_takes() {
        let (parameters, disk) = geometry("hdd-7200");
        let last = parameters.capacity_bytes / SECTOR;
        for begin in [0, 12_345, last / 3, last - 20_000] {
            let from = disk.locate(begin);
            for count in [1, 7, 1_000, 2_500, 19_999] {
                let turns = disk.sweep(&from, count);
                assert_eq!(disk.passed(&from, turns, u64::MAX), count, "from {begin}");
                assert_eq!(disk.passed(&from, turns - 1e-4, u64::MAX), count - 1, "from {begin}");
                assert_eq!(disk.passed(&from, turns, count / 2), count / 2);
            }
        }
    }
}
