//! The hidden verb `__keeper`: one process that burns idle cores, ends timeslices and follows who sleeps.
//!
//! Its first thread answers the engine ([`super::protocol`]). One process for all, because a core remembers the
//! translations of few address spaces (Linux gives each core six): as processes with memory of their own, burners
//! drove out the nodes' translations at each slice, which made a scaled web server's requests 6 % dearer.
//!
//! It ends when its input does, so nothing spins on a core for longer than there is a run.

use std::io::{self, BufRead, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use host::cores;

use super::burners::Burners;
use super::controller::Books;
use super::followers::Followers;
use super::protocol::{Job, Orders, Reply, Request};
use super::reschedule;
use crate::Error;
use crate::share::layout::GroupLayout;

/// The process behind the verb; `args` are those of [`crate::CpuGroups::keeper`].
pub fn main(args: Vec<String>) -> ! {
    let code = match run(&args) {
        Ok(()) => 0,
        // Whoever would read it has gone if this fails, too.
        Err(error) => i32::from(say(&Reply::Failed(error.to_string())).is_ok()),
    };
    std::process::exit(code)
}

fn run(args: &[String]) -> Result<(), Error> {
    let (layout, job) = job(args)?;
    // A terminal's interrupt reaches the whole foreground: the run's end must not begin with the end of its limits.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: SIG_IGN is a valid disposition and no handler of ours is replaced.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // Accounted to the run, but scheduled like any task: the run's tree outweighs all else on a core. Threads that are
    // started from here on are where this one is.
    layout.keeper().accounting_joiner()?.join().map_err(Error::io("enter a control group"))?;
    cores::avoid(layout.cores()).map_err(Error::io("leave the nodes' cores"))?;
    let mut keeper = Keeper::start(layout, job)?;
    say(&Reply::Done)?;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let request = serde_json::from_str(&line);
        let reply = match request.map_err(|e| Error::Keeper(format!("nothing is known of `{line}`: {e}")))? {
            Request::Release => break,
            request => keeper.answer(request)?,
        };
        say(&reply)?;
    }
    keeper.burners.end();
    Ok(())
}

fn job(args: &[String]) -> Result<(GroupLayout, Job), Error> {
    let usage = || Error::Input("__keeper RUN JOB is started by diorama itself".into());
    let [run_id, job] = args else { return Err(usage()) };
    let job: Job = serde_json::from_str(job).map_err(|_| usage())?;
    match job.burners.iter().find(|(_, core)| *core >= job.cores.len()) {
        Some((place, core)) => Err(Error::Input(format!("{place} burns core {core}, of {}", job.cores.len()))),
        None => Ok((GroupLayout::of(run_id, &job.cores)?, job)),
    }
}

fn say(reply: &Reply) -> Result<(), Error> {
    let mut out = io::stdout();
    let line = serde_json::to_string(reply).expect("replies have finite numbers");
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Error::io("answer the engine"))
}

/// The threads of the process, as its first one sees them.
struct Keeper {
    burners: Burners,
    orders: Sender<Orders>,
    books: Arc<Mutex<Vec<Books>>>,
    /// Why slices are ended no more.
    failed: Arc<OnceLock<Error>>,
}

impl Keeper {
    /// Starts all threads, which wait for [`Request::Begin`].
    fn start(layout: GroupLayout, job: Job) -> Result<Keeper, Error> {
        let burners = Burners::start(&layout, &job)?;
        let (orders, told) = channel();
        let (books, failed) = (Arc::default(), Arc::<OnceLock<Error>>::default());
        let mut followers = Followers::new(&layout, &job, &burners, told, Arc::clone(&books))?;
        let mut rescheduler = reschedule::Rescheduler::of(job.method, &layout)?;
        let (gate, why) = (burners.gate(), Arc::clone(&failed));
        let work = move || {
            gate.wait();
            // Nobody else sets it.
            let _ = why.set(reschedule::keep(&job, &mut rescheduler, &mut followers));
        };
        super::start_thread("reschedule", || Ok(()), work)?;
        Ok(Keeper { burners, orders, books, failed })
    }

    fn answer(&mut self, request: Request) -> Result<Reply, Error> {
        self.burners.all_alive()?;
        if let Some(error) = self.failed.get() {
            return Err(Error::Keeper(error.to_string()));
        }
        match request {
            Request::Begin => self.burners.gate().open(),
            // If its receiver is gone, the next request is told why.
            Request::Follow(orders) => drop(self.orders.send(orders)),
            Request::Work => {
                let (now, books) = (host::now(), self.books.lock().unwrap_or_else(|broken| broken.into_inner()));
                return Ok(Reply::Work(books.iter().map(|books| books.work(now)).collect()));
            }
            Request::Release => {}
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use scale::RealDuration;

    use super::*;
    use crate::keeper::protocol::Method;

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let burners = vec![("_small-1-5/_spare".to_owned(), 1), ("_slack-5".into(), 1)];
        let slice = RealDuration::from_nanos(100_000);
        let written = Job { cores: vec![0, 5], slice, method: Method::Interrupt, burners, several: Vec::new() };
        let args = |job: &Job| ["x1".to_owned(), serde_json::to_string(job).unwrap()];
        let (layout, read) = job(&args(&written)).unwrap();
        assert_eq!((layout.cores(), &read), (&[0, 5][..], &written));
        let third = Job { burners: vec![("_slack-7".into(), 2)], ..written };
        assert!(job(&args(&third)).unwrap_err().to_string().contains("core 2, of 2"));
        for wrong in [&[][..], &["x1".into()], &["x1".into(), "0,5".into()]] {
            assert!(job(wrong).unwrap_err().to_string().contains("diorama itself"), "{wrong:?}");
        }
    }
}
