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
    /// Its first sector, counted from the beginning of the disk, and how many it has.
    begin: u64,
    sectors: u64,
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
                sectors: u64::from(cylinders) * u64::from(heads) * u64::from(spt),
                first_cylinder: cylinder,
                sectors_per_track: spt,
                head_skew: skew(head_switch),
                cylinder_skew: skew(track_switch),
                origin,
            };
            // The next zone begins where the next cylinder of this one would.
            origin = (origin + f64::from(cylinders) * zone.skew_of_a_cylinder(heads)).fract();
            begin += zone.sectors;
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

    /// How many turns pass while a head reads or writes `sectors` from a place on, until it is behind the last. The
    /// cost grows with the zones on the way, not with the tracks.
    pub fn sweep(&self, from: &Place, sectors: u64) -> f64 {
        let (mut zone, mut begin) = self.within_zone(from);
        let (mut left, mut turns) = (sectors, 0.0);
        loop {
            let z = &self.zones[zone];
            let here = self.rest(zone, begin).min(left);
            turns += z.turns(self.heads, begin, here);
            left -= here;
            if left == 0 {
                return turns;
            }
            turns += z.cylinder_skew;
            (zone, begin) = (zone + 1, 0);
        }
    }

    /// How many whole sectors from a place on pass under a head in so many turns, but no more than `most`. It costs no
    /// more than a sweep.
    pub fn passed(&self, from: &Place, turns: f64, most: u64) -> u64 {
        let (mut zone, mut begin) = self.within_zone(from);
        let (mut left, mut passed) = (turns, 0_u64);
        loop {
            let z = &self.zones[zone];
            let rest = self.rest(zone, begin);
            let here = z.passed(self.heads, begin, left).min(rest);
            passed += here;
            if here < rest || passed >= most {
                return passed.min(most);
            }
            left -= z.turns(self.heads, begin, rest) + z.cylinder_skew;
            (zone, begin) = (zone + 1, 0);
        }
    }

    /// The zone of a place, and which of the zone's sectors is there.
    fn within_zone(&self, place: &Place) -> (usize, u64) {
        let z = &self.zones[place.zone];
        let track = u64::from(place.cylinder - z.first_cylinder) * u64::from(self.heads) + u64::from(place.head);
        (place.zone, track * u64::from(z.sectors_per_track) + u64::from(place.sector))
    }

    /// How many sectors of a zone there are from one of them on. Behind the last zone there is nothing to go on to.
    fn rest(&self, zone: usize, begin: u64) -> u64 {
        match zone + 1 < self.zones.len() {
            true => self.zones[zone].sectors - begin,
            false => u64::MAX,
        }
    }
}

impl Zone {
    fn skew_of_a_cylinder(&self, heads: u32) -> f64 {
        f64::from(heads - 1) * self.head_skew + self.cylinder_skew
    }

    /// How many turns `count` sectors take from one of the zone's on, until the head is behind the last.
    fn turns(&self, heads: u32, begin: u64, count: u64) -> f64 {
        if count == 0 {
            return 0.0;
        }
        let (spt, heads) = (u64::from(self.sectors_per_track), u64::from(heads));
        let last = begin + (count - 1);
        let tracks = last / spt - begin / spt;
        let cylinders = last / spt / heads - begin / spt / heads;
        let skew = (tracks - cylinders) as f64 * self.head_skew + cylinders as f64 * self.cylinder_skew;
        let sectors = (last % spt + 1) as f64 - (begin % spt) as f64;
        tracks as f64 + skew + sectors / spt as f64
    }

    /// How many whole sectors pass in so many turns from one of the zone's on, were there no end to the zone.
    fn passed(&self, heads: u32, begin: u64, turns: f64) -> u64 {
        let (spt, a_cylinder) = (u64::from(self.sectors_per_track), u64::from(heads));
        let (head, sector) = (begin / spt % a_cylinder, begin % spt);
        // Counted from the beginning of the cylinder. What has been rounded to a nanosecond may be a little short.
        let a_track = 1.0 + self.head_skew;
        let since = head as f64 * a_track + (sector as f64 + 1e-3) / spt as f64 + turns;
        let each = f64::from(heads) + self.skew_of_a_cylinder(heads);
        let cylinders = (since / each) as u64;
        let rest = (since - cylinders as f64 * each).max(0.0);
        let tracks = ((rest / a_track) as u64).min(a_cylinder - 1);
        let sectors = (((rest - tracks as f64 * a_track) * spt as f64) as u64).min(spt);
        (((cylinders * a_cylinder) + tracks) * spt + sectors).saturating_sub(head * spt + sector)
    }
}

