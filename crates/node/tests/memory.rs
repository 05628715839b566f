//! Memory for images that somebody else packed: each is looked into and unpacked by a process of its own, which is this
//! test again. Takes root: what is unpacked has owners.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::archive::archive;

const CASE: &str = "DIORAMA_CASE";
/// The most that any of them takes, in KiB.
const MOST_KIB: u64 = 64 << 10;

/// One entry of a tar file, with its content; a `length` that is not the content's is what the header says.
fn entry(name: &str, kind: u8, content: &[u8], length: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(length);
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    let padding = vec![0; content.len().next_multiple_of(512) - content.len()];
    [header.as_bytes(), content, &padding].concat()
}

/// An entry whose name is any text.
fn long(name: &str, kind: u8) -> Vec<u8> {
    [entry("long", b'L', name.as_bytes(), name.len() as u64), entry("l", kind, b"", 0)].concat()
}

/// An entry with pax records before it.
fn with_records(records: &[u8], name: &str) -> Vec<u8> {
    [entry("x", b'x', records, records.len() as u64), entry(name, b'0', b"", 0)].concat()
}

fn zipped(parts: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    parts.into_iter().for_each(|part| to.write_all(&part).unwrap());
    to.finish().unwrap()
}

fn many(count: u32, part: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..count).map(part).collect::<Vec<_>>().concat()
}

/// An archive with these descriptions in place of its own.
fn described(manifest: &str, config: &str) -> Vec<u8> {
    let part = |name: &str, text: &str| entry(name, b'0', text.as_bytes(), text.len() as u64);
    [part("manifest.json", manifest), part("c.json", config), vec![0; 1024]].concat()
}

/// The archive, and a part of what is said of it; nothing, if it is an image.
type Case = (&'static str, fn() -> Vec<u8>, &'static str);

const CASES: &[Case] = &[
    ("10 GB of zeros", || archive(&zipped([entry("big", b'0', &[0; 1 << 20], 10 << 30)])), "200 times more"),
    ("64 MiB of zeros", || archive(&zipped([entry("big", b'0', &vec![0; 64 << 20], 64 << 20)])), ""),
    ("many files", || archive(&zipped((0..5000).map(|n| entry(&format!("f{n}"), b'0', b"", 0)))), ""),
    (
        "directories with long names",
        || {
            let deep = vec!["d".repeat(250); 13].join("/");
            archive(&zipped((0..5000).map(|n| long(&format!("{deep}/{n}/"), b'5'))))
        },
        "directories are longer than 12 MiB",
    ),
    ("deeper than a path can be", || archive(&zipped([long(&"d/".repeat(100_000), b'5')])), "too long"),
    ("a name of 2 MiB", || archive(&zipped([long(&"n".repeat(2 << 20), b'0')])), "too long"),
    ("very many records", || archive(&zipped([with_records(&b"6 a=b\n".repeat(170_000), "f")])), ""),
    (
        "records of several lines",
        || {
            let value = [b"y\n".repeat(49_990), b"\n".to_vec()].concat();
            let record = [format!("{} a=", value.len() + 9).as_bytes(), &value].concat();
            archive(&zipped((0..200).map(|n| with_records(&record, &format!("f{n}")))))
        },
        "attributes of a layer's files are longer than 12 MiB",
    ),
    (
        "parts with long names",
        || many(400, |n| long(&format!("{n}{}", "n".repeat(250_000)), b'0')),
        "longer than 8 MiB",
    ),
    ("very many parts", || many(100_001, |n| entry(&n.to_string(), b'0', b"", 0)), "100,000 parts"),
    (
        "very many layers",
        || described(&format!(r#"[{{"Config":"c.json","Layers":["l"{}]}}]"#, r#","""#.repeat(690_000)), "{}"),
        "512 are the most",
    ),
    (
        "a manifest without an end",
        || described(&format!(r#"[{{"Config":"c.json","Layers":["l"{}]}}]"#, r#","""#.repeat(9_000_000)), "{}"),
        "cannot be read",
    ),
    (
        "a configuration of empty texts",
        || {
            let env = r#","""#.repeat(690_000);
            let config = format!(
                r#"{{"architecture":"amd64","os":"linux","config":{{"Env":["A=b"{env}]}},
"rootfs":{{"type":"layers","diff_ids":[]}}}}"#
            );
            described(r#"[{"Config":"c.json","Layers":[]}]"#, &config)
        },
        "",
    ),
];

/// Looks into an archive and unpacks it.
fn read(place: &Path) -> Result<(), diorama_node::Error> {
    let (file, root) = (place.join("image.tar"), place.join("root"));
    diorama_node::inspect(&file)?;
    let unpacked = diorama_node::unpack(&file, &root).map(drop);
    diorama_node::remove_tree(&root).unwrap();
    unpacked
}

#[test]
fn whatever_others_packed_is_read_in_bounded_memory() {
    if let Ok(place) = std::env::var(CASE) {
        println!("says: {}", read(Path::new(&place)).map_or_else(|e| e.to_string(), |()| "an image".into()));
        let status = fs::read_to_string("/proc/self/status").unwrap();
        println!("{}", status.lines().find(|line| line.starts_with("VmHWM:")).unwrap());
        return;
    }
    let mut wrong = Vec::new();
    for (name, made, part) in CASES {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("image.tar"), made()).unwrap();
        let mut again = Command::new(std::env::current_exe().unwrap());
        let this = "memory::whatever_others_packed_is_read_in_bounded_memory";
        let ended = again.args([this, "--exact", "--nocapture"]).env(CASE, dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        let line = |begins: &str| said.lines().find_map(|line| line.strip_prefix(begins)).unwrap_or_default().trim();
        let kib: u64 = line("VmHWM:").trim_end_matches(" kB").parse().unwrap_or(u64::MAX);
        let right = if part.is_empty() { line("says: ") == "an image" } else { line("says: ").contains(part) };
        println!("{name}: {kib} KiB");
        if !ended.status.success() || kib > MOST_KIB || !right {
            wrong.push(format!("{name}: {kib} KiB, and not `{part}`: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
