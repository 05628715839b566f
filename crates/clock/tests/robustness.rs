//! Execs in every form, and what happens to programs that cannot be dilated.

use std::fs;
use std::io::{BufRead, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::time::Duration;

use crate::common::{Dilation, Ran, compile, native, run};
use diorama_clock::{DILATE_EXEC, VirtualCpu};

/// A program that sleeps 20 virtual ms and says how long it took, in whole virtual ms.
const NAP: &str = "s=$(date +%s%N); sleep 0.02; e=$(date +%s%N); echo $(( (e - s) / 1000000 ))";

/// At TDF 10.
fn assert_nap(text: &str, ran: &Ran) {
    let ms: u128 = text.trim().parse().unwrap_or_else(|_| panic!("not a number: {text}"));
    // The commands that it consists of are started meanwhile.
    assert!((20..40 + ran.noise.as_millis() / 10).contains(&ms), "a nap of 20 ms took {ms}: {ran:?}");
}

#[test]
fn two_hundred_execs_at_once() {
    let dilation = Dilation::new("10");
    let ran = dilation.run(["bash", "-c", "for i in $(seq 200); do /bin/true & done; wait; echo done"]);
    assert!(ran.status.success() && ran.stdout == "done\n", "{ran:?}");
    let counted = dilation.injector.counters();
    // bash, seq and 200 times true.
    assert_eq!((counted.injected, counted.refused), (202, 0), "{:?}", dilation.refusals.lock().unwrap());
}

#[test]
fn more_commands_than_there_are_threads_for_execs() {
    const COUNT: usize = 400;
    let dilation = Dilation::new("10");
    // They all end when what they read does.
    let (read, write) = std::io::pipe().unwrap();
    let start = || dilation.command(["cat"]).stdin(read.try_clone().unwrap()).spawn().unwrap();
    let all: Vec<_> = (0..COUNT).map(|_| start()).collect();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while dilation.injector.counters().injected < COUNT as u64 && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(write);
    assert!(all.into_iter().all(|mut one| one.wait().unwrap().success()), "{:?}", dilation.refusals.lock().unwrap());
    assert_eq!(dilation.injector.counters().injected, COUNT as u64);
}

#[test]
fn threads_that_execute_at_once() {
    let program = compile("execs", &[]);
    for turn in 0..40 {
        let leader = ["", "leader"][turn % 2];
        let ran = Dilation::new("1").run([program.as_os_str(), leader.as_ref()]);
        assert!(ran.status.success() && ran.stdout == "executed\n", "{leader}, {turn}: {ran:?}");
    }
}

#[test]
fn scripts_and_failed_lookups() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nap");
    fs::write(&path, format!("#!/usr/bin/env bash\n{NAP}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let dilation = Dilation::new("10");
    // env tries every directory of PATH.
    let search = format!("/nonexistent/a:/nonexistent/b:{}:/usr/bin:/bin", dir.path().display());
    let ran = dilation.run(["env", &format!("PATH={search}"), "nap"]);
    assert!(ran.status.success(), "{ran:?}");
    assert_nap(&ran.stdout, &ran);
    assert!(dilation.injector.counters().not_executed >= 2);
}

#[test]
fn exit_codes_are_those_of_env() {
    let dilation = Dilation::new("10");
    let code = |argv: &[&str]| dilation.run(argv).status;
    assert_eq!(code(&["sh", "-c", "exit 7"]).code(), Some(7));
    assert_eq!(code(&["sh", "-c", "kill -TERM $$"]).signal(), Some(libc::SIGTERM));
    assert_eq!(code(&["no-such-command"]).code(), Some(127));
    assert_eq!(code(&["/no/such/command"]).code(), Some(127));
    assert_eq!(code(&["/etc/passwd"]).code(), Some(126));
    assert_eq!(code(&["/"]).code(), Some(126));
}

#[test]
fn descriptors_and_masks_arrive_as_they_were() {
    let look = ["sh", "-c", "ls /proc/self/fd; grep SigBlk /proc/self/status"];
    assert_eq!(Dilation::new("10").run(look).stdout, native(look).stdout);
}

#[test]
fn no_signal_interrupts_an_exec() {
    let program = compile("harassed", &[]);
    let argv = [program.as_os_str(), "start".as_ref(), "400".as_ref()];
    assert_eq!(native(argv).stdout, "done\n");
    assert_eq!(Dilation::new("1").run(argv).stdout, "done\n");
}

#[test]
fn thirty_two_bit_code_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("x.s"), dir.path().join("x"));
    fs::write(&source, ".globl _start\n_start: mov $1, %eax\n xor %ebx, %ebx\n int $0x80\n").unwrap();
    let cc = |flag: &str| {
        let built = Command::new("cc").args([flag, "-nostdlib", "-static", "-o"]).arg(&program).arg(&source).status();
        assert!(built.expect("cc").success());
    };
    let dilation = Dilation::new("10");
    cc("-m32");
    let ran = dilation.run(["sh".as_ref(), "-c".as_ref(), "\"$0\"; echo $?".as_ref(), program.as_os_str()]);
    assert_eq!(ran.stdout, "137\n", "{ran:?}");
    let said = dilation.refusals.lock().unwrap().join("\n");
    assert!(said.contains("32-bit programs cannot be dilated"), "{said}");
    assert_eq!(dilation.injector.counters().refused, 1);
}

