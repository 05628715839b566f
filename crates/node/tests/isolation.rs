//! A node's root tries to break out, or to see what is not its own, with every runtime.

mod common;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use common::{World, program, with_each_runtime};
use diorama_node::Runtime;

#[test]
fn system_calls_that_reach_the_host_are_refused() {
    with_each_runtime(|world| {
        let mut spec = world.spec("intruder", "");
        spec.files.push(("/srv/enclosed".into(), program()));
        spec.argv = ["/srv/enclosed", "attack"].map(String::from).to_vec();
        let outcome = world.run_spec(spec);
        let lines: Vec<_> = outcome.ok().lines().collect();
        assert!(lines.len() > 35, "all attempts were made: {lines:#?}");
        for line in &lines {
            let (attempt, result) = line.split_once(": ").unwrap();
            if attempt == "chroot escape sees" {
                assert!(!result.contains("work") && result.contains(".diorama"), "it sees the host: {result}");
            } else {
                assert!(["EPERM", "EACCES", "ENOSYS", "ESRCH"].contains(&result), "{line}");
            }
        }
    });
}

/// Commands of which each must fail.
const FORBIDDEN: [&str; 27] = [
    "cat /etc/shadow",
    "cat /etc/gshadow",
    "ls /root/.bashrc /root/.ssh",
    "date -s 2001-01-01",
    "hwclock --systohc || test ! -e /dev/rtc0 && false",
    "echo x > /proc/sys/kernel/hostname",
    "echo 1 > /proc/sys/kernel/panic",
    "echo /tmp/x > /proc/sys/kernel/core_pattern",
    "echo 3 > /proc/sys/vm/drop_caches",
    "echo 1 > /proc/sys/fs/file-max",
    "echo h > /proc/sysrq-trigger",
    "test -s /proc/kcore",
    "test -s /proc/kallsyms",
    "test -s /proc/timer_list",
    "ls -A /sys/firmware | grep .",
    "ls -A /sys/kernel | grep .",
    "ls /sys/dev/block/*",
    "ls /dev/vd* /dev/sd* /dev/nvme* /dev/mem /dev/kmsg /dev/net/tun | grep dev",
    "for f in $(find /sys -maxdepth 6 -name uevent -type f | head -20); do echo add > $f && exit 0; done; false",
    "echo 0 > /sys/devices/system/cpu/cpu1/online",
    "cd /sys/fs/cgroup; test ! -e cpu || cd cpu; echo $$ > cgroup.procs",
    "cd /sys/fs/cgroup; test ! -e cpu || cd cpu; for f in cpu.shares cpu.weight; do test -e $f && echo 999 > $f && exit 0; done; false",
    "echo /tmp/x > /sys/fs/cgroup/memory/release_agent",
    "cd /sys/fs/cgroup; test ! -e memory || cd memory; mkdir sub",
    "cd /sys/fs/cgroup; test ! -e memory || cd memory; for f in memory.limit_in_bytes memory.max; do test -e $f && echo 1g > $f && exit 0; done; false",
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

#[test]
fn a_node_sees_only_its_own_processes_and_files() {
    with_each_runtime(|world| {
        let other = world.spec("other", "echo theirs > /tmp/secret; sleep 60");
        let (other, _) = world.create(other);
        other.start().unwrap();
        let script = "ls /proc | grep -c '^[0-9]'; ls / | tr '\\n' ' '; cat /tmp/secret /proc/*/root/tmp/secret; \
                      ls -A /root /home /srv /tmp /var/tmp /mnt /media; ls -A /proc/1/root/root";
        let output = world.run(script).output;
        let mut lines = output.lines();
        let processes: u32 = lines.next().unwrap().parse().unwrap();
        assert!(processes <= 3, "the shell, ls and grep: {output}");
        assert_eq!(
            lines.next().unwrap().split("cat:").next().unwrap().trim(),
            "bin boot dev etc home lib lib64 media mnt opt out proc root run sbin srv sys tmp usr var",
            "{output}"
        );
        assert!(!output.contains("theirs"), "{output}");
        other.delete().unwrap();
    });
}

#[test]
fn what_a_node_writes_stays_its_own() {
    with_each_runtime(|world| {
        let marker = format!("/etc/diorama-test-{}", std::process::id());
        let script = format!("echo x > {marker}; rm -rf /usr/share/doc; rm /etc/passwd; touch /opt/x; chmod 777 /etc");
        assert!(world.run(&script).status.success());
        assert!(!PathBuf::from(&marker).exists() && PathBuf::from("/etc/passwd").exists());
        assert!(PathBuf::from("/usr/share/doc").exists() && !PathBuf::from("/opt/x").exists());
        let outcome = world.run_spec(world.spec("second", &format!("test ! -e {marker} && cat /etc/passwd")));
        assert!(outcome.ok().contains("root:"));
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

#[test]
fn memory_beyond_the_limit_ends_the_program_and_is_noticed() {
    with_each_runtime(|world| {
        let mut spec = world.spec("hungry", "");
        spec.memory_bytes = 64 << 20;
        spec.files.push(("/srv/enclosed".into(), program()));
        let run = |name: &str, bytes: usize| {
            let mut spec = spec.clone();
            spec.name = name.into();
            spec.cgroup = format!("{}/{name}", world.cgroup);
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

#[test]
fn what_the_host_keeps_from_its_users_is_hidden_also_on_other_file_systems() {
    let hidden = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::write(hidden.path().join("results"), "of this run").unwrap();
    for runtime in Runtime::available() {
        let world = World::hiding(runtime, vec!["/opt/place/experiment".into()]);
        // A file system of its own at /opt, in the enclosure's view of the host only.
        let made = world.enclosure().call(|| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode;
            rustix::mount::mount("test", "/opt", "tmpfs", rustix::mount::MountFlags::empty(), None)?;
            for dir in ["/opt/place/experiment", "/opt/place/database", "/opt/place/program"] {
                fs::create_dir_all(dir)?;
                fs::write(format!("{dir}/file"), "content")?;
            }
            fs::write("/opt/place/key", "secret")?;
            fs::set_permissions("/opt/place/key", mode(0o640))?;
            fs::set_permissions("/opt/place/database", mode(0o700))
        });
        made.unwrap().unwrap();
        let outcome =
            world.run("cd /opt/place && find . | sort | tr '\\n' ' ' && echo new > program/new && cat program/*");
        assert_eq!(outcome.ok(), ". ./database ./experiment ./program ./program/file contentnew");
        let outcome = world.run_spec(world.spec("next", "cat /opt/place/program/new"));
        assert!(!outcome.status.success(), "one node's files reached another: {outcome:?}");
    }
}
