//! Filters that programs install themselves judge what the programs call, and nothing else.

use std::io::{BufRead, BufReader};
use std::ops::RangeBounds;
use std::process::{Command, Stdio};

use diorama_clock::wait;

use crate::common::{Dilation, compile, native};

/// A program prints so many lines natively, and the same ones when it is dilated.
#[track_caller]
fn prints_as_natively(program: &str, lines: impl RangeBounds<usize>) {
    for flags in [&[][..], &["-static"]] {
        let program = compile(program, flags);
        let native = native([&program]);
        assert!(native.status.success() && lines.contains(&native.stdout.lines().count()), "{native:?}");
        for tdf in ["1", "10"] {
            let ran = Dilation::new(tdf).run([&program]);
            let differ = ran.stdout.lines().zip(native.stdout.lines()).filter(|(here, there)| here != there);
            let differ: Vec<_> = differ.collect();
            assert!(differ.is_empty() && ran.stdout.len() == native.stdout.len(), "TDF {tdf}: {differ:#?}");
            assert!(ran.status.success(), "{:?}", ran.status);
        }
    }
}

#[test]
fn verdicts_of_a_programs_own_filters_are_as_natively() {
    prints_as_natively("sandbox", 301..);
}

/// Lines of two processes come in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn supervisors_are_asked_and_answer_as_natively() {
    for flags in [&[][..], &["-static"]] {
        let program = compile("supervisor", flags);
        let native = native([&program]);
        assert!(native.status.success() && native.stdout.lines().count() == 32, "{native:?}");
        for tdf in ["1", "10"] {
            let ran = Dilation::new(tdf).run([&program]);
            assert!(ran.status.success(), "TDF {tdf}: {ran:?}");
            assert_eq!(sorted(&ran.stdout), sorted(&native.stdout), "TDF {tdf}");
        }
        // By the numbers that processes have there the supervisor finds the child's memory.
        let own = ["unshare", "-p", "-f", "--mount-proc", program.to_str().unwrap()];
        let ran = Dilation::new("3").run(own);
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(sorted(&ran.stdout), sorted(&native.stdout), "in a PID namespace");
    }
}

#[test]
fn tracers_are_told_of_calls_and_change_them_as_natively() {
    prints_as_natively("traced", 105..=105);
}

/// It would let calls be carried out in real time.
#[test]
fn tracers_that_are_not_dilated_are_not_told() {
    let program = compile("traced", &[]);
    let dilation = Dilation::new("3");
    let mut command = dilation.command([program.to_str().unwrap(), "wait"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let pid = said.next().unwrap().unwrap();
    let mut tracer = Command::new(&program).args(["attach", &pid]).spawn().unwrap();
    let calls = said.next().unwrap().unwrap();
    assert_eq!(calls.matches("nanosleep: Function not implemented").count(), 2, "{calls}");
    assert!(wait(&mut child).unwrap().success() && tracer.wait().unwrap().success());
    let refusals = dilation.refusals.lock().unwrap();
    assert!(refusals.len() == 1 && refusals[0].contains("which traces it, is not dilated"), "{refusals:?}");
}

/// Its process that is spoken to before anybody has a name may call very little, `rt_sigreturn` not at all.
#[test]
fn sshd_takes_connections() {
    let found = Command::new("sh").args(["-c", "test -x /usr/sbin/sshd && command -v ssh"]).output().expect("sh");
    assert!(found.status.success(), "this test needs sshd: apt install openssh-server (make test does)");
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let script = r#"
        cd "$0" && mkdir -p /run/sshd
        for key in host own; do ssh-keygen -q -t ed25519 -N '' -f $key; done
        /usr/sbin/sshd -D -f /dev/null -p $1 -o ListenAddress=127.0.0.1 -o HostKey="$0/host" -o PidFile=none \
            -o AuthorizedKeysFile="$0/own.pub" -o StrictModes=no -o UsePAM=no -o PermitRootLogin=yes 2>log &
        until (exec 9<>/dev/tcp/127.0.0.1/$1) 2>/dev/null; do sleep 0.01; done
        ssh -F none -p $1 -i own -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes \
            -o LogLevel=ERROR root@127.0.0.1 's=$(date +%s%N); sleep 0.2; e=$(date +%s%N); echo $((e - s))'
        kill %1; wait"#;
    let argv = ["bash", "-c", script, dir.path().to_str().unwrap(), &port];
    let ran = Dilation::new("3").run(argv);
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    let slept: u64 = ran.stdout.trim().parse().unwrap_or_else(|_| panic!("{ran:?}\n{log}"));
    assert!(slept >= 200_000_000 && ran.real.as_nanos() as u64 >= 3 * slept, "{ran:?}\n{log}");
}
