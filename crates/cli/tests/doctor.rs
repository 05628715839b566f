//! `diorama doctor` as scripts use it.

use std::process::Command;

#[test]
fn every_finding_has_its_parts_and_the_exit_code_follows_from_them() {
    let output = Command::new(env!("CARGO_BIN_EXE_diorama")).args(["doctor", "--json"]).output().unwrap();
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = findings.as_array().unwrap();
    assert!(findings.len() > 20, "{findings:#?}");
    for finding in findings {
        for part in ["name", "found", "state", "says"] {
            assert!(finding[part].as_str().is_some_and(|text| !text.is_empty()), "{part} of {finding}");
        }
    }
    let lacking: Vec<_> = findings.iter().filter(|f| f["state"] == "lacking").collect();
    assert_eq!(output.status.code(), Some(if lacking.is_empty() { 0 } else { 3 }), "{lacking:?}");
    assert!(lacking.is_empty(), "the tests of the other rooms need a machine that can run experiments: {lacking:?}");
}

#[test]
fn without_rights_it_names_them_and_ends_with_3() {
    // Nobody may not reach the build directory: a copy that everybody can run.
    let dir = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    let program = dir.path().join("diorama");
    std::fs::copy(env!("CARGO_BIN_EXE_diorama"), &program).unwrap();
    std::fs::set_permissions(dir.path(), mode(0o755)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .arg("doctor")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("LACKING   rights") && text.contains("SYS_ADMIN") && text.contains("sudo diorama"), "{text}");
}
