//! The samples of a metric: `metrics/NAME.csv`.
//!
//! The file has the header `virtual_s,value,node` and one line per sample that counts (those outside the experiment's
//! `measure` window are left out).

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounded;
use crate::dir::Made;
use crate::error::{Error, Result};

/// The columns.
const HEADER: [&str; 3] = ["virtual_s", "value", "node"];
/// Samples beyond this are no measurement; below it no difference of two overflows.
const ABSURD: f64 = 1e300;

/// One sample of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When it was taken, in virtual seconds since t = 0; `None`, an empty cell, where a metric cannot tell.
    pub virtual_s: Option<f64>,
    /// In the metric's unit.
    pub value: f64,
    /// Which node it is from; empty if it is combined from several.
    #[serde(serialize_with = "write_name", deserialize_with = "read_name")]
    pub node: Arc<str>,
}

fn write_name<S: Serializer>(name: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(name)
}

fn read_name<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(from).map(Arc::from)
}

/// The values of a metric's samples: sorted and finite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Sorts `values`; the error names the first (by its position, from 1) that is not a measurement.
    pub fn new(mut values: Vec<f64>) -> Result<Samples, String> {
        if let Some(i) = values.iter().position(|v| !v.is_finite() || v.abs() > ABSURD) {
            return Err(format!("sample {} is {}, which is no measurement", i + 1, values[i]));
        }
        values.sort_unstable_by(f64::total_cmp);
        Ok(Samples(values))
    }

    /// The samples, ascending.
    pub fn sorted(&self) -> &[f64] {
        &self.0
    }
}

pub(crate) fn write(made: Made, samples: &[Sample]) -> Result<()> {
    let Made { path, file } = made;
    let failed = |e| Error::csv(&path, "write", &HEADER.join(","), e);
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(file);
    writer.write_record(HEADER).map_err(failed)?;
    for sample in samples {
        writer.serialize(sample).map_err(failed)?;
    }
    writer.flush().map_err(|e| Error::io(&path, "write", e))
}

/// The values of so many samples, and of one more if there are any.
pub(crate) fn read_values(path: &Path, file: File, count: usize) -> Result<Samples> {
    let samples = each(path, file).take(count + 1);
    let values: Result<_> = samples.map(|sample| sample.map(|sample| sample.value)).collect();
    Samples::new(values?).map_err(|what| Error::input(path, what))
}

pub(crate) fn each(path: &Path, file: File) -> impl Iterator<Item = Result<Sample>> {
    let failed = |e| Error::csv(path, "read", &HEADER.join(","), e);
    bounded::table(file).into_deserialize().map(move |sample| sample.map_err(failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_survive_their_file_and_bad_lines_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("latency.csv");
        let write = |samples: &[Sample]| {
            write(Made { path: path.clone(), file: File::create(&path).unwrap() }, samples).unwrap();
        };
        let read = |path: &Path| -> Result<Vec<Sample>> { each(path, File::open(path).unwrap()).collect() };
        let read_values = |path: &Path| super::read_values(path, File::open(path).unwrap(), 3);
        let samples = [
            Sample { virtual_s: Some(2.5), value: 0.1 + 0.2, node: "client-1".into() },
            Sample { virtual_s: None, value: 1e-9, node: "".into() },
        ];
        write(&samples);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().next(), Some("virtual_s,value,node"));
        assert_eq!(read(&path).unwrap(), samples);
        write(&[]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "virtual_s,value,node\n", "no sample, but a header");
        assert_eq!(read(&path).unwrap(), []);

        std::fs::write(&path, "virtual_s,value,node\n1,fast,client-1\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("latency.csv: ") && error.contains("line: 2"), "{error}");
        std::fs::write(&path, "virtual_s,value,node\n1,NaN,client-1\n").unwrap();
        let error = read_values(&path).unwrap_err().to_string();
        assert!(error.contains("latency.csv: sample 1 is NaN"), "{error}");
        let error = crate::RunDir::at(dir.path()).samples("absent").unwrap_err().to_string();
        assert!(error.contains("absent.csv: cannot read"), "{error}");
    }

    #[test]
    fn what_is_no_measurement_is_named() {
        assert_eq!(Samples::new(vec![3.0, 1.0, 2.0]).unwrap().sorted(), [1.0, 2.0, 3.0]);
        let error = Samples::new(vec![1.0, f64::NAN, f64::INFINITY]).unwrap_err();
        assert_eq!(error, "sample 2 is NaN, which is no measurement");
        assert!(Samples::new(vec![f64::NEG_INFINITY]).is_err());
        assert!(Samples::new(vec![f64::MAX]).is_err());
    }
}
