//! A site at the other end of a byte stream: nothing that a run and a machine say to each other hides in a pointer.
//!
//! Needs root and two cores, as every run does. The program is its own test harness, because the first process of a run
//! and its keeper is this same program under another verb.

use std::fs;
use std::io::{BufReader, BufWriter};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use diorama_engine::{CoreChoice, CoreLocks, LocalSite, Plan, Request, Wanted, run_through};
use model::Experiment;
use record::{NodeOutcome, RunDir, RunResult, Status, Variant};
use rustix::fs::{FlockOperation, flock};
use scale::RealDuration;
use site::wire::{RemoteSite, serve};
use site::{Command, Event, Exit, How, Site, Start, Stop};

const PAIR: &str = r#"
name: pair
tdf: 2
machines:
  server: { cpus: 1, speed: 0.4, memory: 128MiB }
  client: { cpus: 1, speed: 0.2, memory: 64MiB }
nodes:
  server:
    machine: server
    run:
      - perl
      - -MIO::Socket::INET
      - -e
      - |
        $s = IO::Socket::INET->new(LocalPort => 7, Listen => 9) or die;
        while ($c = $s->accept) { print $c scalar <$c>; close $c }
    ready: { tcp: 7 }
  client:
    machine: client
    after: [server]
    files: { /srv/greeting: greeting }
    run:
      - perl
      - -MIO::Socket::INET
      - -MTime::HiRes=time
      - -e
      - |
        open G, "/srv/greeting"; $g = <G>; open L, ">/out/log";
        for (1..5) {
          select undef, undef, undef, 1.2;
          $t = time; $c = IO::Socket::INET->new("server:7") or die;
          print $c $g; <$c> eq $g or die;
          printf L "%.6f %.6f\n", $t, time - $t
        }
        close L; print "done=5\n"
  bystander: { machine: client, run: "sleep 1000" }
links:
  - { from: client, to: server, bandwidth: 10Mbit/s, delay: 5ms, capture: { snap: 64B } }
  - { from: bystander, to: server, delay: 1ms }
metrics:
  latency: { nodes: client, rows: /out/log, start: 1, value: 2, unit: s }
  answers: { nodes: client, line: 'done=(\d+)', from: stdout, combine: sum, unit: "1" }
events:
  - { at: 2s, link: client--server, set: { delay: 20ms } }
  - { at: 3s, node: bystander, do: stop }
  - { at: 4s, node: bystander, do: start }
ends: { exited: [client], limit: 60s }
"#;

const IDLE: &str = r#"
name: idle
tdf: 2
machines: { small: { cpus: 1, speed: 0.4, memory: 64MiB } }
nodes: { only: { machine: small, run: "sleep 1000" } }
ends: { limit: 60s }
"#;

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("__init") => node::init_main(),
        Some("__keeper") => cpu::keeper_main(words.collect()),
        Some("__caches") => cpu::caches_main(&words.collect::<Vec<_>>()),
        // What cargo asks of a test program.
        Some("--list") => return println!("a_run_over_a_byte_stream: test\na_command_over_a_byte_stream: test"),
        _ => {}
    }
    // Runs of several tests must not meet on the cores.
    let turn = fs::File::create("/run/diorama-tests.lock").expect("this test needs root");
    flock(&turn, FlockOperation::LockExclusive).unwrap();
    println!("\nrunning 2 tests");
    a_run_over_a_byte_stream();
    println!("test a_run_over_a_byte_stream ... ok");
    a_command_over_a_byte_stream();
    println!("test a_command_over_a_byte_stream ... ok");
    println!("\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n");
}

/// The site, in a thread that hears of it only through a socket.
fn remote(mut site: LocalSite) -> Box<dyn Site> {
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::spawn(move || serve(&mut site, BufReader::new(far.try_clone().unwrap()), BufWriter::new(far)));
    Box::new(RemoteSite::new(BufReader::new(near.try_clone().unwrap()), BufWriter::new(near)).unwrap())
}

fn experiment(dir: &Path, yaml: &str) -> Experiment {
    fs::write(dir.join("experiment.yaml"), yaml).unwrap();
    fs::write(dir.join("greeting"), "good day\n").unwrap();
    model::load(dir, &[]).unwrap()
}

fn plan_of(experiment: &Experiment) -> Plan {
    let cores = CoreChoice::default();
    Wanted { experiment, variant: Variant::Scaled, tdf: None, cores }.plan().unwrap()
}

fn run(experiment: &Experiment, out: &Path, reach: impl FnOnce(LocalSite) -> Box<dyn Site>) -> RunResult {
    let plan = plan_of(experiment);
    let cores = CoreLocks::claim(&plan.cores.all()).unwrap();
    let (_send, interrupts) = crossbeam_channel::bounded(1);
    let accuracy = diorama_engine::accuracy(experiment, &[]).unwrap();
    let (out, choice) = (Some(out.to_path_buf()), CoreChoice::default());
    let request = Request { experiment, plan, cores, out, seed: 1, accuracy, keep: false, choice, earlier: None };
    run_through(request, &interrupts, &mut |_| {}, reach).unwrap().result
}

