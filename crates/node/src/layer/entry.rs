//! One entry of a layer that is written: header, long names, records, data.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tar::{Builder, EntryType, GnuExtSparseHeader, Header};

use super::pax::{self, Records};
use super::sparse::{Exactly, Stretch};

/// How many stretches of a file with holes a header holds, and each block after it.
const IN_HEADER: usize = 4;
const IN_BLOCK: usize = 21;

/// A header with owner, mode and time of a file.
pub(super) fn header(kind: EntryType, found: &Metadata) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(found.mode() & 0o7777);
    header.set_uid(found.uid().into());
    header.set_gid(found.gid().into());
    header.set_mtime(u64::try_from(found.mtime()).unwrap_or(0));
    header.set_size(0);
    header
}

/// A header of something that marks, and is no file of anybody's.
pub(super) fn mark() -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    header
}

/// Writes an entry: `link` is what it points to, if it is a link, and `data` as long as its header says.
///
/// Names are written as the bytes that they are, which may be any: the library would refuse some.
pub(super) fn put(
    tar: &mut Builder<impl Write>,
    mut header: Header,
    path: &Path,
    link: Option<&Path>,
    records: &Records,
    data: impl Read,
) -> io::Result<()> {
    if !records.is_empty() {
        let text = pax::text(records);
        let mut extended = mark();
        extended.set_entry_type(EntryType::XHeader);
        extended.set_size(text.len() as u64);
        named(&mut extended.as_old_mut().name, b"./PaxHeaders/entry");
        extended.set_cksum();
        tar.append(&extended, &text[..])?;
    }
    let (path, link) = (path.as_os_str().as_bytes(), link.map_or(&b""[..], |l| l.as_os_str().as_bytes()));
    long(tar, EntryType::GNULongName, path, header.as_old().name.len())?;
    long(tar, EntryType::GNULongLink, link, header.as_old().linkname.len())?;
    let old = header.as_old_mut();
    named(&mut old.name, path);
    named(&mut old.linkname, link);
    header.set_cksum();
    tar.append(&header, data)
}

/// Writes a file with holes, in the format that GNU tar had first and all tools read.
pub(super) fn put_sparse(
    tar: &mut Builder<impl Write>,
    mut header: Header,
    path: &Path,
    records: &Records,
    (file, size): (&File, u64),
    stretches: &[Stretch],
) -> io::Result<()> {
    // The last one says how long the file is.
    let all: Vec<Stretch> = stretches.iter().copied().chain([(size, 0)]).collect();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_size(all.iter().map(|(_, length)| length).sum());
    if let Some(gnu) = header.as_gnu_mut() {
        gnu.set_real_size(size);
        gnu.set_is_extended(all.len() > IN_HEADER);
        for ((start, length), place) in all.iter().zip(&mut gnu.sparse) {
            place.set_offset(*start);
            place.set_length(*length);
        }
    }
    let mut blocks = Vec::new();
    let mut more = all.get(IN_HEADER..).unwrap_or_default().chunks(IN_BLOCK).peekable();
    while let Some(some) = more.next() {
        let mut block = GnuExtSparseHeader::new();
        for ((start, length), place) in some.iter().zip(block.sparse_mut()) {
            place.set_offset(*start);
            place.set_length(*length);
        }
        block.set_is_extended(more.peek().is_some());
        blocks.extend_from_slice(block.as_bytes());
    }
    put(tar, header, path, None, records, blocks.chain(Exactly::new(file, stretches)))
}

/// A name that is longer than its field stands before its entry.
fn long(tar: &mut Builder<impl Write>, kind: EntryType, name: &[u8], field: usize) -> io::Result<()> {
    if name.len() <= field {
        return Ok(());
    }
    let mut header = mark();
    header.set_entry_type(kind);
    header.set_size(name.len() as u64 + 1);
    named(&mut header.as_old_mut().name, b"././@LongLink");
    header.set_cksum();
    tar.append(&header, name.chain(&b"\0"[..]))
}

/// Writes as much of a name into its field as has room there.
fn named(field: &mut [u8], name: &[u8]) {
    field.fill(0);
    let length = name.len().min(field.len());
    field[..length].copy_from_slice(&name[..length]);
}
