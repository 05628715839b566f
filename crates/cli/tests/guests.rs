//! Nodes that are whole machines: a tiny guest with Debian's kernel, in QEMU. What it takes is made by `scripts/guest`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{Lab, PATIENCE, left_behind, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// One guest, which gets most of the core, since it takes a guest long to boot, and leaves some to neighbours.
const ONE: &str = r#"
name: one
tdf: 2
machines:
  whole: { speed: 1.4, memory: 128MiB }
nodes:
  vm:
    machine: whole
    guest: { kernel: vmlinuz, initrd: initrd, cmdline: quiet }
    files: { /start: start }
ends: { exited: [vm], limit: 120s }
"#;

/// A kernel and an initial file system for guests with processors of this machine's kind; made once.
fn tiny() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let into = root.join("target/guests/x86_64");
    let made = Command::new(root.join("scripts/guest")).arg(&into).status().unwrap();
    assert!(made.success(), "a guest cannot be made: scripts/guest {}", into.display());
    into
}

/// A lab with such a guest, which runs `start` when it has booted.
fn lab(yaml: &str, start: &str) -> Lab {
    let from = tiny();
    let lab = Lab::new(yaml);
    let folder = lab.path().join("lab");
    for file in ["vmlinuz", "initrd"] {
        fs::copy(from.join(file), folder.join(file)).unwrap();
    }
    fs::write(folder.join("start"), start).unwrap();
    lab
}

/// The virtual time of the first event of this kind, s.
fn time_of(lab: &Lab, run: &str, event: &str, nth: usize) -> f64 {
    let events = lab.read(&format!("runs/{run}/events.jsonl"));
    let all: Vec<serde_json::Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found = all.iter().filter(|e| e["event"] == event).nth(nth);
    found.unwrap_or_else(|| panic!("no event {event} number {nth}: {events}"))["virtual_s"].as_f64().unwrap()
}

#[test]
fn a_guest_answers_over_its_link_and_its_seconds_are_virtual() {
    let yaml = r#"
name: web
tdf: 2
machines:
  whole: { speed: 1.3, memory: 128MiB }
  client: { speed: 0.12, memory: 64MiB }
nodes:
  vm:
    machine: whole
    guest: { kernel: vmlinuz, initrd: initrd, cmdline: quiet }
    files: { /start: start }
    ready: { tcp: 80 }
  client:
    machine: client
    after: [vm]
    run: [perl, -MIO::Socket::INET, -MTime::HiRes=time, -e, 'open L, ">/out/log"; for (1..10) { $t = time;
      $c = IO::Socket::INET->new("vm:80") or die "no server: $!"; $m = time; print $c "GET / HTTP/1.0\r\n\r\n";
      $all = join "", <$c>; $all =~ /a page/ or die $all; printf L "%.6f %.6f %.6f\n", $t, $m - $t, time - $m }']
links:
  - { from: client, to: vm, bandwidth: 10Mbit/s, delay: 20ms }
metrics:
  connect: { nodes: client, rows: /out/log, start: 1, value: 2, unit: s }
events:
  - { when: { node: vm, log: '^before' }, link: client--vm, set: { delay: 20ms } }
  - { when: { node: vm, log: '^after' }, link: client--vm, set: { delay: 20ms } }
ends: { exited: [client], limit: 120s }
"#;
    let start = "mkdir /www; echo a page >/www/index.html\n\
                 read a _ </proc/uptime; echo before; sleep 4; echo after; read b _ </proc/uptime\n\
                 echo slept $a $b; date -u +%s >/out/date; httpd -f -p 80 -h /www\n";
    let lab = lab(yaml, start);
    let done = lab.diorama(&["run", "lab"]);
    let console = fs::read_to_string(lab.path().join("runs/web/scaled/nodes/vm/stdout.log")).unwrap_or_default();
    assert_eq!(done.code, 0, "{}\n{console}", done.stderr);
    let slept: Vec<f64> = console
        .lines()
        .find_map(|line| line.strip_prefix("slept "))
        .unwrap_or_else(|| panic!("{console}"))
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    let [inside, outside] =
        [slept[1] - slept[0], time_of(&lab, "web/scaled", "link", 1) - time_of(&lab, "web/scaled", "link", 0)];
    assert!((3.99..4.3).contains(&inside), "by its own clock it slept for {inside} s");
    assert!((inside - outside).abs() < 0.2, "{inside} s by its clock, {outside} s by the run's");
    let connect = &lab.result("web/scaled").metrics["connect"].summary;
    assert_eq!(connect.n, 10);
    // Twice 20 ms and what the guest takes to answer.
    assert!((40.0..55.0).contains(&connect.p50), "{} ms to connect", connect.p50);
    assert_eq!(left_behind(true), Vec::<String>::new());
}

