//! Memory for what others wrote: every file that a verb reads, at its worst, each in a process of its own.
//!
//! Files that nodes leave and messages of other machines are tested beside their readers: `crates/run/src/samples.rs`,
//! `crates/site/src/wire.rs`; layers of images in `crates/node/tests/image.rs`, queues in `crates/queue/tests`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::support::DIORAMA;

/// The most that any of them takes beside what the program has before it reads anything, in KiB: that is 8 MiB as it is
/// released, so that all is within 64, and more as it is built for tests.
const MOST: i64 = 56 << 10;
/// Has this test, started again, prepare the files of a case: this process stays small, for what it has itself counts
/// as what its children had.
const CASE: &str = "DIORAMA_CASE";
/// A file that is longer than any reader takes.
const LONG: u64 = 100 << 20;

/// How a command has ended, and what it took.
struct Ended {
    status: ExitStatus,
    says: String,
    kib: i64,
    cpu: Duration,
}

/// Runs `diorama`, which a signal may meet after a while.
#[allow(clippy::zombie_processes, reason = "wait4 waits for it, and says what it used")]
fn diorama(dir: &Path, args: &[&str], signal: Option<(i32, Duration)>) -> Ended {
    let said = dir.join("said");
    let (out, err) = (File::create(&said).unwrap(), File::options().append(true).open(&said).unwrap());
    let mut command = Command::new(DIORAMA);
    let child = command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
    let pid = child.id() as libc::pid_t;
    if let Some((signal, after)) = signal {
        std::thread::sleep(after);
        // SAFETY: no memory is handed over; the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(pid, signal) };
    }
    let mut status = 0;
    // SAFETY: plain numbers, for which zeros are valid.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places live until it returns.
    assert_eq!(unsafe { libc::wait4(pid, &mut status, 0, &mut used) }, pid);
    let time = |t: libc::timeval| Duration::from_micros(t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64);
    let says = String::from_utf8_lossy(&fs::read(&said).unwrap()).chars().take(4000).collect();
    let status = ExitStatus::from_raw(status);
    Ended { status, says, kib: used.ru_maxrss, cpu: time(used.ru_utime) + time(used.ru_stime) }
}

/// The files of a case.
struct Files<'a>(&'a Path);

impl Files<'_> {
    fn write(&self, name: &str, parts: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
        parts.into_iter().for_each(|part| file.write_all(part.as_ref()).unwrap());
    }

    /// A file that begins with a text and has holes up to a length of 100 MB.
    fn long(&self, name: &str, text: &str) {
        self.write(name, [text]);
        File::options().write(true).open(self.0.join(name)).unwrap().set_len(LONG).unwrap();
    }

    /// A run of one metric, of so many samples.
    fn run(&self, name: &str, samples: usize) {
        let metric =
            format!(r#""m":{{"unit":"s","n":{samples},"mean":1,"p50":1,"p90":1,"p99":1,"file":"metrics/m.csv"}}"#);
        self.write(&format!("{name}/result.json"), [result(&metric, "", "")]);
        let rows = std::iter::repeat_n("1,1,a\n", samples);
        self.write(&format!("{name}/metrics/m.csv"), std::iter::once("virtual_s,value,node\n").chain(rows));
    }
}

/// A result of these metrics, nodes and checks.
fn result(metrics: &str, nodes: &str, checks: &str) -> String {
    format!(
        r#"{{"experiment":"x","variant":"scaled","tdf":10,"scaling_factor":1,"status":"ok","why":null,
"virtual_seconds":10,"real_seconds":100,"metrics":{{{metrics}}},"nodes":{{{nodes}}},
"fidelity":{{"verdict":"trustworthy","checks":[{checks}]}}}}"#
    )
}

/// An experiment of one node with these further lines.
fn experiment(more: &str) -> String {
    format!("name: x\ntdf: 2\nmachines: {{ m: {{ speed: 0.1, memory: 1MiB }} }}\nends: {{ limit: 9s }}\n{more}")
}

