//! Schemas for editors, generated from the types that files are read into, and stored in `schema/`.

use std::path::Path;

use serde_json::Value;

/// Fails if a stored schema is not the one that the types give now, or lacks one of `keys`. `test` is what cargo is
/// told to write it anew.
pub fn must_be_current(file: &str, schema: &Value, keys: &[&str], test: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(file);
    for key in keys {
        assert!(schema["properties"].get(key).is_some(), "{key}");
    }
    let current = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("DIORAMA_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == current,
        "schema/{file} is out of date; regenerate it with\nDIORAMA_WRITE_SCHEMA=1 cargo test {test}"
    );
}
