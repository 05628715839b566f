//! Scripts, run by this machine's Tcl.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diorama_ns::{COMMANDS, Converted, Error, Fate, convert};
use model::{Action, Experiment, Limit, Loss, NodeAction, ProgramAction, Queue};

fn of(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder)
}

fn load(path: &Path) -> Result<(Converted, Experiment), Error> {
    let converted = convert(path, None, false)?;
    let experiment = converted.load(&[])?;
    Ok((converted, experiment))
}

/// Converts a script of these lines in a folder of its own.
fn script(lines: &str) -> Result<(Converted, Experiment), Error> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("test.ns");
    fs::write(&path, lines).expect("it is written");
    load(&path)
}

/// `# expect LINE PART OF THE MESSAGE`, once for each problem, in order; line 0: the script as a whole.
#[test]
fn every_bad_script_is_refused_at_its_line_without_the_stack_of_tcl() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in fs::read_dir(of("bad")).expect("there are some") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("it can be read");
        count += 1;
        let expected: Vec<(u32, &str)> = text
            .lines()
            .filter_map(|l| l.strip_prefix("# expect ")?.split_once(' '))
            .map(|(line, part)| (line.parse().expect("a line"), part))
            .collect();
        assert!(!expected.is_empty(), "{} expects nothing", path.display());
        let begun = Instant::now();
        let found = match load(&path) {
            Err(Error::Script(notes)) => notes,
            other => panic!("{}: {other:?}", path.display()),
        };
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", path.display());
        let fits = |(note, (line, part)): (&diorama_ns::Note, &(u32, &str))| {
            note.place.as_ref().map_or(0, |p| p.line) == *line
                && note.what.contains(part)
                && note.place.as_ref().is_none_or(|p| Path::new(&p.file) == path)
        };
        let right = found.len() == expected.len() && found.iter().zip(&expected).all(fits);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        let stack = shown.iter().any(|s| s.contains("while executing") || s.contains("diorama::"));
        if !right || stack {
            wrong.push(format!("{}\n  expected {expected:?}\n  found    {shown:?}", path.display()));
        }
    }
    assert!(count >= 25);
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!Path::new("/tmp/ns-was-here").exists());
}

