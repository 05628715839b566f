//! A table that grows while a run goes on.

use std::fs::File;
use std::path::PathBuf;

use crate::dir::Made;
use crate::error::{Error, Result};

/// A file of rows, buffered until it is [flushed](CsvLog::flush).
#[derive(Debug)]
pub struct CsvLog {
    path: PathBuf,
    /// The beginning of each row, for errors.
    form: &'static [&'static str],
    out: csv::Writer<File>,
}

impl CsvLog {
    /// Begins the file with its header: `form`, and the names of what follows that in each row.
    pub fn begin(made: Made, form: &'static [&'static str], names: &[&str]) -> Result<CsvLog> {
        let Made { path, file } = made;
        let mut log = CsvLog { path, form, out: csv::Writer::from_writer(file) };
        log.row(form.iter().chain(names))?;
        Ok(log)
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<()> {
        self.out.write_record(cells).map_err(|e| Error::csv(&self.path, "write", &self.form.join(","), e))
    }

    /// Writes out what has been added.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|e| Error::io(&self.path, "write", e))
    }
}
