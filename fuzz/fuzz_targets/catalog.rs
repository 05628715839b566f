//! Any text is a catalogue (in YAML, or a ptop file) or a topology, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let dir = diorama_fuzz::scratch();
    for name in ["fuzz.ptop", "fuzz.yaml"] {
        let file = dir.join(name);
        std::fs::write(&file, bytes).expect("it can be written");
        drop(map::load_harness(&file).map_err(|e| e.to_string()));
    }
    let file = dir.join("fuzz.top");
    std::fs::write(&file, bytes).expect("it can be written");
    drop(map::load_top(&file).map_err(|e| e.to_string()));
});