/// The zones, each as wide as the others, whose rates go from the outer to the inner one in equal steps, and which
/// together hold what the drive does; or those that were measured.
fn bands(parameters: &HddParameters) -> Vec<Band> {
    match &parameters.zones {
        Zones::Measured(bands) => bands.clone(),
        Zones::Published { count, outer_bytes_per_s, inner_bytes_per_s } => {
            let tracks = tracks(parameters, *count, *outer_bytes_per_s, *inner_bytes_per_s);
            let cylinders = cylinders_each(parameters, &tracks) as u32;
            tracks.into_iter().map(|spt| Band { cylinders, sectors_per_track: spt }).collect()
        }
    }
}

/// How many cylinders parameters describe, whose rates and numbers of zones have been checked.
pub(super) fn cylinders(parameters: &HddParameters) -> u64 {
    match &parameters.zones {
        Zones::Measured(bands) => bands.iter().map(|b| u64::from(b.cylinders)).sum(),
        Zones::Published { count, outer_bytes_per_s, inner_bytes_per_s } => {
            let tracks = tracks(parameters, *count, *outer_bytes_per_s, *inner_bytes_per_s);
            u64::from(*count) * cylinders_each(parameters, &tracks)
        }
    }
}

/// The sectors of a track of each zone, from the outermost to the innermost.
fn tracks(parameters: &HddParameters, count: u32, outer: f64, inner: f64) -> Vec<u32> {
    let step = if count > 1 { (outer - inner) / f64::from(count - 1) } else { 0.0 };
    let rates = (0..count).map(|zone| outer - step * f64::from(zone));
    rates.map(|rate| (parameters.sectors_per_track(rate).round() as u32).max(1)).collect()
}

/// How many cylinders each zone must have.
fn cylinders_each(parameters: &HddParameters, tracks: &[u32]) -> u64 {
    let one_of_each = tracks.iter().map(|spt| u64::from(*spt)).sum::<u64>() * u64::from(parameters.heads);
    (parameters.drive_bytes / SECTOR).div_ceil(one_of_each)
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
    /// The turns that a sweep takes and what passes in a time, track by track.
    fn step_by_step(disk: &Geometry, from: u64, sectors: u64) -> f64 {
        let mut turns = 0.0;
        for sector in from..from + sectors {
            let place = disk.locate(sector);
            let zone = &disk.zones[place.zone];
            turns += 1.0 / f64::from(zone.sectors_per_track);
            let last_on_track = place.sector + 1 == zone.sectors_per_track;
            if last_on_track && sector + 1 < from + sectors {
                turns += if place.head + 1 < disk.heads { zone.head_skew } else { zone.cylinder_skew };
            }
        }
        turns
    }

    #[test]
    fn many_tracks_and_zones_are_swept_as_one_track_after_the_other() {
        let (mut parameters, _) = geometry("hdd-7200");
        parameters.heads = 3;
        for zones in [&[(2, 7), (1, 5), (1, 1), (4, 3)][..], &[(5, 1)], &[(1, 2), (1, 1), (1, 1)]] {
            let band = |(cylinders, sectors_per_track): &(u32, u32)| Band {
                cylinders: *cylinders,
                sectors_per_track: *sectors_per_track,
            };
            parameters.zones = Zones::Measured(zones.iter().map(band).collect());
            let holds: u64 = zones.iter().map(|(cylinders, spt)| u64::from(3 * cylinders * spt)).sum();
            parameters.capacity_bytes = holds * SECTOR;
            let disk = Geometry::new(&parameters);
            for begin in 0..holds {
                let from = disk.locate(begin);
                for count in 1..=holds - begin {
                    let turns = disk.sweep(&from, count);
                    let should = step_by_step(&disk, begin, count);
                    assert!((turns - should).abs() < 1e-9, "{count} from {begin} of {zones:?}: {turns}, {should}");
                    assert_eq!(disk.passed(&from, turns, holds), count, "{count} from {begin} of {zones:?}");
                    assert_eq!(disk.passed(&from, turns - 1e-2, holds), count - 1, "{count} from {begin} of {zones:?}");
                }
                assert_eq!(disk.passed(&from, 0.0, holds), 0);
                assert_eq!(disk.passed(&from, 1e12, holds - begin), holds - begin);
            }
        }
    }
}
