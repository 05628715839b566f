//! `diorama watch`: what it shows of a live run, and what it leaves of the terminal.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use host::terminal::{Look, Pty, Size, resize};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{DIORAMA, ECHO, Lab, PATIENCE, left_behind, wait_until};

/// A terminal with `diorama watch` at it.
struct Watched {
    pty: Pty,
    child: Child,
    before: Look,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Whether who reads what is shown is to let go of the terminal.
    closes: Arc<AtomicBool>,
}

impl Watched {
    fn start(lab: &Lab, args: &[&str]) -> Watched {
        let size = Size { rows: 30, columns: 120, pixels: [0, 0] };
        let usual = [0o2400, 0o5, 0o277, 0o105073];
        let pty = Pty::new(&Look { size, flags: usual, keys: Vec::new() }).unwrap();
        let before = Look::of(pty.theirs.as_fd()).unwrap();
        let theirs = || pty.theirs.try_clone().unwrap();
        let mut command = Command::new("setsid");
        command.args(["--ctty", DIORAMA, "watch"]).args(args).current_dir(lab.path()).env("TERM", "xterm");
        let child = command.stdin(theirs()).stdout(theirs()).stderr(theirs()).spawn().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let closes = Arc::new(AtomicBool::new(false));
        let (mut ours, all, closed) = (pty.ours.try_clone().unwrap(), shown.clone(), closes.clone());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while !closed.load(Ordering::Relaxed)
                && let Ok(read @ 1..) = ours.read(&mut piece)
            {
                all.lock().unwrap().extend_from_slice(&piece[..read]);
            }
        });
        Watched { pty, child, before, shown, closes }
    }

    /// All that it has written.
    fn written(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    fn wait_for(&self, text: &str) {
        self.wait_for_screen(text, |screen| screen.contains(text));
    }

    fn wait_for_screen(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_there(&screen(&self.written())) {
            assert!(Instant::now() < end, "not on the screen: {what:?}\n{}", screen(&self.written()));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &str) {
        self.pty.ours.write_all(keys.as_bytes()).unwrap();
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Closes the terminal, as a window is closed; the exit code of who sat at it.
    fn lose_terminal(&mut self) -> i32 {
        // The thread that reads has the harness's end, too.
        self.closes.store(true, Ordering::Relaxed);
        self.pty.ours = File::open("/dev/null").unwrap();
        self.pty.theirs = File::open("/dev/null").unwrap().into();
        wait_until("the end of `watch`", Duration::from_secs(20), || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code().unwrap()
    }

    /// Waits for its end, after which the terminal is as it was: its settings, its own screen, its cursor. The exit
    /// code.
    fn ended(mut self) -> i32 {
        wait_until("the end of `watch`", Duration::from_secs(20), || self.child.try_wait().unwrap().is_some());
        let now = Look::of(self.pty.theirs.as_fd()).unwrap();
        assert_eq!(Look { size: self.before.size, ..now }, self.before);
        wait_until("the last words", PATIENCE, || {
            let text = self.written();
            text.rfind("\u{1b}[?1049l") > text.rfind("\u{1b}[?1049h")
                && text.rfind("\u{1b}[?25h") > text.rfind("\u{1b}[?25l")
        });
        self.child.wait().unwrap().code().unwrap()
    }
}

/// The screen of a terminal to which this was written: of what it obeys, only where to go on, and to clear all.
fn screen(written: &str) -> String {
    let mut rows = vec![vec![' '; 120]; 30];
    let (mut x, mut y) = (0, 0);
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '\u{1b}' && rest.starts_with('[') {
            // The rest of what is not whole is still to come.
            let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic()) else { break };
            let numbers: Vec<usize> = rest[1..end].split(';').map(|n| n.parse().unwrap_or(1)).collect();
            match rest.as_bytes()[end] {
                b'H' => (y, x) = (numbers[0] - 1, numbers.get(1).map_or(0, |x| x - 1)),
                b'J' => rows.iter_mut().for_each(|row| row.fill(' ')),
                _ => {}
            }
            rest = &rest[end + 1..];
        } else if !c.is_control()
            && let Some(cell) = rows.get_mut(y).and_then(|row| row.get_mut(x))
        {
            *cell = c;
            x += 1;
        }
    }
    rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_string() + "\n").collect()
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn a_live_run_is_watched_and_goes_on_and_its_verdict_stays() {
    let lab = Lab::new(ECHO);
    let none = lab.diorama(&["watch", "--once"]);
    assert!(none.code == 2 && none.stderr.contains("no run is live"), "{}", none.stderr);
    let mut run = lab.start(&["run", "lab", "--set", "measure=0s..", "--set", "ends={limit: 120s}"]);
    lab.wait_for_event("echo/scaled", "ready");

    let columns = |width: &str| {
        let output = lab.command(&["watch", "--once", "echo"]).env("COLUMNS", width).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let mut text = String::new();
    wait_until("what nodes and links do", PATIENCE, || {
        text = columns("110");
        let nodes = text.lines().filter(|line| line.contains(" of 1  ") && line.contains("iB of")).count();
        nodes == 3 && text.contains("server--core/ab")
    });
    println!("{text}");
    assert!(text.starts_with("echo · scaled · TDF 5 · live\n"), "{text}");
    assert!(text.contains(" of 120.0 s · ") && text.contains(" of 3 nodes run\n"), "{text}");
    assert!(text.contains("verdict: comes at the end") && text.contains("  ready         server"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110) && !text.contains('\u{1b}'), "{text}");
    let narrow = columns("40");
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");

    // Not at a terminal: as with `--once`, and the only live run.
    assert!(lab.diorama(&["watch"]).stdout.starts_with("echo · scaled"));

    let mut leaves = Watched::start(&lab, &[]);
    leaves.wait_for("Nodes: 3");
    assert_ne!(Look::of(leaves.pty.theirs.as_fd()).unwrap().flags, leaves.before.flags, "keys come as they are typed");
    resize(leaves.pty.ours.as_fd(), Size { rows: 10, columns: 40, pixels: [0, 0] }).unwrap();
    leaves.press("\t\tkkj");
    leaves.wait_for_screen("the events alone, where there is room for one pane", |screen| {
        let title = screen.lines().nth(3).unwrap_or_default();
        title.starts_with("── Events: ") && !screen.contains("Nodes: 3")
    });
    leaves.press("q");
    assert_eq!(leaves.ended(), 0);

    // Keys that come with another size, and while it is drawn, are not lost: often, as it takes a moment of a few ms.
    for pause in 0..8 {
        let mut both = Watched::start(&lab, &[]);
        both.wait_for("Nodes: 3");
        for rows in [10, 11] {
            resize(both.pty.ours.as_fd(), Size { rows, columns: 40, pixels: [0, 0] }).unwrap();
            std::thread::sleep(Duration::from_micros(400 * pause));
        }
        both.press("\t\tkkjq");
        assert_eq!(both.ended(), 0);
    }

    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut told = Watched::start(&lab, &["echo/scaled"]);
        told.wait_for("Nodes: 3");
        // In the middle of a sequence that never ends, too.
        told.press("\u{1b}[");
        told.send(signal);
        assert_eq!(told.ended(), 130);
    }
    let mut lost = Watched::start(&lab, &["echo/scaled"]);
    lost.wait_for("Nodes: 3");
    assert_eq!(lost.lose_terminal(), 130, "its terminal is closed");
    let mut control_c = Watched::start(&lab, &["echo"]);
    control_c.wait_for("Links: ");
    control_c.press("\u{3}");
    assert_eq!(control_c.ended(), 0);

    let mut stays = Watched::start(&lab, &["runs/echo/scaled"]);
    stays.wait_for("verdict: comes at the end");
    assert!(run.try_wait().unwrap().is_none(), "nobody who looked has ended it");
    assert_eq!(lab.diorama(&["event", "echo", "do: end"]).code, 0);
    run.wait().unwrap();
    let verdict = lab.result("echo/scaled").fidelity.verdict;
    stays.wait_for("virtual s in");
    std::thread::sleep(Duration::from_secs(1));
    assert!(stays.child.try_wait().unwrap().is_none(), "it stays until somebody has seen it");
    stays.press("\u{1b}");
    assert_eq!(stays.ended(), 0);

    let last = lab.diorama(&["watch", "--once", "runs/echo/scaled"]).stdout;
    assert!(last.contains(&format!("verdict: {verdict}")) && last.contains("\nok  emulator-lateness"), "{last}");
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn a_run_that_is_killed_and_its_bad_lines_are_no_trouble() {
    let lab = Lab::new(ECHO);
    let mut run = lab.start(&["run", "lab", "--set", "ends={limit: 60s}"]);
    lab.wait_for_event("echo/scaled", "ready");
    let watched = Watched::start(&lab, &["echo"]);
    watched.wait_for("Nodes: 3");
    let append = |file: &str, text: &str| {
        let path = lab.path().join("runs/echo/scaled").join(file);
        File::options().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    };
    append("events.jsonl", "{\"real_s\":1,\"event\":\"a\\u001b]0;x\\u0007\"}\n{\"real\n");
    watched.wait_for("1 lines of its files");
    watched.wait_for("a\\x1b]0;x\\x07");
    run.kill().unwrap();
    run.wait().unwrap();
    watched.wait_for("no verdict");
    fs::remove_dir_all(lab.path().join("runs")).unwrap();
    let gone = lab.diorama(&["watch", "--once", "runs/echo/scaled"]);
    assert!(gone.code == 2 && gone.stderr.contains("neither a run directory nor a live run"), "{}", gone.stderr);
    watched.send(Signal::TERM);
    assert_eq!(watched.ended(), 130);
}
