//! Queues under workers that are killed, of several at once, and on bad ground. Needs no root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diorama_queue::{Error, MOST_TRIES, Queue, State, Wanted, Worked};

/// Where a worker that this test program starts of itself finds its queue.
const QUEUE: &str = "DIORAMA_TEST_QUEUE";

fn wanted(script: &str) -> Wanted {
    Wanted { dir: "/".into(), words: vec![script.into()], priority: 0 }
}

fn add(queue: &mut Queue, scripts: &[&str]) -> Vec<i64> {
    queue.add(scripts.iter().map(|s| wanted(s)), |id, _| PathBuf::from(format!("/results/{id}"))).unwrap()
}

fn shell(job: &diorama_queue::Job) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &job.wanted.words[0], "sh", &job.id.to_string()]);
    command
}

/// A process that another test starts at the wrong moment would inherit the lock of a job, and hold it: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(queue: &mut Queue) -> Worked {
    queue.work(shell, || false).unwrap()
}

/// Works until nothing waits: no test, but a process that tests start, and kill.
#[test]
#[ignore = "a process that other tests start"]
fn worker() {
    let file = std::env::var_os(QUEUE).expect("other tests say which queue");
    let mut queue = Queue::open(Path::new(&file)).unwrap();
    while work(&mut queue) != Worked::Nothing {}
}

fn start_worker(file: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "worker"]).env(QUEUE, file).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn of_two_hundred_jobs_none_is_lost_or_made_twice_at_once_though_workers_are_killed() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (file, log) = (dir.path().join("queue.db"), dir.path().join("log"));
    let mut queue = Queue::open(&file).unwrap();
    let script = format!("echo begin $1 >> {0}; sleep 0.01; echo end $1 >> {0}", log.display());
    add(&mut queue, &vec![script.as_str(); 200]);
    let mut workers = [start_worker(&file), start_worker(&file)];
    let (mut killed, deadline) = (0, Instant::now() + Duration::from_secs(120));
    let mut chance = 7u64;
    while !queue.jobs().unwrap().iter().all(|job| job.state.is_over()) {
        assert!(Instant::now() < deadline, "{:?}", queue.jobs().unwrap());
        chance = chance.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_millis(60 + (chance >> 33) % 200));
        let victim = &mut workers[(chance >> 62) as usize % 2];
        victim.kill().unwrap();
        victim.wait().unwrap();
        killed += 1;
        *victim = start_worker(&file);
    }
    workers.iter_mut().for_each(|worker| drop(worker.wait()));
    assert!(killed > 5, "{killed}");
    // Cut three times is rare, but no loss.
    let lost = |job: &&diorama_queue::Job| job.state != State::Done && job.cuts < MOST_TRIES;
    assert_eq!(queue.jobs().unwrap().iter().find(lost), None);
    let (mut open, mut ended) = (BTreeMap::new(), BTreeMap::new());
    for line in fs::read_to_string(&log).unwrap().lines() {
        let (what, id) = line.split_once(' ').unwrap();
        match what {
            "begin" => assert_eq!(open.insert(id.to_owned(), ()), None, "{id} is made twice at once"),
            _ => {
                open.remove(id);
                *ended.entry(id.to_owned()).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(ended.len(), 200);
}

#[test]
fn higher_priorities_go_first_and_then_who_came_first() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(&dir.path().join("queue.db")).unwrap();
    let of = |priority| Wanted { priority, ..wanted("exit 0") };
    let ids = queue.add([of(0), of(5), of(0), of(5)], |id, _| format!("/results/{id}").into()).unwrap();
    let mut order = Vec::new();
    while let Worked::Over(job) = work(&mut queue) {
        assert_eq!((job.state, job.code, job.tries), (State::Done, Some(0), 1));
        order.push(job.id);
    }
    assert_eq!(order, [ids[1], ids[3], ids[0], ids[2]]);
}

#[test]
fn how_a_job_ends_is_kept_with_what_it_said() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(&dir.path().join("queue.db")).unwrap();
    let ids = add(&mut queue, &["echo out; echo err >&2; exit 2", "kill -9 $$", "exit 130"]);
    let Worked::Over(job) = work(&mut queue) else { panic!("it is over") };
    assert_eq!((job.state, job.code), (State::Failed, Some(2)));
    assert_eq!(fs::read_to_string(queue.log(ids[0])).unwrap(), "out\nerr\n");
    for cut in 1..=MOST_TRIES {
        let worked = work(&mut queue);
        let job = queue.job(ids[1]).unwrap();
        assert_eq!((job.tries, job.cuts), (cut, cut));
        assert_eq!(matches!(worked, Worked::Again(_)), cut < MOST_TRIES, "{worked:?}");
        assert_eq!(job.out(), Path::new(&if cut == 1 { "/results/2".into() } else { format!("/results/2.{cut}") }));
    }
    assert_eq!(queue.job(ids[1]).unwrap().state, State::Failed);
    let Worked::Again(job) = work(&mut queue) else { panic!("it waits again") };
    assert_eq!((job.id, job.state, job.cuts), (ids[2], State::Waiting, 0));
}

