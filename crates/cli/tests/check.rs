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
fn a_compose_file_becomes_an_experiment_that_can_be_checked() {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/shop");
    let diorama = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_diorama")).current_dir(&shop).args(args).output();
    let converted = diorama(&["convert", "compose.yaml"]).unwrap();
    let file = text(&converted.stdout);
    assert_eq!(converted.status.code(), Some(0), "{}", text(&converted.stderr));
    assert!(file.contains("default: { members: [\"web\", \"load-*\"] }"), "{file}");
    // With what was added by hand.
    assert_eq!(diorama(&["check", "."]).unwrap().status.code(), Some(0));
    let refused = diorama(&["convert", "nginx.conf"]).unwrap();
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains(".ns"), "{}", text(&refused.stderr));
}

#[test]
fn a_good_experiment_is_0_and_its_plan_is_json() {
    for (experiment, link, speed) in [
        ("experiments/web-busy", "server--core", "1 CPU at 0.5"),
        ("experiments/web-half", "server--core", "1 CPU at 0.36"),
        ("experiments/web-net/experiment.yaml", "server--core", "1 CPU at 0.2"),
        ("experiments/tls", "server--core", "1 CPU at 0.3"),
        ("experiments/postgres-4", "server--core", "4 CPUs at 0.1"),
        ("experiments/lockstep", "leader--core", "1 CPU at 0.12"),
    ] {
        for variant in ["scaled", "baseline", "naive"] {
            let out = check(experiment, &["--json", "--variant", variant]);
            assert_eq!(out.status.code(), Some(0), "{experiment} {variant}: {}", text(&out.stderr));
            let plan: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
            assert_eq!(plan["tdf"] != 1, variant == "scaled", "{experiment} {variant}");
            // On a core that is a quarter slower than usual, nodes can still be given the work that they are to have.
            let sold = plan["sold"].as_f64().unwrap();
            assert!(sold <= 0.69 || experiment.ends_with("web-busy"), "{experiment} {variant}: {sold} is sold");
            let mode = if variant == "naive" { serde_json::Value::Null } else { "work".into() };
            assert_eq!((&plan["cpu"]["mode"], plan["timeslice"].is_object()), (&mode, variant != "naive"));
        }
        let table = text(&check(experiment, &["--verbose"]).stdout);
        let both =
            ["100packets", "tcp_rto_min_us", "TIME_WAIT", "of which 90% can be sold", "slices of ", "shares of work"];
        for part in [link, speed].into_iter().chain(both) {
            assert!(table.replace(' ', "").contains(&part.replace(' ', "")), "{experiment}: no {part} in\n{table}");
        }
    }
}

#[test]
fn the_smallest_tdf_is_the_one_that_a_refusal_names() {
    let fast = |args: &[&str]| check("experiments/web-net", &[&["--set", "machines.server.speed=3"], args].concat());
    let refused = fast(&["--tdf", "1"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stdout));
    let message = text(&refused.stderr);
    let named = message.split("`--tdf ").nth(1).and_then(|rest| rest.split('`').next()).expect(&message);
    let auto = fast(&["--tdf", "auto", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&auto.stdout).unwrap();
    assert_eq!(plan["tdf"].as_f64(), named.parse().ok(), "{message}");
    let naive = fast(&["--tdf", "auto", "--variant", "naive"]);
    assert_eq!(naive.status.code(), Some(2));
    assert!(text(&naive.stderr).contains("--tdf cannot be given with the naive variant"));
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
        (&["--tdf", "20", "--variant", "native"], "--tdf cannot be given"),
        (&["--tdf", "20", "--variant", "naive"], "--tdf cannot be given"),
        (&["--set", "machines.server.speed=20"], "a TDF of 22.6 would fit"),
        (&["--set", "machines.server.cpus=300"], "a machine has 1 to 256 CPUs"),
        (&["--set", "machines.server.cpus=64"], "server 3.200 (64 CPUs)"),
        (&["--set", "nonsense"], "PATH=VALUE"),
        (&["--set", "lead=0.2ms"], "the nearest lead that can be had is 1.25ms (`lead: 1.25ms`)"),
        (&["--set", "accuracy.p95=5%"], "did you mean `p9"),
        (&["--set", "machines.server.speed=850 MHz"], "there is no unit `MHz`; units are units/µs, units/us"),
        (&["--set", "machines.server.speed=1000000 units/us"], "a core of this host usually does"),
        (&["--set", "cpu=fair"], "`fair` is not one of `work`, `time`"),
    ] {
        let out = check("experiments/web-busy", args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).contains(part), "{args:?}: {}", text(&out.stderr));
    }
    assert_eq!(check("nowhere", &[]).status.code(), Some(2));
}
