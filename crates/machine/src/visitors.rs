//! Visitors of a live run (`diorama exec`, `diorama image save`): each connection is led to the run's site as one
//! visit.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use record::RunDir;
use rustix::net::{Shutdown, shutdown};
use site::{Origin, Said, SaveImage, Told, VisitId, Visits, Wish};

use crate::control::{self, VisitRequest, VisitWish};
use crate::error::Error;
use crate::live::LiveRun;
use crate::requests::{Ask, Request, Requests, reply};

impl Ask for VisitRequest {
    type Reply = Told;
}

/// Receives the visitors of a run, until this is dropped.
pub struct Visitors(#[expect(dead_code, reason = "held for what its end does")] Requests);

/// Visits that go on, and where each hears what it is told.
type Open = Arc<Mutex<HashMap<VisitId, Sender<Told>>>>;

/// The run that is visited.
struct Host {
    run: LiveRun,
    /// The nodes' names, in the order of the plan.
    nodes: Vec<String>,
    visits: Sender<(VisitId, Said)>,
    open: Open,
    /// How many there were.
    begun: AtomicU64,
}

impl Visitors {
    /// Receives who connects to `path`, which must not exist, in the nodes of these names, in the order of the plan.
    pub fn receive(path: &Path, run: LiveRun, nodes: Vec<String>, visits: Visits) -> io::Result<Visitors> {
        let Visits { said, told } = visits;
        let open = Open::default();
        let heard = open.clone();
        thread::Builder::new().name("told".into()).spawn(move || pass_on(&told, &heard))?;
        let host = Arc::new(Host { run, nodes, visits: said, open, begun: AtomicU64::new(0) });
        let begin = move |request: Request<VisitRequest>| {
            let client = Arc::new(request.client);
            if let Err(e) = host.begin(request.what, &client) {
                reply(&client, &Told::Refused(e.into()));
            }
        };
        Requests::listen(path, begin).map(Visitors)
    }
}

/// Passes on what the site tells to the visit that it is for, until the site is gone.
fn pass_on(told: &Receiver<(VisitId, Told)>, open: &Open) {
    for (visit, told) in told {
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_last = told.is_last();
        // One that is over need not be told.
        if let Some(visit) = open.get(&visit) {
            let _ = visit.send(told);
        }
        if is_last {
            open.remove(&visit);
        }
    }
    open.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

impl Host {
    /// Begins a visit: one thread for what its client says, and one for what it is told.
    fn begin(self: &Arc<Self>, request: VisitRequest, client: &Arc<OwnedFd>) -> Result<(), Error> {
        let node = self.nodes.iter().position(|name| *name == request.node).ok_or_else(|| {
            let mut known = self.nodes.clone();
            known.sort_unstable();
            Error::NoSuchNode { name: request.node, known }
        })?;
        let wish = match request.wish {
            VisitWish::Run { argv, stdio, terminal } => Wish::Run { argv, stdio, terminal },
            VisitWish::Save { image } => Wish::Save(SaveImage { name: image, origin: self.origin() }),
        };
        let visit = self.begun.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = unbounded();
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(visit, tell);
        self.say(visit, Said::Wish(node, wish));
        let (host, from, to) = (self.clone(), client.clone(), client.clone());
        let hear = move || {
            while let Ok(Some(word)) = control::receive_message::<Said>(&from) {
                host.say(visit, word);
            }
            host.say(visit, Said::Gone);
            host.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&visit);
        };
        let tell = move || {
            for word in told {
                reply(&to, &word);
            }
            // After the last word, or when the run is gone.
            let _ = shutdown(&to, Shutdown::Both);
        };
        let thread = |name: &str, work: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(name.into()).spawn(work).map(drop).map_err(Error::io("a thread for a visit"))
        };
        thread("visitor", Box::new(tell)).and_then(|()| thread("visitor", Box::new(hear))).inspect_err(|_| {
            self.say(visit, Said::Gone);
        })
    }

    /// Where nobody hears it, the site is gone, and the visit told so.
    fn say(&self, visit: VisitId, word: Said) {
        let _ = self.visits.send((visit, word));
    }

    /// The origin of an image of a node's files.
    fn origin(&self) -> Origin {
        let LiveRun { name, variant, out, .. } = &self.run;
        let versions = RunDir::at(out).plan().ok().flatten().map(|plan| plan.versions).unwrap_or_default();
        Origin { experiment: name.clone(), variant: variant.clone(), run: out.clone(), versions }
    }
}