#[test]
fn a_debugger_inside_is_told_why_not() {
    let dilation = Dilation::new("10");
    let ran = dilation.run([compile("tracer", &[])]);
    assert_eq!(ran.stdout.trim(), libc::EPERM.to_string(), "{ran:?}");
    let said = dilation.refusals.lock().unwrap().join("\n");
    assert!(said.contains("tracer") && said.contains("debuggers"), "{said}");
}

#[test]
fn a_process_without_a_free_descriptor_is_refused() {
    let dilation = Dilation::new("10");
    // sh raises nothing: the limit holds for the exec.
    let ran = dilation.run(["sh", "-c", "ulimit -n 3; exec /bin/true"]);
    assert_eq!(ran.status.signal(), Some(libc::SIGKILL), "{ran:?}");
    let said = dilation.refusals.lock().unwrap().join("\n");
    assert!(said.contains("no room"), "{said}");
}

#[test]
fn without_an_injector_nothing_starts_and_nothing_hangs() {
    let dilation = Dilation::new("10");
    let mut child = dilation.command(["bash", "-c", "echo up; read line; /bin/true; echo $?"]);
    let mut child = child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    // Until bash itself speaks, it still needs the injector.
    let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    drop(dilation);
    drop(child.stdin.take());
    // The kernel answers ENOSYS for a listener that is gone; bash makes 126 of it.
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "126\n");
    child.wait().unwrap();
}

