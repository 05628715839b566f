//! One program per subject, native and dilated, static and dynamic: what it measures is what was asked for, and what it
//! cannot measure (errors, signals) is the same.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{Dilation, Ran, compile, native};

const TDF: u32 = 10;

/// The lines "NAME ELAPSED NOMINAL" (ns) of a program; the sum of what was asked for.
fn check_waits(ran: &Ran, tdf: u32, how: &str) -> Duration {
    assert!(ran.status.success(), "{how}: {:?}\n{}", ran.status, ran.stdout);
    let mut total = Duration::ZERO;
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    let tick = Duration::new(tick.tv_sec as u64, tick.tv_nsec as u32).as_nanos() as u64;
    for line in ran.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, elapsed, nominal] = words[..] else { panic!("{how}: {line}") };
        let (elapsed, nominal): (u64, u64) = (elapsed.parse().unwrap(), nominal.parse().unwrap());
        let late = Duration::from_nanos(elapsed.saturating_sub(nominal)) * tdf;
        // The kernel counts a socket's time-outs on its timer wheel, whose spokes are an eighth of the way apart; and
        // from its last tick on, which a virtual machine may have been late for.
        let (early, wheel) = match name.starts_with("SO_") {
            true => (tick / u64::from(tdf), Duration::from_nanos(nominal) * tdf / 8),
            false => (0, Duration::ZERO),
        };
        assert!(elapsed + early >= nominal, "{how}: {name} came early: {elapsed} of {nominal} ns");
        assert!(
            late < ran.noise + wheel,
            "{how}: {name} took {elapsed} of {nominal} ns, {late:?} too long in real time"
        );
        // A rest that was left was not waited for.
        if name != "slept-and-left" {
            total += Duration::from_nanos(nominal);
        }
    }
    assert!(total > Duration::ZERO, "{how}: no line");
    total
}

#[test]
fn every_wait_takes_as_long_as_it_should() {
    let dynamic = compile("waits", &[]);
    let asked = check_waits(&native([&dynamic]), 1, "native");
    for program in [&dynamic, &compile("waits", &["-static"])] {
        let ran = Dilation::new("10").run([program]);
        let total = check_waits(&ran, TDF, &format!("dilated {}", program.display()));
        assert_eq!(total, asked);
        // The program's clocks say that all is well; ours say that it was slow.
        assert!(ran.real >= asked * TDF, "only {:?} of real time passed", ran.real);
    }
}

#[test]
fn sockets_remainders_and_cpu_clocks_too() {
    let program = compile("calls", &[]);
    let asked = check_waits(&native([&program]), 1, "native");
    // A CPU second is as long as the factor says, and RLIMIT_CPU knows nothing shorter.
    assert_eq!(check_waits(&Dilation::new("3").run([&program]), 3, "dilated"), asked);
}

#[test]
fn a_factor_need_not_be_whole() {
    for (tdf, least) in [("1", 1.0), ("1.5", 1.5)] {
        let ran = Dilation::new(tdf).run([compile("waits", &[])]);
        let total = check_waits(&ran, 2, tdf);
        assert!(ran.real.as_secs_f64() >= total.as_secs_f64() * least, "TDF {tdf}: {:?}", ran.real);
    }
}

/// Natively, and dilated by 10.
fn same_output(program: &Path) {
    same_lines(&Dilation::new("10"), &[program.as_os_str()]);
}

/// Output that depends on no time must be the same lines; returns them.
fn same_lines(dilation: &Dilation, argv: &[&OsStr]) -> String {
    let (native, dilated) = (native(argv), dilation.run(argv));
    assert!(native.status.success() && dilated.status.success(), "{native:?}\n{dilated:?}");
    for (n, d) in native.stdout.lines().zip(dilated.stdout.lines()) {
        assert_eq!(n, d, "native on the left, dilated on the right");
    }
    assert_eq!(native.stdout.lines().count(), dilated.stdout.lines().count());
    native.stdout
}