#[test]
fn arrays_loops_procedures_and_all_objects_become_an_experiment() {
    let (converted, e) = load(&of("good").join("arrays.ns")).expect("it is right");
    let names: Vec<&str> = e.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["router", "client-1", "client-2", "client-3", "nodea"]);
    let links: Vec<&str> = e.links.iter().map(|l| l.name.as_str()).collect();
    let lan = ["client-1--lan0", "client-2--lan0", "client-3--lan0"];
    assert_eq!(links, [["access1", "access2", "access3", "up"].as_slice(), &lan].concat());
    let link = |name: &str| &e.links[e.link(name).expect("there is such a link")];
    let seconds = |p: &model::Pipe| p.delay.as_secs_f64();
    assert_eq!((seconds(&link("access1").ab), &link("access1").ba.loss), (0.005, &Loss::Random(0.02)));
    // Two simplex links are the two directions of one.
    let (up, down) = (&link("up").ab, &link("up").ba);
    assert_eq!((up.rate.map(|r| r.bits_per_s()), down.rate.map(|r| r.bits_per_s())), (Some(1.5e6), Some(8e6)));
    let Queue::Red(red) = up.queue else { panic!("{up:?}") };
    assert_eq!((red.min, red.max, red.limit, red.max_p), (5, 15, Limit::Packets(20), 0.05));
    assert_eq!(down.queue, Queue::DropTail(Limit::Packets(50)));
    // The delay and the loss of a LAN are those between two members.
    let (usual, own) = (&link("client-1--lan0").ab, &link("client-2--lan0").ba);
    assert_eq!((seconds(usual), seconds(own)), (0.001, 0.01));
    let Loss::Random(half) = usual.loss else { panic!("{usual:?}") };
    assert!((half - 0.1).abs() < 1e-9 && own.loss == Loss::Random(0.05), "{half}");
    assert_eq!(e.lans[0].subnet.map(|s| s.1), Some(24));
    let chosen: Vec<String> = e.addresses.iter().map(|a| a.address.to_string()).collect();
    assert_eq!(chosen, ["10.9.0.1", "192.168.1.1"]);
    let machine = |node: &str| &e.machines[e.nodes[e.node(node).expect("a node")].machine];
    assert_eq!((machine("client-1").name.as_str(), machine("nodea").memory_bytes), ("pc850", 64 << 20));
    let run = |node: &str| e.nodes[e.node(node).expect("a node")].argv.clone();
    assert_eq!(run("client-3"), ["sleep", "infinity"]);
    assert!(run("client-1")[2].contains("ping -c 3 nodeA") && !run("client-1")[2].contains("exit $code"));
    assert_eq!(run("client-2"), ["sleep", "infinity"]);
    assert_eq!(e.ends.limit.as_secs_f64(), 20.0);
    let events: Vec<(f64, String)> = e.events.iter().map(|event| (event.at.as_secs_f64(), told(&e, event))).collect();
    let expected = [
        (1.5, "client-2 prog: sh -c cd '/tmp' && echo it's"),
        (2.0, "access1 down"),
        (2.0, "access1 delay 0.05"),
        (3.0, "access1 rate 1000000"),
        (3.0, "access2 rate 1000000"),
        (4.5, "access3 down"),
        (4.5, "client-1--lan0 loss 0.5"),
        (4.5, "client-2--lan0 loss 0.5"),
        (4.5, "client-3--lan0 loss 0.5"),
        (6.0, "access3 up"),
        (7.0, "client-2 prog: signal 2"),
        (8.0, "kill nodea"),
        (8.0, "start nodea"),
        (9.0, "up queue 16"),
    ];
    let expected: Vec<(f64, String)> = expected.into_iter().map(|(at, what)| (at, what.to_owned())).collect();
    assert_eq!(events, expected);
    let notes: Vec<&str> = converted.notes.iter().map(|n| n.what.as_str()).collect();
    assert!(notes.iter().any(|n| n.contains("`tb-set-uselatestwadata` is ignored")), "{notes:?}");
}

