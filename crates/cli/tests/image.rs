//! Images of nodes' files: saved, listed, used by other experiments. Needs root, two cores and crun or runc, as every
//! run does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{DIORAMA, Lab, PATIENCE, left_behind, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// A node that has been set up by hand, as it were; one whose files are on a disk.
const MAKER: &str = r#"
name: maker
tdf: 2
machines:
  m: { speed: 0.2, memory: 64MiB }
  d: { speed: 0.2, memory: 128MiB, disk: { like: nvme, size: 64MiB } }
nodes:
  set-up: { machine: m, run: [sh, -c, "echo hello > /opt/greeting; rm /etc/profile; while :; do sleep 1; done"] }
  on-disk: { machine: d, run: [sh, -c, "echo from a disk > /opt/greeting; while :; do sleep 1; done"] }
ends: never
"#;

/// Nodes that say what they find, and change it.
fn user(root: &str) -> String {
    format!(
        r#"
name: user
tdf: 2
machines: {{ m: {{ speed: 0.1, memory: 64MiB }} }}
nodes:
  n:
    count: 3
    machine: m
    root: "{root}"
    run: [sh, -c, "cat /opt/greeting; ls /etc/profile; echo mine > /opt/greeting; echo all; while :; do sleep 1; done"]
ends: never
"#
    )
}

/// Images of this test, which are gone when it is.
struct Images<'a>(&'a Lab, Vec<String>);

impl Images<'_> {
    fn of<'a>(lab: &'a Lab, names: &[&str]) -> Images<'a> {
        let names: Vec<_> = names.iter().map(|name| format!("test-{}-{name}", std::process::id())).collect();
        Images(lab, names)
    }
}

impl Drop for Images<'_> {
    fn drop(&mut self) {
        for name in &self.1 {
            self.0.diorama(&["image", "remove", name]);
        }
    }
}

fn write(lab: &Lab, name: &str, yaml: &str) {
    fs::create_dir_all(lab.path().join(name)).unwrap();
    fs::write(lab.path().join(name).join("experiment.yaml"), yaml).unwrap();
}

fn stop(lab: &Lab, mut run: Child) {
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0), "{}", lab.said());
}

/// The text of a file of a run that may not have come that far.
fn so_far(lab: &Lab, path: &str) -> String {
    fs::read_to_string(lab.path().join(path)).unwrap_or_default()
}

fn home() -> PathBuf {
    Path::new("/var/lib/diorama/images").into()
}

fn parts() -> Vec<PathBuf> {
    let entries = fs::read_dir(home()).into_iter().flatten().flatten();
    entries.map(|e| e.path()).filter(|path| path.file_name().unwrap().to_string_lossy().starts_with('.')).collect()
}

