//! Volumes of cloud providers. Rates and credits are what providers promise; they say of latencies only that they are
//! below a millisecond, or of few: the distributions are estimates.

use crate::cloud::{CloudParameters, Latency, Rate};
use crate::parameters::Parameters;

const KIB: u64 = 1 << 10;
const MIB: f64 = 1048576.0;
const GIB: u64 = 1 << 30;

fn steady(per_s: f64) -> Rate {
    Rate { baseline_per_s: per_s, burst_per_s: per_s, credits: 0.0 }
}

/// Seconds for which it bursts when nothing was asked for before.
fn bursting(baseline_per_s: f64, burst_per_s: f64, seconds: f64) -> Rate {
    Rate { baseline_per_s, burst_per_s, credits: (burst_per_s - baseline_per_s) * seconds }
}

fn latency(least_ms: f64, median_ms: f64, p99_ms: f64) -> Latency {
    Latency { least_ms, median_ms, p99_ms }
}

/// *Amazon EBS User Guide*, "General Purpose SSD volumes (gp3)": 3,000 requests and 125 MiB per second, single-digit
/// milliseconds; up to 256 KiB count as one request.
pub(super) fn gp3() -> Parameters {
    Parameters::Cloud(CloudParameters {
        capacity_bytes: 100 * GIB,
        requests: steady(3_000.0),
        bytes: steady(125.0 * MIB),
        request_bytes: 256 * KIB,
        read: latency(0.25, 0.6, 2.0),
        write: latency(0.4, 0.9, 2.5),
        flush: latency(0.1, 0.2, 0.5),
        queue_depth: 256,
    })
}

/// Amazon's gp2, by the guide above, "General Purpose SSD volumes (gp2)": 3 requests per second and GiB, at least 100;
/// bursts of 3,000 with 5.4 million credits; 128 MiB per second up to 170 GiB.
pub(super) fn gp2() -> Parameters {
    let Parameters::Cloud(newer) = gp3() else { unreachable!("it is a volume") };
    Parameters::Cloud(CloudParameters {
        requests: Rate { baseline_per_s: 300.0, burst_per_s: 3_000.0, credits: 5.4e6 },
        bytes: steady(128.0 * MIB),
        ..newer
    })
}

/// *Google Compute Engine*, "About Persistent Disk performance", zonal SSD: 6,000 requests per second and 30 more per
/// GiB, 240 MiB per second and 0.48 more per GiB, designed for less than a millisecond. What the instance allows may be
/// less.
pub(super) fn pd_ssd() -> Parameters {
    Parameters::Cloud(CloudParameters {
        capacity_bytes: 500 * GIB,
        requests: steady(6_000.0 + 30.0 * 500.0),
        bytes: steady((240.0 + 0.48 * 500.0) * MIB),
        request_bytes: 256 * KIB,
        read: latency(0.2, 0.5, 1.5),
        write: latency(0.3, 0.7, 2.0),
        flush: latency(0.1, 0.2, 0.5),
        queue_depth: 512,
    })
}

/// *Azure managed disks*, "Managed disk bursting", P10: 500 requests and 100 MB per second, bursts of 3,500 and 170 for
/// 30 minutes.
pub(super) fn azure_p10() -> Parameters {
    Parameters::Cloud(CloudParameters {
        capacity_bytes: 128 * GIB,
        requests: bursting(500.0, 3_500.0, 1_800.0),
        bytes: bursting(100e6, 170e6, 1_800.0),
        request_bytes: 256 * KIB,
        read: latency(0.6, 1.5, 6.0),
        write: latency(0.8, 2.0, 7.0),
        flush: latency(0.1, 0.2, 0.5),
        queue_depth: 256,
    })
}
