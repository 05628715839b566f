//! Times of files are virtual, inside, and remain true for whoever looks from outside.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::common::{Dilation, compile, native};

#[test]
fn a_file_is_as_old_as_it_should_be() {
    let program = compile("stamps", &[]);
    let dir = tempfile::tempdir().unwrap();
    let run = |how: &str, stdout: String| assert_eq!(stdout, "", "{how}");
    run("native", native([program.as_os_str(), dir.path().as_os_str()]).stdout);
    for tdf in ["1", "1.5", "10"] {
        run(tdf, Dilation::new(tdf).run([program.as_os_str(), dir.path().as_os_str()]).stdout);
    }
    let dilation = Dilation::new("1");
    for tdf in ["7", "1.25", "10"] {
        dilation.page.set_tdf(tdf.parse().unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    run("changed thrice", dilation.run([program.as_os_str(), dir.path().as_os_str()]).stdout);
}

#[test]
fn the_host_sees_its_own_date() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    let before = SystemTime::now() - Duration::from_millis(20);
    let dilation = Dilation::new("10");
    let ran = dilation.run(["sh".as_ref(), "-c".as_ref(), "sleep 0.05; : >\"$0\"".as_ref(), file.as_os_str()]);
    assert!(ran.status.success());
    let stamp = fs::metadata(&file).unwrap().modified().unwrap();
    assert!(before < stamp && stamp <= SystemTime::now());
    // A file from before virtual zero has the date that it always had.
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    let ran = dilation.run(["stat".as_ref(), "-c".as_ref(), "%Y".as_ref(), file.as_os_str()]);
    assert_eq!(ran.stdout, "1000000000\n");
}

#[test]
fn dates_far_away_read_back() {
    // 1700 and 1730, which this machine's clock cannot count from its boot; the last ones are further off than what the
    // host can name.
    let script = "\
import os, sys, time
year = 365 * 86400 * 10**9
now = time.time_ns()
last = -1 << 63
for when in [-270 * year, -240 * year, -30 * year, now + year, now + 2 * year, now + 20 * year]:
    os.utime(sys.argv[1], ns=(when, when))
    seen = os.stat(sys.argv[1]).st_mtime_ns
    if seen != when:
        print('set to', when, 'and reads', seen)
for when in [now + n * year for n in (1, 20, 25, 50, 200, 250)]:
    os.utime(sys.argv[1], ns=(when, when))
    seen = os.stat(sys.argv[1]).st_mtime_ns
    if seen < last or seen < when - 100 * year:
        print('after', last, 'comes', seen)
    last = seen
";
    // There, dates have 64 bits for the seconds.
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    let argv = ["python3".as_ref(), "-c".as_ref(), script.as_ref(), file.path().as_os_str()];
    let natively = native(argv);
    assert!(natively.status.success() && natively.stdout.is_empty(), "{natively:?}");
    for tdf in ["1", "10"] {
        let ran = Dilation::new(tdf).run(argv);
        assert!(ran.status.success() && ran.stdout.is_empty(), "TDF {tdf}: {ran:?}");
    }
}

#[test]
fn make_is_not_fooled() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("Makefile"), "b: a\n\tcp a b\na:\n\techo x >a\n").unwrap();
    let text = "exec 2>&1; make -s && sleep 0.02 && make -q && sleep 0.02 && touch a && ! make -q && make && make";
    let ran = Dilation::new("10").run([
        // `make test` must not look like its parent.
        "env".as_ref(),
        "-uMAKELEVEL".as_ref(),
        "-uMAKEFLAGS".as_ref(),
        "-C".as_ref(),
        dir.path().as_os_str(),
        "sh".as_ref(),
        "-c".as_ref(),
        text.as_ref(),
    ]);
    assert_eq!(ran.stdout, "cp a b\nmake: 'b' is up to date.\n", "no clock skew, and no more work than there is");
}

#[test]
fn proc_agrees_with_the_clock() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/ages.py");
    for ran in [native(["python3", script]), Dilation::new("10").run(["python3", script])] {
        assert!(ran.status.success(), "{ran:?}");
        let lines: Vec<Vec<&str>> = ran.stdout.lines().map(|l| l.splitn(2, ' ').collect()).collect();
        let pair = |i: usize| -> (f64, f64) { (lines[i][0].parse().unwrap(), lines[i][1].parse().unwrap()) };
        let near = 0.15 + ran.noise.as_secs_f64();
        let (clock, proc) = pair(0);
        // Ticks of 10 ms, rounded down, and the time that it takes to look.
        assert!(clock >= 0.3 && (clock - proc).abs() < near, "age {clock} by the clock, {proc} by /proc: {ran:?}");
        let (clock, proc) = pair(1);
        assert!((clock - proc).abs() < near, "up for {clock} by the clock, {proc} by /proc");
        let (clock, proc) = pair(2);
        assert!((clock - proc).abs() < 0.04, "CPU {clock} by the clock, {proc} by /proc");
        assert_eq!(lines[3], ["1", "(python3)"], "all names lead to the same file");
        assert_eq!(lines[4], ["True", "cpu"]);
    }
}

#[test]
fn packets_and_ipc_are_stamped_by_the_programs_clock() {
    let program = compile("packets", &[]);
    assert_eq!(native([&program]).stdout, "", "native");
    let dilation = Dilation::new("10");
    // IPC has whole seconds only: the two dates must lie further apart than that.
    std::thread::sleep(Duration::from_millis(2500));
    for turn in ["first", "second, once more after an exec"] {
        let ran = dilation.run(["env".as_ref(), program.as_os_str()]);
        assert!(ran.status.success());
        assert_eq!(ran.stdout, "", "dilated, {turn}");
    }
}

#[test]
fn ps_top_and_uptime_agree() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/tools.py");
    for (tdf, ran) in [("1", native(["python3", script])), ("3", Dilation::new("3").run(["python3", script]))] {
        assert!(ran.status.success(), "TDF {tdf}: {ran:?}");
        assert_eq!(ran.stdout, "", "TDF {tdf}");
    }
}
