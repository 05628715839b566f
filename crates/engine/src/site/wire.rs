//! A site over a byte stream: requests one way, answers the other, in CBOR (RFC 8949), one after the other.
//!
//! [`serve`] stands where the machine is, [`RemoteSite`] where the run is. Neither knows what carries the bytes.

use std::io::{Read, Write};

use net::PipeChange;
use scale::{RealDuration, RealInstant};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{
    Closing, Collected, Command, Conditions, Execution, NodeExit, NodeIndex, ProgramChange, Sample, Setup, Site, Start,
    Stop, Written, Zero,
};
use crate::error::{Error, ErrorReport, Result};

/// A call of [`Site`].
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Request {
    Prepare(Box<Setup>),
    CreateNodes,
    ApplyLimits,
    Now,
    StartClock(RealInstant),
    Start(Vec<Start>),
    Stop(NodeIndex, Stop),
    ChangePipes(Vec<(String, PipeChange)>),
    ChangeFlow(usize, net::FlowChange),
    ChangeDisk(NodeIndex, device::Change),
    CutPower(NodeIndex),
    ChangeProgram(ProgramChange),
    ProgramsRunning(Vec<(NodeIndex, String)>),
    Listening(Vec<(NodeIndex, u16)>),
    Exits(RealDuration),
    Exec(Command),
    NoteProgramsRun,
    Sample,
    Finish,
    Collect,
    Read(NodeIndex, Written, u64, u64),
    PutAside(Vec<u8>),
    TearDown,
}

/// Answers requests with what `site` does, until it has been taken down or the other side has closed the connection.
pub fn serve(site: &mut dyn Site, mut from: impl Read, mut to: impl Write) -> Result<()> {
    loop {
        let request = match ciborium::from_reader(&mut from) {
            Ok(request) => request,
            // The other side has gone: take down what was made for it.
            Err(ciborium::de::Error::Io(_)) => return site.tear_down(),
            Err(e) => return Err(broken(e)),
        };
        let to = &mut to;
        match request {
            Request::Prepare(setup) => answer(to, site.prepare(*setup)),
            Request::CreateNodes => answer(to, site.create_nodes()),
            Request::ApplyLimits => answer(to, site.apply_limits()),
            Request::Now => answer(to, site.now()),
            Request::StartClock(at) => answer(to, site.start_clock(at)),
            Request::Start(nodes) => answer(to, site.start(&nodes)),
            Request::Stop(node, how) => answer(to, site.stop(node, how)),
            Request::ChangePipes(changes) => answer(to, site.change_pipes(&changes)),
            Request::ChangeFlow(flow, change) => answer(to, site.change_flow(flow, change)),
            Request::ChangeDisk(node, change) => answer(to, site.change_disk(node, change)),
            Request::CutPower(node) => answer(to, site.cut_power(node)),
            Request::ChangeProgram(change) => answer(to, site.change_program(&change)),
            Request::ProgramsRunning(programs) => answer(to, site.programs_running(&programs)),
            Request::Listening(waiting) => answer(to, site.listening(&waiting)),
            Request::Exits(limit) => answer(to, site.exits(limit)),
            Request::Exec(command) => answer(to, site.exec(&command)),
            Request::NoteProgramsRun => answer(to, site.note_programs()),
            Request::Sample => answer(to, site.sample()),
            Request::Finish => answer(to, site.finish()),
            Request::Collect => answer(to, site.collect()),
            Request::Read(node, what, offset, limit) => answer(to, site.read(node, &what, offset, limit)),
            Request::PutAside(what) => answer(to, site.put_aside(&what)),
            Request::TearDown => return answer(to, site.tear_down()),
        }?;
    }
}

fn answer<T: Serialize>(to: &mut impl Write, result: Result<T>) -> Result<()> {
    let result: Result<T, ErrorReport> = result.map_err(|e| e.report());
    ciborium::into_writer(&result, &mut *to).map_err(broken)?;
    to.flush().map_err(broken)
}

/// A site at the other end of a byte stream.
#[derive(Debug)]
pub struct RemoteSite<R, W> {
    from: R,
    to: W,
}