#[test]
fn a_nodes_files_are_the_root_of_nodes_of_another_experiment() {
    let lab = Lab::new(MAKER);
    let images = Images::of(&lab, &["a", "disk", "derived", "suspended"]);
    let [a, disk, derived, suspended] = <&[String; 4]>::try_from(&images.1[..]).unwrap();
    let done = lab.diorama(&["image", "save", "maker", "set-up", a]);
    assert!(done.code == 2 && done.stderr.contains("no run is live"), "{}", done.stderr);
    let maker = lab.start(&["run", "lab", "--out", "runs/maker"]);
    lab.wait_for_event("maker", "all-ready");
    wait_until("the greeting", PATIENCE, || {
        let all = ["set-up", "on-disk"].map(|n| lab.diorama(&["exec", "maker", n, "--", "cat", "/opt/greeting"]).code);
        all == [0, 0]
    });

    for (wrong, words) in [("../x", "cannot be a name"), ("a/b", "cannot be a name"), ("", "cannot be a name")] {
        let done = lab.diorama(&["image", "save", "maker", "set-up", wrong]);
        assert!(done.code == 2 && done.stderr.contains(words), "{wrong}: {}", done.stderr);
    }
    let done = lab.diorama(&["image", "save", "maker", "nobody", a]);
    assert!(done.code == 2 && done.stderr.contains("set-up"), "{}", done.stderr);
    let done = lab.diorama(&["image", "save", "maker", "set-up", a]);
    assert!(done.code == 0 && done.stdout.contains(&format!("root: image:{a}")), "{}{}", done.stdout, done.stderr);
    let done = lab.diorama(&["image", "save", "maker", "set-up", a]);
    assert!(done.code == 2 && done.stderr.contains("already"), "{}", done.stderr);
    let done = lab.diorama(&["image", "save", "maker", "on-disk", disk]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(lab.diorama(&["swap", "out", "maker"]).code, 0);
    let _ = { maker }.wait();
    // The run that was suspended has the files still.
    let done = lab.diorama(&["image", "save", "maker", "set-up", suspended]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let done = lab.diorama(&["image", "save", "maker", "on-disk", derived]);
    assert!(done.code == 2 && done.stderr.contains("swap in"), "{}", done.stderr);
    let listed = lab.diorama(&["swap", "list"]).stdout;
    assert_eq!(lab.diorama(&["swap", "remove", listed.split(' ').next().unwrap()]).code, 0);
    // A run that has ended has none.
    let done = lab.diorama(&["image", "save", "runs/maker", "set-up", derived]);
    assert!(done.code == 2 && done.stderr.contains("has ended"), "{}", done.stderr);

    write(&lab, "user", &user(&format!("image:{a}")));
    let using = lab.start(&["run", "user", "--out", "runs/user"]);
    let log = |node: &str| so_far(&lab, &format!("runs/user/nodes/{node}/stdout.log"));
    for node in ["n-1", "n-2", "n-3"] {
        wait_until("what the node finds", PATIENCE, || log(node).contains("all\n"));
        assert!(log(node).contains("hello"), "{}", log(node));
    }
    assert!(
        ["n-1", "n-2", "n-3"].iter().all(|node| !log(node).contains("mine") && !log(node).contains("/etc/profile"))
    );
    let listed = lab.diorama(&["image", "list"]).stdout;
    let line = listed.lines().find(|line| line.starts_with(a.as_str())).unwrap();
    assert!(line.contains("set-up of maker/scaled") && line.contains("user/scaled"), "{listed}");
    let done = lab.diorama(&["image", "remove", a]);
    assert!(done.code == 3 && done.stderr.contains("user/scaled"), "{}", done.stderr);
    // An image of a node that has one as its root holds both.
    wait_until("a node's own", PATIENCE, || {
        lab.diorama(&["exec", "user", "n-2", "--", "cat", "/opt/greeting"]).stdout == "mine\n"
    });
    assert_eq!(lab.diorama(&["image", "save", "user", "n-2", derived]).code, 0);
    stop(&lab, using);
    assert_eq!(lab.diorama(&["image", "remove", a]).code, 0);
    for (name, said) in [(derived, "mine"), (disk, "from a disk"), (suspended, "hello")] {
        let set = format!("nodes.n.root=image:{name}");
        let out = format!("runs/{name}");
        let using = lab.start(&["run", "user", "--set", &set, "--out", &out]);
        let log = || so_far(&lab, &format!("{out}/nodes/n-1/stdout.log"));
        wait_until("what the node finds", PATIENCE, || log().contains("all\n"));
        assert!(log().contains(said), "{}", log());
        assert_eq!(log().contains("/etc/profile"), name == disk, "{}", log());
        stop(&lab, using);
    }
    let done = lab.diorama(&["check", "user"]);
    let place = "experiment.yaml:6: ";
    assert!(done.code == 2 && done.stderr.contains(place) && done.stderr.contains("no image"), "{}", done.stderr);
    drop(images);
    assert_eq!(left_behind(true).iter().filter(|left| !left.contains("images")).count(), 0);
}

#[test]
fn a_save_that_is_killed_or_finds_no_room_leaves_nothing() {
    let lab = Lab::new(MAKER);
    let images = Images::of(&lab, &["cut", "full"]);
    let [cut, full] = <&[String; 2]>::try_from(&images.1[..]).unwrap();
    let run = lab.start(&["run", "lab", "--out", "runs/maker"]);
    lab.wait_for_event("maker", "all-ready");
    let script = "head -c 40000000 /dev/urandom > /opt/large";
    assert_eq!(lab.diorama(&["exec", "maker", "set-up", "--", "sh", "-c", script]).code, 0);

    let mut saving = lab.command(&["image", "save", "maker", "set-up", cut]).stderr(Stdio::null()).spawn().unwrap();
    wait_until("half an image", PATIENCE, || {
        parts().iter().any(|dir| fs::metadata(dir.join("oci/layer.part")).is_ok_and(|part| part.len() > 0))
    });
    saving.kill().unwrap();
    saving.wait().unwrap();
    wait_until("the run has given it up", PATIENCE, || parts().is_empty());
    let listed = lab.diorama(&["image", "list"]).stdout;
    assert!(!listed.contains(cut.as_str()), "{listed}");
    stop(&lab, run);

    // Of a run in a mount namespace of its own, where the images lie on a file system that is small.
    let mount = format!("mount -t tmpfs -o size=1m,mode=0700 tmpfs {}", home().display());
    let script = format!("{mount} && exec {DIORAMA} run lab --out runs/small");
    let mut small = Command::new("unshare");
    let log = fs::File::create(lab.path().join("started.log")).unwrap();
    let run = small.args(["-m", "sh", "-c", &script]).current_dir(lab.path()).stderr(log).spawn().unwrap();
    lab.wait_for_event("small", "all-ready");
    let script = "head -c 4000000 /dev/urandom > /opt/large";
    assert_eq!(lab.diorama(&["exec", "maker", "set-up", "--", "sh", "-c", script]).code, 0);
    let done = lab.diorama(&["image", "save", "maker", "set-up", full]);
    assert_eq!(done.code, 3, "{}", done.stderr);
    assert!(done.stderr.contains("No space left") && done.stderr.contains("df -h"), "{}", done.stderr);
    let there = fs::read_dir(format!("/proc/{}/root{}", run.id(), home().display())).unwrap();
    let there: Vec<_> = there.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, ["lock"], "nothing is left of it");
    stop(&lab, run);
}
