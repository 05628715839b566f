//! A run whose every name tries to become markup.

use std::fs;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use crate::events::{Event, EventLog};
use crate::record::{Check, Ended, Fidelity, MetricRecord, NodeOutcome, RunResult, Status, Variant};
use crate::samples::{self, Row, Samples};

pub const HOSTILE: &str = "</title><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;";

/// Writes it to `dir`.
pub fn hostile_run(dir: &Path, shift: f64) -> PathBuf {
    fs::create_dir_all(dir.join("metrics")).unwrap();
    let file = PathBuf::from("metrics/m.csv");
    let values: Vec<f64> = (0..300).map(|i| 10.0 + shift + f64::from(i % 70)).collect();
    let rows: Vec<_> = values.iter().map(|v| Row { virtual_s: None, value: *v, node: HOSTILE.into() }).collect();
    samples::write(&dir.join(&file), &rows).unwrap();
    let summary = Samples::new(values).unwrap().summary().unwrap();
    let check = Check {
        name: HOSTILE.into(),
        value: Some(1.0),
        limit: Some(2.0),
        unit: HOSTILE.into(),
        ok: Some(true),
        says: HOSTILE.into(),
    };
    let result = RunResult {
        experiment: HOSTILE.into(),
        variant: Variant::Scaled,
        tdf: "10".parse().unwrap(),
        scaling_factor: 10.0,
        status: Status::Ok,
        why: Some(HOSTILE.into()),
        virtual_seconds: 10.0,
        real_seconds: 100.0,
        metrics: IndexMap::from([(HOSTILE.to_string(), MetricRecord { unit: HOSTILE.into(), summary, file })]),
        nodes: IndexMap::from([(
            HOSTILE.to_string(),
            NodeOutcome { exit: Some(0), ended: Ended::Exited, core_seconds: Some(2.0 + shift) },
        )]),
        fidelity: Fidelity::of(vec![check]),
    };
    result.write(dir).unwrap();
    let event = |virtual_s, event: &str| Event {
        virtual_s: Some(virtual_s),
        real_s: 10.0 * virtual_s,
        event: event.into(),
        target: Some(HOSTILE.into()),
        detail: serde_json::json!({ HOSTILE: HOSTILE }),
    };
    let mut log = EventLog::open(dir).unwrap();
    log.write(&event(0.0, "start")).unwrap();
    log.write(&event(5.0, HOSTILE)).unwrap();
    let pipe = |v: f64| serde_json::json!({"bits_per_s": v * 1e6, "delay_s": 0.01, "loss": 0.0, "queue_packets": 100});
    let plan = serde_json::json!({
        "tdf": 10,
        "nodes": { HOSTILE: {"core": 0, "share": 0.05, "memory_bytes": 268435456, "addresses": [HOSTILE]} },
        "pipes": { HOSTILE: {"target": pipe(100.0), "harness": pipe(10.0)} },
        "versions": { HOSTILE: HOSTILE },
    });
    fs::write(dir.join("plan.json"), plan.to_string()).unwrap();
    dir.to_owned()
}

/// No tag or attribute of the hostile name survived, and nothing is fetched from anywhere.
pub fn assert_harmless(html: &str) {
    for forbidden in ["<script", "<img", "alert(1)</", "onerror='", "http://", "https://", "src=\"", "url("] {
        assert!(!html.contains(forbidden), "{forbidden} in the page");
    }
    for tag in ["title", "main", "table", "svg", "details", "figure"] {
        assert_eq!(html.matches(&format!("<{tag}")).count(), html.matches(&format!("</{tag}>")).count(), "<{tag}>");
    }
}
