//! How fast the nodes' core was, virtual second by virtual second: `speed.csv`.

use std::fs::File;
use std::path::Path;

use serde::Deserialize;

use crate::bounded;
use crate::csv_log::CsvLog;
use crate::dir::Made;
use crate::error::{Error, Result};

/// The columns.
const HEADER: [&str; 6] = ["virtual_s", "core", "units_per_us", "percent_of_reference", "k", "capped"];

/// How fast one core of the nodes was for a virtual second.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct SpeedInterval {
    /// When the second began, virtual s since t = 0; the file has it to the millisecond.
    pub virtual_s: f64,
    /// The core's number.
    pub core: usize,
    /// The yardstick's work per real microsecond, in its units; `None` where nothing was undisturbed enough to tell.
    pub units_per_us: Option<f64>,
    /// Likewise, per cent of what shares are related to; `None` where they are related to nothing, too.
    pub percent_of_reference: Option<f64>,
    /// How many times its share of the core each node was entitled to.
    pub k: f64,
    /// The part of the second, 0 to 1, in which that was less than the core's speed asked for, because all of the core
    /// was sold.
    pub capped: f64,
}

/// `speed.csv`, while the run goes on.
#[derive(Debug)]
pub struct SpeedLog(CsvLog);

impl SpeedLog {
    pub(crate) fn begin(made: Made) -> Result<SpeedLog> {
        CsvLog::begin(made, &HEADER, &[]).map(SpeedLog)
    }

    /// Adds a second of one core.
    pub fn add(&mut self, interval: &SpeedInterval) -> Result<()> {
        let SpeedInterval { virtual_s, core, units_per_us, percent_of_reference, k, capped } = interval;
        let known = |v: &Option<f64>, places: usize| v.map_or(String::new(), |v| format!("{v:.places$}"));
        self.0.row([
            format!("{virtual_s:.3}"),
            core.to_string(),
            known(units_per_us, 3),
            known(percent_of_reference, 2),
            format!("{k:.4}"),
            format!("{capped:.3}"),
        ])
    }

    /// Writes out what has been added.
    pub fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

pub(crate) fn parse(path: &Path, file: File) -> Result<Vec<SpeedInterval>> {
    let failed = |e| Error::csv(path, "read", &HEADER.join(","), e);
    bounded::table(file).into_deserialize().map(|row| row.map_err(failed)).collect()
}

#[cfg(test)]
mod tests {
    use crate::RunDir;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_not_known_is_an_empty_cell() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        assert_eq!(dir.speed().unwrap(), [], "a run of a version that did not measure it");
        let known = SpeedInterval {
            virtual_s: 1.5,
            core: 3,
            units_per_us: Some(812.125),
            percent_of_reference: Some(81.25),
            k: 1.25,
            capped: 0.5,
        };
        let unknown = SpeedInterval { virtual_s: 2.5, units_per_us: None, percent_of_reference: None, ..known };
        let mut log = dir.speed_log().unwrap();
        log.add(&known).unwrap();
        log.add(&unknown).unwrap();
        log.flush().unwrap();
        assert_eq!(dir.speed().unwrap(), [known, unknown]);
        let text = std::fs::read_to_string(temp.path().join("speed.csv")).unwrap();
        assert!(text.ends_with("\n2.500,3,,,1.2500,0.500\n"), "{text}");
        std::fs::write(temp.path().join("speed.csv"), text.replace("812.125", "fast")).unwrap();
        let error = dir.speed().unwrap_err().to_string();
        assert!(error.contains("speed.csv: ") && error.contains("line: 2"), "{error}");
    }
}
