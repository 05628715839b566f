//! Any text is an experiment or refused, with what is wrong.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(e) = model::load_text(text, Path::new("fuzz.yaml"), diorama_fuzz::scratch(), &[]) {
        // What is wrong is told, wherever it is.
        drop(e.render());
    }
});
