//! Images that nobody would pack. Takes root: what is unpacked has owners.

mod archive;
#[path = "../../model/tests/mutations/mod.rs"]
mod mutations;

use std::io::Write;

use archive::archive;

fn layer() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, kind) in [("etc/", b'5'), ("etc/passwd", b'0'), ("etc/.wh.group", b'0'), ("l", b'2'), ("f", b'6')] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(if kind == b'0' { 4 } else { 0 });
        if kind == b'2' {
            header.set_link_name("/etc").unwrap();
        }
        tar.append_data(&mut header, name, if kind == b'0' { &b"a:x\n"[..] } else { &[] }).unwrap();
    }
    tar.into_inner().unwrap()
}

#[test]
fn any_bytes_are_an_image_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(&layer()).unwrap();
    let inputs = [archive(&layer()), archive(&zipped.finish().unwrap()), layer()];
    let file = dir.path().join("fuzz.tar");
    mutations::fuzz("oci", &inputs, |bytes| {
        // As an archive, and as the layer of one.
        for whole in [bytes.to_vec(), archive(bytes)] {
            std::fs::write(&file, whole).unwrap();
            drop(diorama_node::inspect(&file).map_err(|e| e.to_string()));
            drop(diorama_node::accounts(&file).map_err(|e| e.to_string()));
            let root = dir.path().join("root");
            drop(diorama_node::unpack(&file, &root).map_err(|e| e.to_string()));
            diorama_node::remove_tree(&root).unwrap();
        }
    });
}
