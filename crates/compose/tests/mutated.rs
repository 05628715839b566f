//! Compose files that nobody would write.

#[path = "../../model/tests/mutations/mod.rs"]
mod mutations;

use diorama_compose::{Options, convert, project};

const ALL: &str = "x-a: &a { restart: always }\nservices:\n  web:\n    <<: *a\n    image: \"nginx:${TAG:-1}\"\n    \
                   ports: [\"80:80\", { target: 81 }]\n    environment: { A: b, C: }\n    depends_on: [db]\n    \
                   healthcheck: { test: [CMD, curl, \"http://localhost:80\"] }\n    volumes: [\"./x:/y:ro\"]\n    \
                   deploy: { resources: { limits: { cpus: \"0.5\", memory: 64M } } }\n  \
                   db: { image: x, command: \"a $$B\" }\n";

#[test]
fn any_text_is_a_compose_file_or_refused() {
    let mut inputs = mutations::files("tests/reference", &[".yaml", ".yml"]);
    inputs.push(ALL.into());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("compose.yaml");
    mutations::fuzz("compose", &inputs, |bytes| {
        std::fs::write(&file, bytes).unwrap();
        // Settings are read likewise.
        std::fs::write(dir.path().join(".env"), &bytes[..bytes.len().min(2000)]).unwrap();
        let options =
            Options { environment: &|_| None, profiles: &[], images: &|_| Ok(None), accounts: &|_| Err("none".into()) };
        drop(project(std::slice::from_ref(&file), &options).map_err(|e| e.to_string()));
        drop(convert(std::slice::from_ref(&file), &options).map_err(|e| e.render()));
    });
}
