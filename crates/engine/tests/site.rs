//! A site at the other end of a byte stream: nothing that a run and a machine say to each other hides in a pointer.
//!
//! Needs root and two cores, as every run does. The program is its own test harness, because the first process of a run
//! and its keeper is this same program under another verb.

use std::fs;
use std::io::{BufReader, BufWriter};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use diorama_engine::{CoreChoice, CoreLocks, LocalSite, Plan, Request, Wanted, run_through};
use host::terminal::{Look, Size};
use model::Experiment;
use record::{LogStream, NodeOutcome, RunDir, RunResult, Status, Variant};
use rustix::fs::{FlockOperation, flock};
use scale::RealDuration;
use site::wire::{RemoteSite, serve};
use site::{
    AHEAD, Command, Event, Exit, How, Origin, PIECE, Said, SaveImage, Site, Start, Stdio, Stop, Told, Visits, Wish,
};

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
        // The question of cargo to a test program.
        Some("--list") => {
            return println!(
                "a_run_over_a_byte_stream: test\na_command_over_a_byte_stream: test\nvisits_over_a_byte_stream: test"
            );
        }
        _ => {}
    }
    // Runs of several tests must not meet on the cores.
    let turn = fs::File::create("/run/diorama-tests.lock").expect("this test needs root");
    flock(&turn, FlockOperation::LockExclusive).unwrap();
    println!("\nrunning 3 tests");
    a_run_over_a_byte_stream();
    println!("test a_run_over_a_byte_stream ... ok");
    a_command_over_a_byte_stream();
    println!("test a_command_over_a_byte_stream ... ok");
    visits_over_a_byte_stream();
    println!("test visits_over_a_byte_stream ... ok");
    println!("\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n");
}

/// The site, in a thread that hears of it only through a socket.
fn remote(mut site: LocalSite) -> Box<dyn Site> {
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let heard = BufReader::new(far.try_clone().unwrap());
        serve(&mut site, heard, BufWriter::new(far), "test")
    });
    Box::new(RemoteSite::new(BufReader::new(near.try_clone().unwrap()), BufWriter::new(near), "test").unwrap())
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

/// Remains of a run when it is gone: nothing under its own name.
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
    // Measurements of a node differ from run to run: that it was measured does not.
    let ends = |r: &RunResult| -> Vec<_> {
        let end = |(name, n): (&String, &NodeOutcome)| (name.clone(), n.exit, n.ended, n.core_seconds.is_some());
        r.nodes.iter().map(end).collect()
    };
    assert_eq!(ends(&near), ends(&far));
    nothing_left();
}

/// A site over a byte stream whose node runs.
fn idle_site(dir: &Path) -> Box<dyn Site> {
    let experiment = experiment(dir, IDLE);
    let plan = plan_of(&experiment);
    let cores = CoreLocks::claim(&plan.cores.all()).unwrap();
    let results = RunDir::prepare(dir.join("out"), ["only"]).unwrap();
    let mut site = remote(LocalSite::unnamed(cores, dir.to_path_buf(), results).unwrap());

    assert_eq!(site.sample().unwrap_err().code(), 1, "there is nothing to count yet");
    site.prepare(plan.setup(&experiment, 1)).unwrap();
    site.create_nodes().unwrap();
    assert_eq!(site.visits().unwrap_err().code(), 1, "no command runs without limits");
    site.apply_limits().unwrap();
    let now = site.now().unwrap();
    let zero = site.start_clock(now + RealDuration::from_nanos(50_000_000)).unwrap();
    assert!(zero.real.since(now).as_nanos() >= 50_000_000, "virtual time begins when it was asked to");
    site.start(&[Start { node: 0, how: How::First }]).unwrap();
    site
}

