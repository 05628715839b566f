//! What the tests of this room start as programs of their own.
//!
//! `limited __fillers …` answers as the `diorama` binary does. `limited hold RUN CORE SHARE…` puts nodes
//! `n0`, `n1`, … on that core under limits, says `engaged`, and holds them until its input ends or it is killed.
//!
//! `limited measure RUN CORE TURN_MS SECONDS SHARE[xCOUNT]…` has a process compute in every node for so long, and
//! prints for each kind of node what it got over what it is owed: on average, least and most. Not by threads, as the
//! tests do: those of one process cannot be in different groups of version 2.
//!
//! `limited cost RUN CORE…` prints what a poke and a sample take with two nodes on the first of these cores, and with
//! two on each, by turns: another core than these keeps them.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use diorama_cpu::{CpuGroups, Exclusive, NodeShare, Policy, Terms, caches_main, fillers_main};
use scale::RealDuration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("__fillers") => fillers_main(args[1..].to_vec()),
        Some("__caches") => caches_main(&args[1..]),
        Some("hold") => hold(&args[1], args[2].parse().expect("a core"), &args[3..]),
        Some("measure") => measure(&args[1..]),
        Some("cost") => cost(&args[1..]),
        Some("burn") => burn(),
        _ => panic!("what is `{args:?}`? See the beginning of crates/cpu/examples/limited.rs"),
    }
}

/// Until those of the smallest nodes are at work.
const SETTLE: Duration = Duration::from_secs(10);

fn measure(args: &[String]) {
    let [run_id, core, turn, seconds, kinds @ ..] = args else { panic!("too few arguments") };
    let (core, seconds) = (core.parse().expect("a core"), seconds.parse().expect("seconds"));
    let slice = RealDuration::from_secs_f64(turn.parse::<f64>().expect("a turn in ms") / 1e3);
    let mut shares = Vec::new();
    for kind in kinds {
        let (share, count) = kind.split_once('x').unwrap_or((kind, "1"));
        for _ in 0..count.parse::<usize>().expect("a number of nodes") {
            let share = share.parse().expect("a share");
            shares.push(NodeShare::new(format!("n{}", shares.len()), core, share));
        }
    }
    let terms = Terms { slice, pace: None };
    let mut groups = CpuGroups::create(run_id, &shares, Policy::Slots, terms).expect("groups");
    match groups.take_cores() {
        Exclusive::Taken { isolated } => println!("core {core} is theirs alone, isolated: {isolated}"),
        Exclusive::Shared { because } => println!("core {core} is shared: {because}"),
    }
    // Under limits, those of small nodes would take minutes to start.
    let mut busy: Vec<Child> = shares.iter().map(|_| burner()).collect();
    let helper = groups.helper().map(|mut command| command.spawn().expect("the fillers"));
    let calibration = groups.engage(helper).expect("limits")[0];
    println!("usable {:.4}, turns of {:?}", calibration.usable, calibration.grain);
    for (process, node) in busy.iter_mut().zip(&shares) {
        groups.container(&node.name).admit(process.id()).expect("a group that takes it");
        let pid = rustix::process::Pid::from_raw(process.id() as i32);
        host::cores::pin_other(pid, core).expect("a core that takes it");
        drop(process.stdin.take());
    }
    sleep(SETTLE);
    let before = groups.sample().expect("a sample");
    sleep(Duration::from_secs(seconds));
    let after = groups.sample().expect("a sample");
    // What each got of what all groups had, so that what others had of the core is no error.
    let all: u64 = after.run_ns[core] - before.run_ns[core];
    let part = |ns: u64, i: usize| ns as f64 / all as f64 * calibration.usable / shares[i].share;
    let got = |i: usize| part(after.nodes[i].container_ns - before.nodes[i].container_ns, i);
    let filled = |i: usize| part(after.nodes[i].filler_ns - before.nodes[i].filler_ns, i);
    let mut from = 0;
    while from < shares.len() {
        let share = shares[from].share;
        let kind: Vec<usize> = (from..shares.len()).take_while(|i| shares[*i].share == share).collect();
        let mean = |of: &dyn Fn(usize) -> f64| kind.iter().map(|i| of(*i)).sum::<f64>() / kind.len() as f64;
        let least = kind.iter().map(|i| got(*i)).fold(f64::INFINITY, f64::min);
        let most = kind.iter().map(|i| got(*i)).fold(0.0, f64::max);
        let (mean, of_fillers, count) = (mean(&got), mean(&filled), kind.len());
        println!(
            "{count} of {share}: {mean:.4} of what they are owed, {least:.3} to {most:.3}; fillers {of_fillers:.4}"
        );
        from += count;
    }
    // Which kills them: within their shares they would take a while to die.
    groups.release().expect("release");
    busy.iter_mut().for_each(|process| drop(process.wait()));
}

