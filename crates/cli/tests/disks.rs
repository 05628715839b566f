//! Runs whose nodes have disks.

use std::path::Path;

use crate::support::{Lab, PATIENCE, left_behind, wait_until};
use record::{CheckName, RunDir};
use rustix::process::{Pid, Signal, kill_process};

const EXPERIMENT: &str = r#"
name: disks
tdf: 4
machines:
  m: { speed: 0.6, memory: 256MiB, disk: { like: hdd-7200, size: 2GB } }
nodes:
  reader: { machine: m, run: python3 /srv/script.py, files: { /srv/script.py: script.py } }
metrics:
  reads: { nodes: reader, line: 'read=([\d.]+)', from: stdout, combine: mean, unit: ms }
ends: { exited: [reader], limit: 60s }
"#;

/// Reads at places far apart, past the page cache, and says how long a read took, in ms.
const SCRIPT: &str = r#"
import mmap, os, subprocess, time
file = os.open('/out/file', os.O_RDWR | os.O_CREAT)
for n in range(64): os.write(file, b'x' * (1 << 20))
os.fsync(file)
direct = os.open('/out/file', os.O_RDONLY | os.O_DIRECT)
page, took = mmap.mmap(-1, 4096), []
for n in range(40):
    begin = time.monotonic()
    os.preadv(direct, [page], (n * 37 % 64) << 20)
    took.append(time.monotonic() - begin)
    assert page[:4] == b'xxxx'
size = os.statvfs('/').f_blocks * os.statvfs('/').f_frsize
blocks = subprocess.check_output(['lsblk', '--bytes', '--noheadings', '--output', 'SIZE'], text=True).split()
print('lsblk=%s' % ','.join(blocks))
print('read=%.3f size=%d' % (1e3 * sum(took) / len(took), size), flush=True)
"#;

fn lab(more: &str) -> Lab {
    let lab = Lab::new(EXPERIMENT);
    std::fs::write(lab.path().join("lab/script.py"), format!("{SCRIPT}{more}")).unwrap();
    lab
}

/// The loop devices of this machine, whether they are in use or not.
fn all_loop_devices() -> Vec<String> {
    let names = std::fs::read_dir("/sys/block").unwrap().flatten().map(|d| d.file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("loop")).collect();
    names.sort();
    names
}

/// Block devices of runs: loop devices on files of theirs, and whatever is over ublk.
fn devices() -> Vec<String> {
    let names = std::fs::read_dir("/sys/block").unwrap().flatten().map(|d| d.file_name().into_string().unwrap());
    let backing = |name: &str| std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
    names.filter(|n| n.starts_with("ublkb") || backing(n).is_ok_and(|file| file.contains("/diorama/"))).collect()
}

/// Under which conditions the run in a directory began.
fn zero(dir: &RunDir) -> serde_json::Value {
    dir.events().unwrap().into_iter().find(|event| event.event == "zero").unwrap().detail
}

/// When the kernel writes back, in hundredths of a second: how old that is by then, and how often it looks.
fn writeback() -> [u64; 2] {
    ["expire", "writeback"].map(|name| {
        let text = std::fs::read_to_string(format!("/proc/sys/vm/dirty_{name}_centisecs")).unwrap();
        text.trim().parse().unwrap()
    })
}

/// After how many of its intervals the machine's DAMON pages out what is not used, if it does.
fn idle_memory() -> Option<u64> {
    let first = Path::new("/sys/kernel/mm/damon/admin/kdamonds/0");
    let text = |file: &str| std::fs::read_to_string(first.join(file)).unwrap_or_default().trim().to_owned();
    let pages_out = text("state") == "on" && text("contexts/0/schemes/0/action") == "pageout";
    pages_out.then(|| text("contexts/0/schemes/0/access_pattern/age/min").parse().unwrap())
}

