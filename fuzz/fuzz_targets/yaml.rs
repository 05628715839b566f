//! Any text is an experiment or refused, with what is wrong.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(e) = model::load_text(text, Path::new("fuzz.yaml"), diorama_fuzz::scratch(), &[]) {
        // A mistake can be shown with its place, wherever that is.
        drop(e.render());
    }
});
