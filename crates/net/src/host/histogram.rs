//! A histogram as plain data, for `#[serde(with)]`: its bounds and, for each value that was recorded, how often it was.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

#[derive(Serialize, Deserialize)]
struct Recorded {
    lowest: u64,
    highest: u64,
    significant_digits: u8,
    /// Values in ascending order, to the histogram's precision, and their counts.
    counts: Vec<(u64, u64)>,
}

pub fn serialize<S: Serializer>(histogram: &Histogram<u64>, s: S) -> Result<S::Ok, S::Error> {
    let counts = histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
    let (lowest, highest) = (histogram.low(), histogram.high());
    Recorded { lowest, highest, significant_digits: histogram.sigfig(), counts }.serialize(s)
}

pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Histogram<u64>, D::Error> {
    let Recorded { lowest, highest, significant_digits, counts } = Recorded::deserialize(d)?;
    let mut histogram =
        Histogram::new_with_bounds(lowest, highest, significant_digits).map_err(|e| D::Error::custom(e.to_string()))?;
    for (value, count) in counts {
        histogram.record_n(value, count).map_err(|e| D::Error::custom(e.to_string()))?;
    }
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Held(#[serde(with = "super")] Histogram<u64>);

    #[test]
    fn a_histogram_survives_being_written_and_read() {
        let empty = || Histogram::new_with_bounds(1, 10_000_000_000, 2).unwrap();
        let mut full = empty();
        for n in 0..100_000u64 {
            full.saturating_record(n * n * n / 7);
        }
        full.record_n(0, 5).unwrap();
        for histogram in [empty(), full] {
            let text = serde_json::to_string(&Held(histogram.clone())).unwrap();
            let Held(read) = serde_json::from_str(&text).unwrap();
            assert_eq!(read, histogram);
            let of =
                |h: &Histogram<u64>| (h.len(), h.max(), h.mean(), [0.5, 0.99, 0.999].map(|q| h.value_at_quantile(q)));
            assert_eq!(of(&read), of(&histogram));
        }
    }
}
