//! The mounts that the calling thread sees.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::error::{Context, Error};

/// A line of `/proc/PID/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Where.
    pub point: PathBuf,
    /// The file system, such as `ext4`.
    pub kind: String,
    /// The options of the file system itself, such as `rw,memory`.
    pub options: String,
}

/// All mounts.
pub fn all() -> Result<Vec<Mounted>, Error> {
    // A thread with a PID namespace for its children may have their /proc, in which it does not exist itself; PID 1
    // there sees the same mounts.
    let text = fs::read("/proc/thread-self/mountinfo").or_else(|_| fs::read("/proc/1/mountinfo"));
    let text = text.context(|| "cannot read the table of mounts".into())?;
    Ok(of_table(&text))
}

/// Reads the text of a `/proc/PID/mountinfo`, proc(5).
pub fn of_table(text: &[u8]) -> Vec<Mounted> {
    text.split(|b| *b == b'\n').filter_map(parse).collect()
}

/// File systems that are the kernel's state, and hold no files.
const STATE: [&str; 12] = [
    "autofs", "bpf", "cgroup", "cgroup2", "debugfs", "devpts", "devtmpfs", "mqueue", "nsfs", "proc", "sysfs", "tracefs",
];

/// Mount points of file systems that hold files (and not the kernel's state), outermost first.
pub fn points() -> Result<Vec<PathBuf>, Error> {
    Ok(sorted(all()?).0)
}

/// Mount points of nothing but the kernel's state, outermost first.
pub fn points_of_state() -> Result<Vec<PathBuf>, Error> {
    Ok(sorted(all()?).1)
}

/// The mount points of file systems that hold files, and the others.
fn sorted(all: Vec<Mounted>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (state, files): (Vec<_>, Vec<_>) = all.into_iter().partition(|m| STATE.contains(&m.kind.as_str()));
    let [mut state, mut files] = [state, files].map(|mounts| mounts.into_iter().map(|m| m.point).collect::<Vec<_>>());
    files.sort();
    files.dedup();
    // Where both are, as with a file system that was mounted on demand, there are files.
    state.retain(|point| files.binary_search(point).is_err());
    state.sort();
    state.dedup();
    (files, state)
}

fn parse(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|b| *b == b' ');
    let point = PathBuf::from(OsString::from_vec(unescape(fields.nth(4)?)));
    let mut after = fields.skip_while(|f| *f != b"-").skip(1);
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let kind = text(after.next()?);
    let options = text(after.nth(1)?);
    Some(Mounted { point, kind, options })
}

/// The kernel writes blanks and the like as three octal digits after a backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = (*first == b'\\').then(|| tail.get(..3)).flatten();
        let code = code.and_then(|c| u8::from_str_radix(std::str::from_utf8(c).ok()?, 8).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_blanks_and_optional_fields() {
        let line = br"36 35 98:0 /mnt1 /mnt\040two rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        let expected = Mounted { point: "/mnt two".into(), kind: "ext3".into(), options: "rw,errors=continue".into() };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn what_is_mounted_on_demand_holds_files() {
        let mounted =
            |(point, kind): (&str, &str)| Mounted { point: point.into(), kind: kind.into(), options: String::new() };
        let all = [("/proc", "proc"), ("/net", "autofs"), ("/", "ext4"), ("/net", "nfs"), ("/", "ext4")].map(mounted);
        assert_eq!(sorted(all.into()), (vec!["/".into(), "/net".into()], vec!["/proc".into()]));
    }
}
