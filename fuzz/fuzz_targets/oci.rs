//! Any bytes are an archive of an image, or its layer, or refused; nothing is written elsewhere. Takes root: what is
//! unpacked has owners.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The archive of an image of one layer.
fn archive(layer: &[u8]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let manifest = br#"[{"Config":"c.json","Layers":["l"],"RepoTags":["a:1"]}]"#;
    let config = br#"{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}"#;
    for (name, content) in [("manifest.json", &manifest[..]), ("c.json", config), ("l", layer)] {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content).expect("it is in memory");
    }
    tar.into_inner().expect("it is in memory")
}

fuzz_target!(|bytes: &[u8]| {
    let dir = diorama_fuzz::scratch();
    let (file, root) = (dir.join("fuzz.tar"), dir.join("root"));
    for whole in [bytes, &archive(bytes)] {
        std::fs::write(&file, whole).expect("it can be written");
        drop(node::inspect(&file).map_err(|e| e.to_string()));
        drop(node::accounts(&file).map_err(|e| e.to_string()));
        drop(node::unpack(&file, &root).map_err(|e| e.to_string()));
        node::remove_tree(&root).expect("all of it can be removed");
        // The file, and nothing beside it.
        assert_eq!(std::fs::read_dir(dir).expect("it is there").count(), 1, "something lies beside the root");
    }
});
