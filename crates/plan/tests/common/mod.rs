//! Experiments and machines for tests of plans.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;

use diorama_plan::Supply;
use model::Experiment;
use site::CoreChoice;

/// An experiment from its text, with values that take the place of its own.
pub fn load(yaml: &str, overrides: &[(&str, &str)]) -> Experiment {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("experiment.yaml"), yaml).unwrap();
    let overrides: Vec<_> = overrides.iter().map(|(p, v)| ((*p).to_owned(), (*v).to_owned())).collect();
    model::load(dir.path(), &overrides).unwrap()
}

/// The cores of a machine that has so many.
pub fn machine(cores: usize) -> Supply {
    Supply::of((0..cores).map(|core| vec![core]).collect(), &CoreChoice::default()).unwrap()
}

/// A web server and its clients, with something of all that links can be and that events can do.
const WEB: &str = r#"
name: web
tdf: 10
machines:
  server: { speed: 0.5, memory: 256MiB }
  client: { speed: 0.08, memory: 128MiB }
nodes:
  server: { machine: server, run: "nginx", ready: { tcp: 80 } }
  client: { count: 4, machine: client, after: [server], run: "h2load" }
links:
  - { from: server, to: core, bandwidth: 100Mbit/s, delay: 10ms }
  - { from: "client-*", to: core, delay: 5ms, loss: 1%, queue: 7 }
switches: [core]
events:
  - { at: 5s, link: server--core, set: { up: false, bandwidth: 10Mbit/s, delay: 1ms } }
ends: { exited: ["client-*"], limit: 60s }
"#;

/// That experiment, with values that take the place of its own.
pub fn experiment(overrides: &[(&str, &str)]) -> Experiment {
    load(WEB, overrides)
}

/// Whether two shares are one, but for the last digits.
pub fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12
}
