//! `diorama map` as scripts use it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn diorama(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_diorama")).current_dir(root).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn written(dir: &tempfile::TempDir, name: &str, contents: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, contents).unwrap();
    path
}

const LAB: &str = "machines: { pc: { count: 3, cores: 1, memory: 64GiB } }\nswitches: [s]\n\
                   cables: [{ from: \"pc-*\", to: s, bandwidth: 1Gbit/s }]\n";

#[test]
fn a_plan_that_fits_is_0_and_its_file_is_what_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, out) = (written(&dir, "lab.yaml", LAB), dir.path().join("plan.json"));
    let (lab, out) = (lab.to_str().unwrap(), out.to_str().unwrap());
    let printed = diorama(&["map", "experiments/web-net", "--machines", lab, "--tdf", "20", "--out", out, "--json"]);
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
    assert_eq!(text(&printed.stdout), std::fs::read_to_string(out).unwrap());
    let plan: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!((plan["fits"].as_bool(), plan["tdf"].as_f64()), (Some(true), Some(20.0)));
    assert!(plan["nodes"]["server"]["machine"].as_str().unwrap().starts_with("pc-"), "{plan}");
    let told = diorama(&["map", "experiments/web-net", "--machines", lab, "--tdf", "20"]);
    let told = text(&told.stdout);
    assert!(
        told.contains("at TDF 20") && told.contains("it fits; score ") && told.contains("server (core 0)"),
        "{told}"
    );
}

#[test]
fn what_is_violated_is_1_and_what_cannot_be_is_2() {
    let dir = tempfile::tempdir().unwrap();
    let lab = written(&dir, "lab.yaml", LAB);
    let small = written(&dir, "small.yaml", &LAB.replace("count: 3", "count: 1").replace("64GiB", "400MiB"));
    let round = LAB.replace("switches: [s]", "switches: [s, t, u]").replace(
        "cables: [",
        "cables: [{ from: s, to: t, bandwidth: 1Gbit/s }, { from: t, to: u, bandwidth: 1Gbit/s }, { from: u, to: s, \
         bandwidth: 1Gbit/s }, ",
    );
    let round = written(&dir, "round.yaml", &round);
    let on = |catalog: &Path, more: &[&str]| {
        let catalog = catalog.to_str().unwrap();
        diorama(&[&["map", "experiments/web-net", "--machines", catalog][..], more].concat())
    };
    let over = on(&small, &[]);
    assert_eq!(over.status.code(), Some(1), "{}", text(&over.stderr));
    assert!(text(&over.stdout).contains("violated: `pc-1`: its "), "{}", text(&over.stdout));
    for (out, parts) in [
        (on(&round, &[]), &["round.yaml:3:", "closes a circle of switches (u, t, s)"][..]),
        (
            on(&lab, &["--tdf", "1", "--set", "machines.server.speed=3"]),
            &["experiment.yaml:", ": the node `server` fits on no machine at TDF 1"],
        ),
        (on(&lab, &["--set", "placement=[{ nodes: [server], type: gpu }]"]), &["none has the type `gpu`"]),
        (on(&lab, &["--weights", "delay=2"]), &["no", "measured paths"]),
        (on(&lab, &["--weights", "dely=2"]), &["`dely=2` is no weight"]),
        (on(&lab, &["--tdf", "soon"]), &["or write `auto`"]),
        (on(Path::new("/nowhere.yaml"), &[]), &["/nowhere.yaml", "--machines names the catalog"]),
    ] {
        let message = text(&out.stderr);
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{message}");
        parts.iter().for_each(|part| assert!(message.contains(part), "no {part} in\n{message}"));
    }
}

#[test]
fn emulabs_files_are_mapped_to_one_another() {
    let files = "crates/map/tests/files";
    let [top, ptop] = ["top", "ptop"].map(|end| format!("{files}/lab.{end}"));
    let out = diorama(&["map", &top, "--machines", &ptop]);
    assert_eq!(out.status.code(), Some(0), "{}{}", text(&out.stdout), text(&out.stderr));
    assert!(text(&out.stdout).starts_with("lab: 5 nodes on 4 machines; it fits"), "{}", text(&out.stdout));
    let out = diorama(&["map", &top, "--machines", &ptop, "--tdf", "2"]);
    assert_eq!(out.status.code(), Some(2));
}