#[test]
fn bad_arguments_give_the_same_errors() {
    let mut said = String::new();
    for program in [compile("faults", &[]), compile("faults", &["-static"])] {
        let dilation = Dilation::new("10");
        said = same_lines(&dilation, &[program.as_os_str()]);
        said += &same_lines(&dilation, &[program.as_os_str(), "dates".as_ref()]);
    }
    // Every call that traps is among them.
    let calls =
        include_str!("../guest/calls.h").lines().filter_map(|l| l.strip_prefix("CALL(__NR_")?.split(',').next());
    // Two have no arguments.
    let calls = calls.filter(|call| !["fork", "vfork"].contains(call));
    let missing: Vec<&str> = calls.filter(|call| !said.contains(&format!(": SYS_{call},"))).collect();
    assert!(missing.is_empty(), "tests/programs/faults.c does not try {missing:?}");
}

#[test]
fn what_is_written_reads_back() {
    let program = compile("readback", &[]);
    for tdf in ["1", "1.5", "3", "7.3", "10", "1000"] {
        same_lines(&Dilation::new(tdf), &[program.as_os_str()]);
    }
    for speed in [0.08, 0.37, 1.0, 3.7] {
        same_lines(&Dilation::new("10").with_speed(speed), &[program.as_os_str()]);
    }
}

#[test]
fn no_time_is_too_long() {
    same_output(&compile("huge", &[]));
}

#[test]
fn periodic_timers_that_began_long_ago_keep_their_phase() {
    let program = compile("phases", &[]);
    let run = |interval: &str| [program.as_os_str(), "1030".as_ref(), interval.as_ref()].map(|w| w.to_owned());
    assert_eq!(native(run("400")).stdout, "", "native");
    for (tdf, interval) in [("1", "400"), ("1.5", "400"), ("5", "100")] {
        assert_eq!(Dilation::new(tdf).run(run(interval)).stdout, "", "TDF {tdf}");
    }
}

#[test]
fn signals_do_the_same() {
    same_output(&compile("signals", &[]));
    same_output(&compile("signals", &["-static"]));
}

#[test]
fn clocks_agree_with_one_another() {
    for program in [compile("clocks", &[]), compile("clocks", &["-static"])] {
        let ran = Dilation::new("10").run([&program]);
        assert!(ran.status.success(), "{}", ran.stdout);
        let numbers: Vec<u64> = ran.stdout.split_whitespace().map(|w| w.parse().expect(&ran.stdout)).collect();
        let [elapsed, cpu, usage, ticks, uptime_off] = numbers[..] else { panic!("{}", ran.stdout) };
        // At TDF 10, a tenth of what it took as seen from outside.
        let outside = ran.real.as_nanos() as u64 / 10;
        assert!(elapsed >= 30_000_000 && elapsed <= outside, "{elapsed} of {outside}");
        // On a busy machine it does not get the whole core, but it never gets more.
        assert!(cpu > 0 && cpu <= elapsed + 1_000_000, "CPU {cpu} of {elapsed}");
        // Counts from the start of the process.
        assert!(usage + 2_000_000 >= cpu && usage <= outside, "usage {usage}, CPU {cpu}, {outside} in all");
        assert!(ticks.abs_diff(elapsed / 10_000_000) <= 1, "{ticks} ticks in {elapsed} ns");
        assert_eq!(uptime_off, 0, "uptime is off by so many seconds");
    }
}

#[test]
fn the_page_and_the_programs_agree() {
    let dilation = Dilation::new("10");
    let begun = Instant::now();
    let before = dilation.page.now();
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(300));
    let least = start.elapsed();
    let passed = Duration::from(dilation.page.tdf().to_real(dilation.page.now().since(before)));
    // A virtual nanosecond is ten real ones.
    assert!(least <= passed + Duration::from_nanos(20) && passed <= begun.elapsed(), "{least:?} {passed:?}");

    let date = |ran: Ran| ran.stdout.trim().parse::<f64>().expect("a date");
    let started = dilation.page.start().unix_ns as f64 / 1e9;
    let low = started + dilation.page.now().as_secs_f64();
    let shown = date(dilation.run(["date", "+%s.%N"]));
    let high = started + dilation.page.now().as_secs_f64();
    // The doubles are good for a microsecond.
    assert!(low - 1e-5 <= shown && shown <= high + 1e-5, "{low} <= {shown} <= {high}");
}

