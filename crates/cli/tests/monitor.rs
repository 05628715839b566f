//! Use of machines by nodes, as every run writes it down: held against programs that use so much and no more.
//! Needs root, two cores and crun or runc, as every run does, and gcc.

use crate::support::Lab;
use record::{CheckName, NodeInterval, RunDir};

/// `half`: computes for 50 ms, sleeps for 50 ms, and so on; `eat`: has 50 MB from a second after its start on, and
/// prints when, as a date.
const USER: &str = r#"
int main(int argc, char **argv)
{
	if (!strcmp(argv[1], "half"))
		for (;;) {
			for (long long end = now() + 50000; now() < end;)
				for (volatile int i = 0; i < 1000; i++)
					;
			usleep(50000);
		}
	struct timespec t;
	FILE *log = fopen("/out/log", "w");
	usleep(1000000);
	char *all = malloc(50000000);
	memset(all, 1, 50000000);
	clock_gettime(CLOCK_REALTIME, &t);
	fprintf(log, "%lld.%06ld 50\n", (long long)t.tv_sec, t.tv_nsec / 1000);
	fclose(log);
	pause();
	return all[7];
}
"#;

const EXPERIMENT: &str = r#"
name: used
tdf: 5
machines:
  m: { speed: 0.4, memory: 128MiB }
  disk: { speed: 0.3, memory: 128MiB, disk: { like: nvme, size: 256MiB } }
nodes:
  half: { machine: m, run: /prog half, files: { /prog: prog } }
  eater: { machine: m, run: /prog eat, files: { /prog: prog } }
  writer:
    machine: disk
    run: [sh, -c, "sleep 1; dd if=/dev/zero of=/out/file bs=64k count=64 conv=fsync; sleep 9"]
links: [{ from: half, to: s, delay: 5ms }, { from: eater, to: s, delay: 5ms }, { from: writer, to: s, delay: 5ms }]
switches: [s]
traffic:
  flow: { from: half, to: eater, kind: cbr, interval: 10ms, packet: 1000B, packets: 100, start: 500ms }
metrics:
  eaten: { nodes: eater, rows: /out/log, start: 1, value: 2, unit: MB }
monitor: { every: 100ms }
events:
  - { at: 1.5s, node: half, do: pause, for: 500ms }
ends: { limit: 2.5s }
"#;

/// A row without its node.
type Row = NodeInterval<'static>;

fn rows(lab: &Lab, run: &str, node: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut take = |row: &NodeInterval| {
        if row.node == node {
            let NodeInterval { from_s, to_s, cpus, memory_bytes, reads, read_bytes, writes, written_bytes, .. } = *row;
            let NodeInterval { packets_in, bytes_in, packets_out, bytes_out, .. } = *row;
            let of_disk = NodeInterval { reads, read_bytes, writes, written_bytes, ..NodeInterval::default() };
            let of_network = NodeInterval { packets_in, bytes_in, packets_out, bytes_out, ..of_disk };
            rows.push(NodeInterval { from_s, to_s, cpus, memory_bytes, ..of_network });
        }
        Ok(())
    };
    RunDir::at(lab.path().join(run)).each_node_interval(&mut take).unwrap();
    rows
}

fn lab(yaml: &str) -> Lab {
    let lab = Lab::new(yaml);
    lab.compile(USER, "prog", &["-O1"]);
    lab
}

/// CPUs at work on average, in rows that lie within these virtual seconds.
fn cpus(rows: &[Row], [from, to]: [f64; 2]) -> f64 {
    let within: Vec<&Row> = rows.iter().filter(|row| row.from_s >= from && row.to_s <= to).collect();
    let lasted: f64 = within.iter().map(|row| row.to_s - row.from_s).sum();
    within.iter().map(|row| row.cpus.unwrap() * (row.to_s - row.from_s)).sum::<f64>() / lasted
}

/// The median of how long rows last, virtual s.
fn usual_length(rows: &[Row]) -> f64 {
    let mut lasted: Vec<f64> = rows.iter().map(|row| row.to_s - row.from_s).collect();
    lasted.sort_by(f64::total_cmp);
    lasted[lasted.len() / 2]
}

