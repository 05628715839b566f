//! Scripts that nobody would write.

#[path = "../../model/tests/mutations/mod.rs"]
mod mutations;

#[test]
fn any_text_is_a_script_or_refused() {
    let inputs =
        [mutations::files("tests/good", &[".ns", ".tcl"]), mutations::files("tests/bad", &["unknown.ns"])].concat();
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("fuzz.ns");
    mutations::fuzz("ns", &inputs, |bytes| {
        // A loop is cut off after ten seconds, by a test of its own.
        let text = String::from_utf8_lossy(bytes).replace("while", "if");
        std::fs::write(&script, text).unwrap();
        match diorama_ns::convert(&script, None, true) {
            Ok(converted) => drop(converted.load(&[])),
            Err(e) => drop(e.to_string()),
        }
    });
}