/// How often each is measured, and how many of either at once.
const ROUNDS: usize = 5;
const TIMES: usize = 400;

fn cost(args: &[String]) {
    let [run_id, cores @ ..] = args else { panic!("too few arguments") };
    let cores: Vec<usize> = cores.iter().map(|core| core.parse().expect("a core")).collect();
    let mut all: [Vec<[f64; 2]>; 2] = Default::default();
    for _ in 0..ROUNDS {
        all[0].push(cost_on(run_id, &cores[..1]));
        all[1].push(cost_on(run_id, &cores));
    }
    for (costs, cores) in all.iter().zip([1, cores.len()]) {
        let middle = |i: usize| median(costs.iter().map(|cost| cost[i] * 1e6).collect());
        println!("{cores} cores: a poke takes {:.2} µs, a sample {:.2} µs a node", middle(0), middle(1));
    }
}

/// What a poke takes, and a sample for each node, in s.
fn cost_on(run_id: &str, cores: &[usize]) -> [f64; 2] {
    let placed = cores.iter().flat_map(|core| [(*core, 0.4), (*core, 0.1)]).enumerate();
    let shares: Vec<_> = placed.map(|(i, (core, share))| NodeShare::new(format!("n{i}"), core, share)).collect();
    let mut groups = CpuGroups::create(run_id, &shares, Policy::Slots, Terms::default()).expect("groups");
    let helper = groups.helper().map(|mut command| command.spawn().expect("the fillers"));
    groups.engage(helper).expect("limits");
    let mut poke = host::cgroup::Tree::of(run_id).expect("a tree").group("emu/_poked").poke().expect("a poke");
    let took = |what: &mut dyn FnMut()| {
        let once = |_| {
            let start = host::now();
            what();
            host::now().since(start).as_secs_f64()
        };
        median((0..TIMES).map(once).collect())
    };
    let costs = [
        took(&mut || poke.now().expect("a poke")),
        took(&mut || drop(groups.sample().expect("a sample"))) / shares.len() as f64,
    ];
    groups.release().expect("release");
    costs
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// A process that computes without end when its input has ended.
fn burner() -> Child {
    Command::new("/proc/self/exe").arg("burn").stdin(Stdio::piped()).spawn().expect("a process")
}

fn burn() -> ! {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    loop {
        std::hint::black_box(0);
    }
}

fn hold(run_id: &str, core: usize, shares: &[String]) {
    let node = |(i, share): (usize, &String)| NodeShare::new(format!("n{i}"), core, share.parse().expect("a share"));
    let shares: Vec<_> = shares.iter().enumerate().map(node).collect();
    let mut groups = CpuGroups::create(run_id, &shares, Policy::Slots, Terms::default()).expect("groups");
    let helper = groups.helper().map(|mut command| command.spawn().expect("the fillers"));
    groups.engage(helper).expect("limits");
    println!("engaged");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    groups.release().expect("release");
}
