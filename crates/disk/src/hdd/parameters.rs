//! Parameters of a drive with platters.

use serde::{Deserialize, Serialize};

use super::geometry;
use super::seek::SeekCurve;
use crate::parameters::{LARGEST, ParameterError, sectors, within};
use crate::request::SECTOR;

/// More cylinders no drive has: they would be less than ten nanometres apart.
const MOST_CYLINDERS: u64 = 4_000_000;
/// More zones would only make what crosses them slow.
const MOST_ZONES: u32 = 256;
/// More sectors no track has: 16 MiB.
const MOST_ON_A_TRACK: u32 = 32_768;
/// The longest seek, in ms.
const LONGEST_SEEK_MS: f64 = 500.0;

/// A drive with platters. Rates are in bytes per virtual second, times in virtual milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HddParameters {
    /// Size of the disk, in bytes: the drive's first cylinders.
    pub capacity_bytes: u64,
    /// Size of the whole drive, in bytes.
    pub drive_bytes: u64,
    /// Revolutions per minute.
    pub rpm: f64,
    /// Read and write heads, one for each surface with data.
    pub heads: u32,
    /// How much there is on a track.
    pub zones: Zones,
    /// How long the arm takes.
    pub seek: Seek,
    /// How much longer the arm takes to settle on another cylinder before a write.
    pub write_settle_ms: f64,
    /// From one head to another in the same cylinder, good for writing.
    pub head_switch_ms: f64,
    /// From a read's arrival until the arm may move for it.
    pub read_overhead_ms: f64,
    /// From a read's arrival until data comes that is in the cache.
    pub hit_overhead_ms: f64,
    /// From a write's arrival until its data has been taken for, its transfer not counted.
    pub write_overhead_ms: f64,
    /// Rate of the interface.
    pub bus_bytes_per_s: f64,
    /// The cache for reading.
    pub track_cache: TrackCache,
    /// The cache for writing.
    pub write_cache: WriteCache,
    /// Requests that wait for the arm.
    pub queue: Queue,
}

/// How much there is on a track.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Zones {
    /// So many zones, equally wide, with rates in equal steps from the outermost to the innermost; the sustained rates
    /// of a data sheet, switches from track to track included.
    Published {
        /// How many zones.
        count: u32,
        /// The sustained rate of the outermost.
        outer_bytes_per_s: f64,
        /// The sustained rate of the innermost.
        inner_bytes_per_s: f64,
    },
    /// As measured, from the outermost to the innermost.
    Measured(Vec<Band>),
}

/// Neighbouring cylinders whose tracks hold the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Band {
    /// How many cylinders.
    pub cylinders: u32,
    /// Sectors of 512 bytes on each of their tracks.
    pub sectors_per_track: u32,
}

/// How long the arm takes from one cylinder to another, settling included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Seek {
    /// As data sheets say it, for reading.
    Published {
        /// To the next cylinder.
        track_to_track_ms: f64,
        /// The mean over all pairs of cylinders.
        average_ms: f64,
        /// From the outermost to the innermost.
        full_stroke_ms: f64,
    },
    /// `a + b·√d` for a distance *d* below the bend, `c + e·d` from there on, as in papers since 1994.
    Parts {
        /// Time of any short seek.
        a_ms: f64,
        /// How it grows with the root of the distance.
        b_ms: f64,
        /// Where the curve becomes a line.
        bend_cylinders: u32,
        /// Time of any long seek.
        c_ms: f64,
        /// How it grows with the distance.
        e_ms: f64,
    },
    /// Points of a measured curve, `(cylinders, ms)`, by distance; straight lines between them.
    Measured(Vec<(u32, f64)>),
}

/// The cache for reading: segments that hold what was read, and what came under the head behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TrackCache {
    /// How many runs of sectors it remembers; 0: there is no such cache.
    pub segments: u32,
    /// Size of a segment.
    pub segment_bytes: u64,
    /// How far the head reads on when nothing else is to be done; 0: not at all.
    pub read_ahead_bytes: u64,
}