#[test]
fn applications_become_flows() {
    let (converted, e) = load(&of("good").join("traffic.ns")).expect("it is right");
    let flow = |name: &str| e.flows.iter().find(|f| f.name == name).expect("there is such a flow");
    let ends = |name: &str| [flow(name).from, flow(name).to].map(|n| e.nodes[n].name.as_str());
    let all: Vec<_> = e.flows.iter().map(|f| (f.name.as_str(), ends(&f.name), f.source.packet)).collect();
    let expected = [
        ("cbr0", ["a", "b"], 500),
        ("ftp", ["b", "a"], 1460),
        ("par-0", ["a", "b"], 210),
        ("par-1", ["a", "b"], 210),
        ("keys", ["a", "c"], 1000),
    ];
    assert_eq!(all, expected);
    for (name, words) in [
        ("cbr0", "over udp packet 500 shape noise interval 0.005 "),
        ("par-1", "over udp packet 210 shape bursts interval 0.00084 on 0.2 off 0.5 pareto 1.2 "),
        ("keys", "over tcp packet 1000 shape poisson interval 0.5 "),
    ] {
        let argv = flow(name).source.argv().join(" ");
        assert!(argv.contains(words), "{name}: {argv}");
    }
    let events: Vec<_> = e.events.iter().map(|event| (event.at.as_secs_f64(), &event.action)).collect();
    let last = |of: &str, word: &str| {
        let act = events.iter().rev().find_map(|(at, action)| match action {
            Action::Program { program, act: ProgramAction::Run(argv), .. } if program == of => Some((*at, argv)),
            _ => None,
        });
        let (at, argv) = act.expect("it is started");
        let value = argv.iter().position(|w| w == word).map(|place| argv[place + 1].as_str());
        (at, value)
    };
    // 2920 bytes are two packets of 1460.
    assert_eq!(last("ftp.source", "packets"), (5.0, Some("2")));
    assert_eq!(last("par-0.source", "on"), (3.0, Some("0.2")));
    assert_eq!(events.len(), 12);
    assert_eq!((e.barriers, e.colocate), (Some(1), Some(2)));
    assert_eq!(e.nodes[0].env[0], ("CMDLINE".to_owned(), "quiet; x=1".to_owned()));
    // A flow that needs no kernel and no program exists only in the emulator.
    assert_eq!(e.nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let (file, line) = e.nodes[2].place.clone().expect("it is in the script");
    assert!(file.ends_with("traffic.ns") && line == 36, "{file}:{line}");
    assert_eq!(e.switches, ["home-0", "home-1", "home-2"]);
    let ways: Vec<_> = e.background.iter().map(|f| (f.name.as_str(), f.ways.as_slice())).collect();
    assert_eq!(ways[1], ("web-1", [("home-1".to_owned(), "a".to_owned())].as_slice()));
    let notes: Vec<&str> = converted.notes.iter().map(|n| n.what.as_str()).collect();
    assert!(notes.iter().any(|n| n.contains("`unused` sends nothing")), "{notes:?}");
    assert!(notes.iter().any(|n| n.contains("`c` is a node like any other") && n.contains("TCP")), "{notes:?}");
}

fn told(e: &Experiment, event: &model::Event) -> String {
    match &event.action {
        Action::Node { node, act } => {
            let what = if *act == NodeAction::Kill { "kill" } else { "start" };
            format!("{what} {}", e.nodes[*node].name)
        }
        Action::Program { node, program, act } => {
            let what = match act {
                ProgramAction::Run(words) => words.join(" "),
                ProgramAction::Again(words) => format!("again {}", words.join(" ")),
                ProgramAction::Signal(signal) => format!("signal {signal}"),
            };
            format!("{} {program}: {what}", e.nodes[*node].name)
        }
        Action::Partition { .. } => "partition".into(),
        Action::Heal => "heal".into(),
        Action::End => "end".into(),
        Action::Flow { flow, .. } => e.background[*flow].name.clone(),
        Action::Disk { node, .. } => format!("disk of {}", e.nodes[*node].name),
        Action::Hardware { node, .. } => format!("machine of {}", e.nodes[*node].name),
        Action::Clock { node, .. } => format!("clock of {}", e.nodes[*node].name),
        Action::Link { link, change } => {
            let (name, ab) = (&e.links[*link].name, &change.ab);
            let what = match () {
                () if ab.up == Some(true) => "up".into(),
                () if ab.up == Some(false) => "down".into(),
                () if ab.delay.is_some() => format!("delay {}", ab.delay.expect("it is").as_secs_f64()),
                () if ab.rate.is_some() => format!("rate {}", ab.rate.flatten().expect("a rate").bits_per_s()),
                () => match (&ab.loss, &ab.queue) {
                    (Some(Loss::Random(p)), _) => format!("loss {p}"),
                    (_, Some(Queue::Red(red))) => match red.limit {
                        Limit::Packets(n) => format!("queue {n}"),
                        Limit::Bytes(n) => format!("queue {n}B"),
                    },
                    other => format!("{other:?}"),
                },
            };
            format!("{name} {what}")
        }
    }
}

#[test]
fn what_a_node_runs_from_the_start_can_be_stopped_and_programs_have_names_of_their_own() {
    let lines = |event: &str| {
        format!(
            "set ns [new Simulator]\nset a [$ns node]\nset s [tb-set-node-startcmd $a \"ls\"]\n\
             set P [$a program-agent -command one -timeout 3]\nset p [$a program-agent -command two]\n\
             $ns at 1 \"$P start\"\n$ns at 1 \"$p start\"\n$ns at 2 \"$s {event}\"\n$ns run\n"
        )
    };
    let (_, e) = script(&lines("stop")).expect("it is right");
    let events: Vec<String> = e.events.iter().map(|event| told(&e, event)).collect();
    let expected = ["a p-program-2: sh -c exec timeout 3 sh -c 'one'", "a p-program-3: sh -c two"];
    assert_eq!(events[..2], expected);
    assert!(matches!(e.events[2].action, Action::Node { node: 0, act: NodeAction::Stop }), "{:?}", e.events[2]);
    let Err(Error::Script(notes)) = script(&lines("kill -signal HUP")) else { panic!("HUP is taken") };
    assert!(notes[0].what.contains("can be sent TERM and KILL"), "{notes:?}");
    // Nothing ever starts it.
    let Err(Error::Script(notes)) = script(&lines("stop").replace("$P start", "$P stop")) else {
        panic!("it is taken")
    };
    assert!(notes[0].place.as_ref().is_some_and(|p| p.line == 6), "{notes:?}");
}

/// Two nodes with a link `l`, programs `p` and `q` at the first and `r` at the second, and these lines.
fn with_programs(lines: &str) -> Result<(Converted, Experiment), Error> {
    let before = "set ns [new Simulator]\nset a [$ns node]\nset b [$ns node]\n\
                  set l [$ns duplex-link $a $b 10Mb 5ms DropTail]\n\
                  set p [$a program-agent -command one]\nset q [$a program-agent -command two]\n\
                  set r [$b program-agent -command three]\nset both [$ns event-group [list $p $r]]\n";
    script(&format!("{before}{lines}\n$ns run\n"))
}

#[test]
fn steps_of_a_sequence_wait_for_what_is_told_to_run() {
    let steps = |lines: &str| {
        let e = with_programs(lines).expect("it is right").1;
        let name = |step: Option<usize>| step.map_or("-", |step| e.steps[step].as_str()).to_owned();
        let shown = |event: &model::Event| {
            format!("{} {} {} {}", name(event.after), event.at.as_secs_f64(), told(&e, event), name(event.step))
        };
        e.events.iter().map(shown).collect::<Vec<_>>()
    };
    let lines =
        "set s [$ns event-sequence {\n$q start\n$both run\n$l down\n$r run\n$ns swapout\n}]\n$ns at 1 \"$s start\"";
    let expected = [
        "- 1 a q: sh -c two -",
        "- 1 a p: sh -c one step-2",
        "- 1 b r: sh -c three step-2",
        "step-2 0 l down -",
        "step-2 0 b r: sh -c three step-4",
        "step-4 0 end -",
    ];
    assert_eq!(steps(lines), expected);
    // A timeline is over with its last event; what follows what was only started waits for nothing.
    let lines = |how: &str| {
        format!(
            "set t [$ns event-timeline]\n$t at 1 \"$l down\"\n$t at 3 \"$l up\"\n\
             set s [$ns event-sequence {{\n$t {how}\n$l plr 0.5\n}}]\n$ns at 2 \"$s run\""
        )
    };
    assert_eq!(steps(&lines("run")), ["- 3 l down -", "- 5 l up -", "- 5 l loss 0.5 -"]);
    assert_eq!(steps(&lines("start")), ["- 2 l loss 0.5 -", "- 3 l down -", "- 5 l up -"]);
    // Sequences in sequences.
    let lines = "set s [$ns event-sequence {\n$p run\n$q run\n}]\n\
                 set t [$ns event-sequence {\n$s run\n$l down\n}]\n$ns at 1 \"$t run\"";
    let expected = ["- 1 a p: sh -c one step-2", "step-2 0 a q: sh -c two step-1", "step-1 0 l down -"];
    assert_eq!(steps(lines), expected);
}

#[test]
fn options_hold_for_one_start_and_a_link_is_reset_to_what_the_script_says() {
    let lines = "$ns at 1 \"$p start -command {echo x} -dir /tmp\"\n$ns at 2 \"$p start\"\n\
                 tb-set-link-loss $l 0.1\n$ns at 3 \"$l plr 0.9\"\n$ns at 4 \"$l reset\"";
    let e = with_programs(lines).expect("it is right").1;
    let events: Vec<String> = e.events.iter().map(|event| told(&e, event)).collect();
    assert_eq!(events[..2], ["a p: sh -c cd '/tmp' && echo x", "a p: sh -c one"]);
    let Action::Link { change, .. } = &e.events[3].action else { panic!("{events:?}") };
    assert_eq!((&change.ba.loss, change.ba.up), (&Some(Loss::Random(0.1)), Some(true)));
    assert_eq!(change.ab.rate.flatten().map(|r| r.bits_per_s()), Some(1e7));
}

#[test]
fn programs_run_as_emulab_would_run_them() {
    let lines = "set opt(SIZE) 5\nset opt(SIZE) {6 \"7\"}\ntb-set-tarfiles /opt /proj/x/tool.tgz\nset c [$ns node]\n\
                 $ns duplex-link $a $c 1Mb 1ms DropTail\ntb-set-node-startcmd $a {go $SIZE >& /tmp/log}\n\
                 tb-set-node-startcmd $b {go >/tmp/log 2>&1}\n$ns at 1 \"$p start -command {x |& y}\"";
    let Err(Error::Script(notes)) = with_programs(lines) else { panic!("the archive is missing") };
    assert!(notes[0].what.contains("tool.tgz"), "{notes:?}");
    let (_, e) = with_programs(&lines.replace("tb-set-tarfiles", "# ")).expect("it is right");
    // The last value counts.
    assert_eq!(e.nodes[2].env, [("SIZE".to_owned(), "6 \"7\"".to_owned())]);
    let run = |node: usize| e.nodes[node].argv.join(" ");
    assert!(run(0).contains("$plain bash -c 'go $SIZE >& /tmp/log' & job=$!"), "{}", run(0));
    assert!(run(1).contains("$plain sh -c 'go >/tmp/log 2>&1' & job=$!"), "{}", run(1));
    assert_eq!(told(&e, &e.events[0]), "a p: bash -c x |& y");
    // They stay when that has ended well.
    assert!(run(0).ends_with("exit $code\nsleep infinity & job=$!\nwait $job\n"), "{}", run(0));
}

#[test]
fn nothing_that_a_script_says_changes_the_lines_of_the_file() {
    let lines = "$ns at 1 \"$ns a\\rtdf: 5\"\n$ns at 2 \"$ns b\\u0085tdf: 6\"\n$ns at 3 \"$ns c\\u2028tdf: 7\"";
    let (converted, e) = with_programs(lines).expect("it is right");
    assert_eq!(e.tdf.to_string(), "1");
    let text = converted.text("1");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{2028}'), "{text}");
    for address in ["10.0.0.1, b: 10.0.0.2", "10.0.0.1 }", "::1", "10.0.0"] {
        let Err(Error::Script(notes)) = with_programs(&format!("tb-set-ip $a \"{address}\"")) else {
            panic!("{address} is taken")
        };
        assert!(notes[0].what.contains("is not an IPv4 address"), "{notes:?}");
    }
}

#[test]
fn agents_are_taken_as_the_tutorial_of_emulab_writes_them() {
    let lines = |sink: &str| {
        format!(
            "set t [new Agent/TCP]\n$ns attach-agent $a $t\nset s [new Agent/{sink}]\n$ns attach-agent $b $s\n\
             $ns connect $t $s\nset c [new Application/Traffic/CBR]\n$c attach-agent $t\n$ns at 1 \"$c start\""
        )
    };
    for sink in ["TCPSink", "TCPSINK", "Null", "LossMonitor"] {
        let e = with_programs(&lines(sink)).expect(sink).1;
        assert!(e.flows[0].source.argv().join(" ").contains("over tcp"), "{sink}");
    }
    assert!(with_programs(&lines("UDP")).is_err());
}

/// The printed experiment is a file that means the same.
#[test]
fn what_convert_prints_is_the_experiment_itself() {
    let (converted, e) = load(&of("good").join("arrays.ns")).expect("it is right");
    let dir = tempfile::tempdir().expect("a directory");
    let text = converted.text("2.5");
    fs::write(dir.path().join("experiment.yaml"), &text).expect("it is written");
    let again = model::load(dir.path(), &[]).expect("it is right");
    assert_eq!(again.tdf.to_string(), "2.5");
    assert_eq!((again.nodes.len(), &again.links, &again.events), (e.nodes.len(), &e.links, &e.events));
    assert!(text.contains("#   ") && text.contains("`tb-set-uselatestwadata` is ignored"), "{text}");
}

#[test]
fn archives_of_the_folder_are_unpacked_and_a_wrong_word_of_any_command_says_how_it_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("test.ns");
    fs::write(dir.path().join("tool.tar.gz"), "").expect("it is written");
    let lines = "set ns [new Simulator]\nset a [$ns node]\n\
                 tb-set-node-tarfiles $a /opt/x /proj/p/tool.tar.gz\ntb-set-node-startup $a \"/opt/x/go\"\n$ns run\n";
    fs::write(&path, lines).expect("it is written");
    let (_, e) = load(&path).expect("it is right");
    assert_eq!(e.nodes[0].files[0].0, "/netbed/tool.tar.gz");
    assert!(e.nodes[0].argv[2].starts_with("mkdir -p '/opt/x' && tar -xf '/netbed/tool.tar.gz' -C '/opt/x' || exit 1"));
    for command in COMMANDS.iter().filter(|c| matches!(c.fate, Fate::Done(_)) && c.name != "tb-set-tarfiles") {
        let lines = format!("set ns [new Simulator]\nset a [$ns node]\n{} $a a b c d e f g h\n$ns run\n", command.name);
        let Err(Error::Script(notes)) = script(&lines) else { panic!("{} takes anything", command.name) };
        assert!(notes[0].place.as_ref().is_some_and(|p| p.line == 3), "{notes:?}");
    }
    for command in COMMANDS.iter().filter(|c| matches!(c.fate, Fate::Ignored(_))) {
        let lines = format!("set ns [new Simulator]\nset a [$ns node]\n{} $a 1\n$ns run\n", command.name);
        let (converted, _) = script(&lines).expect("it is ignored");
        assert!(converted.notes.iter().any(|n| n.what.contains(command.name)), "{:?}", converted.notes);
    }
}