/// What is left of a run when it is gone: nothing under its own name.
fn nothing_left() {
    for dir in ["/run/diorama", "/var/lib/diorama"] {
        let kept = ["cores", "queue.db.jobs", "swapped", "images"];
        let is_kept = |e: &fs::DirEntry| kept.iter().any(|name| e.file_name() == *name) || !e.path().is_dir();
        let runs = fs::read_dir(dir).unwrap().flatten().filter(|e| !is_kept(e));
        assert_eq!(runs.map(|e| e.path()).collect::<Vec<_>>(), [] as [std::path::PathBuf; 0]);
    }
}

fn a_run_over_a_byte_stream() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment(dir.path(), PAIR);
    // In threads of their own, for a site binds the thread that makes it to the harness core.
    let [near, far] = std::thread::scope(|scope| {
        let near = scope.spawn(|| run(&experiment, &dir.path().join("near"), |site| Box::new(site)));
        let near = near.join().unwrap();
        [near, scope.spawn(|| run(&experiment, &dir.path().join("far"), remote)).join().unwrap()]
    });
    for (result, out) in [(&near, "near"), (&far, "far")] {
        let out = RunDir::at(dir.path().join(out));
        assert_eq!(result.status, Status::Ok, "{out:?}: {:?}", result.why);
        assert_eq!((result.metrics["latency"].summary.n, result.metrics["answers"].summary.mean), (5, 5.0));
        // Two crossings of 5 ms at least for each of handshake and answer; real ones would be a quarter of that.
        assert!(result.metrics["latency"].summary.p50 >= 20.0, "{:?}", result.metrics["latency"]);
        assert!(!out.plan().unwrap().unwrap().versions.is_empty(), "which perl it was");
        let events = out.events().unwrap();
        let happened: Vec<_> = events.iter().map(|e| e.event.as_str()).collect();
        for event in ["zero", "start", "ready", "all-ready", "link", "exit", "capture", "end"] {
            assert!(happened.contains(&event), "{event} is not among {happened:?}");
        }
        // On a machine that is busy enough, it is not there yet when it is to be stopped.
        let bystander = events.iter().find(|e| e.event == "start" && e.target.as_deref() == Some("bystander"));
        let in_time = bystander.and_then(|e| e.virtual_s).is_some_and(|at| at < 3.0);
        assert_eq!(happened.contains(&"stop"), in_time, "{happened:?}");
    }
    let checks = |r: &RunResult| r.fidelity.checks.iter().map(|c| (c.name, c.value.is_some())).collect::<Vec<_>>();
    assert_eq!(checks(&near), checks(&far), "the same is known of both");
    // What is measured of a node differs from run to run: that it was measured does not.
    let ends = |r: &RunResult| -> Vec<_> {
        let end = |(name, n): (&String, &NodeOutcome)| (name.clone(), n.exit, n.ended, n.core_seconds.is_some());
        r.nodes.iter().map(end).collect()
    };
    assert_eq!(ends(&near), ends(&far));
    nothing_left();
}

fn a_command_over_a_byte_stream() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment(dir.path(), IDLE);
    let plan = plan_of(&experiment);
    let cores = CoreLocks::claim(&plan.cores.all()).unwrap();
    let results = RunDir::prepare(dir.path().join("out"), ["only"]).unwrap();
    let mut site = remote(LocalSite::unnamed(cores, dir.path().to_path_buf(), results).unwrap());

    assert_eq!(site.sample().unwrap_err().code(), 1, "there is nothing to count yet");
    site.prepare(plan.setup(&experiment, 1)).unwrap();
    site.create_nodes().unwrap();
    let events = site.events().unwrap();
    site.apply_limits().unwrap();
    let now = site.now().unwrap();
    let zero = site.start_clock(now + RealDuration::from_nanos(50_000_000)).unwrap();
    assert!(zero.real.since(now).as_nanos() >= 50_000_000, "virtual time begins when it was asked to");
    site.start(&[Start { node: 0, how: How::First }]).unwrap();
    let argv = ["sh", "-c", "hostname; echo no >&2; exit 3"].map(String::from).to_vec();
    let limit = RealDuration::from_nanos(30_000_000_000);
    let command = site.begin_command(&Command { node: 0, argv, limit }).unwrap();
    let Event::CommandEnded(number, done) = events.recv_timeout(PATIENCE).unwrap() else {
        panic!("nothing else ended")
    };
    assert_eq!(number, command);
    let done = done.unwrap();
    assert_eq!((done.exit, &done.stdout[..], &done.stderr[..]), (Exit::Code(3), &b"only\n"[..], &b"no\n"[..]));
    site.stop(0, Stop::Kill).unwrap();
    let Event::Exited(ended) = events.recv_timeout(PATIENCE).unwrap() else { panic!("nothing else ended") };
    assert_eq!((ended.node, ended.exit), (0, Exit::Signal(9)));
    site.tear_down().unwrap();
    assert!(site.now().is_err(), "nobody is there any more");
    nothing_left();
}