/// Lists of ten aliases of lists of ten aliases …, `levels` of them.
fn aliases(levels: usize) -> String {
    let first = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    (1..=levels).fold(first, |text, n| {
        let refs = vec![format!("*a{}", n - 1); 10].join(",");
        text + &format!("a{n}: &a{n} [{refs}]\n")
    })
}

/// Texts with commas between them, as many as fill so many bytes.
fn filled(bytes: usize, item: impl Fn(usize) -> String) -> String {
    let (mut text, mut number) = (String::new(), 0);
    while text.len() < bytes {
        if number > 0 {
            text.push(',');
        }
        text += &item(number);
        number += 1;
    }
    text
}

/// Preparation, the words behind `diorama`, the exit code, and a part of what is said.
type Case = (&'static str, fn(&Files<'_>), &'static [&'static str], i32, &'static str);

const EXPERIMENT: &[&str] = &["check", "a.yaml"];
const COMPOSE: &[&str] = &["convert", "compose.yaml"];
const SCRIPT: &[&str] = &["convert", "a.ns"];
const COMPARE: &[&str] = &["compare", "r", "s"];
const DRAWN: &[&str] = &["compare", "r", "s", "--html", "page.html"];
const PTOP: &[&str] = &["map", "a.top", "--machines", "a.ptop"];
const CATALOG: &[&str] = &["map", "a.top", "--machines", "a.yaml"];

