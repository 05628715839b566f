//! Events that the site tells without being asked: which nodes and commands have ended.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use site::{CommandId, Event, NodeExit};

use super::nodes::{Pids, Running};
use crate::error::{Error, Result};

/// Where events are put, and where they arrive.
pub struct Events {
    tell: Sender<Event>,
    told: Receiver<Event>,
    /// How many commands have been begun.
    commands: CommandId,
    /// As long as this is there, it is looked whether there is room on the disk, and in memory.
    room: Option<Sender<()>>,
}

/// How often it is looked whether there is room on the disk, and in memory.
const LOOK: Duration = Duration::from_millis(50);

impl Events {
    /// A way for events on which none has come yet.
    pub fn new() -> Events {
        let (tell, told) = unbounded();
        Events { tell, told, commands: 0, room: None }
    }

    /// Where they arrive.
    pub fn told(&self) -> Receiver<Event> {
        self.told.clone()
    }

    /// Where they are put.
    pub fn teller(&self) -> Sender<Event> {
        self.tell.clone()
    }

    /// Passes on, from a thread of its own, which nodes have ended, as long as the enclosure of the run is there.
    pub fn follow(&self, exits: Receiver<node::Exit>, pids: Pids) -> Result<()> {
        let tell = self.tell.clone();
        let follow = move || {
            for exit in exits {
                // Commands that joined a node end here too.
                let node = pids.lock().unwrap_or_else(PoisonError::into_inner).get(&exit.pid).copied();
                if let Some(node) = node {
                    let _ = tell.send(Event::Exited(NodeExit { node, exit: exit.status.into() }));
                }
            }
            let lost = site::Error::lost("the enclosure of the run ended, and all nodes with it");
            let _ = tell.send(Event::Lost(lost));
        };
        thread::Builder::new().name("events".into()).spawn(follow).map(drop).map_err(Error::io("a thread"))
    }

    /// Ends the run if nodes take more of the disks of these places, or of memory, than they may, looked at by a thread
    /// of its own as long as this lives.
    pub fn watch_room(&mut self, places: Vec<PathBuf>) -> Result<()> {
        let (stay, gone) = bounded::<()>(0);
        let tell = self.tell.clone();
        let watch = move || {
            while gone.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let mut disks = places.iter().map(|place| host::room::check(place, 0));
                if let Err(e) = disks.try_for_each(|disk| disk).and_then(|()| host::room::check_memory()) {
                    let _ = tell.send(Event::Lost(Error::from(e).into()));
                    return;
                }
            }
        };
        thread::Builder::new().name("room".into()).spawn(watch).map_err(Error::io("a thread"))?;
        self.room = Some(stay);
        Ok(())
    }

    /// Tells when a command has ended, and what came of it.
    pub fn await_command(&mut self, command: Running) -> Result<CommandId> {
        self.commands += 1;
        let (id, tell) = (self.commands, self.tell.clone());
        let wait = move || {
            let _ = tell.send(Event::CommandEnded(id, command.wait().map_err(site::Error::from)));
        };
        thread::Builder::new().name("command".into()).spawn(wait).map_err(Error::io("a thread"))?;
        Ok(id)
    }
}