#[test]
fn what_cannot_be_carried_out_is_passed_over_where_that_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("test.ns");
    for command in COMMANDS.iter().filter(|c| matches!(c.fate, Fate::Refused(_))) {
        let lines = format!("set ns [new Simulator]\nset a [$ns node]\n{} $a 1\n$ns run\n", command.name);
        fs::write(&path, lines).expect("it is written");
        let Err(Error::Script(notes)) = convert(&path, None, false) else { panic!("{} is taken", command.name) };
        assert!(notes[0].what.contains("`--lenient` passes over it"), "{notes:?}");
        let converted = convert(&path, None, true).expect("it is passed over");
        let said = |n: &diorama_ns::Note| n.what.contains(command.name) && n.what.contains("is passed over: ");
        let notes = &converted.notes;
        assert!(notes.iter().any(|n| said(n) && n.place.as_ref().is_some_and(|p| p.line == 3)), "{notes:?}");
        assert_eq!(converted.load(&[]).expect("the rest is right").nodes.len(), 1);
    }
}

/// As Emulab takes them: the network in parts, and links whose addresses are of a LAN's block.
#[test]
fn a_network_in_parts_and_addresses_of_a_lans_block_are_taken_with_a_note() {
    let (converted, e) = script(
        "set ns [new Simulator]\nset a [$ns node]\nset b [$ns node]\nset lan0 [$ns make-lan \"$a $b\" 100Mb 0ms]\n\
         set c [$ns node]\nset d [$ns node]\nset l [$ns duplex-link $c $d 10Mb 5ms DropTail]\n\
         tb-set-ip-lan $a $lan0 10.1.1.2\ntb-set-ip-link $c $l 10.1.1.20\nset z [$ns node]\n$ns run\n",
    )
    .expect("it is right");
    assert!(converted.text("1").contains("\napart: true\n"), "{}", converted.text("1"));
    let notes: Vec<String> = converted.notes.iter().map(ToString::to_string).collect();
    assert!(
        notes.iter().any(|n| n.contains("test.ns:5: no links lead from `a` to `c`, nor do they to 2 more: ")),
        "{notes:?}"
    );
    assert_eq!(e.nodes.len(), 5);
    assert!(e.notes.iter().any(|n| n.starts_with("10.1.1.20 of the link `l` is in 10.1.1.0/24")), "{:?}", e.notes);
    let one = script("set ns [new Simulator]\nset a [$ns node]\nset b [$ns node]\n$ns run\n").expect("it is right").0;
    assert!(!one.text("1").contains("apart"), "nodes without any network are not apart");
}