const CASES: &[Case] = &[
    ("an experiment of 100 MB", |f| f.long("a.yaml", "name: x\n"), EXPERIMENT, 2, "longer than 1024 KiB"),
    ("brackets", |f| f.write("a.yaml", ["a: ", &"[".repeat(1_000_000)]), EXPERIMENT, 2, "recursion limit"),
    (
        "lines that are each deeper",
        |f| f.write("a.yaml", (0..1400).map(|n| " ".repeat(n) + "a:\n")),
        EXPERIMENT,
        2,
        "deep",
    ),
    ("aliases of aliases", |f| f.write("a.yaml", [aliases(20)]), EXPERIMENT, 2, "240000 values"),
    ("aliases within the bound", |f| f.write("a.yaml", [aliases(3), "b: [*a3,*a3,*a3]\n".into()]), EXPERIMENT, 2, "a0"),
    ("values", |f| f.write("a.yaml", ["a: [", &"x,".repeat(239_000), "]"]), EXPERIMENT, 2, "`a`"),
    ("keys", |f| f.write("a.yaml", (0..60_000).map(|n| format!("{n:x}:\n"))), EXPERIMENT, 2, "`0`"),
    (
        "a long text by aliases",
        |f| f.write("a.yaml", ["a: &x \"", &"y".repeat(900_000), "\"\nb: [", &"*x,".repeat(6), "]"]),
        EXPERIMENT,
        2,
        "`a`",
    ),
    (
        "a program of 900 KB for many",
        |f| {
            let node = format!("nodes: {{ a: {{ machine: m, count: 10000, run: \"{}\" }} }}\n", "y".repeat(900_000));
            f.write("a.yaml", [experiment(&node)]);
        },
        EXPERIMENT,
        2,
        "MiB",
    ),
    (
        "a program of 1500 bytes for 10,000",
        |f| {
            let node = format!("nodes: {{ a: {{ machine: m, count: 10000, run: \"{}\" }} }}\n", "y".repeat(1500));
            f.write("a.yaml", [experiment(&node)]);
        },
        EXPERIMENT,
        2,
        "",
    ),
    (
        "metrics with an expression of 1 MiB each",
        |f| {
            let pattern = "a".repeat(900_000);
            let metric = |n| {
                format!(
                    "x{n}: {{ nodes: a, line: {}, from: stdout, combine: sum, unit: s }}",
                    if n == 0 { format!("&p \"({pattern})\"") } else { "*p".into() }
                )
            };
            f.write(
                "a.yaml",
                [experiment("nodes: { a: { machine: m, run: x } }\nmetrics: {"), filled(90_000, metric), "}".into()],
            );
        },
        EXPERIMENT,
        2,
        "",
    ),
    (
        "metrics with large expressions",
        |f| {
            let line = |n| {
                if n < 30 { format!("(a{{1,{}}}b{{1,50}}){n}", 200 + n) } else { format!("([a-z]{{1,{}}})", 100 + n) }
            };
            let metric = |n| format!("x{n}: {{ nodes: a, line: '{}', from: stdout, combine: sum, unit: s }}", line(n));
            let metrics: Vec<String> = (0..250).map(metric).collect();
            let text = experiment("nodes: { a: { machine: m, run: x } }\nmetrics: { ") + &metrics.join(", ") + " }\n";
            f.write("a.yaml", [text]);
        },
        EXPERIMENT,
        0,
        "",
    ),
    ("a Compose file of 100 MB", |f| f.long("compose.yaml", "services:\n"), COMPOSE, 2, "longer than 1024 KiB"),
    (
        "brackets of Compose",
        |f| f.write("compose.yaml", ["a: ", &"[".repeat(1_000_000)]),
        COMPOSE,
        2,
        "recursion limit",
    ),
    ("aliases of aliases of Compose", |f| f.write("compose.yaml", [aliases(20)]), COMPOSE, 2, "100000 values"),
    (
        "200 files of aliases",
        |f| {
            for n in 0..190 {
                f.write(&format!("c{n}.yaml"), [aliases(3), "services: { a: { image: x } }\n".into()]);
            }
            let list: Vec<String> = (0..190).map(|n| format!("c{n}.yaml")).collect();
            f.write("compose.yaml", ["include: [", &list.join(", "), "]\n"]);
        },
        COMPOSE,
        2,
        "200000 values",
    ),
    (
        "1,000 services that extend a large one",
        |f| {
            let command = "x,".repeat(20_000);
            f.write(
                "compose.yaml",
                [format!("services:\n  a: {{ image: x, command: [{command}] }}\n")]
                    .into_iter()
                    .chain((0..1000).map(|n| format!("  b{n}: {{ extends: a }}\n"))),
            );
        },
        COMPOSE,
        2,
        "200000 values",
    ),
    (
        "1,000 services with settings of 1 MB",
        |f| {
            f.write("big.env", ["A=", &"y".repeat(1_000_000), "\n"]);
            f.write(
                "compose.yaml",
                std::iter::once("services:\n".to_owned())
                    .chain((0..1000).map(|n| format!("  b{n}: {{ image: x, env_file: big.env }}\n"))),
            );
        },
        COMPOSE,
        2,
        "12 MiB of text",
    ),
    ("a script of 100 MB", |f| f.long("a.ns", "set a 1\n"), SCRIPT, 2, "4 MiB"),
    (
        "a script that makes nodes",
        |f| f.write("a.ns", ["set ns [new Simulator]\nfor {set i 0} {$i < 20000} {incr i} { $ns node }\n$ns run\n"]),
        SCRIPT,
        2,
        "after 10000 others",
    ),
    ("a catalogue of 100 MB", |f| f.long("a.ptop", "node a pc:1\n"), PTOP, 2, "8192 KiB"),
    (
        "a node of very many types",
        |f| f.write("a.ptop", ["node a pc:1", &" p:1".repeat(2_000_000), "\n"]),
        PTOP,
        2,
        "300000 words",
    ),
    ("very many nodes", |f| f.write("a.ptop", (0..20_000).map(|n| format!("node n{n} pc:1\n"))), PTOP, 2, "10000"),
    (
        "very many links",
        |f| {
            let links = (0..40_000).map(|n| format!("link l{n} a b 1 0 0\n"));
            f.write("a.ptop", ["node a pc:1\nnode b pc:1\n".to_owned()].into_iter().chain(links));
        },
        PTOP,
        0,
        "",
    ),
    ("a catalogue of values", |f| f.write("a.yaml", ["a: [", &"x,".repeat(239_000), "]"]), CATALOG, 2, "`a`"),
    ("a catalogue of text", |f| f.write("a.yaml", ["a: \"", &"y".repeat(8_000_000), "\""]), CATALOG, 2, "`a`"),
    ("a result of 100 MB", |f| f.long("r/result.json", "{"), COMPARE, 2, "longer than 8 MiB"),
    (
        "a damaged result",
        |f| f.write("r/result.json", [&result("", "", "")[..200]]),
        COMPARE,
        2,
        "not the result of a run",
    ),
    (
        "a result of nodes",
        |f| {
            let nodes = filled(4 << 20, |n| format!(r#""{n:x}":{{"exit":0,"ended":"exited"}}"#));
            f.write("r/result.json", [result("", &nodes, "")]);
        },
        COMPARE,
        2,
        "s has a metric",
    ),
    (
        "a result of checks",
        |f| {
            let check = |_| r#"{"name":"disk","value":null,"limit":null,"unit":"","ok":null,"says":""}"#.into();
            f.write("r/result.json", [result("", "", &filled(7 << 20, check))]);
        },
        COMPARE,
        2,
        "s has a metric",
    ),
    (
        "samples that no run counts",
        |f| {
            f.run("r", 3);
            f.write(
                "r/metrics/m.csv",
                std::iter::once("virtual_s,value,node\n").chain(std::iter::repeat_n("1,1,a\n", 17_000_000)),
            );
        },
        COMPARE,
        2,
        "more than 3 samples",
    ),
    (
        "a result of very many samples",
        |f| {
            f.run("r", 3);
            let text = fs::read_to_string(f.0.join("r/result.json")).unwrap();
            f.write("r/result.json", [text.replace(r#""n":3"#, r#""n":2000000"#)]);
        },
        COMPARE,
        2,
        "the most",
    ),
    (
        "a row of 100 MB",
        |f| {
            f.run("r", 3);
            f.long("r/metrics/m.csv", "virtual_s,value,node\n1,1,a");
        },
        COMPARE,
        2,
        "longer than 64 KiB",
    ),
    (
        "a cell of 100 MB between quotes",
        |f| {
            f.run("r", 3);
            f.write(
                "r/metrics/m.csv",
                std::iter::once("virtual_s,value,node\n1,1,\"").chain(std::iter::repeat_n("y\n", 50_000_000)),
            );
        },
        COMPARE,
        2,
        "m.csv",
    ),
    ("as many samples as are read", |f| f.run("r", 1 << 18), DRAWN, 0, ""),
    (
        "system calls of 100 MB",
        |f| {
            f.run("r", 3);
            f.write("r/result.json", [result("", r#""a":{"exit":0,"ended":"exited"}"#, "")]);
            f.long("r/nodes/a/calls.json", "{");
        },
        COMPARE,
        2,
        "system calls are longer than 10 MiB",
    ),
    (
        "system calls of another version",
        |f| {
            f.write("r/result.json", [result("", r#""a":{"exit":0,"ended":"exited"}"#, "")]);
            f.write("r/nodes/a/calls.json", [r#"{"version":9,"intervals_ns":[],"programs":[],"uncounted":0}"#]);
        },
        COMPARE,
        2,
        "version 9",
    ),
    (
        "system calls of one node",
        |f| {
            f.write("r/result.json", [result("", r#""a":{"exit":0,"ended":"exited"}"#, "")]);
            let step = |n| format!(r#"{{"from":"{n:x}","to":"","counts":[1,1,1,1,1,1,1,1]}}"#);
            let program = format!(
                r#"{{"program":"a","calls":[],"steps":[{}],"voluntary_switches":0,"involuntary_switches":0,
                "page_faults":0,"cpu_real_ns":0,"image_calls":0,"image_real_ns":0}}"#,
                filled(9 << 20, step)
            );
            f.write(
                "r/nodes/a/calls.json",
                [format!(r#"{{"version":1,"intervals_ns":[],"programs":[{program}],"uncounted":0}}"#)],
            );
        },
        COMPARE,
        2,
        "s has a metric",
    ),
    (
        "events",
        |f| {
            f.run("r", 3);
            let event = |n| {
                format!("{{\"virtual_s\":{n},\"real_s\":1,\"event\":\"kill\",\"target\":\"{}\"}}\n", "y".repeat(9000))
            };
            f.write("r/events.jsonl", (0..500).map(event));
        },
        DRAWN,
        0,
        "",
    ),
    (
        "an event of 1 MiB of values",
        |f| {
            f.run("r", 3);
            f.write("r/events.jsonl", ["{\"real_s\":1,\"event\":\"a\",\"detail\":[", &"0,".repeat(500_000), "0]}\n"]);
        },
        DRAWN,
        0,
        "",
    ),
    (
        "an event without an end",
        |f| {
            f.run("r", 3);
            f.long("r/events.jsonl", "{\"real_s\":1,\"event\":\"a\",\"detail\":\"");
        },
        DRAWN,
        2,
        "longer than 1 MiB",
    ),
    (
        "usage of very many nodes",
        |f| {
            f.run("r", 3);
            f.write(
                "r/nodes.csv",
                [USAGE].into_iter().map(String::from).chain((0..30_000).map(|n| format!("0,9,n{n},,,,,,,0,0,0,0\n"))),
            );
        },
        DRAWN,
        2,
        "more than 20000 nodes",
    ),
    (
        "usage of as many as are drawn",
        |f| {
            f.run("r", 3);
            f.write(
                "r/nodes.csv",
                [USAGE].into_iter().map(String::from).chain((0..19_000).map(|n| format!("0,9,n-{n},,,,,,,0,0,0,0\n"))),
            );
        },
        DRAWN,
        0,
        "",
    ),
    (
        "totals of very many links",
        |f| {
            f.run("r", 3);
            f.write(
                "r/pipes.csv",
                ["pipe,bytes\n".to_owned()].into_iter().chain((0..110_000).map(|n| format!("{n},1\n"))),
            );
        },
        DRAWN,
        2,
        "more than 100000 rows",
    ),
];

const USAGE: &str = "from_s,to_s,node,cpus,memory_bytes,reads,read_bytes,writes,written_bytes,packets_in,bytes_in,\
                     packets_out,bytes_out\n";

#[test]
fn whatever_others_wrote_is_read_in_bounded_memory() {
    if let Some((place, wanted)) = std::env::var(CASE).ok().as_deref().and_then(|case| case.split_once(':')) {
        let files = Files(Path::new(place));
        let (_, prepare, ..) = CASES.iter().find(|case| case.0 == wanted).unwrap();
        files.run("s", 3);
        files.write("a.top", ["node v pc\n"]);
        return prepare(&files);
    }
    let dir = tempfile::tempdir().unwrap();
    let nothing = diorama(dir.path(), &["--version"], None).kib;
    let mut wrong = Vec::new();
    for (name, _, words, code, part) in CASES {
        let dir = tempfile::tempdir().unwrap();
        let mut again = Command::new(std::env::current_exe().unwrap());
        let this = "memory::whatever_others_wrote_is_read_in_bounded_memory";
        let case = format!("{}:{name}", dir.path().display());
        assert!(again.args([this, "--exact"]).env(CASE, case).output().unwrap().status.success(), "{name}");
        let Ended { status, says, kib, cpu } = diorama(dir.path(), words, None);
        let told = format!("{name}: {} KiB more than {nothing}, {:.2} s, {status}", kib - nothing, cpu.as_secs_f64());
        println!("{told}");
        if kib - nothing > MOST || status.code() != Some(*code) || !says.contains(part) {
            wrong.push(format!("{told}, and not {code} with `{part}`: {}", says.chars().take(400).collect::<String>()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn signals_end_a_reader_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files(dir.path());
    files.write("a.ns", ["while {1} {}\n"]);
    files.run("s", 3);
    files.run("r", 3);
    files.write("r/nodes.csv", std::iter::once(USAGE).chain(std::iter::repeat_n("0,9,n,,,,,,,0,0,0,0\n", 5_000_000)));
    for words in [SCRIPT, DRAWN] {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let after = Duration::from_millis(300);
            let since = Instant::now();
            let ended = diorama(dir.path(), words, Some((signal, after)));
            assert!(!ended.status.success(), "it had not ended before: {words:?}");
            assert!(since.elapsed() < after + Duration::from_secs(2), "{words:?}: {:?}", since.elapsed());
        }
    }
}
