//! `diorama doctor --harness` and `diorama site` as users meet them: machines that are this one, by other ways.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const DIORAMA: &str = env!("CARGO_BIN_EXE_diorama");

fn doctor(dir: &tempfile::TempDir, machines: &str, more: &[&str]) -> Output {
    let file = dir.path().join("lab.yaml");
    std::fs::write(&file, format!("machines:\n{machines}")).unwrap();
    Command::new(DIORAMA).arg("doctor").args(more).arg("--harness").arg(file).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

/// A clock that is this machine's, one that is ahead by as many seconds as were asked for, and one that is slow.
#[test]
fn each_machine_has_a_column_and_its_clock_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let machines = format!(
        "  here: {{ command: [{DIORAMA}, site] }}
  ahead: {{ command: [unshare, --time, --fork, --kill-child, --monotonic, \"5000\", {DIORAMA}, site] }}
  slow: {{ command: [{DIORAMA}, site, --clock-drift, \"-100\"] }}\n"
    );
    let output = doctor(&dir, &machines, &["--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(output.status.code(), Some(0), "{all:#}");
    let names: Vec<_> = all.as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["here", "ahead", "slow"]);
    for (i, (offset, drift)) in [(Some(0.0), 0.0), (Some(5000.0), 0.0), (None, -100.0)].into_iter().enumerate() {
        let machine = &all[i];
        assert_eq!(machine["machine"]["processor"], "x86_64", "{machine:#}");
        assert_eq!(machine["machine"]["root"], true);
        let clock = &machine["between"]["clock"];
        if let Some(offset) = offset {
            let (found, within) = (number(clock, "/offset_s"), number(clock, "/offset_within_s"));
            assert!((found - offset).abs() <= within, "{found} s is not {offset} s within {within}");
            assert!(within < 0.001, "{clock}");
        }
        // Twice the standard error is told; three times that is not chance.
        let (found, within) = (number(clock, "/drift_ppm"), number(clock, "/drift_within_ppm"));
        assert!((found - drift).abs() <= 3.0 * within, "{found} ppm is not {drift} ppm within {within}");
        assert!(within < 20.0, "{clock}");
        assert_eq!(machine["between"]["jumps_s"].as_array().unwrap().len(), 0, "{machine:#}");
        let trip = &machine["between"]["round_trip_s"];
        assert!(number(trip, "/min") > 1e-6 && number(trip, "/min") <= number(trip, "/p50"), "{trip}");
        assert!(
            number(machine, "/between/bits_per_s/there") > 1e6 && number(machine, "/between/bits_per_s/back") > 1e6
        );
        let findings = machine["findings"].as_array().unwrap();
        assert!(findings.len() > 25, "{findings:#?}");
        let same = findings[0]["says"].as_str().unwrap().starts_with("the same machine as `here`");
        assert_eq!(same, i > 0, "{}", findings[0]);
    }
}

#[test]
fn what_is_wrong_with_each_machine_is_said() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody may not reach the build directory: a copy that everybody can run.
    let program = dir.path().join("diorama");
    std::fs::copy(DIORAMA, &program).unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let machines = format!(
        "  good: {{ command: [{DIORAMA}, site] }}\n  nobody: {{ command: [setpriv, --reuid=65534, --regid=65534, \
         --clear-groups, {}, site] }}\n  gone: {{ command: [sh, -c, \"echo no route to host >&2; exit 255\"] }}\n  \
         old: {{ command: [sh, -c, \"echo diorama-site 3 0.1.0; cat\"] }}\n  greets: {{ command: [sh, -c, \"echo \
         Welcome; cat\"] }}\n  none: {{ command: [no-such-program] }}\n  hangs: {{ command: [sleep, \"1000\"] }}\n  \
         silent: {{ command: [\"false\"] }}\n",
        program.display()
    );
    let output = doctor(&dir, &machines, &[]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{told}{}", text(&output.stderr));
    let head: Vec<&str> = told.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["good", "nobody", "gone", "old", "greets", "none", "hangs", "silent"]);
    let reached: Vec<&str> = told.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(reached, ["reached", "yes", "yes", "NO", "NO", "NO", "NO", "NO", "NO"]);
    for part in [
        "nobody: LACKING: rights, not root: no capability",
        "gone: `gone` cannot be reached: `sh` says `no route to host`",
        "old: `old`: the other side is Diorama 0.1.0 with version 3 of the interface, and this one ",
        "install one version of Diorama on all machines",
        "greets: `greets`: what answers there is no `diorama site`: it says `Welcome`",
        "none: `none` cannot be reached: `no-such-program` cannot be started here",
        "hangs: `hangs` did not answer within 15s",
        "silent: `silent` cannot be reached: `false` ended with code 1",
        "1 of 8 machines can run experiments.",
    ] {
        assert!(told.contains(part), "no {part} in\n{told}");
    }
}

#[test]
fn a_harness_file_that_is_wrong_is_refused_before_anybody_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let output = doctor(&dir, "  a: { cores: 2 }\n", &[]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("lab.yaml:2:3") && told.contains("there is no way to `a`"), "{told}");
}

#[test]
fn without_a_file_the_users_configuration_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let doctor = |config: &Path| {
        let mut command = Command::new(DIORAMA);
        command.args(["doctor", "--harness"]).env("XDG_CONFIG_HOME", config).output().unwrap()
    };
    let output = doctor(dir.path());
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("diorama/config.yaml") && told.contains("`harness: FILE`"), "{told}");
    let place: PathBuf = dir.path().join("diorama");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("config.yaml"), "harness: lab.yaml\n").unwrap();
    std::fs::write(place.join("lab.yaml"), "machines: { a: { ssh: \"a b\" } }\n").unwrap();
    let told = text(&doctor(dir.path()).stderr);
    assert!(told.contains("lab.yaml:1:") && told.contains("names no host for ssh"), "{told}");
}

/// Runs `diorama site` with this on its standard input.
fn site(input: &[u8]) -> Output {
    use std::io::Write;
    let mut command = Command::new(DIORAMA);
    command.arg("site").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_site_says_one_line_and_ends_with_its_stream() {
    let alone = site(b"");
    let line = text(&alone.stdout);
    assert!(line.starts_with("diorama-site ") && line.ends_with(")\n") && line.lines().count() == 1, "{line}");
    assert_eq!(alone.status.code(), Some(1), "{}", text(&alone.stderr));
    let greeted = site(&alone.stdout);
    assert_eq!((greeted.status.code(), text(&greeted.stdout)), (Some(0), line.clone()), "{}", text(&greeted.stderr));
    assert_eq!(text(&greeted.stderr), "");
    let other = site(b"diorama-site 3 0.1.0\n");
    assert_eq!((other.status.code(), text(&other.stdout)), (Some(3), line));
    assert!(text(&other.stderr).contains("Diorama 0.1.0 with version 3"), "{}", text(&other.stderr));
}

#[test]
fn a_site_is_not_for_people() {
    let shell = format!("{DIORAMA} site");
    let output = Command::new("script").args(["-qec", &shell, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("is started by a coordinator"), "{told}");
}