/// The cache for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WriteCache {
    /// Its size; 0: a write is complete when it is on the platter.
    pub bytes: u64,
    /// Whether the drive lies: a flush, and a write through the cache, are complete at once, and nothing is written.
    pub ignores_flush: bool,
}

/// Requests that wait for the arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Queue {
    /// How many requests the drive takes at a time (32 by SATA's NCQ); others wait before it.
    pub depth: u32,
    /// Which of them is next.
    pub order: Order,
    /// A request that has waited so long is next whatever the order.
    pub age_limit_ms: f64,
}

/// Which request the arm serves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The one that came first.
    Fifo,
    /// The one with the shortest positioning time, seek and rotation together (SPTF).
    ShortestPositioning,
}

impl HddParameters {
    /// How long a turn of the platters takes, in ms.
    pub fn turn_ms(&self) -> f64 {
        60_000.0 / self.rpm
    }

    /// The times of a switch to the next head and to the next cylinder, both good for writing, in turns.
    pub(super) fn switches_in_turns(&self) -> (f64, f64) {
        let single = match &self.seek {
            Seek::Published { track_to_track_ms, .. } => *track_to_track_ms,
            Seek::Parts { a_ms, b_ms, .. } => a_ms + b_ms,
            Seek::Measured(points) => points.first().map_or(0.0, |(_, ms)| *ms),
        };
        let track = (single + self.write_settle_ms).max(self.head_switch_ms);
        (self.head_switch_ms / self.turn_ms(), track / self.turn_ms())
    }

    /// How many sectors a track must have for a sustained rate.
    pub(super) fn sectors_per_track(&self, bytes_per_s: f64) -> f64 {
        let (head, track) = self.switches_in_turns();
        let heads = f64::from(self.heads);
        let cylinder_s = (heads + (heads - 1.0) * head + track) * self.turn_ms() / 1e3;
        bytes_per_s * cylinder_s / (heads * SECTOR as f64)
    }

    pub(crate) fn check(&self) -> Result<(), ParameterError> {
        sectors("drive-bytes", self.drive_bytes, 1 << 20, LARGEST)?;
        sectors("capacity-bytes", self.capacity_bytes, 1 << 20, self.drive_bytes)?;
        within("rpm", self.rpm, 1_000.0, 30_000.0, "per minute")?;
        within("heads", f64::from(self.heads), 1.0, 64.0, "")?;
        within("write-settle-ms", self.write_settle_ms, 0.0, 20.0, "ms")?;
        within("head-switch-ms", self.head_switch_ms, 0.0, self.turn_ms(), "ms, a turn")?;
        for (name, ms) in [
            ("read-overhead-ms", self.read_overhead_ms),
            ("hit-overhead-ms", self.hit_overhead_ms),
            ("write-overhead-ms", self.write_overhead_ms),
        ] {
            within(name, ms, 0.0, 100.0, "ms")?;
        }
        within("bus-bytes-per-s", self.bus_bytes_per_s, 1e5, 1e12, "bytes/s")?;
        self.check_seek()?;
        let cylinders = self.check_zones()?;
        let curve = SeekCurve::new(&self.seek, cylinders)?;
        let longest = curve.ms(cylinders.saturating_sub(1));
        if longest > LONGEST_SEEK_MS {
            let right = format!("a curve that goes up to {LONGEST_SEEK_MS} ms, over {cylinders} cylinders");
            return Err(ParameterError::new("seek.parts", format!("one that goes up to {longest} ms"), right));
        }
        let TrackCache { segments, segment_bytes, read_ahead_bytes } = self.track_cache;
        within("track-cache.segments", f64::from(segments), 0.0, 256.0, "")?;
        sectors("track-cache.segment-bytes", segment_bytes, 0, 1 << 32)?;
        sectors("track-cache.read-ahead-bytes", read_ahead_bytes, 0, segment_bytes)?;
        sectors("write-cache.bytes", self.write_cache.bytes, 0, 1 << 36)?;
        within("queue.depth", f64::from(self.queue.depth), 1.0, 1_024.0, "requests")?;
        within("queue.age-limit-ms", self.queue.age_limit_ms, 0.0, 3.6e6, "ms")
    }