#[test]
fn what_programs_use_is_written_down_when_they_use_it() {
    let lab = lab(EXPERIMENT);
    let run = lab.diorama(&["run", "lab", "--out", "runs/used"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let [half, eater, writer] = ["half", "eater", "writer"].map(|node| rows(&lab, "runs/used", node));

    // Whole multiples of 100 ms, one after the other.
    assert!(half.len() > 15 && half.windows(2).all(|two| two[0].to_s == two[1].from_s), "{half:?}");
    let usual = usual_length(&half);
    assert!((usual - 0.1).abs() < 0.01, "{usual}");

    let computes = cpus(&half, [0.2, 1.4]);
    assert!((0.42..0.58).contains(&computes), "it computes half of the time: {computes}");
    assert!(cpus(&half, [1.6, 1.9]) < 0.05 && cpus(&eater, [1.5, 2.4]) < 0.05, "{half:?} {eater:?}");

    let eaten = RunDir::at(lab.path().join("runs/used")).samples("eaten").unwrap();
    let at = eaten[0].virtual_s.unwrap();
    let first = eater.iter().find(|row| row.memory_bytes.unwrap() > 50_000_000).unwrap();
    // By its own clock, which is near the run's, it has all of it at `at`, and most of it only a little before.
    assert!(first.to_s >= at - 0.1 && first.from_s <= at + 0.05, "all of it at {at}: {first:?}");
    assert!(eater[0].memory_bytes.unwrap() < 20_000_000, "{:?}", eater[0]);

    // 1000 B in UDP, IPv4 and Ethernet; beside them there is little, such as what IPv6 says of itself.
    let sum = |rows: &[Row], of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
    for bytes in [sum(&half, |row| row.bytes_out), sum(&eater, |row| row.bytes_in)] {
        assert!((104_200..108_000).contains(&bytes), "{bytes}");
    }
    assert!((100..130).contains(&sum(&half, |row| row.packets_out)) && sum(&writer, |row| row.bytes_in) < 4_000);
    let sending: Vec<&Row> = half.iter().filter(|row| row.from_s >= 0.55 && row.to_s <= 1.45).collect();
    assert!(sending.iter().all(|row| (5..=15).contains(&row.packets_out)), "{sending:?}");

    let written = sum(&writer, |row| row.written_bytes.unwrap());
    assert!((4 << 20..6 << 20).contains(&written), "{written}");
    let before: Vec<&Row> = writer.iter().filter(|row| row.to_s < 0.9).collect();
    assert!(before.iter().all(|row| row.written_bytes.unwrap() < 1 << 20), "{before:?}");
    assert!(half.iter().all(|row| row.reads.is_none()), "it has no disk");

    let result = RunDir::at(lab.path().join("runs/used")).result().unwrap();
    let check = result.fidelity.check(CheckName::Monitor).unwrap();
    assert!(check.ok == Some(true) && check.value.unwrap() > 0.0 && check.value.unwrap() < 5.0, "{check:?}");
    assert!(check.says.contains("every 0.1 virtual s"), "{}", check.says);
    let page = lab.read("runs/used/report.html");
    assert!(page.contains("Nodes over virtual time") && page.contains("s: pause half"));
}

#[test]
fn in_real_time_nodes_are_looked_at_too() {
    let lab = lab(EXPERIMENT);
    for variant in ["baseline", "naive"] {
        let out = format!("runs/{variant}");
        let set = ["--set", "machines.m.speed=0.25", "--set", "machines.disk.speed=0.2", "--set", "events=[]"];
        let run = lab.diorama(&[&["run", "lab", "--variant", variant, "--out", &out][..], &set].concat());
        assert_eq!(run.code, 0, "{variant}: {}{}", run.stdout, run.stderr);
        let [half, eater] = ["half", "eater"].map(|node| rows(&lab, &out, node));
        let computes = cpus(&half, [0.2, 2.4]);
        // In a pool nobody keeps it to its machine's speed.
        let expected = if variant == "naive" { 0.2..4.5 } else { 0.42..0.58 };
        assert!(expected.contains(&computes), "{variant}: {computes}");
        assert!(eater.last().unwrap().memory_bytes.unwrap() > 50_000_000, "{variant}");
        assert!(half.iter().map(|row| row.bytes_out).sum::<u64>() > 104_000, "{variant}");
    }
}

#[test]
fn a_virtual_millisecond_is_long_enough() {
    let yaml = EXPERIMENT.replace("tdf: 5", "tdf: 10").replace("every: 100ms", "every: 1ms");
    let lab = lab(&yaml);
    let run = lab.diorama(&["run", "lab", "--out", "runs/ms", "--set", "ends.limit=1.6s", "--set", "events=[]"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let half = rows(&lab, "runs/ms", "half");
    assert!(half.windows(2).all(|two| two[0].to_s == two[1].from_s));
    let usual = usual_length(&half);
    assert!((usual - 0.001).abs() < 0.0002, "{usual}");
    // Whoever else uses the harness core may keep it from some looks; the rows that are there leave no time out.
    assert!(half.len() > 1_000, "{}", half.len());
    let computes = cpus(&half, [0.2, 1.5]);
    assert!((0.42..0.58).contains(&computes), "{computes}");
    let result = RunDir::at(lab.path().join("runs/ms")).result().unwrap();
    let check = result.fidelity.check(CheckName::Monitor).unwrap();
    assert!(check.value.is_some(), "{check:?}");
    println!("{}", check.says);
}
