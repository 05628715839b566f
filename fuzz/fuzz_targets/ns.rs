//! Any text is an ns script or refused, and so is what becomes of it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let script = diorama_fuzz::scratch().join("fuzz.ns");
    // A loop is cut off after ten seconds, which is not what is looked for here.
    std::fs::write(&script, text.replace("while", "if").replace("for ", "if ")).expect("it can be written");
    match ns::convert(&script, None, true) {
        Ok(converted) => drop(converted.load(&[])),
        Err(e) => drop(e.to_string()),
    }
});
