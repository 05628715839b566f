//! Resources that the kernel counts for each user or for all: as much of them as there is, or one of each.

use std::io;
use std::ptr;

/// How many pipes of 1 MiB are more than any user may have (`pipe-user-pages-soft`: 64 MiB).
const PIPES: usize = 100;
/// How many contexts, of so many events each, are more than a machine allows by default (65,536).
const CONTEXTS: usize = 4;
const EVENTS: u32 = 30_000;

/// Takes as much as it gets of each, says how much that was, and keeps it.
#[allow(dead_code, reason = "a test has the rest")]
pub fn main() -> ! {
    let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives across both calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files);
        files.rlim_cur = files.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files);
    }
    let contexts = (0..CONTEXTS).take_while(|_| aio(EVENTS).is_ok()).count();
    let timers = until_refused(timer);
    let queues = (0..).take_while(|n| message_queue(*n).is_ok()).count();
    let shared = until_refused(shared_memory);
    let semaphores = until_refused(semaphore);
    let messages = until_refused(system_v_queue);
    let terminals = until_refused(terminal);
    let fanotify = (0..2000).take_while(|_| fanotify().is_ok()).count();
    let pipes = (0..PIPES).take_while(|_| pipe().is_ok()).count();
    // Last: these take all descriptors.
    let inotify = (0..2000).take_while(|_| inotify().is_ok()).count();
    println!(
        "inotify {inotify} timers {timers} queues {queues} shm {shared} sem {semaphores} msg {messages} pipes {pipes} \
         aio {contexts} fanotify {fanotify} terminals {terminals} full"
    );
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

/// Takes one of each, and a pipe of 1 MiB, which a process with all rights may have at any time.
#[allow(dead_code, reason = "the program has the rest")]
pub fn one_of_each() -> Vec<(&'static str, io::Result<i64>)> {
    vec![
        ("inotify", inotify()),
        ("timer", timer()),
        ("message queue", message_queue(i32::MAX)),
        ("System V shared memory", shared_memory()),
        ("System V semaphores", semaphore()),
        ("System V messages", system_v_queue()),
        ("pipe", pipe()),
        ("aio", aio(1000)),
        ("key", key()),
        ("fanotify", fanotify()),
        ("terminal", terminal()),
    ]
}

fn until_refused(take: impl Fn() -> io::Result<i64>) -> usize {
    (0..1_000_000).take_while(|_| take().is_ok()).count()
}

fn result(code: i64) -> io::Result<i64> {
    if code >= 0 { Ok(code) } else { Err(io::Error::last_os_error()) }
}

fn inotify() -> io::Result<i64> {
    // SAFETY: a number alone.
    result(unsafe { libc::inotify_init1(libc::IN_CLOEXEC) }.into())
}

fn fanotify() -> io::Result<i64> {
    // SAFETY: numbers alone.
    result(unsafe { libc::fanotify_init(libc::FAN_CLOEXEC | libc::FAN_REPORT_FID, 0) }.into())
}

fn terminal() -> io::Result<i64> {
    // SAFETY: a number alone.
    result(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) }.into())
}

fn timer() -> io::Result<i64> {
    let mut timer = ptr::null_mut();
    // SAFETY: without an event the kernel's default; the number of the timer is written to a place that lives.
    result(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, ptr::null_mut(), &raw mut timer) }.into())
}

fn message_queue(n: i32) -> io::Result<i64> {
    let name = std::ffi::CString::new(format!("/hoard-{}-{n}", std::process::id())).expect("no NUL");
    // SAFETY: a name with its end, and the kernel's usual attributes.
    unsafe {
        let flags = libc::O_CREAT | libc::O_RDWR | libc::O_CLOEXEC;
        let queue = libc::mq_open(name.as_ptr(), flags, 0o600, ptr::null::<libc::mq_attr>());
        let made = result(queue.into());
        if n == i32::MAX {
            libc::mq_unlink(name.as_ptr());
        }
        made
    }
}

fn shared_memory() -> io::Result<i64> {
    // SAFETY: numbers alone.
    let id = result(unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) }.into())?;
    // SAFETY: as above; in a node it is kept, which has a namespace of its own.
    (!in_node()).then(|| unsafe { libc::shmctl(id as i32, libc::IPC_RMID, ptr::null_mut()) });
    Ok(id)
}

fn semaphore() -> io::Result<i64> {
    // SAFETY: numbers alone.
    let id = result(unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) }.into())?;
    // SAFETY: as above.
    (!in_node()).then(|| unsafe { libc::semctl(id as i32, 0, libc::IPC_RMID) });
    Ok(id)
}

fn system_v_queue() -> io::Result<i64> {
    // SAFETY: numbers alone.
    let id = result(unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) }.into())?;
    // SAFETY: as above.
    (!in_node()).then(|| unsafe { libc::msgctl(id as i32, libc::IPC_RMID, ptr::null_mut()) });
    Ok(id)
}

fn pipe() -> io::Result<i64> {
    let mut ends = [0; 2];
    // SAFETY: room for two numbers, then numbers alone.
    unsafe {
        result(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC).into())?;
        result(libc::fcntl(ends[1], libc::F_SETPIPE_SZ, 1 << 20).into())
    }
}

fn aio(events: u32) -> io::Result<i64> {
    let mut context = 0u64;
    // SAFETY: the context's number is written to a place that lives across the call.
    result(unsafe { libc::syscall(libc::SYS_io_setup, events, &raw mut context) })
}

fn key() -> io::Result<i64> {
    let (kind, name, own) = (c"user", c"diorama-hoard", -2i64);
    // SAFETY: names with their ends, and a value of two bytes; the keyring is this process's own.
    result(unsafe { libc::syscall(libc::SYS_add_key, kind.as_ptr(), name.as_ptr(), c"ab".as_ptr(), 2usize, own) })
}

/// Whether this is a node: there nothing is given back.
fn in_node() -> bool {
    std::path::Path::new("/.diorama").exists()
}
