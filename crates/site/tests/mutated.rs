//! Words of the other end of a connection.

#[path = "../../model/tests/mutations/mod.rs"]
mod mutations;

use diorama_site::{Sample, Setup, Suspended};

#[test]
fn any_bytes_are_a_message_or_refused() {
    let long: &[u8] = b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff";
    let mut map = Vec::new();
    let some = serde_json::json!({ "nodes": [{ "name": "a", "files": [] }], "pipes": {} });
    ciborium::into_writer(&some, &mut map).unwrap();
    mutations::fuzz("site", &[map, long.to_vec()], |bytes| {
        drop(ciborium::from_reader::<Setup, _>(bytes).map_err(|e| e.to_string()));
        drop(ciborium::from_reader::<Sample, _>(bytes).map_err(|e| e.to_string()));
        drop(serde_json::from_slice::<Suspended>(bytes).map_err(|e| e.to_string()));
    });
}
