//! Details of a file beyond the fields of its header in a layer: extended attributes and parts of seconds, as *pax*
//! records (POSIX, pax, *Extended Header*), each `LENGTH KEY=VALUE\n`.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, lsetxattr, utimensat};
use rustix::io::Errno;

use super::OVERLAY;

/// Prefix of the name of an attribute, as other tools for images have it.
const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";
const MTIME: &[u8] = b"mtime";

/// Keys and values.
pub(super) type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// The records of a layer's entry. The length of each counts, for a value may hold any byte.
pub(super) fn parse(mut text: &[u8]) -> io::Result<Records> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "a layer has a malformed pax record");
    let mut records = Vec::new();
    while !text.is_empty() {
        let digits = text.iter().position(|b| *b == b' ').ok_or_else(wrong)?;
        let length = std::str::from_utf8(&text[..digits]).ok().and_then(|d| d.parse::<usize>().ok());
        let length = length.filter(|l| (digits + 2..=text.len()).contains(l)).ok_or_else(wrong)?;
        let (record, rest) = text.split_at(length);
        let record = record[digits + 1..].strip_suffix(b"\n").ok_or_else(wrong)?;
        let key = record.iter().position(|b| *b == b'=').ok_or_else(wrong)?;
        records.push((record[..key].to_vec(), record[key + 1..].to_vec()));
        text = rest;
    }
    Ok(records)
}

/// The text of records.
pub(super) fn text(records: &Records) -> Vec<u8> {
    let one = |(key, value): &(Vec<u8>, Vec<u8>)| {
        let rest = key.len() + value.len() + 3;
        // The length counts its own digits.
        let length = (1..).map(|digits| rest + digits).find(|l| l.to_string().len() == l - rest).unwrap_or(rest);
        [format!("{length} ").as_bytes(), key, b"=", value, b"\n"].concat()
    };
    records.iter().flat_map(one).collect()
}

/// The records that a file needs. `place` is followed if it is a symbolic link: it is one below `/proc/self/fd`.
pub(super) fn of(place: &Path, found: &Metadata) -> io::Result<Records> {
    let mut records = Records::new();
    if found.mtime_nsec() != 0 && found.mtime() >= 0 {
        records.push((MTIME.into(), format!("{}.{:09}", found.mtime(), found.mtime_nsec()).into_bytes()));
    }
    let names = match grown(|buffer| rustix::fs::listxattr(place, buffer)) {
        // The file system has none.
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Vec::new(),
        names => names?,
    };
    let mut names: Vec<&[u8]> = names.split(|b| *b == 0).filter(|n| !n.is_empty() && !is_local(n)).collect();
    names.sort_unstable();
    for name in names {
        match grown(|buffer| rustix::fs::getxattr(place, OsStr::from_bytes(name), buffer)) {
            Ok(value) => records.push(([ATTRIBUTE, name].concat(), value)),
            // It was taken away meanwhile.
            Err(e) if e.raw_os_error() == Some(libc::ENODATA) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(records)
}

/// Gives a file what its records say; `mtime_s` is its header's time.
pub(super) fn give(path: &Path, records: &Records, mtime_s: u64) -> io::Result<()> {
    for (key, value) in records {
        let Some(name) = key.strip_prefix(ATTRIBUTE).filter(|name| !is_local(name)) else { continue };
        lsetxattr(path, OsStr::from_bytes(name), value, XattrFlags::empty()).map_err(|e| {
            let what = format!("its file {} has the attribute {}", path.display(), String::from_utf8_lossy(name));
            io::Error::new(io::Error::from(e).kind(), format!("{what}, which this file system does not take: {e}"))
        })?;
    }
    let told = records.iter().rev().find(|(key, _)| key == MTIME).and_then(|(_, value)| instant(value));
    let time = told.unwrap_or(Timespec { tv_sec: i64::try_from(mtime_s).unwrap_or(0), tv_nsec: 0 });
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// `1700000000.25` as a time.
fn instant(text: &[u8]) -> Option<Timespec> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, part) = text.split_once('.').unwrap_or((text, ""));
    let nanos: String = part.chars().chain("000000000".chars()).take(9).collect();
    Some(Timespec { tv_sec: seconds.parse().ok()?, tv_nsec: nanos.parse::<u32>().ok()?.into() })
}

/// Whether an attribute means something where it is and nowhere else: the overlay's own, and labels that the policy of
/// this machine gives.
fn is_local(name: &[u8]) -> bool {
    name.starts_with(OVERLAY) || name == b"security.selinux"
}

/// Result of a call that writes into a buffer, which is made as large as it needs to be.
fn grown(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 256];
    loop {
        match call(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            // No attribute is longer than 64 KiB, and no list of them.
            Err(Errno::RANGE) if buffer.len() < 1 << 17 => buffer.resize(buffer.len() * 2, 0),
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_with_any_bytes_are_read_as_they_were_written() {
        let long = vec![b'\n'; 90];
        let records: Records = vec![
            (b"mtime".to_vec(), b"1.5".to_vec()),
            (b"SCHILY.xattr.user.a".to_vec(), b"x=y\n\0\xff".to_vec()),
            (b"SCHILY.xattr.user.long".to_vec(), long),
        ];
        assert_eq!(parse(&text(&records)).unwrap(), records);
        for wrong in [&b"5 a=b"[..], b"99 a=b\n", b"3 a", b"x a=b\n", b"1 \n", b"6 abc\n"] {
            assert!(parse(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn a_time_has_parts_of_seconds() {
        let time = instant(b"7.25").unwrap();
        assert_eq!((time.tv_sec, time.tv_nsec), (7, 250_000_000));
        assert_eq!(instant(b"7").unwrap().tv_nsec, 0);
        assert!(instant(b"x.1").is_none());
    }
}
