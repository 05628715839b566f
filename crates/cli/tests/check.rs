//! `diorama check` as scripts use it.

use std::path::Path;
use std::process::{Command, Output};

fn check(experiment: &str, args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_diorama"))
        .current_dir(root)
        .arg("check")
        .arg(experiment)
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_good_experiment_is_0_and_its_plan_is_json() {
    for experiment in ["experiments/web-busy", "experiments/web-half", "experiments/web-net/experiment.yaml"] {
        for variant in ["scaled", "baseline", "naive"] {
            let out = check(experiment, &["--json", "--variant", variant]);
            assert_eq!(out.status.code(), Some(0), "{experiment} {variant}: {}", text(&out.stderr));
            let plan: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
            assert_eq!(plan["tdf"] == 10, variant == "scaled", "{experiment} {variant}");
        }
        let table = text(&check(experiment, &[]).stdout);
        for part in
            ["server--core", "100packets", "1 CPU at 0.5", "tcp_rto_min_us", "TIME_WAIT", "of which 90% can be sold"]
        {
            assert!(table.replace(' ', "").contains(&part.replace(' ', "")), "{experiment}: no {part} in\n{table}");
        }
    }
}

#[test]
fn wrong_input_is_2_with_its_place() {
    let out = check("crates/model/tests/bad/several.yaml", &[]);
    assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0));
    let message = text(&out.stderr);
    for part in ["several.yaml:6:6", "several.yaml:8:15", "several.yaml:10:17", "several.yaml:13:50"] {
        assert!(message.contains(part), "{message}");
    }
    for (args, part) in [
        (&["--tdf", "0"][..], "at least 1"),
        (&["--tdf", "20", "--variant", "naive"], "--tdf cannot be given"),
        (&["--set", "machines.server.speed=20"], "a TDF of 22.6 would fit"),
        (&["--set", "machines.server.cpus=2"], "several CPUs cannot be modelled yet"),
        (&["--set", "nonsense"], "PATH=VALUE"),
    ] {
        let out = check("experiments/web-busy", args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).contains(part), "{args:?}: {}", text(&out.stderr));
    }
    assert_eq!(check("nowhere", &[]).status.code(), Some(2));
}
