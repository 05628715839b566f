//! Disk images: which format they have, and that they name no other file.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

/// The format of a disk image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Block by block.
    Raw,
    /// QEMU's own, version 2 or 3.
    Qcow2,
    /// A file system for CDs, ISO 9660, which is only read.
    Iso,
}

/// Why an image cannot be a guest's disk.
#[derive(Debug)]
pub enum ImageError {
    /// It cannot be read.
    Io(io::Error),
    /// It is another file that holds a part of it.
    NamesAnother(&'static str),
    /// It is no image of a version that is known.
    Unknown(&'static str),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::Io(e) => write!(f, "cannot be read: {e}"),
            ImageError::NamesAnother(what) => write!(
                f,
                "names {what}, and a guest's disk is one file: make one of it by `qemu-img convert -O qcow2 OLD NEW`"
            ),
            ImageError::Unknown(what) => write!(f, "is {what}: make an image of it by `qemu-img convert -O qcow2`"),
        }
    }
}

impl std::error::Error for ImageError {}

impl From<io::Error> for ImageError {
    fn from(e: io::Error) -> Self {
        ImageError::Io(e)
    }
}

// From QEMU's docs/interop/qcow2.txt: the header's fields, all big-endian.
const QCOW: &[u8; 4] = b"QFI\xfb";
const HEADER: usize = 104;
/// Bits of features that a program must know: dirty, corrupt, another file for data, compression, extended entries.
const EXTERNAL_DATA: u64 = 1 << 2;
const KNOWN: u64 = 0b1_1111;
/// Where ISO 9660 says what it is.
const ISO_AT: u64 = 32_769;
const ISO: &[u8; 5] = b"CD001";
/// Formats of other programs, by how they begin.
const OTHERS: [(&[u8], &str); 5] = [
    (b"KDMV", "an image of VMware's (VMDK)"),
    (b"# Disk DescriptorFile", "a description of images of VMware's (VMDK)"),
    (b"conectix", "an image of Virtual PC's (VHD)"),
    (b"vhdxfile", "an image of Hyper-V's (VHDX)"),
    (b"<<< ", "an image of VirtualBox's (VDI)"),
];

/// The format of an image.
///
/// # Errors
///
/// If it names another file that QEMU would open as well, or is none that is known.
pub fn format(mut image: impl Read + Seek) -> Result<Format, ImageError> {
    let mut head = [0; HEADER];
    let length = read_up_to(&mut image, &mut head)?;
    let head = &head[..length];
    if head.starts_with(QCOW) {
        return of_qcow(head).map(|()| Format::Qcow2);
    }
    if let Some((_, what)) = OTHERS.iter().find(|(begin, _)| head.starts_with(begin)) {
        return Err(ImageError::Unknown(what));
    }
    image.seek(SeekFrom::Start(ISO_AT))?;
    let mut mark = [0; ISO.len()];
    let is_iso = read_up_to(&mut image, &mut mark)? == ISO.len() && mark == *ISO;
    Ok(if is_iso { Format::Iso } else { Format::Raw })
}

fn of_qcow(head: &[u8]) -> Result<(), ImageError> {
    let broken = ImageError::Unknown("an image of qcow2 whose header is cut off");
    let (Some(version), Some(backing)) = (word(head, 4), head.get(8..16)) else { return Err(broken) };
    if backing.iter().any(|byte| *byte != 0) {
        return Err(ImageError::NamesAnother("a backing file"));
    }
    match version {
        2 => Ok(()),
        3 => {
            let (Some(high), Some(low)) = (word(head, 72), word(head, 76)) else { return Err(broken) };
            let features = u64::from(high) << 32 | u64::from(low);
            match features {
                _ if features & EXTERNAL_DATA != 0 => Err(ImageError::NamesAnother("a file for its data")),
                _ if features & !KNOWN != 0 => Err(ImageError::Unknown("an image of qcow2 with unknown features")),
                _ => Ok(()),
            }
        }
        _ => Err(ImageError::Unknown("an image of a version of qcow that is not known")),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

fn read_up_to(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < into.len() {
        match from.read(&mut into[length..])? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn qcow(version: u32, backing: u64, features: u64) -> Vec<u8> {
        let mut head = vec![0; HEADER];
        head[..4].copy_from_slice(QCOW);
        head[4..8].copy_from_slice(&version.to_be_bytes());
        head[8..16].copy_from_slice(&backing.to_be_bytes());
        head[72..80].copy_from_slice(&features.to_be_bytes());
        head
    }

    fn of(bytes: Vec<u8>) -> Result<Format, String> {
        format(Cursor::new(bytes)).map_err(|e| e.to_string())
    }

    #[test]
    fn an_image_that_names_another_file_is_refused() {
        for image in [qcow(2, 112, 0), qcow(3, 1 << 40, 0)] {
            assert!(of(image).unwrap_err().starts_with("names a backing file"));
        }
        assert!(of(qcow(3, 0, EXTERNAL_DATA)).unwrap_err().starts_with("names a file for its data"));
        assert!(of(b"# Disk DescriptorFile\nRW 1 FLAT \"/etc/shadow\" 0".to_vec()).unwrap_err().contains("VMDK"));
    }

    #[test]
    fn formats_are_told_apart_by_what_is_in_them() {
        assert_eq!((of(qcow(2, 0, 0)), of(qcow(3, 0, 0b11))), (Ok(Format::Qcow2), Ok(Format::Qcow2)));
        assert_eq!((of(vec![0; 512]), of(Vec::new())), (Ok(Format::Raw), Ok(Format::Raw)));
        let mut iso = vec![0; 40_000];
        iso[ISO_AT as usize..][..5].copy_from_slice(ISO);
        assert_eq!(of(iso), Ok(Format::Iso));
        for wrong in [qcow(4, 0, 0), qcow(1, 0, 0), qcow(3, 0, 1 << 40), qcow(3, 0, 0)[..30].to_vec()] {
            assert!(of(wrong).is_err());
        }
    }
}
