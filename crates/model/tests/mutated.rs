//! Experiments that nobody would write.

#[path = "mutations/mod.rs"]
mod mutations;

use std::path::Path;

#[test]
fn any_text_is_an_experiment_or_refused() {
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir("../../experiments").into_iter().flatten().flatten() {
        inputs.extend(mutations::files(&entry.path().to_string_lossy(), &["experiment.yaml"]));
    }
    assert!(inputs.len() > 5);
    let dir = tempfile::tempdir().unwrap();
    mutations::fuzz("yaml", &inputs, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Err(e) = diorama_model::load_text(&text, Path::new("fuzz.yaml"), dir.path(), &[]) {
            // A mistake can be shown with its place, wherever that is.
            drop(e.render());
        }
    });
}
