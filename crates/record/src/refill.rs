//! What nodes lose at the start of their turns, virtual second by virtual second: `refill.csv`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::csv_log::CsvLog;
use crate::error::{Error, Result};

/// What each line is.
const HEADER: [&str; 9] =
    ["virtual_s", "node", "refill_us", "error_us", "turn_us", "factor", "capped", "rounds", "windows"];

/// What a node loses at the start of each turn, and what it is given for that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRefill {
    /// What is lost of a turn, real µs.
    pub refill_us: f64,
    /// Its standard error.
    pub error_us: f64,
    /// The mean length of a turn, real µs.
    pub turn_us: f64,
    /// How many times its share of the core the node has because of it.
    pub factor: f64,
    /// Whether it would be more if it might.
    pub capped: bool,
    /// How many rounds of turns of all lengths it is from.
    pub rounds: u32,
    /// And how many windows, in which it had the longest turns that there are.
    #[serde(default)]
    pub windows: u32,
    /// What an earlier run had learned of such a node, with which it began. Only `result.json` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierRefill>,
}

/// What an earlier run on the same machine had learned of a node of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierRefill {
    /// How long before this run, real s.
    pub age_s: f64,
    /// From how many rounds.
    pub rounds: u32,
    /// What would be lost of a turn by it, real µs.
    pub refill_us: f64,
    /// The standard error of that for a run so much later.
    pub error_us: f64,
    /// Whether what was seen was so different that it was forgotten.
    pub rejected: bool,
}

/// One line: what was known of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct RefillInterval {
    /// When, virtual s since t = 0; the file has it to the millisecond.
    pub virtual_s: f64,
    /// Of which node.
    pub node: String,
    /// What; the file has microseconds to the hundredth.
    pub known: NodeRefill,
}

/// `refill.csv`, while the run goes on.
#[derive(Debug)]
pub struct RefillLog(CsvLog);

impl RefillLog {
    pub(crate) fn create(path: PathBuf) -> Result<RefillLog> {
        CsvLog::create(path, &HEADER, &[]).map(RefillLog)
    }

    /// Adds what is known of a node.
    pub fn add(&mut self, virtual_s: f64, node: &str, known: &NodeRefill) -> Result<()> {
        let NodeRefill { refill_us, error_us, turn_us, factor, capped, rounds, windows, earlier: _ } = known;
        let us = |us: &f64| format!("{us:.2}");
        self.0.row([
            format!("{virtual_s:.3}"),
            node.to_owned(),
            us(refill_us),
            us(error_us),
            us(turn_us),
            format!("{factor:.4}"),
            u8::from(*capped).to_string(),
            rounds.to_string(),
            windows.to_string(),
        ])
    }

    /// Writes out what has been added.
    pub fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Vec<RefillInterval>> {
    type Row = (f64, String, f64, f64, f64, f64, u8, u32, u32);
    let failed = |e| Error::csv(path, "read", &HEADER.join(","), e);
    let interval = |(virtual_s, node, refill_us, error_us, turn_us, factor, capped, rounds, windows): Row| {
        let (capped, earlier) = (capped != 0, None);
        let known = NodeRefill { refill_us, error_us, turn_us, factor, capped, rounds, windows, earlier };
        RefillInterval { virtual_s, node, known }
    };
    csv::Reader::from_reader(text).deserialize().map(|row| row.map(interval).map_err(failed)).collect()
}

#[cfg(test)]
mod tests {
    use crate::RunDir;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        assert_eq!(dir.refill().unwrap(), [], "a run that did not measure it");
        let (refill_us, error_us, turn_us, factor) = (119.25, 8.5, 400.0, 1.4375);
        let known =
            NodeRefill { refill_us, error_us, turn_us, factor, capped: false, rounds: 41, windows: 3, earlier: None };
        let capped = NodeRefill { capped: true, factor: 1.6, ..known };
        let mut log = dir.refill_log().unwrap();
        log.add(1.5, "server", &known).unwrap();
        log.add(1.5, "client-1", &capped).unwrap();
        log.flush().unwrap();
        let of = |node: &str, known| RefillInterval { virtual_s: 1.5, node: node.into(), known };
        assert_eq!(dir.refill().unwrap(), [of("server", known), of("client-1", capped)]);
        let file = temp.path().join("refill.csv");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.ends_with("\n1.500,client-1,119.25,8.50,400.00,1.6000,1,41,3\n"), "{text}");
        std::fs::write(&file, text.replace("119.25", "all")).unwrap();
        let error = dir.refill().unwrap_err().to_string();
        assert!(error.contains("refill.csv: ") && error.contains("line: 2"), "{error}");
    }
}
