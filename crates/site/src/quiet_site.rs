//! A site that makes nothing, for tests of the stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::Receiver;
use net::PipeChange;
use scale::RealInstant;

use crate::{
    ClockChange, Closing, Collected, Command, CommandId, Conditions, Event, HardwareChange, NodeIndex, ProgramChange,
    Result, Sample, Setup, Site, SpeedSeen, Start, Stop, Suspended, Visits, Written, Zero,
};

/// Tells the time, and whether it has been taken down.
#[derive(Clone, Debug, Default)]
pub struct QuietSite {
    pub torn_down: Arc<AtomicBool>,
}

impl Site for QuietSite {
    fn prepare(&mut self, _setup: Setup) -> Result<()> {
        unreachable!()
    }

    fn create_nodes(&mut self) -> Result<()> {
        unreachable!()
    }

    fn apply_limits(&mut self) -> Result<Conditions> {
        unreachable!()
    }

    fn now(&mut self) -> Result<RealInstant> {
        Ok(host::now())
    }

    fn start_clock(&mut self, _at: RealInstant) -> Result<Zero> {
        unreachable!()
    }

    fn start(&mut self, _nodes: &[Start]) -> Result<()> {
        unreachable!()
    }

    fn stop(&mut self, _node: NodeIndex, _how: Stop) -> Result<()> {
        unreachable!()
    }

    fn change_pipes(&mut self, _changes: &[(String, PipeChange)]) -> Result<()> {
        unreachable!()
    }

    fn change_flow(&mut self, _flow: usize, _change: net::FlowChange) -> Result<()> {
        unreachable!()
    }

    fn change_disk(&mut self, _node: NodeIndex, _change: device::Change) -> Result<()> {
        unreachable!()
    }

    fn cut_power(&mut self, _node: NodeIndex) -> Result<device::Cut> {
        unreachable!()
    }

    fn change_clock(&mut self, _node: NodeIndex, _change: ClockChange) -> Result<()> {
        unreachable!()
    }

    fn change_hardware(&mut self, _node: NodeIndex, _change: HardwareChange) -> Result<Option<u64>> {
        unreachable!()
    }

    fn pause(&mut self, _node: NodeIndex, _paused: bool) -> Result<()> {
        unreachable!()
    }

    fn cut(&mut self, _pairs: &[[NodeIndex; 2]]) -> Result<()> {
        unreachable!()
    }

    fn change_program(&mut self, _change: &ProgramChange) -> Result<bool> {
        unreachable!()
    }

    fn programs_running(&mut self, _programs: &[(NodeIndex, String)]) -> Result<Vec<bool>> {
        unreachable!()
    }

    fn listening(&mut self, _waiting: &[(NodeIndex, u16)]) -> Result<Vec<NodeIndex>> {
        unreachable!()
    }

    fn events(&mut self) -> Result<Receiver<Event>> {
        unreachable!()
    }

    fn visits(&mut self) -> Result<Visits> {
        unreachable!()
    }

    fn begin_command(&mut self, _command: &Command) -> Result<CommandId> {
        unreachable!()
    }

    fn note_programs(&mut self) -> Result<()> {
        unreachable!()
    }

    fn sample(&mut self) -> Result<Sample> {
        unreachable!()
    }

    fn finish(&mut self) -> Result<Closing> {
        unreachable!()
    }

    fn collect(&mut self) -> Result<Collected> {
        unreachable!()
    }

    fn read(&mut self, _node: NodeIndex, _what: &Written, _offset: u64, _limit: u64) -> Result<Option<Vec<u8>>> {
        unreachable!()
    }

    fn suspend(&mut self, _run: &Suspended) -> Result<()> {
        unreachable!()
    }

    fn keep_speed(&mut self, _seen: &[SpeedSeen]) -> Result<Option<counters::Speed>> {
        unreachable!()
    }

    fn tear_down(&mut self) -> Result<()> {
        self.torn_down.store(true, Ordering::SeqCst);
        Ok(())
    }
}
