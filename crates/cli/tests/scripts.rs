//! ns scripts as the verbs take them. These tests need root, tclsh 8.6 and `unshare`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const DIORAMA: &str = env!("CARGO_BIN_EXE_diorama");

/// Two nodes of hardware that the built-in file has not, which want more than one core between them.
const SCRIPT: &str = "set ns [new Simulator]\nsource tb_compat.tcl\nset a [$ns node]\nset b [$ns node]\n\
                      set l [$ns duplex-link $a $b 10Mb 5ms DropTail]\ntb-set-hardware $a big\n\
                      tb-set-hardware $b big\ntb-set-cpu-usage 2\n$ns at 20.0 \"$ns swapout\"\n$ns run\n";
const MACHINES: &str = "machines: { big: { speed: 0.9, memory: 64MiB } }\n";

/// A folder with the script `two.ns`, and the file of machines beside it, if that is to be found.
fn folder(machines: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("two.ns"), SCRIPT).unwrap();
    fs::write(dir.path().join(machines), MACHINES).unwrap();
    dir
}

fn diorama(dir: &Path, args: &[&str]) -> Output {
    Command::new(DIORAMA).current_dir(dir).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn plan(dir: &Path, args: &[&str]) -> serde_json::Value {
    let out = diorama(dir, &[&["check", "--json", "--node-cores", "1"], args].concat());
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn a_script_gets_the_smallest_tdf_that_fits_unless_another_is_said() {
    let dir = folder("hardware.yaml");
    let tdf = plan(dir.path(), &["two.ns"])["tdf"].as_f64().unwrap();
    // 1.8 cores are wanted of one, of which somewhat less than all can be sold.
    assert!((1.8..3.0).contains(&tdf), "{tdf}");
    let less = format!("{:.2}", tdf * 0.97);
    let out = diorama(dir.path(), &["check", "--node-cores", "1", "--tdf", &less, "two.ns"]);
    assert_eq!(out.status.code(), Some(2), "{less} would have done, not {tdf}");
    assert_eq!(plan(dir.path(), &["two.ns", "--tdf", "7"])["tdf"], 7);
    assert_eq!(plan(dir.path(), &["two.ns", "--set", "tdf=8"])["tdf"], 8);
}

#[test]
fn what_convert_prints_can_be_checked_and_says_what_differs() {
    let dir = folder("mine.yaml");
    let out = diorama(dir.path(), &["convert", "two.ns", "--machines", "mine.yaml"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let (yaml, said) = (text(&out.stdout), text(&out.stderr));
    let comment = yaml.lines().find(|l| l.starts_with("#   two.ns:8: ")).expect("a comment of line 8");
    assert!(comment.contains("`tb-set-cpu-usage` is ignored"), "{yaml}");
    assert!(said.contains("two.ns:8: `tb-set-cpu-usage` is ignored"), "{said}");
    fs::write(dir.path().join("two.yaml"), &yaml).unwrap();
    let (of_script, of_yaml) = (["two.ns", "--machines", "mine.yaml", "--tdf", "5"], ["two.yaml", "--tdf", "5"]);
    // Shares depend on the host's usual speed, which may be measured anew in between.
    let pipes = |args: &[&str]| plan(dir.path(), args)["pipes"].take();
    let (of_script, of_yaml) = (pipes(&of_script), pipes(&of_yaml));
    assert!(of_script["l/ab"].is_object(), "{of_script}");
    assert_eq!(of_script, of_yaml);
    assert_eq!(diorama(dir.path(), &["convert", "two.yaml"]).status.code(), Some(2));
}

#[test]
fn what_is_wrong_with_a_script_is_2_with_its_line() {
    let dir = folder("mine.yaml");
    let path = dir.path();
    fs::write(path.join("wrong.ns"), SCRIPT.replace("$ns run", "$ns dance")).unwrap();
    fs::write(path.join("empty.yaml"), "machines: { pc: { speed: 0.1, memory: 1MiB, speeds: 2 } }\n").unwrap();
    for verb in ["check", "run", "convert"] {
        for (args, parts) in [
            (&["two.ns"][..], &["two.ns:6: ", "two.ns:7: ", "`big`", "mine.yaml"][..3]),
            (&["wrong.ns", "--machines", "mine.yaml"], &["wrong.ns:10: ", "dance"]),
            (&["two.ns", "--machines", "empty.yaml"], &["empty.yaml:1:", "speed"]),
            (&["two.ns", "--machines", "none.yaml"], &["none.yaml"]),
            (&["none.ns"], &["none.ns"]),
        ] {
            let out = diorama(path, &[&[verb], args].concat());
            let said = text(&out.stderr);
            assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{verb} {args:?}: {said}");
            assert!(parts.iter().all(|part| said.contains(part)), "{verb} {args:?}: {said}");
            assert!(!said.contains("while executing"), "{said}");
        }
    }
    assert!(!path.join("runs").exists());
}

#[test]
fn a_machine_without_tcl_is_told_which_package_has_it() {
    let dir = folder("hardware.yaml");
    // The shell is there already when all programs are hidden.
    let hide = "mount -t tmpfs none /usr/local/bin && mount -t tmpfs none /usr/bin && exec \"$0\" check two.ns";
    let out = Command::new("unshare").current_dir(dir.path()).args(["-m", "sh", "-c", hide, DIORAMA]).output().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("apt-get install tcl8.6"), "{said}");
}

#[test]
fn the_scripts_of_this_repository_can_be_checked() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/netbed");
    let scripts: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".ns"))
        .collect();
    assert!(scripts.len() >= 5, "{scripts:?}");
    for script in scripts {
        let out = diorama(&dir, &["check", &script]);
        assert_eq!(out.status.code(), Some(0), "{script}: {}", text(&out.stderr));
    }
}
