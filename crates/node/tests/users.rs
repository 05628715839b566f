//! Nodes that have user namespaces, whose root is nobody of the host's. `DIORAMA_USER_NAMESPACES=1` gives them to the
//! nodes of all other tests of this crate, too.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use diorama_node::{ExecSpec, Io, Node, Runtime};

use crate::common::{PATIENCE, World, program};
use crate::isolation::hoard;

fn world() -> World {
    let runtime = Runtime::available().into_iter().find(Runtime::makes_user_namespaces);
    World::with_users(runtime.expect("crun: apt-get install crun"))
}

/// Waits until there is something, for as long as a busy machine needs.
fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match look() {
            Some(found) => return found,
            None => assert!(Instant::now() < until, "there is never {what}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn root_of_a_node_has_a_number_that_is_nobodys() {
    let world = world();
    let numbers = ["one", "two"].map(|name| {
        let (node, _) = world.create(world.spec(name, "sleep 100"));
        let status = node.read_proc("status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
        let ids: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert!(ids.iter().all(|id| *id == ids[0] && (0x7000_0000..0x7FFE_0000).contains(id)), "{status}");
        (ids[0], node)
    });
    assert!(numbers[0].0.abs_diff(numbers[1].0) >= 65_536, "each has its own: {numbers:?}");
    for (_, node) in numbers {
        node.delete().unwrap();
    }
}

#[test]
fn in_the_node_all_is_as_without() {
    let world = world();
    let script = "stat -c '%u %g' / /etc/passwd /out /proc/cpuinfo /sys/devices/system/cpu /etc/hosts | sort -u; \
                  id -u; touch /out/a && chown 33:33 /out/a && stat -c '%u %g' /out/a; \
                  ip link set lo up && ping -c1 -W5 127.0.0.1 >/dev/null && echo pinged; \
                  ip link add v0 type veth peer name v1 && echo linked; \
                  sysctl -qw net.ipv4.tcp_fin_timeout=33 && cat /proc/sys/net/ipv4/tcp_fin_timeout";
    let outcome = world.run(script);
    assert_eq!(outcome.ok(), "0 0\n0\n33 33\npinged\nlinked\n33");
}

/// On disk owners are as without, so that images and suspended runs do not know of it.
#[test]
fn what_a_node_has_written_is_owned_on_disk_as_in_the_node_and_its_setuid_bit_means_nothing() {
    let world = world();
    let script = "cp /usr/bin/id /srv/id && chmod 4755 /srv/id && touch /srv/w && chown 33:34 /srv/w && sleep 100";
    let (node, _) = world.create(world.spec("setter", script));
    node.start().unwrap();
    let top = node.written().unwrap();
    let upper = format!("/proc/self/fd/{}/upper", std::os::fd::AsRawFd::as_raw_fd(&top));
    let found = wait_for("a file", || fs::metadata(format!("{upper}/srv/w")).ok().filter(|found| found.uid() == 33));
    assert_eq!((found.uid(), found.gid()), (33, 34));
    let found = fs::metadata(format!("{upper}/srv/id")).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o7777), (0, 0o4755));
    // As the host sees the node's root, too, it is another's, on a file system without such bits.
    let seen = format!("/proc/{}/root/srv/id", host_pid(&node));
    assert!(fs::metadata(&seen).unwrap().uid() >= 0x7000_0000);
    let program = fs::File::open(&seen).unwrap();
    let seen = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&program));
    let ran = Command::new(seen).arg("-u").uid(65534).gid(65534).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "65534", "who runs it stays who he is");
    node.delete().unwrap();
}

/// A node's first process, as this test's own namespace numbers it.
fn host_pid(node: &Node) -> u32 {
    let status = node.read_proc("status").unwrap();
    let field =
        |text: &str, name: &str| text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_string()));
    let [inner, user] = ["NSpid:", "Uid:"].map(|name| field(&status, name).unwrap());
    let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    let mut found = processes.filter(|pid: &u32| {
        let own = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        field(&own, "NSpid:").is_some_and(|ids| ids.ends_with(&inner)) && field(&own, "Uid:").as_ref() == Some(&user)
    });
    found.next().expect("its process")
}

#[test]
fn files_that_only_root_may_read_are_closed() {
    let world = world();
    // Settings of the node's own network are left out: they are the node's.
    let script = "find /proc/sys /sys -path /proc/sys/net -prune -o -type f ! -perm -004 -print 2>/dev/null \
                  > /tmp/all; wc -l < /tmp/all; while read -r file; do \
                  if timeout 5 head -c1 \"$file\" >/dev/null 2>&1; then \
                  echo \"$file\"; fi; done < /tmp/all";
    let outcome = world.run(script);
    let (count, read) = outcome.ok().split_once('\n').unwrap_or((outcome.ok(), ""));
    assert!(count.parse::<u32>().unwrap() >= 3, "there are such files: {outcome:?}");
    assert_eq!(read, "", "root of a node reads what only root may read");
}

/// Limits per user are counted for each node by itself. None is raised here, as other tests do.
#[test]
fn limits_per_user_are_the_nodes_own() {
    let world = world();
    let mut spec = world.spec("hoarder", "");
    spec.files.push(("/srv/enclosed".into(), program()));
    spec.argv = ["/srv/enclosed", "hoard"].map(String::from).to_vec();
    let (node, output) = world.create(spec);
    node.start().unwrap();
    let said = wait_for("an end of it", || {
        let mut text = [0; 1000];
        let length = output.read_at(&mut text, 0).unwrap();
        let said = String::from_utf8_lossy(&text[..length]).into_owned();
        said.contains("full").then_some(said)
    });
    // Contexts of aio are counted for the machine.
    let of_users = hoard::one_of_each().into_iter().filter(|(what, _)| *what != "aio");
    let refused: Vec<_> = of_users.filter(|(_, taken)| taken.is_err()).collect();
    assert!(refused.is_empty(), "the host's root gets no more: {refused:?}; the node had {said}");
    node.delete().unwrap();
}

#[test]
fn programs_open_their_outputs_again_by_name() {
    let world = world();
    let (mut read, write) = std::io::pipe().unwrap();
    let end = || fs::File::from(std::os::fd::OwnedFd::from(write.try_clone().unwrap()));
    let io = Io { stdout: end(), stderr: end(), preserve: Vec::new(), gate: None };
    let script = "echo out > /dev/stdout; echo error > /dev/stderr; sleep 100";
    let node = Node::create(world.enclosure(), &world.runtime, world.spec("opener", script), io).unwrap();
    node.start().unwrap();
    let mut text = [0; 10];
    read.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"out\nerror\n");
    let argv = ["sh", "-c", "echo joined > /dev/stdout"].map(String::from).to_vec();
    let null = host::descriptors::null().unwrap();
    let exec = ExecSpec { argv, stdin: null, stdout: end().into(), stderr: end().into(), preserve: Vec::new() };
    assert!(node.exec(exec).unwrap().wait(Some(PATIENCE)).unwrap().success());
    let mut text = [0; 7];
    read.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"joined\n");
    node.delete().unwrap();
}
