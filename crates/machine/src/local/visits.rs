//! The site's half of visits: a thread takes in what visitors say, and each visit has one of its own.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use site::{Error, KeptAbout, NodeIndex, Said, SaveImage, Told, VisitId, Visits, Wish};

use super::command;
use super::nodes::Nodes;
use crate::images;

/// Where a visit answers.
#[derive(Clone)]
pub struct Teller {
    visit: VisitId,
    told: Sender<(VisitId, Told)>,
}

impl Teller {
    /// Tells the visitor something; one that has gone need not be told.
    pub fn tell(&self, what: Told) {
        let _ = self.told.send((self.visit, what));
    }
}

/// Receives visitors in nodes for as long as `nodes` has another owner than the threads made here.
pub fn receive(nodes: &Arc<Nodes>) -> io::Result<Visits> {
    let (say, said) = unbounded();
    let (tell, told) = unbounded();
    let nodes = Arc::downgrade(nodes);
    thread::Builder::new().name("visits".into()).spawn(move || listen(&said, &tell, &nodes))?;
    Ok(Visits { said: say, told })
}

/// Sorts what is said by visit, until nobody can say anything any more: all visitors have gone then.
fn listen(said: &Receiver<(VisitId, Said)>, tell: &Sender<(VisitId, Told)>, nodes: &Weak<Nodes>) {
    let mut visits: HashMap<VisitId, Sender<Said>> = HashMap::new();
    for (visit, word) in said {
        match word {
            Said::Wish(node, wish) => {
                let (say, said) = unbounded();
                let teller = Teller { visit, told: tell.clone() };
                let (told, nodes) = (teller.clone(), nodes.clone());
                let attend = move || told.tell(attend(&told, &nodes, node, wish, &said));
                match thread::Builder::new().name("visit".into()).spawn(attend) {
                    Ok(_) => drop(visits.insert(visit, say)),
                    Err(e) => teller.tell(Told::Refused(Error::failed(format_args!("a thread for it: {e}")))),
                }
            }
            Said::Gone => drop(visits.remove(&visit)),
            word => {
                // Of a visit that is over, or never was, nobody hears it.
                if let Some(visit) = visits.get(&visit) {
                    let _ = visit.send(word);
                }
            }
        }
    }
}

/// Does what a visitor wants; the last word to it. Whoever says nothing any more has gone.
fn attend(told: &Teller, nodes: &Weak<Nodes>, node: NodeIndex, wish: Wish, said: &Receiver<Said>) -> Told {
    let done = match wish {
        Wish::Run { argv, stdio, terminal } => {
            command::run(told, nodes, node, &argv, &stdio, terminal.as_ref(), said).map(Told::Ended)
        }
        Wish::Save(image) => save(nodes, node, &image, said).map(|about| Told::Saved(Box::new(about))),
    };
    done.unwrap_or_else(|e| Told::Refused(e.into()))
}

/// Keeps what a node has written as an image, unless the visitor goes before that is done.
fn save(nodes: &Weak<Nodes>, node: NodeIndex, image: &SaveImage, said: &Receiver<Said>) -> crate::Result<KeptAbout> {
    let over = || crate::Error::from(ended());
    let (name, base, written) = {
        let nodes = nodes.upgrade().ok_or_else(over)?;
        let (written, base) = nodes.written(node)?;
        (nodes.with(node, |n| n.name().to_owned()), base, written)
    };
    images::save_written(&image.name, &name, &image.origin, base, &written, || {
        // A run that has come to its end removes what is read here.
        match nodes.strong_count() {
            0 => Err(over()),
            _ if said.try_recv() == Err(TryRecvError::Disconnected) => Err(crate::Error::Interrupted),
            _ => Ok(()),
        }
    })
}

/// The failure of who comes too late.
pub fn ended() -> Error {
    Error::failed("the run has ended")
}
