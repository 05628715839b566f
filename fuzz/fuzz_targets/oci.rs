//! Any bytes are an archive of an image, or its layer, or refused; nothing is written elsewhere. Takes root: what is
//! unpacked has owners.
#![no_main]

#[path = "../../crates/node/tests/archive/mod.rs"]
mod archive;

use archive::archive;
use libfuzzer_sys::fuzz_target;

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