#[test]
fn a_disk_takes_the_same_virtual_time_with_and_without_dilation() {
    let lab = lab("");
    let usually = writeback();
    let idle_memory = idle_memory();
    let mean = |variant: &str| {
        let done = lab.diorama(&["run", "lab", "--variant", variant]);
        assert_eq!(done.code, 0, "{}", done.stderr);
        let dir = RunDir::at(lab.path().join("runs/disks").join(variant));
        let zero = zero(&dir);
        let during = [0, 1].map(|n| zero["disks"]["host_settings"][n]["during_s"].as_f64().unwrap());
        let tdf = if variant == "baseline" { 1.0 } else { 4.0 };
        assert_eq!(during, usually.map(|centis| tdf * centis as f64 / 100.0), "the kernel writes back in virtual time");
        assert_eq!(writeback(), usually);
        let idle = &zero["idle_memory"];
        match (&idle["host_settings"][0], idle["because"].as_str()) {
            (serde_json::Value::Null, None) => assert!(tdf == 1.0 || idle_memory.is_none(), "{zero}"),
            (_, Some(because)) => assert!(["another run", "cannot "].iter().any(|w| because.contains(w)), "{because}"),
            (setting, None) => {
                assert_eq!(setting["during_s"].as_f64(), setting["before_s"].as_f64().map(|before| before * tdf));
            }
        }
        let result = dir.result().unwrap();
        let disk = result.fidelity.check(CheckName::Disk).unwrap();
        assert!(disk.value.is_some() && disk.says.contains("requests to disks"), "{}", disk.says);
        let seconds = dir.disks().unwrap();
        let sum = |of: fn(&record::DiskInterval) -> u64| seconds.iter().map(of).sum::<u64>();
        assert!(sum(|s| s.reads) >= 40 && sum(|s| s.written_bytes) >= 64 << 20 && sum(|s| s.flushes) >= 1);
        assert!(seconds.iter().all(|s| s.node == "reader" && s.utilisation <= 1.0), "{seconds:?}");
        let planned = dir.plan().unwrap().unwrap().nodes["reader"].disk.clone().unwrap();
        assert_eq!((planned.like.as_str(), planned.bytes), ("hdd-7200", 1_999_998_976));
        let said = lab.read(&format!("runs/disks/{variant}/nodes/reader/stdout.log"));
        assert!(said.contains("lsblk=1999998976\n"), "the node's disk is its only block device: {said}");
        let size = said;
        let size: u64 = size.trim().rsplit_once("size=").unwrap().1.parse().unwrap();
        assert!((1_500_000_000..2_000_000_000).contains(&size), "the node sees its own disk, not the host's: {size}");
        result.metrics["reads"].summary.mean
    };
    let (baseline, scaled) = (mean("baseline"), mean("scaled"));
    // Reads a few ms apart, with the seeks and turns of the model: neither the host's microseconds nor four times them.
    assert!(baseline > 1.0, "{baseline} ms");
    assert!((0.7..1.4).contains(&(scaled / baseline)), "{scaled} ms in place of {baseline} ms");
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
    assert_eq!(devices(), [] as [&str; 0]);
}

/// Reads at random, one at a time, over a file on a whole drive. By the clock that programs are given: of itself fio
/// reads the processor's counter, which goes on in real time.
const READS_OF_A_WHOLE_DRIVE: &str = r#"
name: disks
tdf: 4
machines:
  m: { speed: 0.6, memory: 256MiB, disk: { like: hdd-7200 } }
nodes:
  reader: { machine: m, run: sh /srv/reads.sh, files: { /srv/reads.sh: reads.sh } }
metrics:
  reads: { nodes: reader, line: 'mean=([\d.]+)', from: stdout, combine: mean, unit: ms }
  asked: { nodes: reader, line: 'asked=(\d+)', from: stdout, combine: mean, unit: "1" }
ends: { exited: [reader], limit: 60s }
"#;
const FIO: &str = r#"
set -e
dd if=/dev/zero of=/out/file bs=1M count=64 conv=fsync 2>/dev/null
fio --name=r --filename=/out/file --size=64m --rw=randread --bs=4k --direct=1 --ioengine=psync --norandommap \
  --number_ios=150 --clocksource=clock_gettime --output-format=json --output=/out/fio.json
python3 - <<'END'
import json
read = json.load(open('/out/fio.json'))['jobs'][0]['read']
print('mean=%.3f asked=%d' % (read['lat_ns']['mean'] / 1e6, read['total_ios']))
END
"#;

#[test]
fn a_whole_drive_has_the_programs_requests_and_no_others_and_each_takes_a_seek_and_half_a_turn() {
    let lab = Lab::new(READS_OF_A_WHOLE_DRIVE);
    std::fs::write(lab.path().join("lab/reads.sh"), FIO).unwrap();
    let mean = |variant: &str| {
        let done = lab.diorama(&["run", "lab", "--variant", variant]);
        assert_eq!(done.code, 0, "{}", done.stderr);
        let dir = RunDir::at(lab.path().join("runs/disks").join(variant));
        let of = |name: &str| dir.result().unwrap().metrics[name].summary.mean;
        let asked = of("asked") as u64;
        let taken: u64 = dir.disks().unwrap().iter().map(|second| second.reads).sum();
        // The file system reads what it has to know of the file and its directory.
        assert!(asked >= 150 && (asked..asked + 30).contains(&taken), "{taken} reads for {asked} of fio's");
        of("reads")
    };
    let (baseline, scaled) = (mean("baseline"), mean("scaled"));
    println!("{baseline} ms, scaled {scaled} ms");
    // The file takes up a few cylinders: 0.2 ms of overhead, 0.7 to 0.9 of seek, 4.2 for half a turn; a few are cached.
    for mean in [baseline, scaled] {
        assert!((3.7..6.0).contains(&mean), "{baseline} ms, scaled {scaled} ms");
    }
    assert!((0.8..1.25).contains(&(scaled / baseline)), "{scaled} ms in place of {baseline} ms");
}

