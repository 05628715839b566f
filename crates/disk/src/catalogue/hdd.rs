//! Drives with platters. "Estimate" marks what no document says that was at hand.

use crate::hdd::{HddParameters, Order, Queue, Seek, TrackCache, WriteCache, Zones};
use crate::parameters::Parameters;

const MIB: u64 = 1 << 20;

/// Estimates that are alike for all of them.
fn drive() -> HddParameters {
    HddParameters {
        capacity_bytes: 0,
        drive_bytes: 0,
        rpm: 7200.0,
        heads: 1,
        zones: Zones::Published { count: 30, outer_bytes_per_s: 0.0, inner_bytes_per_s: 0.0 },
        seek: Seek::Published { track_to_track_ms: 0.0, average_ms: 0.0, full_stroke_ms: 0.0 },
        write_settle_ms: 0.0,
        head_switch_ms: 0.6,
        // Savvio 10K.4 SAS Product Manual (Seagate 100539221 Rev. A), section 4.2.1: access times are 0.2 ms longer
        // with the controller's overhead than without.
        read_overhead_ms: 0.2,
        hit_overhead_ms: 0.1,
        write_overhead_ms: 0.1,
        bus_bytes_per_s: 600e6,
        track_cache: TrackCache { segments: 32, segment_bytes: 2 * MIB, read_ahead_bytes: MIB },
        write_cache: WriteCache { bytes: 32 * MIB, ignores_flush: false },
        queue: Queue { depth: 32, order: Order::ShortestPositioning, age_limit_ms: 1_000.0 },
    }
}

/// *Constellation ES.3 SAS Product Manual* (Seagate 100671510 Rev. C), section 4.1: 10 heads, 7200 rpm, sustained
/// transfer 83 to 175 MB/s; its data sheet: seeks of 8.5 ms to read and 9.5 ms to write, 128 MB of cache. Estimates:
/// shortest and longest seek.
pub(super) fn constellation_es3() -> Parameters {
    Parameters::Hdd(HddParameters {
        capacity_bytes: 4_000_787_030_016,
        drive_bytes: 4_000_787_030_016,
        heads: 10,
        zones: Zones::Published { count: 30, outer_bytes_per_s: 175e6, inner_bytes_per_s: 83e6 },
        seek: Seek::Published { track_to_track_ms: 0.7, average_ms: 8.5, full_stroke_ms: 16.5 },
        write_settle_ms: 1.0,
        ..drive()
    })
}

/// *Exos X16 Data Sheet* (Seagate DS2011): 261 MB/s on the outer tracks, 170 random reads of 4 KiB per second at a
/// queue depth of 16, 256 MB of cache; product manual: 18 heads. Estimates: the inner rate, and all seeks (as of the
/// ES.3).
pub(super) fn exos_x16() -> Parameters {
    Parameters::Hdd(HddParameters {
        capacity_bytes: 16_000_900_661_248,
        drive_bytes: 16_000_900_661_248,
        heads: 18,
        zones: Zones::Published { count: 30, outer_bytes_per_s: 261e6, inner_bytes_per_s: 125e6 },
        seek: Seek::Published { track_to_track_ms: 0.7, average_ms: 8.5, full_stroke_ms: 16.5 },
        write_settle_ms: 1.0,
        write_cache: WriteCache { bytes: 64 * MIB, ignores_flush: false },
        ..drive()
    })
}

/// *Cheetah 15K.7 SAS Product Manual* (Seagate 100516226 Rev. F), section 4.2.3: sustained transfer 122 to 204 MB/s,
/// average latency 2.0 ms; its data sheet: 8 heads, seeks of 3.4 ms to read and 3.9 ms to write, 0.2 ms to the next
/// track, 16 MB of cache. Estimates: the longest seek, the switch of heads.
pub(super) fn cheetah_15k7() -> Parameters {
    Parameters::Hdd(HddParameters {
        capacity_bytes: 600_127_266_816,
        drive_bytes: 600_127_266_816,
        rpm: 15_000.0,
        heads: 8,
        zones: Zones::Published { count: 24, outer_bytes_per_s: 204e6, inner_bytes_per_s: 122e6 },
        seek: Seek::Published { track_to_track_ms: 0.2, average_ms: 3.4, full_stroke_ms: 6.6 },
        write_settle_ms: 0.5,
        head_switch_ms: 0.4,
        track_cache: TrackCache { segments: 32, segment_bytes: MIB / 4, read_ahead_bytes: MIB / 4 },
        write_cache: WriteCache { bytes: 8 * MIB, ignores_flush: false },
        queue: Queue { depth: 128, order: Order::ShortestPositioning, age_limit_ms: 1_000.0 },
        ..drive()
    })
}

/// *Cheetah 15K.6 SAS Product Manual* (Seagate 100466193 Rev. B), section 4.2.3: sustained transfer 112 to 171 MB/s,
/// average latency 2.0 ms; the rest as of the 15K.7, whose data sheet has the same seeks.
pub(super) fn cheetah_15k6() -> Parameters {
    let Parameters::Hdd(newer) = cheetah_15k7() else { unreachable!("it has platters") };
    Parameters::Hdd(HddParameters {
        capacity_bytes: 450_098_159_616,
        drive_bytes: 450_098_159_616,
        zones: Zones::Published { count: 24, outer_bytes_per_s: 171e6, inner_bytes_per_s: 112e6 },
        bus_bytes_per_s: 300e6,
        ..newer
    })
}
