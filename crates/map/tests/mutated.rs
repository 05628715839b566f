//! Catalogues and topologies that nobody would write.

#[path = "../../model/tests/mutations/mod.rs"]
mod mutations;

use std::path::PathBuf;

/// All inputs below the tests' files.
fn inputs(ends: &[&str]) -> Vec<Vec<u8>> {
    let mut folders = vec![PathBuf::from("tests")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        found.extend(mutations::files(&folder.to_string_lossy(), ends));
        let below = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        folders.extend(below.filter(|path| path.is_dir()));
    }
    found.truncate(60);
    found
}

#[test]
fn any_text_is_a_catalogue_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (name, kinds) in [("ptop", &[".ptop"][..]), ("catalogue", &[".yaml"])] {
        let file = dir.path().join(format!("fuzz{}", kinds[0]));
        mutations::fuzz(name, &[inputs(kinds), vec![b"node a pc:1\n".to_vec()]].concat(), |bytes| {
            std::fs::write(&file, bytes).unwrap();
            drop(diorama_map::load_harness(&file).map_err(|e| e.to_string()));
        });
    }
}

#[test]
fn any_text_is_a_topology_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("fuzz.top");
    mutations::fuzz("top", &[inputs(&[".top"]), vec![b"node a pc\n".to_vec()]].concat(), |bytes| {
        std::fs::write(&file, bytes).unwrap();
        drop(diorama_map::load_top(&file).map_err(|e| e.to_string()));
    });
}
