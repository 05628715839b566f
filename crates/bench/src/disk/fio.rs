//! fio, which asks a device for what a benchmark is about, and says how long each request took.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::Error;

/// The pattern of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    ReadInOrder,
    WriteInOrder,
    ReadAtRandom,
    WriteAtRandom,
    /// Reads and writes, as many of each.
    MixedAtRandom,
    /// Writes, and a flush after each.
    WriteAndFlush,
}

impl Pattern {
    pub const ALL: [Pattern; 6] = [
        Pattern::ReadInOrder,
        Pattern::WriteInOrder,
        Pattern::ReadAtRandom,
        Pattern::WriteAtRandom,
        Pattern::MixedAtRandom,
        Pattern::WriteAndFlush,
    ];

    /// In the rows.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::ReadInOrder => "read in order",
            Pattern::WriteInOrder => "write in order",
            Pattern::ReadAtRandom => "read at random",
            Pattern::WriteAtRandom => "write at random",
            Pattern::MixedAtRandom => "read and write at random",
            Pattern::WriteAndFlush => "write at random and flush",
        }
    }

    fn rw(self) -> &'static str {
        match self {
            Pattern::ReadInOrder => "read",
            Pattern::WriteInOrder => "write",
            Pattern::ReadAtRandom => "randread",
            Pattern::WriteAtRandom | Pattern::WriteAndFlush => "randwrite",
            Pattern::MixedAtRandom => "randrw",
        }
    }
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub pattern: Pattern,
    /// How many requests are under way at a time.
    pub depth: u32,
    /// How long each is.
    pub bytes: u64,
    /// How many there are, and the longest that they may take, in real seconds.
    pub count: u64,
    pub limit_s: u64,
}

impl Load {
    pub fn params(&self) -> Value {
        json!({ "request": self.pattern.name(), "bytes": self.bytes, "depth": self.depth })
    }

    /// Of how many of its last requests fio does not see the end: when it has made the last, it waits for all that are
    /// under way, and takes each for as long as that.
    pub fn unseen(&self) -> usize {
        if self.depth > 1 { self.depth as usize } else { 0 }
    }

    /// How fio makes the requests. Where several may be under way, it counts a flush from when the write before it
    /// began: what a flush takes is told where each has returned before the next begins.
    fn engine(&self) -> &'static str {
        match (self.pattern, self.depth) {
            (Pattern::WriteAndFlush, 1) => "psync",
            _ => "libaio",
        }
    }
}

/// How long requests took, real ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Took {
    /// Reads and writes, one by one, in the order in which fio saw them end.
    pub requests: Vec<f64>,
    /// Flushes: how many, their mean, and what 99 of 100 kept to.
    pub flushes: (u64, f64, f64),
}

/// Has fio ask a device for a load within its first `size` bytes, from a core.
pub(super) fn run(device: &Path, size: u64, load: Load, core: usize, place: &Path) -> Result<Took, Error> {
    let (output, log) = (place.join("fio.json"), place.join("fio"));
    let mut command = Command::new("fio");
    command.args(["--name=load", "--direct=1", "--invalidate=0", "--allow_file_create=0"]);
    command.args(["--randseed=7", "--norandommap=1", "--log_offset=0", "--output-format=json", "--fallocate=none"]);
    command.arg(format!("--filename={}", device.display())).arg(format!("--output={}", output.display()));
    command.arg(format!("--write_lat_log={}", log.display())).arg(format!("--size={size}"));
    command.arg(format!("--rw={}", load.pattern.rw())).arg(format!("--bs={}", load.bytes));
    command.arg(format!("--iodepth={}", load.depth)).arg(format!("--number_ios={}", load.count));
    command.arg(format!("--runtime={}", load.limit_s)).arg(format!("--ioengine={}", load.engine())).current_dir(place);
    if load.pattern == Pattern::WriteAndFlush {
        command.arg("--fsync=1");
    }
    let pin = move || host::pin(core);
    // SAFETY: between fork and exec the child makes one system call, which binds it to a core.
    unsafe { command.pre_exec(pin) };
    let done = command.output().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::machine("there is no fio on this machine, which disks are measured with: `apt install fio`")
        }
        _ => Error::failed(format!("cannot start fio: {e}")),
    })?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(Error::failed(format!("fio failed ({}): {said}", done.status)));
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| Error::failed(format!("{}: {e}", path.display())));
    let said: Value = serde_json::from_str(&read(&output)?).map_err(Error::failed)?;
    let requests = latencies(&read(&place.join("fio_lat.1.log"))?)?;
    took(&said, requests)
}

/// The second column of each line: how long a request took, in ns.
fn latencies(log: &str) -> Result<Vec<f64>, Error> {
    let of = |line: &str| line.split(',').nth(1).and_then(|field| field.trim().parse().ok());
    let lines = log.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| of(line).ok_or_else(|| Error::failed(format!("fio's log has a line `{line}`")))).collect()
}

fn took(said: &Value, requests: Vec<f64>) -> Result<Took, Error> {
    let job = &said["jobs"][0];
    if job["error"].as_i64() != Some(0) || requests.is_empty() {
        return Err(Error::failed(format!("fio did {} requests, error {}", requests.len(), job["error"])));
    }
    let sync = &job["sync"];
    let figure = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let flushes = (
        sync["total_ios"].as_u64().unwrap_or(0),
        figure(&sync["lat_ns"]["mean"]),
        figure(&sync["lat_ns"]["percentile"]["99.000000"]),
    );
    Ok(Took { requests, flushes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_log_is_a_request() {
        assert_eq!(latencies("0, 110250, 0, 4096, 0\n1, 99000, 1, 4096, 0\n").unwrap(), [110_250.0, 99_000.0]);
        assert!(latencies("0\n").is_err());
    }

    #[test]
    fn flushes_are_counted_from_their_own_beginning_where_one_request_is_under_way() {
        let load = |pattern, depth| Load { pattern, depth, bytes: 4096, count: 1, limit_s: 1 }.engine();
        assert_eq!((load(Pattern::WriteAndFlush, 1), load(Pattern::WriteAtRandom, 1)), ("psync", "libaio"));
        assert_eq!(load(Pattern::WriteAndFlush, 8), "libaio", "psync has one under way");
    }

    #[test]
    fn a_load_that_failed_is_not_measured() {
        let said = |error: i64| json!({ "jobs": [{ "error": error, "sync": { "total_ios": 0 } }] });
        assert_eq!(took(&said(0), vec![1.0]).unwrap().requests, [1.0]);
        assert!(took(&said(5), vec![1.0]).is_err() && took(&said(0), vec![]).is_err());
    }
}