#[test]
fn a_second_start_changes_nothing() {
    let dilation = Dilation::new("2");
    let zero = dilation.page.start();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(dilation.page.start(), zero);
    assert!(dilation.page.now().as_nanos() > 0);
}

#[test]
fn the_prober_finds_no_error_in_the_rate() {
    use std::process::Stdio;
    let dilation = Dilation::new("10");
    let mut command = dilation.command(["/proc/self/exe", "--probe"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut prober = diorama_clock::Prober::new(child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let first = prober.read().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let last = prober.read().unwrap();
    drop(prober);
    assert!(diorama_clock::wait(&mut child).unwrap().success());
    assert!(last.real.since(first.real).as_secs_f64() >= 1.0);
    let error = diorama_clock::clock_error_ppm(first, last, "10".parse().unwrap());
    assert!(error.abs() < 20.0, "{error} ppm");
    let wrong = diorama_clock::clock_error_ppm(first, last, "11".parse().unwrap());
    assert!(wrong > 90_000.0, "a clock of TDF 10 passes for one of TDF 11: {wrong} ppm");
}

#[test]
fn tcp_tells_its_times_in_virtual_time() {
    let script = "\
import socket, struct, time
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
for _ in range(20):
    start = time.monotonic()
    client.send(b'x'); peer.recv(1); time.sleep(0.005); peer.send(b'y'); client.recv(1)
time.sleep(0.2)
info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
elapsed = round((time.monotonic() - start) * 1000)
print(*struct.unpack_from('I', info, 44), *struct.unpack_from('I', info, 56), len(info), elapsed)
";
    for ran in [native(["python3", "-c", script]), Dilation::new("10").run(["python3", "-c", script])] {
        let numbers: Vec<u64> = ran.stdout.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let [sent, acknowledged, len, elapsed] = numbers[..] else { panic!("{ran:?}") };
        // The kernel counts ticks of 4 real ms, or of 10.
        assert!((190..=elapsed + 10).contains(&sent), "sent {sent} ms ago after a sleep of 200 ms: {ran:?}");
        assert!((190..=elapsed + 10).contains(&acknowledged), "{ran:?}");
        assert!(len >= 192, "{ran:?}");
    }
}

#[test]
fn rates_and_times_of_sockets_are_virtual() {
    // The kernel's pacing rate is seen in TCP_INFO's max_pacing_rate; and it takes 120 s of its own for any longer
    // TCP_LINGER2.
    let script = "\
import socket, struct
s = socket.socket()
for rate in (struct.pack('I', 12345000), struct.pack('Q', 98765000)):
    s.setsockopt(socket.SOL_SOCKET, 47, rate)
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    seen = s.getsockopt(socket.SOL_SOCKET, 47, len(rate))
    print(struct.unpack_from('Q', info, 112)[0], int.from_bytes(seen, 'little'))
s.setsockopt(socket.SOL_SOCKET, 47, struct.pack('I', 0xffffffff))
print(s.getsockopt(socket.SOL_SOCKET, 47), s.getsockopt(socket.SOL_SOCKET, 47, 8).hex())
for linger in (5, 10000, -1):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, linger)
    print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2))
";
    let rates = "12345000 12345000\n98765000 98765000\n-1 ffffffffffffffff\n";
    assert_eq!(native(["python3", "-c", script]).stdout, format!("{rates}5\n120\n-1\n"));
    assert_eq!(Dilation::new("10").run(["python3", "-c", script]).stdout, format!("{rates}5\n12\n-1\n"));
}
