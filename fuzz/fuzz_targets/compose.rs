//! Any text is a Compose file or refused; what stands after a line `# .env` is its file of settings.
#![no_main]

use std::slice;

use compose::{Options, convert, project};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let dir = diorama_fuzz::scratch();
    let file = dir.join("compose.yaml");
    let mark = b"\n# .env\n";
    let at = bytes.windows(mark.len()).position(|part| part == mark);
    let (text, env) = at.map_or((bytes, &bytes[..0]), |at| (&bytes[..at], &bytes[at + mark.len()..]));
    std::fs::write(&file, text).expect("it can be written");
    std::fs::write(dir.join(".env"), env).expect("it can be written");
    let options =
        Options { environment: &|_| None, profiles: &[], images: &|_| Ok(None), accounts: &|_| Err("none".into()) };
    drop(project(slice::from_ref(&file), &options).map_err(|e| e.to_string()));
    drop(convert(slice::from_ref(&file), &options).map_err(|e| e.render()));
});
