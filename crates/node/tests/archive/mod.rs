//! Archives of images, for tests and fuzzing.

/// The archive of an image of one layer.
pub fn archive(layer: &[u8]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let manifest = br#"[{"Config":"c.json","Layers":["l"],"RepoTags":["a:1"]}]"#;
    let config = br#"{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}"#;
    for (name, content) in [("manifest.json", &manifest[..]), ("c.json", config), ("l", layer)] {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content).unwrap();
    }
    tar.into_inner().unwrap()
}