#[test]
fn background_traffic_leaves_the_rest_of_a_bandwidth() {
    let lines = |more: &str| {
        format!(
            "set ns [new Simulator]\nset a [$ns node]\nset b [$ns node]\nset c [$ns node]\n\
             set l [$ns duplex-link $a $b 10Mb 5ms DropTail]\nset lan0 [$ns make-lan \"$b $c\" 100Mb 0ms]\n\
             {more}\n$ns run\n"
        )
    };
    let rates = |more: &str| {
        let e = script(&lines(more)).expect("it is right").1;
        let mbit = |p: &model::Pipe| p.rate.expect("a bandwidth").bits_per_s() / 1e6;
        e.links.iter().flat_map(|l| [mbit(&l.ab), mbit(&l.ba)]).collect::<Vec<f64>>()
    };
    assert_eq!(rates("tb-set-link-backfill $l 4Mb"), [6.0, 6.0, 100.0, 100.0, 100.0, 100.0]);
    assert_eq!(rates("tb-set-link-backfill $a $b 4Mb; tb-set-link-simplex-backfill $l $b 1Mb")[..2], [6.0, 9.0]);
    // Options of the bandwidth and of the traffic may come in any order.
    assert_eq!(
        rates("tb-set-link-simplex-backfill $l $a 1Mb\ntb-set-link-simplex-params $l $a 5ms 2Mb 0")[..2],
        [1.0, 10.0]
    );
    assert_eq!(
        rates("tb-set-lan-backfill $lan0 30Mb\ntb-set-node-lan-backfill $c $lan0 0")[2..],
        [70.0, 70.0, 100.0, 100.0]
    );
    assert_eq!(rates("tb-set-lan-simplex-backfill $lan0 $b 20Mb 50Mb")[2..], [80.0, 50.0, 100.0, 100.0]);
    for (more, line) in
        [("tb-set-link-backfill $l 10Mb", 5), ("tb-set-lan-backfill $lan0 1Gb", 6), ("tb-set-link-backfill $l ~", 7)]
    {
        let Err(Error::Script(notes)) = script(&lines(more)) else { panic!("{more} is taken") };
        assert!(notes.len() == 1 && notes[0].place.as_ref().is_some_and(|p| p.line == line), "{more}: {notes:?}");
    }
}