impl<R: Read, W: Write> RemoteSite<R, W> {
    /// The site that [`serve`]s at the other end.
    pub fn new(from: R, to: W) -> RemoteSite<R, W> {
        RemoteSite { from, to }
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T> {
        ciborium::into_writer(request, &mut self.to).map_err(broken)?;
        self.to.flush().map_err(broken)?;
        let answer: Result<T, ErrorReport> = ciborium::from_reader(&mut self.from).map_err(broken)?;
        answer.map_err(Error::Reported)
    }
}

fn broken(e: impl std::fmt::Display) -> Error {
    Error::SiteLost(format!("the connection to a machine of the run broke: {e}"))
}

impl<R: Read, W: Write> Site for RemoteSite<R, W> {
    fn prepare(&mut self, setup: Setup) -> Result<()> {
        self.ask(&Request::Prepare(Box::new(setup)))
    }

    fn create_nodes(&mut self) -> Result<()> {
        self.ask(&Request::CreateNodes)
    }

    fn apply_limits(&mut self) -> Result<Conditions> {
        self.ask(&Request::ApplyLimits)
    }

    fn now(&mut self) -> Result<RealInstant> {
        self.ask(&Request::Now)
    }

    fn start_clock(&mut self, at: RealInstant) -> Result<Zero> {
        self.ask(&Request::StartClock(at))
    }

    fn start(&mut self, nodes: &[Start]) -> Result<()> {
        self.ask(&Request::Start(nodes.to_vec()))
    }

    fn stop(&mut self, node: NodeIndex, how: Stop) -> Result<()> {
        self.ask(&Request::Stop(node, how))
    }

    fn change_pipes(&mut self, changes: &[(String, PipeChange)]) -> Result<()> {
        self.ask(&Request::ChangePipes(changes.to_vec()))
    }

    fn change_flow(&mut self, flow: usize, change: net::FlowChange) -> Result<()> {
        self.ask(&Request::ChangeFlow(flow, change))
    }

    fn change_disk(&mut self, node: NodeIndex, change: device::Change) -> Result<()> {
        self.ask(&Request::ChangeDisk(node, change))
    }

    fn cut_power(&mut self, node: NodeIndex) -> Result<device::Cut> {
        self.ask(&Request::CutPower(node))
    }

    fn change_program(&mut self, change: &ProgramChange) -> Result<bool> {
        self.ask(&Request::ChangeProgram(change.clone()))
    }

    fn programs_running(&mut self, programs: &[(NodeIndex, String)]) -> Result<Vec<bool>> {
        self.ask(&Request::ProgramsRunning(programs.to_vec()))
    }

    fn listening(&mut self, waiting: &[(NodeIndex, u16)]) -> Result<Vec<NodeIndex>> {
        self.ask(&Request::Listening(waiting.to_vec()))
    }

    fn exits(&mut self, limit: RealDuration) -> Result<Vec<NodeExit>> {
        self.ask(&Request::Exits(limit))
    }

    fn exec(&mut self, command: &Command) -> Result<Execution> {
        self.ask(&Request::Exec(command.clone()))
    }

    fn note_programs(&mut self) -> Result<()> {
        self.ask(&Request::NoteProgramsRun)
    }

    fn sample(&mut self) -> Result<Sample> {
        self.ask(&Request::Sample)
    }

    fn finish(&mut self) -> Result<Closing> {
        self.ask(&Request::Finish)
    }

    fn collect(&mut self) -> Result<Collected> {
        self.ask(&Request::Collect)
    }

    fn read(&mut self, node: NodeIndex, what: &Written, offset: u64, limit: u64) -> Result<Option<Vec<u8>>> {
        self.ask(&Request::Read(node, what.clone(), offset, limit))
    }

    fn put_aside(&mut self, what: &[u8]) -> Result<()> {
        self.ask(&Request::PutAside(what.to_vec()))
    }

    fn tear_down(&mut self) -> Result<()> {
        self.ask(&Request::TearDown)
    }
}