#[test]
fn a_job_is_cancelled_before_and_while_it_runs() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("queue.db");
    let mut queue = Queue::open(&file).unwrap();
    let ids = add(&mut queue, &["trap 'exit 130' TERM; while :; do sleep 0.01; done", "exit 0"]);
    queue.cancel(ids[1]).unwrap();
    let mut worker = start_worker(&file);
    while queue.job(ids[0]).unwrap().state != State::Running {
        std::thread::sleep(Duration::from_millis(5));
    }
    queue.cancel(ids[0]).unwrap();
    worker.wait().unwrap();
    let states: Vec<State> = queue.jobs().unwrap().iter().map(|job| job.state).collect();
    assert_eq!(states, [State::Cancelled; 2]);
    assert!(queue.cancel(ids[0]).unwrap_err().to_string().contains("cancelled already"));
    assert_eq!(queue.cancel(99).unwrap_err().code(), 2);
}

#[test]
fn what_is_asked_to_stop_waits_again() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(&dir.path().join("queue.db")).unwrap();
    add(&mut queue, &["trap 'exit 130' TERM; while :; do sleep 0.01; done"]);
    let worked = queue.work(shell, || true).unwrap();
    assert!(matches!(&worked, Worked::Again(job) if job.state == State::Waiting && job.cuts == 0), "{worked:?}");
}

#[test]
fn what_is_no_queue_is_refused_and_left_alone() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("notes.txt");
    fs::write(&text, "these are notes, and no database; there are so many of them that nobody could think so").unwrap();
    let refused = Queue::open(&text).unwrap_err();
    assert!(refused.code() == 2 && refused.to_string().contains("notes.txt: this is no queue"));
    assert!(fs::read_to_string(&text).unwrap().starts_with("these are notes"));
    // One whose pages are not what was written is damaged, which is another matter than a full disk.
    let file = dir.path().join("queue.db");
    add(&mut Queue::open(&file).unwrap(), &["true"]);
    let mut pages = fs::read(&file).unwrap();
    pages[100..].fill(0x5a);
    fs::write(&file, pages).unwrap();
    let told = Queue::open(&file).and_then(|queue| queue.jobs().map(drop)).unwrap_err();
    assert!(matches!(told, Error::Damaged { .. }) && told.to_string().contains("not what was written"), "{told}");
}

#[test]
fn a_queue_is_not_behind_links() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("elsewhere")).unwrap();
    for link in ["q", "r.jobs"] {
        std::os::unix::fs::symlink("elsewhere/made", at(link)).unwrap();
    }
    for name in ["q", "r"] {
        let error = Queue::open(&at(name)).unwrap_err().to_string();
        assert!(error.contains("is a symbolic link"), "{error}");
    }
    assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 0, "something was made where a link leads");
    // On the way to its folder, links of one's own count.
    std::os::unix::fs::symlink("elsewhere", at("own")).unwrap();
    drop(Queue::open(&at("own/q")).unwrap());
    assert!(at("elsewhere/q").is_file() && at("elsewhere/q.jobs").is_dir());
    // Only root can give one away.
    if std::os::unix::fs::lchown(at("own"), Some(65534), None).is_ok() {
        let error = Queue::open(&at("own/q")).unwrap_err().to_string();
        assert!(error.contains("of another user"), "{error}");
    }
}

/// The queue is read by a process of its own, which is this test again.
#[test]
fn of_a_hundred_megabytes_of_jobs_one_is_in_memory_at_a_time() {
    const CASE: &str = "DIORAMA_CASE";
    if let Some(file) = std::env::var_os(CASE) {
        let queue = Queue::open(Path::new(&file)).unwrap();
        let mut seen = 0;
        let read = queue.each(|_| {
            seen += 1;
            Ok::<_, Error>(())
        });
        println!("says: {seen} {} {}", queue.count(|state| state == State::Waiting).unwrap(), read.is_ok());
        let status = fs::read_to_string("/proc/self/status").unwrap();
        println!("{}", status.lines().find(|line| line.starts_with("VmHWM:")).unwrap());
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("queue.db");
    let mut queue = Queue::open(&file).unwrap();
    let job = Wanted { dir: "/".into(), words: vec!["y".repeat(5000)], priority: 0 };
    queue.add(std::iter::repeat_n(job, 20_000), |_, _| "/out".into()).unwrap();
    let read = |says: &str| {
        let mut again = Command::new(std::env::current_exe().unwrap());
        let this = "of_a_hundred_megabytes_of_jobs_one_is_in_memory_at_a_time";
        let ended = again.args([this, "--exact", "--nocapture"]).env(CASE, &file).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        let line = |begins: &str| said.lines().find_map(|line| line.strip_prefix(begins)).unwrap_or_default().trim();
        let kib: u64 = line("VmHWM:").trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 64 << 10 && line("says: ") == says, "{said}");
        println!("{says}: {kib} KiB");
    };
    read("20000 20000 true");
    // Words of a job that are longer than any command.
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute("UPDATE job SET words = ? WHERE id = 2", [format!("[\"{}\"]", "y".repeat(100 << 20))]).unwrap();
    read("0 20000 false");
}
