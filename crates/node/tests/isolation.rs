//! A node's root tries to break out, or to see what is not its own, with every runtime.

#[path = "../examples/enclosed/hoard.rs"]
pub mod hoard;

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{Scratch, World, io, program, runtimes, with_each_runtime};
use diorama_node::{Node, NodeSpec, Root, Unpacked};

#[test]
fn system_calls_that_reach_the_host_are_refused() {
    with_each_runtime(|world| {
        let mut spec = world.spec("intruder", "");
        spec.files.push(("/srv/enclosed".into(), program()));
        spec.argv = ["/srv/enclosed", "attack"].map(String::from).to_vec();
        let outcome = world.run_spec(spec);
        let lines: Vec<_> = outcome.ok().lines().collect();
        assert!(lines.len() > 40, "all attempts were made: {lines:#?}");
        for line in &lines {
            let (attempt, result) = line.split_once(": ").unwrap();
            if attempt == "chroot escape sees" {
                assert!(!result.contains("work") && result.contains(".diorama"), "it sees the host: {result}");
            } else if attempt.starts_with("family") {
                assert_eq!(result, "EAFNOSUPPORT", "{line}");
            } else if attempt.starts_with("large pages") {
                assert_eq!(result, "ENOMEM", "{line}");
            } else if attempt.starts_with("netlink") {
                assert_eq!(result, "EPROTONOSUPPORT", "{line}");
            } else {
                assert!(["EPERM", "EACCES", "ENOSYS"].contains(&result), "{line}");
            }
        }
    });
}

/// Names of `linux/capability.h` for the capabilities that a node is to have.
const CAPABILITIES: [(&str, u32); 16] = [
    ("CHOWN", 0),
    ("DAC_OVERRIDE", 1),
    ("FOWNER", 3),
    ("FSETID", 4),
    ("KILL", 5),
    ("SETGID", 6),
    ("SETUID", 7),
    ("SETPCAP", 8),
    ("NET_BIND_SERVICE", 10),
    ("NET_BROADCAST", 11),
    ("NET_ADMIN", 12),
    ("NET_RAW", 13),
    ("IPC_LOCK", 14),
    ("IPC_OWNER", 15),
    ("SYS_CHROOT", 18),
    ("LEASE", 28),
];

#[test]
fn a_node_has_its_capabilities_and_no_other() {
    let all: u64 = CAPABILITIES.iter().map(|(_, number)| 1u64 << *number).sum();
    let sets = [("Inh", 0), ("Prm", all), ("Eff", all), ("Bnd", all), ("Amb", 0)];
    let expected: Vec<_> = sets.iter().map(|(set, capabilities)| format!("Cap{set}:\t{capabilities:016x}")).collect();
    with_each_runtime(|world| {
        let outcome = world.run("grep ^Cap /proc/self/status");
        assert_eq!(outcome.ok().lines().collect::<Vec<_>>(), expected, "expected are {CAPABILITIES:?}");
    });
}