    fn check_seek(&self) -> Result<(), ParameterError> {
        match &self.seek {
            Seek::Published { track_to_track_ms, average_ms, full_stroke_ms } => {
                within("seek.track-to-track-ms", *track_to_track_ms, 0.01, 50.0, "ms")?;
                within("seek.full-stroke-ms", *full_stroke_ms, *track_to_track_ms * 1.01, LONGEST_SEEK_MS, "ms")?;
                within("seek.average-ms", *average_ms, *track_to_track_ms, *full_stroke_ms, "ms")
            }
            Seek::Parts { a_ms, b_ms, bend_cylinders: _, c_ms, e_ms } => {
                for (name, ms) in [("a-ms", a_ms), ("b-ms", b_ms), ("c-ms", c_ms), ("e-ms", e_ms)] {
                    within(&format!("seek.{name}"), *ms, 0.0, LONGEST_SEEK_MS, "ms")?;
                }
                Ok(())
            }
            Seek::Measured(points) => {
                let rises = points.windows(2).all(|two| two[0].0 < two[1].0);
                let times = points.iter().all(|(d, ms)| *d > 0 && (0.0..=LONGEST_SEEK_MS).contains(ms));
                match !points.is_empty() && rises && times {
                    true => Ok(()),
                    false => Err(ParameterError::new(
                        "seek.measured",
                        format!("a list of {} points", points.len()),
                        format!("one or more, by rising distance from 1 cylinder on, of 0 to {LONGEST_SEEK_MS} ms"),
                    )),
                }
            }
        }
    }

    /// Gives the number of cylinders.
    fn check_zones(&self) -> Result<u32, ParameterError> {
        match &self.zones {
            Zones::Published { count, outer_bytes_per_s, inner_bytes_per_s } => {
                within("zones.count", f64::from(*count), 1.0, f64::from(MOST_ZONES), "zones")?;
                let per_sector = 1.0 / self.sectors_per_track(1.0);
                let most = f64::from(MOST_ON_A_TRACK) * per_sector;
                within("zones.outer-bytes-per-s", *outer_bytes_per_s, per_sector, most, "bytes/s")?;
                within("zones.inner-bytes-per-s", *inner_bytes_per_s, per_sector, *outer_bytes_per_s, "bytes/s")?;
                let cylinders = geometry::cylinders(self);
                if cylinders > MOST_CYLINDERS {
                    let right =
                        format!("so much that there are up to {MOST_CYLINDERS}: more heads, or more on a track");
                    return Err(ParameterError::new("drive-bytes", format!("that of {cylinders} cylinders"), right));
                }
                Ok(cylinders as u32)
            }
            Zones::Measured(bands) => {
                let cylinders = geometry::cylinders(self);
                let sound =
                    bands.iter().all(|b| b.cylinders > 0 && (1..=MOST_ON_A_TRACK).contains(&b.sectors_per_track));
                if bands.len() > MOST_ZONES as usize || cylinders > MOST_CYLINDERS || !sound {
                    return Err(ParameterError::new(
                        "zones.measured",
                        format!("a list of {} bands of {cylinders} cylinders in all", bands.len()),
                        format!(
                            "up to {MOST_ZONES} bands, up to {MOST_CYLINDERS} cylinders in all, one or more each, and \
                             1 to {MOST_ON_A_TRACK} sectors a track"
                        ),
                    ));
                }
                let tracks = |b: &Band| u64::from(b.cylinders) * u64::from(b.sectors_per_track);
                let holds = bands.iter().map(tracks).sum::<u64>() * u64::from(self.heads) * SECTOR;
                if holds < self.drive_bytes {
                    let right = format!("bands that hold {} bytes, the whole drive", self.drive_bytes);
                    return Err(ParameterError::new("zones.measured", format!("bands that hold {holds} bytes"), right));
                }
                Ok(cylinders as u32)
            }
        }
    }
}