#[test]
fn processes_of_a_nested_namespace_are_dilated() {
    use std::os::fd::OwnedFd;
    let dilation = Dilation::new("10");
    let dir = tempfile::tempdir().unwrap();
    let exec = dir.path().join("dilate-exec");
    fs::write(&exec, DILATE_EXEC).unwrap();
    fs::set_permissions(&exec, fs::Permissions::from_mode(0o755)).unwrap();
    let admitted: OwnedFd = dilation.injector.admit(VirtualCpu::NATIVE).unwrap();
    // As a container runtime does: another PID and mount namespace, no capabilities, no_new_privs.
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--fork", "--mount-proc", "setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
    command.args(["--no-new-privs", "--"]).arg(&exec).args(["--", "bash", "-c", &format!("echo $$; {NAP}")]);
    // SAFETY: dup2 is async-signal-safe.
    unsafe {
        command.pre_exec(move || match libc::dup2(admitted.as_raw_fd(), 3) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let ran = run(command);
    assert!(ran.status.success(), "{ran:?}");
    let (pid, nap) = ran.stdout.split_once('\n').unwrap();
    assert_eq!(pid, "1", "not in a namespace of its own");
    assert_nap(nap, &ran);
    // The nap's 20 virtual ms were 200 real ones.
    assert!(ran.real.as_millis() >= 200, "{:?}", ran.real);
}

#[test]
fn the_clock_page_cannot_be_written_from_inside() {
    let ran = Dilation::new("10").run([compile("vandal", &[])]);
    assert_eq!(ran.stdout, "mprotect 13\nreopened 1\n", "{ran:?}");
    assert_eq!(ran.status.signal(), Some(libc::SIGSEGV), "writing to the page must not work");
}

/// Of loaders, restorers of checkpoints and the like.
#[test]
fn programs_that_empty_their_memory_go_on_in_virtual_time() {
    for flags in [&[][..], &["-static"]] {
        let program = compile("emptied", flags);
        for how in ["all", "parts", "stack", "fork"] {
            let argv = [program.as_os_str(), how.as_ref()];
            let native = native(argv);
            assert!(native.status.success() && native.stdout.ends_with("\n77\n"), "{how}: {native:?}");
            let dilation = Dilation::new("10");
            let ran = dilation.run(argv);
            let said = dilation.refusals.lock().unwrap().join("\n");
            assert!(ran.status.success() && said.is_empty(), "{how}: {ran:?}, {said}");
            let (slept, refused) = ran.stdout.split_once('\n').unwrap();
            let slept: u128 = slept.parse().unwrap();
            assert!((50..60 + ran.noise.as_millis() / 10).contains(&slept) && refused == "77\n", "{how}: {ran:?}");
            assert!(ran.real.as_millis() >= 500, "{how}: {ran:?}");
        }
    }
}

/// Nothing is lost without a word.
#[test]
fn programs_that_take_away_the_image_are_told_so() {
    let program = compile("emptied", &[]);
    for (how, natively, here, why) in [
        ("over", "beside\nover\n", "beside\n", "puts memory of its own (MAP_FIXED) where what dilates it is"),
        ("moved", "moved\n", "", "puts memory of its own (MAP_FIXED) where what dilates it is"),
        (
            "traced",
            "unmapped 0 0, its child is mine\nslept 0\n",
            "unmapped 0 0, its child is mine\nslept -2011\n",
            "has taken away memory of a process that it traces",
        ),
    ] {
        let argv = [program.as_os_str(), how.as_ref()];
        let native = native(argv);
        assert!(native.status.success() && native.stdout == natively, "{how}: {native:?}");
        let dilation = Dilation::new("10");
        let ran = dilation.run(argv);
        assert!(!ran.status.success() && ran.stdout == here, "{how}: {ran:?}");
        let said = dilation.refusals.lock().unwrap();
        assert!(said.len() == 1 && said[0].contains(why) && said[0].starts_with("emptied"), "{how}: {said:?}");
        assert_eq!(dilation.injector.unfit(), ["emptied"], "{how}");
    }
}

#[test]
fn a_child_of_another_thread_is_not_reaped_by_the_injector() {
    let _dilation = Dilation::new("10");
    let mut child = Command::new("sh").args(["-c", "exit 5"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn programs_start_others_in_every_way() {
    for flags in [&[][..], &["-static"]] {
        let program = compile("clones", flags);
        for (tdf, ran) in [(1, native([&program])), (10, Dilation::new("10").run([&program]))] {
            assert!(ran.status.success(), "TDF {tdf}: {ran:?}");
            let mut count = 0;
            for line in ran.stdout.lines() {
                let words: Vec<&str> = line.split(' ').collect();
                let (elapsed, nominal): (u64, u64) = (words[1].parse().unwrap(), words[2].parse().unwrap());
                let late = Duration::from_nanos(elapsed.saturating_sub(nominal)) * tdf;
                assert!(elapsed >= nominal && late < ran.noise, "TDF {tdf}: {line}, {:?} are allowed", ran.noise);
                count += 1;
            }
            assert_eq!(count, 16, "{ran:?}");
        }
    }
}

#[test]
fn clone3_does_what_it_does_natively() {
    for flags in [&[][..], &["-static"]] {
        let program = compile("clone3", flags);
        let native = native([&program]);
        assert!(native.status.success() && native.stdout.matches("registers as before").count() == 27, "{native:?}");
        for dilation in [Dilation::new("10"), Dilation::new("2").with_dilated_tsc()] {
            assert_eq!(dilation.run([&program]).stdout, native.stdout);
        }
    }
}

#[test]
fn the_strict_mode_of_seccomp_is_strict_and_time_namespaces_are_refused() {
    let program = compile("strict", &[]);
    let native = native([&program]);
    assert!(native.status.success(), "{native:?}");
    let dilation = Dilation::new("10");
    assert_eq!(dilation.run([&program]).stdout, native.stdout);
    let ran = dilation.run([program.as_os_str(), "namespaces".as_ref()]);
    assert_eq!(ran.stdout, format!("{0} {0} {0}, 0\n{0}\n", libc::EINVAL));
}

#[test]
fn thousands_of_processes() {
    const COUNT: usize = 2000;
    let dilation = Dilation::new("4");
    let script = format!(
        "s=$EPOCHREALTIME; for i in {{1..{COUNT}}}; do sleep 1 & done; wait; e=$EPOCHREALTIME; \
         echo $((${{e/./}} - ${{s/./}}))"
    );
    let ran = dilation.run(["bash", "-c", &script]);
    let us: u64 = ran.stdout.trim().parse().unwrap_or_else(|_| panic!("{ran:?}"));
    assert!((1_000_000..20_000_000).contains(&us), "{us} virtual us");
    assert!(ran.real.as_secs() >= 4, "{ran:?}");
    assert_eq!(dilation.injector.counters().injected, COUNT as u64 + 1, "{:?}", dilation.refusals.lock().unwrap());
}

#[test]
fn signal_stacks_of_the_least_size_hold() {
    let program = compile("stacks", &["-static"]);
    for ran in [native([&program]), Dilation::new("10").run([&program])] {
        assert!(ran.status.success() && ran.stdout.is_empty(), "{ran:?}");
    }
}

/// A copy of the program `id`, which belongs to root and has the setuid bit.
#[test]
fn setuid_programs_run_without_their_privileges_and_dilated() {
    // Under /tmp, as that is mounted without nosuid wherever tests run.
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("bash");
    fs::copy("/bin/bash", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let script = format!("id -u; {NAP}");
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let argv = || nobody.iter().map(|s| s.as_ref()).chain([program.as_os_str(), "-pc".as_ref(), script.as_ref()]);
    assert!(native(argv()).stdout.starts_with("0\n"), "natively it has root's privileges");
    let ran = Dilation::new("10").run(argv());
    let (uid, nap) = ran.stdout.split_once('\n').unwrap_or_else(|| panic!("{ran:?}"));
    assert_eq!(uid, "65534");
    assert_nap(nap, &ran);
    assert!(ran.real.as_millis() >= 200, "{:?}", ran.real);
}

#[test]
fn debuggers_inside_end_with_a_sentence() {
    for (name, argv) in [
        ("strace", &["strace", "-o", "/dev/null", "/bin/true"][..]),
        ("gdb", &["gdb", "-q", "-nx", "-batch", "-ex", "set startup-with-shell off", "-ex", "run", "/bin/true"]),
    ] {
        if Command::new(name).arg("--version").output().is_err() {
            panic!("the tests need {name}: apt install {name}");
        }
        let dilation = Dilation::new("2");
        let ran = dilation.run(["timeout", "-k", "1", "20"].iter().chain(argv));
        assert_ne!(ran.status.code(), Some(124), "{name} hangs: {ran:?}");
        assert_ne!(ran.status.signal(), Some(libc::SIGKILL), "{name} hangs: {ran:?}");
        let said = dilation.refusals.lock().unwrap().join("\n");
        assert!(said.contains(name) && said.contains("debuggers"), "{name}: {said}");
    }
}

#[test]
fn a_debugger_can_attach_to_what_runs() {
    let script = "sleep 0.5 & timeout 20 strace -o /dev/null -p $! 2>/dev/null; wait $!; echo $?";
    let ran = Dilation::new("2").run(["bash", "-c", script]);
    assert_eq!(ran.stdout, "0\n", "{ran:?}");
    assert!(ran.real.as_millis() >= 1000, "{:?}", ran.real);
}

/// gdb's `checkpoint` has a program fork that it has attached to from outside.
#[test]
fn a_debugger_from_outside_goes_on_with_a_copy() {
    const WAITS: &str = "import sys, time
print('waits', flush=True)
while not open(sys.argv[1]).read(): time.sleep(0.02)
began = time.monotonic(); time.sleep(0.4); print(int((time.monotonic() - began) * 1000), flush=True)";
    let dir = tempfile::tempdir().unwrap();
    let (copied, log) = (dir.path().join("copied"), dir.path().join("log"));
    for tdf in [1, 5] {
        fs::write(&copied, "").unwrap();
        let dilation = Dilation::new(&tdf.to_string());
        let mut command = dilation.command(["/usr/bin/python3", "-c", WAITS, copied.to_str().unwrap()]);
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "waits");
        let mut gdb = Command::new("gdb");
        gdb.args(["-q", "-nx", "-batch", "-p", &child.id().to_string()]);
        let go = format!("shell echo go >{}", copied.display());
        for command in ["handle SIGSYS nostop noprint pass", "checkpoint", "restart 1", &go, "continue"] {
            gdb.args(["-ex", command]);
        }
        let log_file = fs::File::create(&log).unwrap();
        let started = std::time::Instant::now();
        let mut gdb = gdb.stdout(log_file.try_clone().unwrap()).stderr(log_file).spawn().expect("apt install gdb");
        // The copy's, and then that of the original, which gdb has let go.
        let waits: Vec<u64> = said.map(|line| line.unwrap().parse().unwrap()).collect();
        gdb.wait().unwrap();
        diorama_clock::wait(&mut child).unwrap();
        let log = fs::read_to_string(&log).unwrap();
        assert!(waits.len() == 2 && waits.iter().all(|ms| *ms >= 400), "TDF {tdf}: {waits:?}, {log}");
        assert!(started.elapsed() >= Duration::from_millis(400 * tdf), "TDF {tdf}: {log}");
    }
}

#[test]
fn calls_of_other_machines_are_refused() {
    // The 32-bit gate, by which getpid is 20, and x32's getpid.
    let source = "#include <stdio.h>\n#include <unistd.h>\n#include <errno.h>\n#include <sys/syscall.h>\n\
        int main(void) { long r; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"0\"(20) : \"memory\");\n\
        printf(\"%ld\", (long)(int)r); r = syscall(0x40000000 | SYS_getpid);\n\
        printf(\" %ld %d\\n\", r, errno); return 0; }\n";
    let dir = tempfile::tempdir().unwrap();
    let (file, program) = (dir.path().join("x.c"), dir.path().join("x"));
    fs::write(&file, source).unwrap();
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&file).status().unwrap().success());
    assert_eq!(Dilation::new("2").run([&program]).stdout, format!("-{0} -1 {0}\n", libc::ENOSYS));
}