/// Commands of which each must fail. Should one succeed on the host after all, it leaves the machine as it was: what is
/// written is what was read.
const FORBIDDEN: [&str; 37] = [
    "cat /etc/shadow",
    "cat /etc/gshadow",
    "ls -A /root | grep .",
    "date -s \"$(date)\"",
    "hwclock --systohc",
    "f=/proc/sys/kernel/hostname; v=$(cat $f); echo \"$v\" > $f",
    "f=/proc/sys/kernel/panic; v=$(cat $f); echo $v > $f",
    "f=/proc/sys/kernel/core_pattern; v=$(cat $f); echo \"$v\" > $f",
    "echo 3 > /proc/sys/vm/drop_caches",
    "f=/proc/sys/fs/file-max; v=$(cat $f); echo $v > $f",
    "echo h > /proc/sysrq-trigger",
    // This one has a size, and could not be read anyway; the others have none.
    "test -s /proc/kcore",
    "grep -q . /proc/kallsyms",
    "grep -q . /proc/timer_list",
    "grep -q . /proc/interrupts",
    "grep -q . /proc/keys",
    "ls -A /sys/module | grep .",
    "ls -A /sys/firmware | grep .",
    "ls -A /sys/kernel | grep .",
    "ls /sys/dev/block/*",
    "ls /dev/vd* /dev/sd* /dev/nvme* /dev/rtc* /dev/mem /dev/kmsg /dev/net/tun | grep dev",
    "for f in $(find /sys -maxdepth 6 -name uevent -type f | head -20); do echo add > $f && exit 0; done; false",
    "echo 1 > /sys/devices/system/cpu/cpu1/online",
    // Files that do something when they are read.
    "test -f /proc/sys/vm/stat_refresh",
    "echo 1 > /proc/sys/vm/stat_interval",
    "head -c 1 /proc/pagetypeinfo | grep .",
    "head -c 1 /proc/slabinfo | grep .",
    "ls -A /proc/fs | grep .",
    "ls -A /proc/bus /proc/tty/driver | grep -v : | grep .",
    "ls -A /sys/bus | grep .",
    "touch /sys/kernel/x",
    "mkdir /sys/bus/x",
    "find /sys/devices/pci* /sys/devices/platform -type f | grep .",
    "cat /sys/class/zram-control/hot_add",
    "f=/proc/sys/net/netfilter/nf_hooks_lwtunnel; test -e $f && v=$(cat $f) && echo $v > $f",
    "chrt -f 1 true",
    "nice -n -5 sh -c 'test $(nice) -lt 0'",
];

#[test]
fn commands_that_reach_the_host_fail() {
    with_each_runtime(|world| {
        let tries = FORBIDDEN.iter().enumerate();
        let script: String = tries.map(|(n, c)| format!("if ( {c} ) >/dev/null 2>&1; then echo {n}; fi\n")).collect();
        let outcome = world.run(&script);
        let done: Vec<_> = outcome.ok().lines().map(|n| FORBIDDEN[n.parse::<usize>().unwrap()]).collect();
        assert!(done.is_empty(), "a node could: {done:#?}");
    });
}

/// Every file of its control groups, whatever the kernel calls it: the limits, who is in them, what runs when they are
/// empty. They are opened for writing, and nothing is written.
#[test]
fn a_node_cannot_change_its_limits() {
    let script = "
        for m in $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts); do
            for f in $(find $m -type f); do echo file; { true >> $f; } 2>/dev/null && echo \"writes $f\"; done
            mkdir $m/sub 2>/dev/null && echo \"makes $m/sub\"
        done; true";
    with_each_runtime(|world| {
        let outcome = world.run(script);
        let (files, changed): (Vec<_>, Vec<_>) = outcome.ok().lines().partition(|line| *line == "file");
        assert!(files.len() > 20, "a node sees its groups: {outcome:?}");
        assert!(changed.is_empty(), "a node could: {changed:#?}");
    });
}

