//! Runs that are suspended, and go on. Needs root, two cores and crun or runc, as every run does.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Lab, PATIENCE, left_behind, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// A node that counts its boots and notes its clock, one that has ended, and one that is put on a slow link.
const LONG: &str = r#"
name: long
tdf: 2
machines:
  m: { cpus: 1, speed: 0.2, memory: 64MiB }
nodes:
  counter:
    machine: m
    run:
      - perl
      - -MTime::HiRes=time,sleep
      - -e
      - |
        open B, ">>/var/boots"; print B "boot\n"; close B;
        open B, "/var/boots"; $b = () = <B>; utime undef, undef, "/var/boots" if $b == 1;
        while (1) {
          open L, ">>/out/log"; $t = time; printf L "%.6f $b %.6f\n", $t, $t - (stat "/var/boots")[9]; close L;
          sleep 0.02
        }
  short: { machine: m, run: "true" }
links:
  - { from: counter, to: short, delay: 1ms }
metrics:
  steps: { nodes: counter, rows: /out/log, start: 1, value: 2, unit: "1" }
events:
  - { at: 100ms, node: short, do: stop }
ends: never
"#;

fn live_exec(lab: &Lab, script: &str) -> String {
    let done = lab.diorama(&["exec", "long", "counter", "--", "sh", "-c", script]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    done.stdout
}

/// Until the counter has noted something after booting for the `boot`th time: it is ready before it does.
fn wait_for_steps(lab: &Lab, boot: u32) {
    let (what, wanted) = (format!("steps of boot {boot}"), format!(" {boot} "));
    wait_until(&what, PATIENCE, || live_exec(lab, "cat /out/log || true").contains(&wanted));
}

fn rows(text: &str) -> Vec<(f64, u32)> {
    let row = |line: &str| {
        let mut fields = line.split(' ');
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn a_run_goes_on_with_its_files_at_the_virtual_time_where_it_stopped() {
    let lab = Lab::new(LONG);
    let mut first = lab.start(&["run", "lab", "--out", "runs/a"]);
    lab.wait_for_event("a", "exit");
    wait_for_steps(&lab, 1);
    let done = lab.diorama(&["event", "long", "link: counter--short, set: { up: false }"]);
    assert_eq!(done.code, 0);
    let done = lab.diorama(&["swap", "out", "long"]);
    assert!(done.code == 0 && done.stdout.contains("suspended at"), "{}", done.stderr);
    assert_eq!(first.wait().unwrap().code(), Some(0), "{}", lab.said());
    assert!(!lab.said().contains("s left"), "{}", lab.said());
    let left = left_behind(true);
    assert!(left.len() == 1 && left[0].contains("swapped"), "{left:?}");
    let listed = lab.diorama(&["swap", "list"]).stdout;
    assert!(listed.contains("long: 2 nodes at TDF 2"), "{listed}");
    let id = listed.split(' ').next().unwrap().to_owned();

    let mut second = lab.start(&["swap", "in", &id, "--out", "runs/b"]);
    lab.wait_for_event("b", "all-ready");
    let events = lab.read("runs/b/events.jsonl");
    let wanted = ["\"event\":\"goes-on\"", "\"event\":\"link\"", "\"target\":\"counter--short\""];
    assert!(wanted.iter().all(|w| events.contains(w)), "{events}");
    // Nobody else can go on with it meanwhile, and who has ended has ended.
    let done = lab.diorama(&["swap", "in", "long"]);
    assert!(done.code == 3 && done.stderr.contains("already"), "{}", done.stderr);
    assert_eq!(events.matches("\"event\":\"start\"").count(), 1, "{events}");
    wait_for_steps(&lab, 2);
    let log = live_exec(&lab, "cat /out/log");
    let rows = rows(&log);
    let last = rows.iter().rposition(|(_, boot)| *boot == 1).expect("the first part's rows are there");
    // Virtual time went on from where it stopped: the gap is that of booting, not that of being suspended, and no clock
    // ever went back.
    assert!(rows.windows(2).all(|w| w[0].0 <= w[1].0), "{log}");
    let zero: serde_json::Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    let from = zero["virtual_s"].as_f64().unwrap();
    let (stopped, goes_on) = (rows[last].0 - rows[0].0, rows[last + 1].0 - rows[0].0);
    assert!(stopped <= from + 0.001 && from < goes_on + 0.5, "{stopped} {from} {goes_on}");
    // The date of a file that was written then is in its past, and near.
    let age: f64 = log.lines().last().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(age > 0.0 && age < 60.0, "{log}");

    // A run that goes on and is killed leaves the files as they are.
    kill_process(Pid::from_child(&second), Signal::KILL).unwrap();
    second.wait().unwrap();
    wait_until("nothing of the killed run", PATIENCE, || left_behind(false).is_empty());
    let listed = lab.diorama(&["swap", "list"]).stdout;
    assert!(listed.contains("cut off"), "{listed}");
    let mut third = lab.start(&["swap", "in", "long", "--out", "runs/c"]);
    lab.wait_for_event("c", "all-ready");
    assert!(lab.said().contains("was cut off"), "{}", lab.said());
    assert!(live_exec(&lab, "cat /var/boots").matches("boot").count() >= 2);
    // Ctrl-C is the regular end of what does not end by itself, and with it go the files.
    kill_process(Pid::from_child(&third), Signal::INT).unwrap();
    assert_eq!(third.wait().unwrap().code(), Some(0), "{}", lab.said());
    assert_eq!(left_behind(true), Vec::<String>::new());
    let done = lab.diorama(&["swap", "in", "long"]);
    assert!(done.code == 2 && done.stderr.contains("there is none"), "{}", done.stderr);
}

/// A node whose files are on a disk, and one that has no power.
const DISKS: &str = r#"
name: disks
tdf: 2
machines:
  m: { cpus: 1, speed: 0.3, memory: 128MiB, disk: { like: nvme, size: 64MiB } }
nodes:
  writer: { machine: m, run: [sh, -c, "echo boot >> /var/boots; while :; do sleep 1; done"] }
  dark: { machine: m, run: [sh, -c, "echo boot >> /var/boots; sync; while :; do sleep 1; done"] }
events:
  - { at: 300ms, node: dark, do: power-off }
  - { at: 1000s, node: dark, do: power-on }
ends: never
"#;

#[test]
fn what_is_on_disks_is_kept_too_and_a_node_without_power_has_none() {
    let lab = Lab::new(DISKS);
    let mut first = lab.start(&["run", "lab", "--out", "runs/a"]);
    lab.wait_for_event("a", "power-off");
    // In no hurry to reach the disk: a swap is the shutdown of a machine.
    let done = lab.diorama(&["exec", "disks", "writer", "--", "sh", "-c", "echo last > /out/word"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(lab.diorama(&["swap", "out", "disks"]).code, 0);
    assert_eq!(first.wait().unwrap().code(), Some(0), "{}", lab.said());
    let mut second = lab.start(&["swap", "in", "disks", "--out", "runs/b"]);
    lab.wait_for_event("b", "all-ready");
    let read = |node: &str, file: &str| lab.diorama(&["exec", "disks", node, "--", "cat", file]);
    assert_eq!(read("writer", "/out/word").stdout, "last\n");
    wait_until("the second boot", PATIENCE, || read("writer", "/var/boots").stdout == "boot\nboot\n");
    assert_eq!(read("dark", "/var/boots").code, 1, "it has no power");
    assert_eq!(lab.diorama(&["event", "disks", "node: dark, do: power-on"]).code, 0);
    wait_until("its second boot", PATIENCE, || read("dark", "/var/boots").stdout == "boot\nboot\n");
    kill_process(Pid::from_child(&second), Signal::INT).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(0), "{}", lab.said());
    assert_eq!(left_behind(true), Vec::<String>::new());
}

#[test]
fn a_run_in_which_nobody_does_anything_is_put_aside() {
    let lab = Lab::new(
        "name: asleep\ntdf: 1\nmachines: { m: { cpus: 1, speed: 0.3, memory: 64MiB } }\n\
         nodes: { one: { machine: m, run: [sleep, infinity] } }\nends: never\nidle: { after: 2s, then: swap-out }\n",
    );
    let done = lab.diorama(&["run", "lab"]);
    assert!(done.code == 0 && done.stdout.contains("suspended at"), "{}", done.stderr);
    assert!(done.stderr.contains("nobody has done anything for"), "{}", done.stderr);
    assert!(lab.read("runs/asleep/scaled/events.jsonl").contains("\"event\":\"idle\""));
    let done = lab.diorama(&["swap", "remove", "asleep"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(left_behind(true), Vec::<String>::new());
}

#[test]
fn a_full_disk_is_found_while_nothing_is_lost() {
    let lab = Lab::new(LONG);
    // Nobody else is to have no room: the run has a small file system of its own for what it keeps.
    let script = "mount -t tmpfs -o size=12m,mode=0700 small /var/lib/diorama && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, crate::support::DIORAMA, "run", "lab", "--out", "runs/a"]);
    let log = std::fs::File::create(lab.path().join("started.log")).unwrap();
    command.current_dir(lab.path()).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut run = command.spawn().unwrap();
    lab.wait_for_event("a", "exit");
    wait_for_steps(&lab, 1);
    let filled = live_exec(&lab, "cat /dev/zero > /var/fill; stat -c %s /var/fill");
    assert!(filled.trim().parse::<u64>().unwrap() > 1 << 20, "{filled}");
    let done = lab.diorama(&["swap", "out", "long"]);
    assert!(done.code != 0 && done.stderr.contains("No space left on device"), "{} {}", done.code, done.stderr);
    assert!(done.stderr.contains("/var/lib/diorama"), "{}", done.stderr);
    // It goes on, and can be suspended when there is room.
    let before = live_exec(&lab, "rm /var/fill; wc -l < /out/log");
    wait_until("it goes on", PATIENCE, || live_exec(&lab, "wc -l < /out/log") != before);
    let done = lab.diorama(&["swap", "out", "long"]);
    assert!(done.code == 0 && done.stdout.contains("suspended at"), "{}", done.stderr);
    assert_eq!(run.wait().unwrap().code(), Some(0), "{}", lab.said());
    assert_eq!(left_behind(true), Vec::<String>::new());
}

#[test]
fn a_run_that_is_killed_while_it_is_put_aside_is_there_whole_or_not_at_all() {
    let lab = Lab::new(LONG);
    for (round, delay_ms) in [0, 30, 120, 300].into_iter().enumerate() {
        let out = format!("runs/{round}");
        let mut run = lab.start(&["run", "lab", "--out", &out]);
        lab.wait_for_event(&round.to_string(), "exit");
        let mut command = lab.command(&["swap", "out", "long"]);
        let mut asked = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        let _ = kill_process(Pid::from_child(&run), Signal::KILL);
        run.wait().unwrap();
        let said = asked.wait().unwrap().code();
        wait_until("nothing of the killed run", PATIENCE, || left_behind(false).iter().all(|l| l.contains("swapped")));
        let listed = lab.diorama(&["swap", "list"]).stdout;
        // Who was told that it is suspended finds it so.
        assert!(said != Some(0) || listed.contains("long: 2 nodes"), "after {delay_ms} ms: {listed}");
        if listed.contains("long: 2 nodes") {
            let mut next = lab.start(&["swap", "in", "long", "--out", &format!("runs/{round}-on")]);
            lab.wait_for_event(&format!("{round}-on"), "all-ready");
            // The program has been started, and writes when it gets that far.
            wait_until("what the node writes", PATIENCE, || {
                live_exec(&lab, "cat /var/boots || true").matches("boot").count() >= 1
            });
            kill_process(Pid::from_child(&next), Signal::INT).unwrap();
            assert_eq!(next.wait().unwrap().code(), Some(0), "{}", lab.said());
        }
        assert_eq!(left_behind(true), Vec::<String>::new(), "after {delay_ms} ms");
    }
}

#[test]
fn what_is_damaged_is_set_apart_and_listed_until_somebody_removes_it() {
    let lab = Lab::new(LONG);
    let swapped = std::path::Path::new("/var/lib/diorama/swapped");
    let id = format!("{:x}-da3a6ed", std::process::id());
    let (dir, apart) = (swapped.join(&id), swapped.join(format!("{id}.damaged")));
    std::fs::create_dir_all(dir.join("nodes/a/upper")).unwrap();
    std::fs::write(dir.join("aside.json"), "{\"id\":").unwrap();
    let told = lab.diorama(&["swap", "in", &id]);
    assert_eq!(told.code, 2, "{}", told.stderr);
    assert!(told.stderr.contains("aside.json is not what was written"), "{}", told.stderr);
    assert!(apart.join("nodes/a/upper").exists() && !dir.exists(), "nothing of it is lost");
    let listed = lab.diorama(&["swap", "list"]).stdout;
    assert!(listed.contains(&format!("`diorama swap remove {id}.damaged`")), "{listed}");
    assert_eq!(lab.diorama(&["swap", "remove", &id]).code, 0, "by the name that it had, too");
    assert!(!apart.exists());
    // So a file that runs share.
    let file = format!("/var/lib/diorama/test-{id}.json.damaged");
    std::fs::write(&file, "{").unwrap();
    assert!(lab.diorama(&["swap", "list"]).stdout.contains(&format!("test-{id}.json.damaged  damaged")));
    assert_eq!(lab.diorama(&["swap", "remove", &format!("test-{id}.json.damaged")]).code, 0);
    assert!(!std::path::Path::new(&file).exists());
    // A damaged image is set apart and removed likewise.
    let image = format!("test-{id}");
    let dir = std::path::Path::new("/var/lib/diorama/images").join(&image);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("image.json"), "{\"name\":").unwrap();
    let listed = lab.diorama(&["image", "list"]).stderr;
    assert!(listed.contains(&format!("`diorama image remove {image}.damaged` removes it")), "{listed}");
    let apart = dir.with_extension("damaged");
    assert!(apart.exists() && !dir.exists());
    assert_eq!(lab.diorama(&["image", "remove", &image]).code, 0, "by the name that it had, too");
    assert!(!apart.exists());
}