/// The machine that tests run on is noisy, so this is compared with a script of a tenth of the size.
#[test]
fn a_thousand_nodes_take_ten_times_as_long_as_a_hundred() {
    let lines = |nodes: usize| {
        format!(
            "set ns [new Simulator]\nset core [$ns node]\nfor {{set i 0}} {{$i < {nodes}}} {{incr i}} {{\n\
             set n($i) [$ns node]\n$ns duplex-link $n($i) $core 10Mb 5ms DropTail\n\
             tb-set-node-startcmd $n($i) \"ping $core\"\n}}\n$ns run\n"
        )
    };
    let took = |nodes: usize| {
        let once = || {
            let begun = Instant::now();
            assert_eq!(script(&lines(nodes)).expect("it is right").1.nodes.len(), nodes + 1);
            begun.elapsed()
        };
        (0..3).map(|_| once()).min().expect("three times")
    };
    let (few, many) = (took(100), took(1000));
    println!("100 nodes in {few:?}, 1000 in {many:?}");
    assert!(many < few * 40, "{many:?}, against {few:?} for a tenth");
}

/// The table of the documentation is that of the code.
#[test]
fn the_documentation_has_every_command() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tb-compat.md");
    let row = |c: &diorama_ns::Command| {
        let (what, why) = match c.fate {
            Fate::Done("") => ("carried out", ""),
            Fate::Done(how) => ("carried out", how),
            Fate::Ignored(why) => ("ignored", why),
            Fate::Refused(why) => ("refused", why),
        };
        let name = if c.usage.is_empty() { c.name.to_owned() } else { format!("{} {}", c.name, c.usage) };
        format!("| `{}` | {what} | {why} |", name.replace('|', "\\|"))
    };
    let table: Vec<String> = COMMANDS.iter().map(row).collect();
    let text = fs::read_to_string(&page).unwrap_or_default();
    let written: Vec<&str> = text.lines().filter(|l| l.starts_with("| `tb-")).collect();
    if std::env::var_os("DIORAMA_WRITE_TB").is_some() {
        println!("{}", table.join("\n"));
    }
    assert!(written == table, "docs/tb-compat.md is out of date; its rows have to be\n{}", table.join("\n"));
}
