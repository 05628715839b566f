//! `diorama serve`: what a browser, a scraper and somebody without the token get.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{DIORAMA, ECHO, Lab, PATIENCE, left_behind, wait_until};

/// After so long without a word, or without taking one, a client is given up.
const GIVEN_UP: Duration = Duration::from_secs(10);

/// A server, and its two tokens.
struct Server {
    child: Child,
    port: u16,
    all: String,
    look: String,
}

impl Server {
    fn start(dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Server {
        let mut command = Command::new(DIORAMA);
        command.args(["serve", "--port", "0"]).args(args).current_dir(dir).envs(env.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut token = |may: &str| {
            let line = lines.next().unwrap().unwrap();
            assert!(line.ends_with(may), "{line}");
            let rest = line.strip_prefix("http://127.0.0.1:").unwrap();
            let (port, rest) = rest.split_once('/').unwrap();
            (port.parse().unwrap(), rest.split_once('/').unwrap().0.to_string())
        };
        let ((port, all), (_, look)) = (token("may do everything"), token("may only look"));
        Server { child, port, all, look }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn say(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = self.connect();
        let host =
            if head.contains("\r\nHost:") { String::new() } else { format!("Host: 127.0.0.1:{}\r\n", self.port) };
        let (first, others) = head.split_once("\r\n").unwrap_or((head, ""));
        let others = if others.is_empty() { String::new() } else { format!("{others}\r\n") };
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let text = format!("{first} HTTP/1.1\r\n{host}Connection: close\r\n{others}{length}\r\n{body}");
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// The answer to a request: its first line and further headers, without `Host`, unless one is there.
    fn ask(&self, head: &str, body: &str) -> Said {
        let mut text = Vec::new();
        // Who is refused while he still speaks may find the connection reset behind the answer.
        let _ = self.say(head, body).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {head}: {text}"));
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        Said { code, head: head.to_ascii_lowercase(), body: body.to_string() }
    }

    fn get(&self, path: &str) -> Said {
        self.ask(&format!("GET {path}"), "")
    }

    /// Listens to live runs.
    fn listen(&self, path: &str) -> News {
        News { lines: BufReader::new(self.say(&format!("GET {path}"), "")).lines() }
    }

    /// Ends it as Ctrl-C does, which takes 2 s at most.
    fn end(mut self, signal: Signal) {
        let told = Instant::now();
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        wait_until("the end of `serve`", Duration::from_secs(20), || self.child.try_wait().unwrap().is_some());
        assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
        assert_eq!(self.child.wait().unwrap().code(), Some(130));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

struct Said {
    code: u16,
    head: String,
    body: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
}

/// Server-sent events.
struct News {
    lines: std::io::Lines<BufReader<TcpStream>>,
}

impl News {
    /// The next of this name that has something.
    fn next(&mut self, name: &str, has: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        let mut event = String::new();
        loop {
            assert!(Instant::now() < end, "no `{name}` that has it");
            let line = self.lines.next().expect("it goes on").unwrap();
            if let Some(name) = line.strip_prefix("event: ") {
                event = name.to_string();
            } else if let Some(data) = line.strip_prefix("data: ").filter(|_| event == name) {
                let value = serde_json::from_str(data).unwrap();
                if has(&value) {
                    return value;
                }
            }
        }
    }
}

/// The samples of a text in Prometheus' format, each with its labels, and its families named before.
fn samples(text: &str) -> Vec<(String, f64)> {
    let mut family = String::new();
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            family = typed.strip_suffix(" gauge").unwrap().to_string();
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(name.split('{').next().unwrap(), family, "{line}");
            assert!(!name.contains('{') || name.ends_with("\"}"), "{line}");
            found.push((name.to_string(), value.parse().unwrap_or_else(|e| panic!("{line}: {e}"))));
        }
    }
    found
}

#[test]
fn a_live_run_is_served_and_told_what_is_to_happen_by_whom_it_may() {
    let lab = Lab::new(ECHO);
    let server = Server::start(lab.path(), &["runs", "--experiment", "lab"], &[]);
    let (all, look) = (&server.all, &server.look);
    let mut any = server.listen(&format!("/{look}/live"));
    any.next("runs", |runs| runs.as_array().unwrap().is_empty());
    let mut run = lab.start(&["run", "lab", "--set", "measure=0s..", "--set", "ends={limit: 300s}"]);
    lab.wait_for_event("echo/scaled", "ready");

    // Virtual time goes on, by the same stream.
    let of = |runs: &Value, what: &str| runs[0][what].clone();
    let first = any.next("runs", |runs| of(runs, "virtual_s").as_f64() > Some(0.0) && of(runs, "is_live") == true);
    let at = of(&first, "virtual_s").as_f64();
    let later = any.next("runs", |runs| of(runs, "virtual_s").as_f64() > at);
    assert_eq!((of(&later, "name"), of(&later, "tdf")), ("echo".into(), "5".into()));
    let left = any.next("runs", |runs| of(runs, "left_real_s").is_number() && of(runs, "end_s") == 300.0);
    assert!(of(&left, "left_real_s").as_f64() > Some(0.0));
    let id = of(&first, "id").as_str().unwrap().to_string();

    // In detail.
    let mut one = server.listen(&format!("/{look}/live?run={id}"));
    let is_used = |link: &Value| link["bits_per_s"].as_f64() > Some(0.0);
    let details = one.next("details", |details| {
        let cpus = details["nodes"].as_array().unwrap().iter().filter(|node| node["cpus"].is_number()).count();
        cpus == 3 && details["links"].as_array().unwrap().iter().any(is_used)
    });
    assert_eq!(details["links"][0]["ends"], serde_json::json!(["server", "core"]));
    assert_eq!(details["links"].as_array().unwrap().len(), 6);

    // For Prometheus, whose token is in a header.
    let scraped = server.ask(&format!("GET /metrics\r\nAuthorization: Bearer {look}"), "");
    assert!(scraped.code == 200 && scraped.head.contains("text/plain; version=0.0.4"), "{}", scraped.head);
    let samples = samples(&scraped.body);
    let value = |name: &str, label: &str| {
        let found = samples.iter().find(|(sample, _)| sample.starts_with(name) && sample.contains(label));
        found.unwrap_or_else(|| panic!("{name} {label}: {}", scraped.body)).1
    };
    assert_eq!(value("diorama_live_runs", ""), 1.0);
    assert_eq!(value("diorama_run_tdf", "run=\"echo\""), 5.0);
    assert!(value("diorama_run_virtual_seconds", &format!("id=\"{id}\"")) > 0.0);
    assert!(value("diorama_node_memory_bytes", "node=\"client-2\"") > 0.0);
    assert!((0.0..=1.0).contains(&value("diorama_link_busy_ratio", "link=\"server--core\",direction=\"ab\"")));
    assert_eq!(server.get(&format!("/{look}/metrics")).code, 200, "and in the address");

    // By hand: only with the token for it, and in the words of a file.
    let down = "link: client-1--core, set: { up: false }";
    let event = |token: &str, words: &str| server.ask(&format!("POST /{token}/event?run={id}"), words);
    assert_eq!(event(look, down).code, 403);
    assert!(!lab.read("runs/echo/scaled/events.jsonl").contains("by-hand"));
    let wrong = event(all, "link: nowhere, set: { up: false }");
    assert!(wrong.code == 400 && wrong.body.contains("nowhere"), "{} {}", wrong.code, wrong.body);
    let done = event(all, down);
    assert!(done.code == 200 && done.json()["at"].as_f64() > Some(0.0), "{}", done.body);
    one.next("events", |events| {
        events["new"].as_array().unwrap().iter().any(|e| e.as_str().unwrap().contains("by-hand"))
    });
    assert_eq!(server.ask(&format!("POST /{all}/event?run={id}x"), down).code, 404);
    assert_eq!(server.get(&format!("/{all}/event?run={id}")).code, 405, "no link does it");

    // The end, the report, and the run beside itself.
    assert_eq!(event(all, "do: end").code, 200);
    let over = any.next("runs", |runs| of(runs, "is_live") == false);
    assert!(of(&over, "where") == "ended" && of(&over, "verdict").as_str().unwrap().starts_with("verdict: "), "{over}");
    assert!(run.wait().unwrap().success(), "{}", lab.said());
    let list = server.get(&format!("/{look}/runs")).json();
    assert_eq!((&list["runs"][0]["name"], list["runs"][0]["tdf"].as_f64()), (&"echo/scaled".into(), Some(5.0)));
    let report = server.get(&format!("/{look}/report?run=echo%2Fscaled"));
    assert!(report.code == 200 && report.body.contains("<h1>echo"), "{}", report.head);
    assert!(report.head.contains("content-security-policy: sandbox; default-src 'none'"), "{}", report.head);
    let compared = server.get(&format!("/{look}/compare?base=echo/scaled&other=echo/scaled"));
    assert!(compared.code == 200 && compared.body.contains("KS distance"), "{}", compared.body);
    assert!(event(all, down).code == 404, "it is not live any more");

    // While a client still listens, and another has only begun to speak.
    let mut slow = server.connect();
    slow.write_all(b"GET /").unwrap();
    server.end(Signal::INT);
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn nobody_comes_in_without_a_token_or_from_elsewhere() {
    let lab = Lab::new(ECHO);
    // A directory beside the results is not shown, by whatever path.
    fs::create_dir_all(lab.path().join("runs/a/scaled")).unwrap();
    fs::create_dir(lab.path().join("other")).unwrap();
    for dir in ["runs/a/scaled", "other"] {
        fs::write(lab.path().join(dir).join("plan.json"), "{}").unwrap();
        fs::write(lab.path().join(dir).join("report.html"), format!("of {dir}")).unwrap();
    }
    let server = Server::start(lab.path(), &["--experiment", "lab/experiment.yaml"], &[]);
    let (all, look, port) = (server.all.clone(), server.look.clone(), server.port);

    let page = server.get(&format!("/{all}/"));
    assert!(page.code == 200 && page.body.contains("data-may=\"everything\""), "{}", page.head);
    assert!(server.get(&format!("/{look}/")).body.contains("data-may=\"look\""));
    for header in ["referrer-policy: no-referrer", "cache-control: no-store", "script-src 'self'", "nosniff"] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    assert!(server.get(&format!("/{look}/page.js")).head.contains("text/javascript"));
    for path in ["/", "/metrics", "/page.js", "/x/", &format!("/{}/", &all[1..]), &format!("/{look}"), "/favicon.ico"] {
        assert_eq!(server.get(path).code, 403, "{path}");
    }
    let from = |header: &str| server.ask(&format!("GET /{all}/\r\n{header}"), "").code;
    assert_eq!(from(&format!("Host: localhost:{port}")), 200);
    assert_eq!(from(&format!("Origin: http://127.0.0.1:{port}")), 200);
    for header in [
        format!("Host: rebound.example:{port}"),
        "Host: 127.0.0.1".into(),
        "Origin: http://127.0.0.1:1".into(),
        "Origin: null".into(),
        "Sec-Fetch-Site: cross-site".into(),
        "Sec-Fetch-Site: same-site".into(),
    ] {
        assert_eq!(from(&header), 403, "{header}");
    }
    for path in ["../other", "..%2Fother", "a", "a/scaled/..", "/etc", "a%2Fscaled%2F..%2F..%2F..%2Fother", ""] {
        assert_eq!(server.get(&format!("/{all}/report?run={path}")).code, 404, "{path}");
    }
    for path in ["..", "../etc/passwd", "%2e%2e/", "page.js/", "runs/a/scaled/plan.json"] {
        assert_eq!(server.get(&format!("/{all}/{path}")).code, 404, "{path}");
    }
    assert_eq!(server.get(&format!("/{look}/report?run=a%2fscaled")).body, "of runs/a/scaled");

    // An experiment as it is typed.
    assert_eq!(server.get(&format!("/{look}/experiment")).code, 403);
    let text = server.get(&format!("/{all}/experiment")).body;
    assert_eq!(text, lab.read("lab/experiment.yaml"));
    let check = |token: &str, text: &str| server.ask(&format!("POST /{token}/check"), text);
    assert_eq!(check(&look, &text).code, 403);
    let right = check(&all, &text).json();
    assert_eq!(right["plan"].as_str().unwrap(), lab.diorama(&["check", "lab"]).stdout);
    let wrong = check(&all, &text.replace("memory: 64MiB", "memory: much")).json();
    let line = text.lines().position(|line| line.contains("memory: 64MiB")).unwrap() + 1;
    assert_eq!(wrong["places"][0]["line"], line, "{wrong}");
    assert!(wrong["places"][0]["what"].as_str().unwrap().contains("much"), "{wrong}");
    let none = check(&all, "a\0b").json();
    assert!(none["error"].as_str().unwrap().contains("line 1 holds a NUL"), "{none}");

    let taken = lab.diorama(&["serve", "--port", &port.to_string()]);
    assert!(taken.code == 3 && taken.stderr.contains("diorama (process "), "{}", taken.stderr);
    assert_eq!(lab.diorama(&["serve", "--experiment", "none"]).code, 2);
    server.end(Signal::TERM);
}

#[test]
fn what_is_long_or_slow_is_refused_and_keeps_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("runs/long/scaled");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("plan.json"), "{}").unwrap();
    fs::write(run.join("report.html"), vec![b'x'; 48 << 20]).unwrap();
    let server = Server::start(dir.path(), &[], &[]);
    let all = &server.all;
    let is_quick = || {
        let since = Instant::now();
        assert_eq!(server.get(&format!("/{all}/")).code, 200);
        // Before anybody who is slow is given up.
        assert!(since.elapsed() < GIVEN_UP, "{:?}", since.elapsed());
    };
    assert_eq!(server.ask(&format!("GET /{all}/\r\nX: {}", "x".repeat(1 << 20)), "").code, 431);
    assert_eq!(server.ask(&format!("GET /{all}/{}", "\r\nX: y".repeat(200)), "").code, 431);
    assert_eq!(server.ask(&format!("POST /{all}/check"), &"x".repeat((1 << 20) + 1)).code, 413);
    assert_eq!(server.ask(&format!("POST /{all}/event?run=1"), &"x".repeat(5000)).code, 413);

    // One does not take its answer, one does not end its request, and one says nothing.
    let mut deaf = server.say(&format!("GET /{all}/report?run=long/scaled"), "");
    let mut slow = server.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").unwrap();
    let mut mute = server.connect();
    let mut half = server.connect();
    let head = format!("POST /{all}/check HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 100\r\n\r\n", server.port);
    half.write_all(head.as_bytes()).unwrap();
    is_quick();

    // As many as there may be, and one more.
    let others: Vec<TcpStream> = (0..60).map(|_| server.connect()).collect();
    std::thread::sleep(Duration::from_millis(500));
    let mut answer = String::new();
    let mut more = server.connect();
    let _ = more.write_all(b"GET / HTTP/1.1\r\n\r\n");
    let refused = more.read_to_string(&mut answer);
    assert!(refused.is_err() || answer.is_empty(), "{answer}");
    drop(others);
    wait_until("there is room again", PATIENCE, || {
        let mut stream = server.connect();
        let asked = format!("GET /{all}/page.css HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port);
        let mut answer = String::new();
        stream.write_all(asked.as_bytes()).is_ok() && stream.read_to_string(&mut answer).is_ok_and(|read| read > 0)
    });

    // They are given up.
    let since = Instant::now();
    let mut text = String::new();
    let _ = slow.read_to_string(&mut text);
    let _ = mute.read_to_string(&mut text);
    text.clear();
    let _ = half.read_to_string(&mut text);
    assert!(text.contains(" 408 "), "{text}");
    assert!(since.elapsed() < 3 * GIVEN_UP, "{:?}", since.elapsed());
    std::thread::sleep(Duration::from_secs(2));
    let mut taken = Vec::new();
    let _ = deaf.read_to_end(&mut taken);
    assert!(taken.len() < 48 << 20, "who takes nothing for so long gets no more than was under way");
    is_quick();
    let gone = server.connect();
    gone.shutdown(Shutdown::Both).unwrap();
    is_quick();
    server.end(Signal::HUP);
}

#[test]
fn under_sudo_it_reads_what_who_called_could_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let results = dir.path().join("runs");
    for run in ["his/scaled", "roots/scaled"] {
        let run = results.join(run);
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("plan.json"), "{}").unwrap();
        fs::write(run.join("report.html"), "a report").unwrap();
    }
    let secret = dir.path().join("secret");
    fs::create_dir_all(secret.join("root")).unwrap();
    for closed in [results.join("roots/scaled/report.html"), secret.clone()] {
        let mode = if closed.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
    }
    chown(&results, Some(65534), Some(65534)).unwrap();
    let sudo = [("SUDO_UID", "65534"), ("SUDO_GID", "65534")];
    let experiment = |root: &Path| {
        let root = root.display();
        format!(
            "name: a\ntdf: 2\nmachines: {{ m: {{ speed: 0.1, memory: 64MiB }} }}\n\
             nodes: {{ a: {{ machine: m, run: /bin/true, root: \"{root}\" }} }}\nends: {{ limit: 1s }}\n"
        )
    };
    for (env, sees) in [(&sudo[..], false), (&[][..], true)] {
        let server = Server::start(dir.path(), &[], env);
        let all = &server.all;
        assert_eq!(server.get(&format!("/{all}/report?run=his/scaled")).body, "a report");
        let closed = server.get(&format!("/{all}/report?run=roots/scaled"));
        assert_eq!(closed.code == 200, sees, "{}", closed.body);
        // The folder is root's alone, but the text is not.
        let said = server.ask(&format!("POST /{all}/check"), &experiment(&secret.join("root"))).json().to_string();
        assert_eq!(said.contains("ermission denied"), !sees, "{said}");
        server.end(Signal::TERM);
    }
}