#[test]
fn a_node_sees_only_its_own_processes_and_files() {
    // At the top there is what each node has of its own, and where programs and their libraries are, as far as the host
    // has that: which it is depends on its packages.
    let programs = ["bin", "etc", "lib", "lib32", "lib64", "libo32", "libx32", "opt", "sbin", "usr", "var"];
    let own = ["boot", "dev", "home", "media", "mnt", "out", "proc", "root", "run", "srv", "sys", "tmp"];
    let of_host = programs.into_iter().filter(|name| Path::new("/").join(name).exists());
    let top: BTreeSet<String> = of_host.chain(own).map(String::from).collect();
    with_each_runtime(|world| {
        let other = world.spec("other", "echo theirs > /tmp/secret; sleep 60");
        let (other, _) = world.create(other);
        other.start().unwrap();
        let written = Instant::now() + Duration::from_secs(10);
        while other.read_file(Path::new("/tmp/secret")).is_err() {
            assert!(Instant::now() < written, "the other node writes nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
        let script = "ls /proc | grep -c '^[0-9]'; echo $(ls /); cat /tmp/secret /proc/*/root/tmp/secret 2>/dev/null; \
                      find /boot /home /media /mnt /root /run /srv /tmp /var/tmp /proc/1/root/root -mindepth 1";
        let outcome = world.run(script);
        let mut lines = outcome.ok().lines();
        let processes: u32 = lines.next().unwrap().parse().unwrap();
        assert!(processes <= 3, "the shell, ls and grep: {outcome:?}");
        assert_eq!(lines.next().map(words), Some(top.iter().map(String::as_str).collect()), "{outcome:?}");
        assert_eq!(lines.collect::<Vec<_>>(), ["/run/lock"], "all else is empty, and nothing is the other node's");
        other.delete().unwrap();
    });
}

#[test]
fn what_a_node_writes_stays_its_own() {
    with_each_runtime(|world| {
        // The host's files to this test: should the node reach them, no others are lost.
        let scratch = Scratch::new();
        let dir = scratch.path().display();
        let script = format!("cd {dir} && echo x > new && rm -r doc && rm page && echo y >> kept && chmod 700 . && ls");
        assert_eq!(world.run(&script).ok(), "kept\nnew");
        assert_eq!(scratch.listed(), ["doc", "doc/page", "kept", "page"]);
        assert_eq!(fs::read_to_string(scratch.path().join("kept")).unwrap(), "kept\n");
        assert_eq!(scratch.path().metadata().unwrap().permissions().mode() & 0o777, 0o755);
        let outcome = world.run_spec(world.spec("second", &format!("cd {dir} && find . -type f | sort && cat kept")));
        assert_eq!(
            words(outcome.ok()),
            ["./doc/page", "./kept", "./page", "kept"],
            "nor do the nodes see each other's"
        );
    });
}

/// Also after its runtime has mounted the root once more.
#[test]
fn setuid_bits_and_devices_in_a_nodes_files_mean_nothing() {
    with_each_runtime(|world| {
        let outcome = world.run("awk '$2 == \"/\" {print $4}' /proc/mounts");
        let options: Vec<&str> = outcome.ok().split(',').collect();
        assert!(["nosuid", "nodev", "relatime"].iter().all(|option| options.contains(option)), "{options:?}");
    });
}

#[test]
fn the_hosts_network_is_out_of_reach() {
    with_each_runtime(|world| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!(
            "ls /sys/class/net; cat /proc/net/dev | grep -c :; ip link set lo up; \
             if bash -c 'echo > /dev/tcp/127.0.0.1/{port}' 2>/dev/null; then echo connected; fi"
        );
        assert_eq!(world.run(&script).ok(), "lo\n1");
    });
}

#[test]
fn every_way_to_count_finds_one_cpu() {
    with_each_runtime(|world| {
        let script = "nproc; nproc --all; getconf _NPROCESSORS_ONLN; getconf _NPROCESSORS_CONF; \
                      grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat; \
                      for p in 'python3 -c \"import os; print(os.cpu_count())\"' 'perl -e \"print 1, chr 10\"'; do \
                      command -v ${p%% *} >/dev/null && eval \"$p\" || echo 1; done; \
                      awk '/MemTotal/ {print $2}' /proc/meminfo";
        let outcome = world.run(script);
        let counts: Vec<_> = outcome.ok().split_whitespace().collect();
        assert_eq!(counts, ["1", "1", "1", "1", "1", "1", "1", "1", "262144"]);
    });
}

/// The calls are the business of the clock's image; who reads files finds all CPUs, numbered from 0.
#[test]
fn files_tell_of_all_cpus_of_a_node() {
    with_each_runtime(|world| {
        let script = "getconf _NPROCESSORS_ONLN; getconf _NPROCESSORS_CONF; grep -c '^cpu[0-9]' /proc/stat; \
                      grep ^processor /proc/cpuinfo | tr -d '\\t\\n'; echo; \
                      cd /sys/devices/system; cat cpu/online cpu/possible cpu/present; ls -d cpu/cpu[0-9]*; \
                      cat cpu/cpu11/topology/thread_siblings_list cpu/cpu11/topology/core_siblings_list; \
                      if [ -e node ]; then cat node/node0/cpulist; else echo 0-11; fi; \
                      if echo 1 2>/dev/null > cpu/cpu1/online; then echo written; fi";
        let mut spec = world.spec("node", script);
        spec.cpus = 0..12;
        let outcome = world.run_spec(spec);
        let numbers: String = (0..12).map(|cpu| format!("processor: {cpu}")).collect();
        let mut each: Vec<_> = (0..12).map(|cpu| format!("cpu/cpu{cpu}")).collect();
        each.sort();
        let expected = format!("12\n12\n12\n{numbers}\n0-11\n0-11\n0-11\n{}\n11\n0-11\n0-11", each.join("\n"));
        assert_eq!(outcome.ok(), expected);
    });
}

#[test]
fn memory_beyond_the_limit_ends_the_program_and_is_noticed() {
    with_each_runtime(|world| {
        let mut spec = world.spec("hungry", "");
        spec.memory_bytes = 64 << 20;
        spec.files.push(("/srv/enclosed".into(), program()));
        let run = |name: &str, bytes: usize| {
            let mut spec = spec.clone();
            spec.name = name.into();
            spec.cgroup = world.groups.path(name);
            spec.argv = ["/srv/enclosed", "eat", &bytes.to_string()].map(String::from).to_vec();
            let (node, _) = world.create(spec);
            node.start().unwrap();
            let status = node.wait(None).unwrap();
            let oom = node.oom_killed();
            node.delete().unwrap();
            (status.success(), oom)
        };
        assert_eq!(run("modest", 32 << 20), (true, false));
        assert_eq!(run("greedy", 256 << 20), (false, true));
    });
}

/// Root of a node has the number of the host's root, for which the kernel counts these.
#[test]
fn a_node_cannot_use_up_what_the_hosts_root_has() {
    // As a run does.
    let _raised = host::user_limits::UserLimits::raise(&format!("hoard-{}", std::process::id())).unwrap();
    with_each_runtime(|world| {
        let mut spec = world.spec("hoarder", "");
        spec.files.push(("/srv/enclosed".into(), program()));
        spec.argv = ["/srv/enclosed", "hoard"].map(String::from).to_vec();
        let (node, output) = world.create(spec);
        node.start().unwrap();
        let until = Instant::now() + crate::common::PATIENCE;
        // The place where the node writes is the file's, and stays.
        let said = || {
            let mut text = [0; 1000];
            let length = output.read_at(&mut text, 0).unwrap();
            String::from_utf8_lossy(&text[..length]).into_owned()
        };
        while !said().contains("full") {
            assert!(node.try_wait().is_none() && Instant::now() < until, "it takes all that there is: {}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
        let said = said();
        let count = |what: &str| -> u64 {
            let mut words = said.split_whitespace().skip_while(|word| *word != what);
            words.nth(1).unwrap_or_else(|| panic!("{what}: {said}")).parse().unwrap()
        };
        assert!(count("inotify") > 200 && count("aio") == 4, "more than the host's root had until now: {said}");
        assert!(count("fanotify") > 128, "likewise: {said}");
        assert_eq!(count("terminals"), 256, "those of one node, not of the machine: {said}");
        assert!(count("timers") > 100 && count("queues") > 1 && count("shm") > 100, "{said}");
        let refused: Vec<_> = hoard::one_of_each().into_iter().filter(|(_, taken)| taken.is_err()).collect();
        assert!(refused.is_empty(), "the host's root gets no more: {refused:?}; the node had {said}");
        node.delete().unwrap();
    });
}

#[test]
fn what_the_host_keeps_from_its_users_is_hidden_also_on_other_file_systems() {
    for runtime in runtimes() {
        let world = World::hiding(runtime, vec!["/opt/place/experiment".into()]);
        // File systems of their own at /opt and /var/lib, in the enclosure's view of the host only.
        let made = world.enclosure().call(|| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode;
            let secret = |path: &str| fs::write(path, "secret").and_then(|()| fs::set_permissions(path, mode(0o640)));
            for point in ["/opt", "/var/lib"] {
                rustix::mount::mount("test", point, "tmpfs", rustix::mount::MountFlags::empty(), None)?;
            }
            let deep = "/opt/place/1/2/3/4/5/6";
            let full = ["/opt/place/experiment", "/opt/place/database", "/opt/place/program", deep];
            // Beside what is emptied in any case, `/var/lib` is searched like all else.
            for dir in full.into_iter().chain(["/var/lib/database", "/var/lib/program", "/var/lib/systemd"]) {
                fs::create_dir_all(dir)?;
                fs::write(format!("{dir}/file"), "content")?;
            }
            for dir in ["/opt/place/database", "/var/lib/database"] {
                fs::set_permissions(dir, mode(0o700))?;
            }
            for dir in ["/opt/place", deep, "/var/lib", "/var/lib/program"] {
                secret(&format!("{dir}/key"))?;
            }
            // Deeper than is searched: what was not looked at is not shown.
            let abyss = format!("/opt/abyss{}", "/n".repeat(40));
            fs::create_dir_all(&abyss)?;
            fs::write(format!("{abyss}/file"), "content")
        });
        made.unwrap().unwrap();
        let outcome = world.run("cd /opt/place && find . | sort && echo new > program/new && cat program/*");
        let expected = "
            . ./1 ./1/2 ./1/2/3 ./1/2/3/4 ./1/2/3/4/5 ./1/2/3/4/5/6 ./1/2/3/4/5/6/file
            ./database ./experiment ./program ./program/file contentnew";
        assert_eq!(words(outcome.ok()), words(expected));
        let outcome = world.run_spec(world.spec("other", "cd /var/lib && find . | sort"));
        assert_eq!(words(outcome.ok()), words(". ./database ./program ./program/file ./systemd"));
        let dive = "find /opt/abyss -type d | grep -c n/n; find /opt/abyss -type f";
        let outcome = world.run_spec(world.spec("diver", dive));
        let levels: u32 = outcome.ok().parse().expect("a number, and no file");
        assert!((20..40).contains(&levels), "{levels} levels of directories are shown");
        let outcome = world.run_spec(world.spec("next", "cat /opt/place/program/new"));
        assert!(!outcome.status.success(), "one node's files reached another: {outcome:?}");
    }
}

/// An image of other people's, where this machine has a file system of its own below a directory.
#[test]
fn an_image_with_a_link_in_the_place_of_a_directory_moves_no_mount() {
    for runtime in runtimes() {
        let world = World::new(runtime);
        let scratch = Scratch::new();
        let point = scratch.path().join("doc");
        let mount = {
            let point = point.clone();
            move || rustix::mount::mount("test", &point, "tmpfs", rustix::mount::MountFlags::empty(), None)
        };
        world.enclosure().call(mount).unwrap().unwrap();
        let shown = world.run_spec(world.spec("plain", &format!("touch {0}/own && ls {0}", point.display())));
        assert_eq!(shown.ok(), "own", "it is a file system of its own");
        let (image, victim) = (tempfile::tempdir_in("/var/tmp").unwrap(), tempfile::tempdir_in("/var/tmp").unwrap());
        let inside = |path: &Path| image.path().join(path.strip_prefix("/").unwrap());
        for directory in [inside(victim.path()).join("doc"), inside(Path::new("/opt"))] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::set_permissions(image.path(), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(victim.path(), inside(scratch.path())).unwrap();
        let image = Unpacked { root: image.path().into(), env: Vec::new(), over: Some(diorama_node::Host::here()) };
        let spec = world.spec("mover", &format!("test -L {} && echo there", scratch.path().display()));
        let outcome = world.run_spec(NodeSpec { root: Root::Image(image), ..spec });
        assert_eq!(outcome.ok(), "there");
        assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0, "a directory was made where the link leads");
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn a_path_to_hide_that_is_not_absolute_is_refused() {
    let runtime = runtimes().remove(0);
    let world = World::hiding(runtime, vec!["opt/place".into()]);
    let spec = world.spec("node", "true");
    let error = Node::create(world.enclosure(), &world.runtime, spec, io().0).expect_err("whose `opt` would that be?");
    assert_eq!(error.to_string(), "cannot hide opt/place: its path is not absolute");
}