fn a_command_over_a_byte_stream() {
    let dir = tempfile::tempdir().unwrap();
    let mut site = idle_site(dir.path());
    let events = site.events().unwrap();
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

fn visits_over_a_byte_stream() {
    let dir = tempfile::tempdir().unwrap();
    let mut site = idle_site(dir.path());
    let Visits { said, told } = site.visits().unwrap();
    let say = |visit, word| said.send((visit, word)).unwrap();
    let hear = || told.recv_timeout(PATIENCE).unwrap();
    let sh = |script: &str| {
        let argv = ["sh", "-c", script].map(String::from).to_vec();
        Said::Wish(0, Wish::Run { argv, stdio: [Stdio::Pipe; 3], terminal: None })
    };

    // More than may be on the way: the site says how much more it takes, and sends no more than is taken.
    say(1, sh("cat; hostname >&2; exit 3"));
    let input: Vec<u8> = (0..AHEAD * 4).map(|i| (i % 251) as u8).collect();
    let (mut sent, mut ahead, mut came, mut errors) = (0, 0, Vec::new(), Vec::new());
    let ended = loop {
        while sent < input.len() && ahead + PIECE as u64 <= AHEAD {
            say(1, Said::Input(input[sent..sent + PIECE].to_vec()));
            (sent, ahead) = (sent + PIECE, ahead + PIECE as u64);
            if sent == input.len() {
                say(1, Said::InputEnds);
            }
        }
        match hear() {
            (1, Told::Taken(bytes)) => ahead -= bytes,
            (1, Told::Output(LogStream::Stdout, bytes)) => {
                came.extend_from_slice(&bytes);
                say(1, Said::Taken(LogStream::Stdout, bytes.len() as u64));
            }
            (1, Told::Output(LogStream::Stderr, bytes)) => errors.extend_from_slice(&bytes),
            (1, Told::Ended(exit)) => break exit,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((ended, &errors[..], came == input), (Exit::Code(3), &b"only\n"[..], true));

    // One whose output nobody takes stands still, until it finds it closed.
    say(2, sh("exec yes"));
    let mut ahead = 0;
    while ahead < AHEAD {
        let (2, Told::Output(LogStream::Stdout, bytes)) = hear() else { panic!("nothing else happens") };
        ahead += bytes.len() as u64;
    }
    assert!(ahead <= AHEAD + PIECE as u64 && told.recv_timeout(Duration::from_millis(100)).is_err());
    say(2, Said::Closed(LogStream::Stdout));
    assert_eq!(hear(), (2, Told::Ended(Exit::Signal(13))));

    // Signals reach it, and what it has written becomes an image of the machine's.
    say(3, sh("trap 'echo asked > /srv/word; exit 9' TERM; echo ready; while :; do sleep 0.01; done"));
    assert_eq!(hear(), (3, Told::Output(LogStream::Stdout, b"ready\n".to_vec())));
    say(3, Said::Signal(15));
    assert_eq!(hear(), (3, Told::Ended(Exit::Code(9))));
    let name = format!("visit-{}", std::process::id());
    let origin = Origin { experiment: "idle".into(), variant: "scaled".into(), run: "out".into(), versions: [].into() };
    say(4, Said::Wish(0, Wish::Save(SaveImage { name: name.clone(), origin })));
    let saved = hear();
    diorama_engine::remove_image(&name).unwrap();
    let (4, Told::Saved(about)) = saved else { panic!("{saved:?}") };
    assert_eq!((about.node, about.experiment, about.name), ("only".into(), "idle".into(), name));
    let origin = Origin { experiment: "idle".into(), variant: "scaled".into(), run: "out".into(), versions: [].into() };
    say(5, Said::Wish(0, Wish::Save(SaveImage { name: "../away".into(), origin })));
    assert!(matches!(hear(), (5, Told::Refused(e)) if e.code() == 2));

    // Who goes away takes the command along; a terminal has the size that it is given.
    let size = Size { rows: 33, columns: 101, pixels: [0, 0] };
    let terminal = Some(Look { size, flags: [0, 0, 0o60, 0], keys: Vec::new() });
    let argv = ["sh", "-c", "stty size; sleep 1000"].map(String::from).to_vec();
    say(6, Said::Wish(0, Wish::Run { argv, stdio: [Stdio::Terminal; 3], terminal }));
    assert_eq!(hear(), (6, Told::Output(LogStream::Stdout, b"33 101\n".to_vec())));
    say(6, Said::Gone);
    assert_eq!(hear(), (6, Told::Ended(Exit::Signal(9))));
    say(7, sh("sleep 1000"));
    site.tear_down().unwrap();
    // As a word, or as the end of the connection.
    let last = told.recv_timeout(PATIENCE);
    assert!(matches!(last, Ok((7, Told::Refused(_))) | Err(RecvTimeoutError::Disconnected)), "{last:?}");
    nothing_left();
}
