//! The life of a node, with every runtime.

use std::fs::{self, File};
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, Scratch, World, io, program, runtimes, text, with_each_runtime};
use diorama_node::{Error, ExecSpec, Io, Node, ParentNamespace, Root};
use host::NetNamespace;
use host::cgroup::Tree;
use scale::Tdf;

fn exec(node: &Node, script: &str) -> (Option<i32>, String) {
    let (io, output) = io();
    let spec = ExecSpec {
        argv: ["sh", "-c", script].map(String::from).to_vec(),
        stdin: File::open("/dev/null").unwrap().into(),
        stdout: io.stdout.into(),
        stderr: io.stderr.into(),
        preserve: Vec::new(),
    };
    let command = node.exec(spec).expect("a command in the node");
    let status = command.wait(Some(PATIENCE)).expect("the command ends");
    (status.code(), text(output))
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the node wrote a whole line into the file: it is there, empty, before that.
fn has_line(node: &Node, path: &str) -> bool {
    let mut line = String::new();
    node.read_file(Path::new(path)).is_ok_and(|mut file| file.read_to_string(&mut line).is_ok() && line.ends_with('\n'))
}

#[test]
fn a_node_runs_its_program_and_its_exit_is_heard() {
    with_each_runtime(|world| {
        let (node, output) = world.create(world.spec("one", "echo hello from $(hostname); exit 7"));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(text(output.try_clone().unwrap()), "", "nothing runs before the start");
        node.start().unwrap();
        let exit = world.enclosure().exits().recv_timeout(PATIENCE).unwrap();
        assert_eq!((exit.pid, exit.status.code()), (node.pid(), Some(7)));
        assert_eq!(node.wait(None), Some(exit.status));
        assert_eq!(text(output), "hello from one\n");
        node.delete().unwrap();
    });
}

/// Descriptors of a node whose program waits for a byte on descriptor 3, and its output.
fn waiting() -> (Io, File) {
    let (reads, writes) = std::io::pipe().unwrap();
    let (mut io, output) = io();
    io.preserve.push(reads.into());
    io.gate = Some(OwnedFd::from(writes).into());
    (io, output)
}

#[test]
fn a_node_behind_a_gate_starts_with_a_byte_also_when_it_is_created_again() {
    with_each_runtime(|world| {
        let script = "test \"$(head -c 1 <&3 | wc -c)\" = 1 && exec 3<&- && echo started";
        let (io, output) = waiting();
        let spec = world.spec("gated", script);
        let mut node = Node::create(world.enclosure(), &world.runtime, spec, io).expect("a node");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!((node.try_wait(), text(output.try_clone().unwrap())), (None, String::new()), "it waits");
        node.start().unwrap();
        assert_eq!(node.wait(Some(PATIENCE)).unwrap().code(), Some(0));
        assert_eq!(text(output), "started\n");

        let (io, output) = waiting();
        node.create_again(io).unwrap();
        assert_eq!(node.try_wait(), None);
        node.start().unwrap();
        assert_eq!(node.wait(Some(PATIENCE)).unwrap().code(), Some(0));
        assert_eq!(text(output), "started\n");

        // Whoever waits may have been killed.
        node.create_again(waiting().0).unwrap();
        node.signal(libc::SIGKILL).unwrap();
        assert_eq!(node.wait(Some(PATIENCE)).unwrap().signal(), Some(libc::SIGKILL));
        node.start().unwrap();
        node.delete().unwrap();
    });
}

#[test]
fn a_killed_node_can_be_created_again_and_finds_its_files() {
    with_each_runtime(|world| {
        let script = "if test -e /out/been; then cat /out/been; else echo here before > /out/been; sleep 60; fi";
        let (mut node, _) = world.create(world.spec("twice", script));
        node.start().unwrap();
        eventually("the node wrote a file", || has_line(&node, "/out/been"));
        assert!(matches!(node.create_again(io().0), Err(Error::Node { .. })), "it still runs");
        node.signal(libc::SIGKILL).unwrap();
        assert_eq!(node.wait(Some(PATIENCE)).unwrap().signal(), Some(libc::SIGKILL));
        assert!(!node.oom_killed());
        let (again, output) = io();
        node.create_again(again).unwrap();
        assert_eq!(node.try_wait(), None);
        node.start().unwrap();
        assert_eq!(node.wait(Some(PATIENCE)).unwrap().code(), Some(0));
        assert_eq!(text(output), "here before\n");
        node.delete().unwrap();
    });
}

#[test]
fn a_command_joins_the_node_and_its_limits() {
    with_each_runtime(|world| {
        let (node, _) = world.create(world.spec("host", "echo $$ > /tmp/pid; sleep 60"));
        node.start().unwrap();
        eventually("the node runs", || has_line(&node, "/tmp/pid"));
        let (code, output) = exec(&node, "hostname; cat /tmp/pid; grep -c . /proc/1/cmdline; cat /etc/shadow; exit 3");
        assert_eq!(code, Some(3), "{output}");
        assert!(output.starts_with("host\n1\n"), "{output}");
        assert!(output.contains("No such file"), "{output}");
        let (_, output) = exec(&node, "grep -E 'Cap(Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status");
        // Capabilities as the program's own, for which `isolation.rs` has the list.
        let expected = "CapEff:\t000000001004fdfb\nCapBnd:\t000000001004fdfb\nNoNewPrivs:\t1\nSeccomp:\t2\n";
        assert_eq!(output, expected);
        let groups = node.read_proc("cgroup").unwrap();
        assert!(groups.contains(&world.groups.path("host")), "{groups}");

        let (io, _) = io();
        let spec = ExecSpec {
            argv: vec!["/no/such/program".into()],
            stdin: File::open("/dev/null").unwrap().into(),
            stdout: io.stdout.into(),
            stderr: io.stderr.into(),
            preserve: Vec::new(),
        };
        let error = node.exec(spec).expect_err("there is no such program").to_string();
        assert!(error.contains("node host") && error.contains("/no/such/program"), "{error}");
        node.delete().unwrap();
    });
}

/// They are the same files: while they were written anew, programs that run already would find them empty.
#[test]
fn files_of_the_machine_are_written_once_for_nodes_that_are_alike() {
    with_each_runtime(|world| {
        let (first, _) = world.create(world.spec("first", "sleep 60"));
        first.start().unwrap();
        let script = "stat -c '%n %Y %Z' /proc/cpuinfo /proc/stat /proc/meminfo /sys/devices/system/cpu/online";
        let (_, before) = exec(&first, script);
        assert_eq!(before.lines().count(), 4, "{before}");
        std::thread::sleep(Duration::from_millis(1100));
        let (second, _) = world.create(world.spec("second", "sleep 60"));
        second.start().unwrap();
        assert_eq!([exec(&first, script).1, exec(&second, script).1], [before.clone(), before]);
        first.delete().unwrap();
        second.delete().unwrap();
    });
}

#[test]
fn descriptors_tools_files_and_names_reach_the_program() {
    with_each_runtime(|world| {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("site")).unwrap();
        fs::write(folder.path().join("site/index.html"), "page").unwrap();
        fs::write(folder.path().join("run.sh"), "#!/bin/sh\necho script").unwrap();
        fs::set_permissions(folder.path().join("run.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let script = "cat /srv/site/index.html; /srv/run.sh; /.diorama/tool; getent hosts web; cat <&3; \
                      echo x > /.diorama/tool || echo read-only; pwd; echo $COLOUR; readlink -f /etc/resolv.conf";
        let mut spec = world.spec("well-equipped", script);
        spec.files.push(("/srv/site".into(), folder.path().join("site")));
        spec.files.push(("/srv/run.sh".into(), folder.path().join("run.sh")));
        spec.tools.push(("/.diorama/tool".into(), b"#!/bin/sh\necho tool\n"));
        spec.hosts.push(("web".into(), Ipv4Addr::new(10, 0, 0, 7).into()));
        spec.env.push("COLOUR=blue".into());
        spec.cwd = "/var/tmp".into();
        let (mut io, output) = io();
        let letter = folder.path().join("letter");
        fs::write(&letter, "third\n").unwrap();
        io.preserve.push(File::open(&letter).unwrap().into());
        let node = Node::create(world.enclosure(), &world.runtime, spec, io).unwrap();
        node.start().unwrap();
        assert!(node.wait(Some(PATIENCE)).unwrap().success());
        let output = text(output);
        for part in ["pagescript\ntool\n", "10.0.0.7", "third", "read-only", "/var/tmp\nblue\n/etc/resolv.conf"] {
            assert!(output.contains(part), "`{part}` is missing in: {output}");
        }
        node.delete().unwrap();
    });
}

#[test]
fn a_listening_port_is_seen_without_a_connection() {
    with_each_runtime(|world| {
        let server = "ip link set lo up; exec perl -MSocket -e 'socket(S,PF_INET,SOCK_STREAM,0); \
                      bind(S,sockaddr_in(8080,INADDR_ANY)); open F, \">/out/bound\"; close F; \
                      select undef, undef, undef, .01 until -e \"/out/listen\"; listen(S,5); sleep 600'";
        let (node, output) = world.create(world.spec("server", server));
        assert!(!node.listening(8080));
        node.start().unwrap();
        let said = || text(output.try_clone().unwrap());
        eventually(&format!("the port is bound: {}", said()), || node.read_file(Path::new("/out/bound")).is_ok());
        assert!(!node.listening(8080), "bound but not listening");
        assert_eq!(exec(&node, "touch /out/listen").0, Some(0));
        eventually(&format!("the port is listened on: {}", said()), || node.listening(8080));
        assert!(!node.listening(80));
        node.delete().unwrap();
    });
}

#[test]
fn a_root_of_the_users_own_is_used_and_not_written() {
    let root = tempfile::tempdir_in("/var/tmp").unwrap();
    // A root file system of one program and its libraries.
    for dir in ["bin", "lib64", "lib/x86_64-linux-gnu"] {
        fs::create_dir_all(root.path().join(dir)).unwrap();
    }
    for (from, to) in [
        ("/bin/dash", "bin/sh"),
        ("/lib64/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2"),
        ("/lib/x86_64-linux-gnu/libc.so.6", "lib/x86_64-linux-gnu/libc.so.6"),
    ] {
        fs::copy(from, root.path().join(to)).unwrap();
    }
    with_each_runtime(|world| {
        let mut spec = world.spec("small", "echo /*; echo x > /out/x; echo y > /bin/new");
        spec.root = Root::Dir(root.path().into());
        assert_eq!(world.run_spec(spec).ok(), "/bin /dev /etc /lib /lib64 /out /proc /root /run /sys /tmp /var");
        assert!(!root.path().join("bin/new").exists() && !root.path().join("out").exists());
        let mut spec = world.spec("none", "true");
        spec.root = Root::Dir("/no/such/root".into());
        let error = Node::create(world.enclosure(), &world.runtime, spec, io().0).expect_err("there is no such root");
        assert!(
            matches!(&error, Error::Input(words) if words.contains("node none: its root /no/such/root")),
            "{error}"
        );
    });
}

#[test]
fn kernel_settings_are_the_namespaces_own() {
    let namespace = NetNamespace::create().unwrap();
    let tdf: Tdf = "10".parse().unwrap();
    let refused = diorama_node::apply(&namespace, "reno", tdf).unwrap();
    assert_eq!(refused, [], "an old kernel lacks some of them, and says so");
    // A name that the kernel does not know must be reported.
    let refused = diorama_node::apply(&namespace, "no-such-thing", tdf).unwrap();
    assert_eq!(refused.iter().map(|r| r.setting.as_str()).collect::<Vec<_>>(), ["ipv4/tcp_congestion_control"]);
    assert_eq!(diorama_node::apply_to_devices(&namespace, tdf).unwrap(), []);
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap().trim().to_string();
    let host = read("tcp_keepalive_time");
    let inside =
        namespace.enter(|| ["tcp_keepalive_time", "tcp_congestion_control", "neigh/lo/gc_stale_time"].map(read));
    assert_eq!(inside.unwrap(), ["72000", "reno", "600"]);
    let other = NetNamespace::create().unwrap();
    assert!(namespace.cookie().unwrap() != 0 && namespace.cookie().unwrap() == namespace.clone().cookie().unwrap());
    assert_ne!(namespace.cookie().unwrap(), other.cookie().unwrap());
    assert_eq!(read("tcp_keepalive_time"), host, "the host's own settings are as before");
}

#[test]
fn nodes_have_tables_of_connections_of_their_own() {
    let node = ParentNamespace::create().unwrap().child(false).unwrap();
    let other = NetNamespace::create().unwrap();
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap().trim().to_string();
    assert_eq!(node.enter(|| read("tcp_ehash_entries")).unwrap(), "8192", "of others it is less than nothing");
    let by_table = || ["tcp_max_tw_buckets", "tcp_max_syn_backlog"].map(read);
    assert_eq!(node.enter(by_table).unwrap(), other.enter(by_table).unwrap(), "as with the machine's table");
}

#[test]
fn nothing_is_left_when_the_engine_is_killed() {
    let state = tempfile::tempdir_in("/var/tmp").unwrap();
    let groups = Tree::of(&format!("test-killed-{}", std::process::id())).unwrap();
    let begun = Instant::now();
    let mut engine = Command::new(program())
        .args(["hold", &state.path().to_string_lossy(), &groups.path("held")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    let mut output = engine.stdout.take().unwrap();
    output.read_exact(&mut ready).unwrap();
    let alive = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let commands = processes.filter_map(|p| fs::read(p.path().join("cmdline")).ok());
        commands.filter(|c| c.starts_with(b"sleep\x007654")).count()
    };
    let end = Instant::now() + PATIENCE;
    while alive() != 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    let running = alive();
    // In less time than it took to be made.
    let limit = begun.elapsed().max(Duration::from_secs(2));
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&*state.path().to_string_lossy());
    let visible = mounts();
    engine.kill().unwrap();
    engine.wait().unwrap();
    assert_eq!(running, 2, "the node ran");
    assert!(!visible, "no mount of the run is visible on the host while it runs");
    let killed = Instant::now();
    while alive() > 0 {
        assert!(killed.elapsed() < limit, "processes of the run live on after {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    eprintln!("gone after {:?}", killed.elapsed());
    assert!(!mounts());
    assert!(fs::read_dir(state.path().join("staging")).unwrap().next().is_none(), "it was in memory");
    assert!(!groups.remains().is_empty(), "groups are not removed by dying");
    groups.sweep().unwrap();
    diorama_node::remove_tree(state.path()).unwrap();
}

#[test]
fn what_a_node_leaves_can_be_removed_whatever_it_is() {
    with_each_runtime(|world| {
        // A file of the host's that a node removes leaves a trace in its layer.
        let scratch = Scratch::new();
        let script = "cd /out; d=.; for i in $(seq 300); do mkdir -p $d/aaaaaaaaaaaaaaaaaaaaaaaaaaaa; cd $d/a*; done; \
                      mkfifo pipe; ln -s /etc link; mkdir /out/closed; touch /out/closed/x; chmod 0 /out/closed; \
                      touch \"$(printf '/out/\\377\\n')\"; rm -r";
        assert!(world.run(&format!("{script} {}/doc", scratch.path().display())).status.success());
        // Dropping the world removes its state and fails the test if it cannot.
    });
}

#[test]
fn a_disk_that_is_full_is_named() {
    for runtime in runtimes() {
        let world = World::new(runtime);
        let nodes = world.state.path().join("nodes");
        fs::create_dir(&nodes).unwrap();
        let place = nodes.clone();
        let mount = move || {
            let options = Some(c"size=64k");
            rustix::mount::mount("full", &place, "tmpfs", rustix::mount::MountFlags::empty(), options)
        };
        world.enclosure().call(mount).unwrap().unwrap();
        let mut spec = world.spec("big", "true");
        spec.files.push(("/srv/program".into(), program()));
        let error = Node::create(world.enclosure(), &world.runtime, spec, io().0).expect_err("64 KiB are too few");
        let words = error.to_string();
        assert!(matches!(error, Error::Machine { .. }) && words.contains("node big"), "{words}");
        assert!(words.contains("No space left") && words.contains("df -h"), "{words}");
    }
}

/// Root of a node owns, by its number, what root of the host does: also what it has a descriptor of.
#[test]
fn no_program_of_a_node_holds_the_hosts_null_device() {
    with_each_runtime(|world| {
        let before = fs::metadata("/dev/null").unwrap();
        let (node, _) = world.create(world.spec("holder", "chmod 400 /proc/self/fd/0; chmod 400 /dev/null; sleep 100"));
        node.start().unwrap();
        let null = || host::descriptors::null().unwrap();
        let script = "for fd in 0 1 2; do chown 5:6 /proc/self/fd/$fd; chmod 404 /proc/self/fd/$fd; done";
        let argv = ["sh", "-c", script].map(String::from).to_vec();
        let spec = ExecSpec { argv, stdin: null(), stdout: null(), stderr: null(), preserve: Vec::new() };
        node.exec(spec).unwrap().wait(Some(PATIENCE)).expect("it ends");
        let after = fs::metadata("/dev/null").unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
        assert_eq!(after.mode() & 0o777, 0o666, "and it was the host's as it is to be");
        node.delete().unwrap();
    });
}