#[test]
fn a_guest_that_switches_itself_off_has_exited() {
    let lab = lab(ONE, "echo so long\n");
    let done = lab.diorama(&["run", "lab"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(lab.read("runs/one/scaled/nodes/vm/stdout.log").contains("so long"));
}

#[test]
fn a_guest_whose_kernel_gives_up_has_failed_and_its_reason_is_told() {
    let lab = lab(ONE, "echo c >/proc/sysrq-trigger\n");
    let done = lab.diorama(&["run", "lab"]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    let told = "the guest vm gave up: Kernel panic - not syncing: sysrq triggered crash";
    assert!(done.stderr.contains(told), "{}", done.stderr);
}

#[test]
fn a_guest_that_hangs_and_one_that_does_not_boot_are_shown_by_their_last_lines() {
    let lab = lab(ONE, "echo about to hang; while :; do sleep 1; done\n");
    let done = lab.diorama(&["run", "lab", "--set", "ends.limit=14s"]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("the last lines of vm's console:"), "{}", done.stderr);
    assert!(done.stderr.contains("about to hang"), "{}", done.stderr);

    fs::write(lab.path().join("lab/empty.raw"), vec![0; 1 << 20]).unwrap();
    let disk = "nodes.vm.guest={ disk: empty.raw }";
    let done = lab.diorama(&["run", "lab", "--set", disk, "--set", "ends.limit=6s"]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("No bootable device"), "{}", done.stderr);
}

#[test]
fn guests_of_two_processors_answer_alike() {
    let lab = Lab::new("");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/guests");
    let made = Command::new(folder.join("prepare")).status().unwrap();
    assert!(made.success(), "what the guests boot cannot be made: experiments/guests/prepare");
    let fewer = "nodes.client.run=python3 /srv/ask.py 5 amd arm";
    let done = lab.diorama(&["run", folder.to_str().unwrap(), "--tdf", "8", "--set", fewer]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let result = lab.result("guests/scaled");
    let [amd, arm] = ["amd", "arm"].map(|metric| &result.metrics[metric].summary);
    assert_eq!((amd.n, arm.n), (5, 5));
    // Two round trips of 20 ms, and 20 kB through 10 Mbit/s.
    assert!((57.0..90.0).contains(&amd.p50), "{} ms", amd.p50);
    assert!((arm.p50 / amd.p50 - 1.0).abs() < 0.2, "{} and {} ms", amd.p50, arm.p50);
    let console = lab.read("runs/guests/scaled/nodes/arm/stdout.log");
    assert!(console.contains("serving on aarch64 as arm"), "its name is that of the lease: {console}");
}

#[test]
fn a_guests_disk_is_modelled_and_keeps_what_was_flushed_when_the_power_goes() {
    let yaml = r#"
name: disk
tdf: 2
machines:
  whole: { speed: 1.4, memory: 128MiB, disk: { like: hdd-7200, size: 1GiB } }
nodes:
  vm:
    machine: whole
    guest: { kernel: vmlinuz, initrd: initrd, cmdline: quiet, disk: data.raw }
    files: { /start: start }
events:
  - { when: { node: vm, log: '^written' }, node: vm, do: power-off }
  - { when: { node: vm, log: '^written', after: 200ms }, node: vm, do: power-on }
ends: { exited: [vm], limit: 120s }
"#;
    let start = "if [ \"$(head -c 6 /dev/vda)\" = marked ]; then echo kept; exit; fi\n\
                 echo marked | dd of=/dev/vda conv=fsync 2>/dev/null; echo written; sleep 1000\n";
    let lab = lab(yaml, start);
    fs::write(lab.path().join("lab/data.raw"), vec![0; 8 << 20]).unwrap();
    let done = lab.diorama(&["run", "lab"]);
    let console = fs::read_to_string(lab.path().join("runs/disk/scaled/nodes/vm/stdout.log")).unwrap_or_default();
    assert_eq!(done.code, 0, "{}\n{console}", done.stderr);
    assert!(console.contains("written") && console.contains("kept"), "{console}");
    let disks = lab.read("runs/disk/scaled/disks.csv");
    let column = |name: &str| disks.lines().next().unwrap().split(',').position(|column| column == name).unwrap();
    let (writes, flushes) = (column("writes"), column("flushes"));
    let did = |column: usize| disks.lines().skip(1).any(|line| line.split(',').nth(column) != Some("0"));
    assert!(did(writes) && did(flushes), "what it flushed was written to the disk of the model: {disks}");
    assert_eq!(fs::read(lab.path().join("lab/data.raw")).unwrap(), vec![0; 8 << 20], "the image is as it was");
}

#[test]
fn what_is_no_guest_is_refused_by_its_place_in_the_file() {
    let lab = lab(ONE, "");
    let refused = |change: &str, told: &str| {
        let done = lab.diorama(&["check", "lab", "--set", change]);
        assert_eq!(done.code, 2, "{change}: {}", done.stderr);
        assert!(done.stderr.contains(told), "{change}: {}", done.stderr);
    };
    // A header of qcow2, version 3, that names a file with as many bytes as `/etc/shadow`.
    let mut image = vec![0; 1 << 10];
    image[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    image[8..16].copy_from_slice(&512u64.to_be_bytes());
    image[16..20].copy_from_slice(&11u32.to_be_bytes());
    image[512..523].copy_from_slice(b"/etc/shadow");
    fs::write(lab.path().join("lab/evil.qcow2"), image).unwrap();
    refused("nodes.vm.guest={ disk: evil.qcow2 }", "`evil.qcow2` names a backing file");
    refused("nodes.vm.guest={ disk: ../evil.qcow2 }", "leads out of the folder");
    refused("nodes.vm.guest={ kernel: /boot/vmlinuz }", "is an absolute path");
    refused("nodes.vm.guest={ kernel: vmlinux }", "cannot be used");
    refused("nodes.vm.guest={ kernel: vmlinuz, arch: sparc }", "sparc");
    refused("nodes.vm.run=true", "a guest is a machine and no program");
    refused("nodes.vm.ready={ run: true }", "programs of an experiment run in containers only");
    let done = lab.diorama(&["check", "lab"]);
    assert_eq!(done.code, 0, "{}", done.stderr);

    // Of a processor for which nothing is installed, it is said what to install.
    let others = [("aarch64", "qemu-system-arm"), ("riscv64", "qemu-system-misc")];
    for (arch, package) in others {
        let change = format!("nodes.vm.guest={{ kernel: vmlinuz, arch: {arch} }}");
        let done = lab.diorama(&["check", "lab", "--set", &change]);
        let there = Path::new("/usr/bin").join(format!("qemu-system-{arch}")).exists();
        assert_eq!(done.code, if there { 0 } else { 3 }, "{}", done.stderr);
        assert!(there || done.stderr.contains(&format!("apt-get install {package}")), "{}", done.stderr);
    }
}

#[test]
fn nothing_is_left_of_a_guest_whose_run_is_killed() {
    let lab = lab(ONE, "echo here I am; sleep 1000\n");
    let mut run = lab.start(&["run", "lab"]);
    let log = lab.path().join("runs/one/scaled/nodes/vm/stdout.log");
    wait_until("the guest to have booted", PATIENCE, || {
        assert!(run.try_wait().unwrap().is_none(), "{}", lab.said());
        fs::read_to_string(&log).is_ok_and(|text| text.contains("here I am"))
    });
    let told = lab.diorama(&["exec", "one", "vm", "--", "true"]);
    assert!(told.code == 2 && told.stderr.contains("vm is a guest"), "{}: {}", told.code, told.stderr);
    kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
    run.wait().unwrap();
    wait_until("nothing to be left", Duration::from_secs(20), || left_behind(false).is_empty());
    assert_eq!(lab.diorama(&["ps"]).code, 0);
    assert_eq!(left_behind(true), Vec::<String>::new());
}
