//! Parameters of a volume of a cloud provider.

use serde::{Deserialize, Serialize};

use crate::parameters::{LARGEST, ParameterError, sectors, within};

/// A volume of a cloud provider. Rates are per virtual second, times in virtual milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CloudParameters {
    /// Its size, in bytes.
    pub capacity_bytes: u64,
    /// Requests per second.
    pub requests: Rate,
    /// Bytes per second.
    pub bytes: Rate,
    /// Bytes that count as one request; a longer one counts as several.
    pub request_bytes: u64,
    /// How long a read takes that waits for nothing.
    pub read: Latency,
    /// How long a write takes.
    pub write: Latency,
    /// How long a flush takes, which has nothing to do.
    pub flush: Latency,
    /// How many requests may be outstanding; others wait.
    pub queue_depth: u32,
}

/// A rate that is promised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rate {
    /// Rate at any time, and at which credits come.
    pub baseline_per_s: f64,
    /// Rate as long as there are credits.
    pub burst_per_s: f64,
    /// How many credits there are at most, and in the beginning; each is worth one request, or byte.
    pub credits: f64,
}

/// How long something takes: a distribution whose logarithm is normal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Latency {
    /// Rate that it never falls below.
    pub least_ms: f64,
    /// Its median.
    pub median_ms: f64,
    /// Its 99th percentile.
    pub p99_ms: f64,
}

impl CloudParameters {
    pub(crate) fn check(&self) -> Result<(), ParameterError> {
        sectors("capacity-bytes", self.capacity_bytes, 1 << 20, LARGEST)?;
        for (name, rate, most) in [("requests", &self.requests, 1e7), ("bytes", &self.bytes, 1e12)] {
            within(&format!("{name}.baseline-per-s"), rate.baseline_per_s, 1.0, most, "per second")?;
            within(&format!("{name}.burst-per-s"), rate.burst_per_s, rate.baseline_per_s, most, "per second")?;
            within(&format!("{name}.credits"), rate.credits, 0.0, 1e18, "credits")?;
        }
        sectors("request-bytes", self.request_bytes, 512, 1 << 30)?;
        for (name, latency) in [("read", &self.read), ("write", &self.write), ("flush", &self.flush)] {
            within(&format!("{name}.median-ms"), latency.median_ms, 1e-3, 1e4, "ms")?;
            within(&format!("{name}.least-ms"), latency.least_ms, 0.0, latency.median_ms, "ms")?;
            within(&format!("{name}.p99-ms"), latency.p99_ms, latency.median_ms, 1e5, "ms")?;
        }
        within("queue-depth", f64::from(self.queue_depth), 1.0, 65_536.0, "requests")
    }
}