#[test]
fn many_disks_need_devices_that_go_again() {
    // More than machines have without being asked.
    let before = all_loop_devices();
    let many = before.len() + 2;
    let node = "reader: { machine: m, run: python3 /srv/script.py, files: { /srv/script.py: script.py } }";
    let nodes =
        format!("reader: {{ count: {many}, machine: m, run: [sh, -c, 'echo read=1 > /out/x; sync; cat /out/x'] }}");
    let text = EXPERIMENT
        .replace(node, &nodes)
        .replace("reader]", "\"reader-*\"]")
        .replace("nodes: reader", "nodes: \"reader-*\"");
    // All of them together need three quarters of a core.
    let lab = Lab::new(&text.replace("speed: 0.6", &format!("speed: {:.4}", 3.0 / many as f64)));
    let done = lab.diorama(&["run", "lab"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let disks = RunDir::at(lab.path().join("runs/disks/scaled")).disks().unwrap();
    let written: std::collections::BTreeSet<_> = disks.iter().filter(|d| d.writes > 0).map(|d| &d.node).collect();
    assert_eq!(written.len(), many, "each has its own");
    assert_eq!(all_loop_devices(), before);
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn nothing_is_left_of_a_killed_run_with_disks() {
    let lab = lab("while True: os.pwrite(file, b'y' * 4096, 0); os.fsync(file)\n");
    let mut run = lab.start(&["run", "lab"]);
    lab.wait_for_event("disks/scaled", "zero");
    let log = lab.path().join("runs/disks/scaled/nodes/reader/stdout.log");
    wait_until("the disk to be busy", PATIENCE, || std::fs::read_to_string(&log).is_ok_and(|text| !text.is_empty()));
    assert_eq!(devices().len(), 1);
    let usually = writeback().map(|during| during / 4);
    let zero = zero(&RunDir::at(lab.path().join("runs/disks/scaled")));
    // Where a machine pages out, and lets that be changed.
    let idle_usually = zero["idle_memory"]["host_settings"].is_array().then(|| idle_memory().unwrap() / 4);
    let _ = kill_process(Pid::from_child(&run), Signal::KILL);
    run.wait().unwrap();
    wait_until("processes, mounts and block devices", PATIENCE, || {
        left_behind(false).is_empty() && devices().is_empty()
    });
    // The files go with the next command, whatever it is, and the kernel's settings are what they were.
    let next = lab.diorama(&["logs", "runs/disks/scaled"]);
    assert!(next.stderr.contains("vm.dirty_expire_centisecs was still"), "{}", next.stderr);
    assert_eq!(writeback(), usually);
    assert!(idle_usually.is_none() || idle_memory() == idle_usually, "{:?}, not {idle_usually:?}", idle_memory());
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn a_run_that_is_interrupted_takes_its_disks_along() {
    let lab = lab("while True: os.pwrite(file, b'y' * 4096, 0); os.fsync(file)\n");
    let mut run = lab.start(&["run", "lab"]);
    lab.wait_for_event("disks/scaled", "zero");
    let _ = kill_process(Pid::from_child(&run), Signal::INT);
    assert_eq!(run.wait().unwrap().code(), Some(130), "{}", lab.said());
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
    assert_eq!(devices(), [] as [&str; 0]);
}

/// Adds rows to a database, and says which it has added, and at first which it has found.
const ROWS: &str = r#"
import sqlite3
db = sqlite3.connect('/out/rows', isolation_level=None)
db.execute('pragma synchronous = extra')
db.execute('create table if not exists rows (n integer primary key)')
count, last = db.execute('select count(*), coalesce(max(n), 0) from rows').fetchone()
sound, = db.execute('pragma integrity_check').fetchone()
print('found', count, last, sound, flush=True)
while True:
    last += 1
    db.execute('insert into rows values (?)', (last,))
    print('added', last, flush=True)
"#;

#[test]
fn a_database_has_what_it_has_acknowledged_after_power_cuts() {
    let lab = lab("");
    std::fs::write(lab.path().join("lab/script.py"), ROWS).unwrap();
    let events = "events:\n  - { at: 2s, node: reader, do: power-off }\n  - { at: 3s, node: reader, do: power-on }\n  \
                  - { at: 5s, node: reader, do: power-off }\n  - { at: 5s, node: reader, do: power-on }\n";
    let metrics = EXPERIMENT.find("metrics:").unwrap();
    let text = format!("{}{events}ends: {{ limit: 6s }}\n", &EXPERIMENT[..metrics]).replace("tdf: 4", "tdf: 2");
    std::fs::write(lab.path().join("lab/experiment.yaml"), text).unwrap();
    let done = lab.diorama(&["run", "lab"]);
    let said = lab.read("runs/disks/scaled/nodes/reader/stdout.log");
    assert_eq!(done.code, 0, "{} {said}", done.stderr);
    let (mut added, mut boots) = (0_u64, 0);
    for line in said.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["added", n] => added = n.parse().unwrap(),
            ["found", count, last, sound] => {
                boots += 1;
                let last: u64 = last.parse().unwrap();
                assert!(last >= added && count == last.to_string() && sound == "ok", "{line} after {added}: {said}");
                assert!(boots == 1 || last > 0, "{said}");
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(boots, 3, "{said}");
    let events = lab.read("runs/disks/scaled/events.jsonl");
    assert_eq!(events.matches("\"power-off\"").count(), 2, "{events}");
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
    assert_eq!(devices(), [] as [&str; 0]);
}

#[test]
fn a_full_disk_has_no_room() {
    let lab = lab("");
    let script = "import time\nfor n in range(40):\n    time.sleep(0.1)\n    try: open('/out/%d' % n, 'w').write('x' * \
                  9000)\n    except OSError as e: print(e.strerror); break\n";
    std::fs::write(lab.path().join("lab/script.py"), script).unwrap();
    let metrics = EXPERIMENT.find("metrics:").unwrap();
    let events = "events: [{ at: 1s, node: reader, do: full-disk }]\nends: { exited: [reader], limit: 30s }\n";
    let text = format!("{}{events}", &EXPERIMENT[..metrics]);
    std::fs::write(lab.path().join("lab/experiment.yaml"), text.replace("tdf: 4", "tdf: 2")).unwrap();
    let done = lab.diorama(&["run", "lab"]);
    let said = lab.read("runs/disks/scaled/nodes/reader/stdout.log");
    assert_eq!(done.code, 0, "{} {said}", done.stderr);
    assert_eq!(said.trim(), "No space left on device");
}

#[test]
fn what_is_wrong_with_a_disk_is_said_at_its_place() {
    let lab = Lab::new(&EXPERIMENT.replace("hdd-7200", "hdd-7300"));
    std::fs::write(lab.path().join("lab/script.py"), SCRIPT).unwrap();
    let done = lab.diorama(&["check", "lab"]);
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("did you mean `hdd-7200`?"), "{}", done.stderr);
}

#[test]
fn a_disk_becomes_slow_and_fails_when_the_experiment_says_so() {
    // At other places than before, which the drive may remember.
    let more = r#"
def reads(n):
    took = []
    for n in range(n):
        begin = time.monotonic()
        os.preadv(direct, [page], ((n * 37 % 64) << 20) + (600 << 10))
        took.append(time.monotonic() - begin)
    return 1e3 * sum(took) / len(took)
while time.clock_gettime(time.CLOCK_MONOTONIC) - START < 3: time.sleep(0.05)
print('slow=%.3f' % reads(20), flush=True)
while time.clock_gettime(time.CLOCK_MONOTONIC) - START < 8: time.sleep(0.05)
try:
    reads(1)
except OSError as e:
    print('failed: %s' % e.strerror, flush=True)
"#;
    let lab = lab(more);
    let script = lab.read("lab/script.py").replacen(
        "import mmap, os, subprocess, time",
        "import mmap, os, subprocess, time\nSTART = time.monotonic()",
        1,
    );
    std::fs::write(lab.path().join("lab/script.py"), script).unwrap();
    let events =
        "events: [{ at: 2500ms, node: reader, do: slow-disk, factor: 8 }, { at: 7s, node: reader, do: fail-disk }]";
    std::fs::write(lab.path().join("lab/experiment.yaml"), EXPERIMENT.replace("ends:", &format!("{events}\nends:")))
        .unwrap();
    let done = lab.diorama(&["run", "lab", "--tdf", "2"]);
    let said = lab.read("runs/disks/scaled/nodes/reader/stdout.log");
    assert_eq!(done.code, 0, "{} {said}", done.stderr);
    let figure = |name: &str| {
        let text = said.split(name).nth(1).unwrap_or_else(|| panic!("no {name} in {said}"));
        text.split_whitespace().next().unwrap().parse::<f64>().unwrap()
    };
    let ratio = figure("slow=") / figure("read=");
    assert!((4.0..16.0).contains(&ratio), "{said}");
    assert!(said.contains("failed: Input/output error"), "{said}");
    let events = lab.read("runs/disks/scaled/events.jsonl");
    assert!(events.contains("\"slow-disk\"") && events.contains("\"fail-disk\""), "{events}");
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
    assert_eq!(devices(), [] as [&str; 0]);
}
