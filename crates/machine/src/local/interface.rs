//! The interface to the site in this process: failures of whichever mechanism become the interface's own.

use crossbeam_channel::Receiver;
use scale::RealInstant;
use site::{
    ClockChange, Closing, Collected, Command, CommandId, Conditions, Event, HardwareChange, NodeIndex, ProgramChange,
    Result, Sample, Setup, Site, SpeedSeen, Start, Stop, Suspended, Visits, Written, Zero,
};

use super::LocalSite;

impl Site for LocalSite {
    fn prepare(&mut self, setup: Setup) -> Result<()> {
        Ok(self.prepare(setup)?)
    }

    fn create_nodes(&mut self) -> Result<()> {
        Ok(self.create_nodes()?)
    }

    fn apply_limits(&mut self) -> Result<Conditions> {
        Ok(self.apply_limits()?)
    }

    fn now(&mut self) -> Result<RealInstant> {
        Ok(self.now()?)
    }

    fn start_clock(&mut self, at: RealInstant) -> Result<Zero> {
        Ok(self.start_clock(at)?)
    }

    fn start(&mut self, nodes: &[Start]) -> Result<()> {
        Ok(self.start(nodes)?)
    }

    fn stop(&mut self, node: NodeIndex, how: Stop) -> Result<()> {
        Ok(self.stop(node, how)?)
    }

    fn change_pipes(&mut self, changes: &[(String, net::PipeChange)]) -> Result<()> {
        Ok(self.change_pipes(changes)?)
    }

    fn change_flow(&mut self, flow: usize, change: net::FlowChange) -> Result<()> {
        Ok(self.change_flow(flow, change)?)
    }

    fn change_disk(&mut self, node: NodeIndex, change: device::Change) -> Result<()> {
        Ok(self.change_disk(node, change)?)
    }

    fn cut_power(&mut self, node: NodeIndex) -> Result<device::Cut> {
        Ok(self.cut_power(node)?)
    }

    fn change_clock(&mut self, node: NodeIndex, change: ClockChange) -> Result<()> {
        Ok(self.change_clock(node, change)?)
    }

    fn change_hardware(&mut self, node: NodeIndex, change: HardwareChange) -> Result<Option<u64>> {
        Ok(self.change_hardware(node, change)?)
    }

    fn pause(&mut self, node: NodeIndex, paused: bool) -> Result<()> {
        Ok(self.pause(node, paused)?)
    }

    fn cut(&mut self, pairs: &[[NodeIndex; 2]]) -> Result<()> {
        Ok(self.cut(pairs)?)
    }

    fn change_program(&mut self, change: &ProgramChange) -> Result<bool> {
        Ok(self.change_program(change)?)
    }

    fn programs_running(&mut self, programs: &[(NodeIndex, String)]) -> Result<Vec<bool>> {
        Ok(self.programs_running(programs)?)
    }

    fn listening(&mut self, waiting: &[(NodeIndex, u16)]) -> Result<Vec<NodeIndex>> {
        Ok(self.listening(waiting)?)
    }

    fn events(&mut self) -> Result<Receiver<Event>> {
        Ok(self.events()?)
    }

    fn visits(&mut self) -> Result<Visits> {
        Ok(self.visits()?)
    }

    fn begin_command(&mut self, command: &Command) -> Result<CommandId> {
        Ok(self.begin_command(command)?)
    }

    fn note_programs(&mut self) -> Result<()> {
        Ok(self.note_programs()?)
    }

    fn sample(&mut self) -> Result<Sample> {
        Ok(self.sample()?)
    }

    fn finish(&mut self) -> Result<Closing> {
        Ok(self.finish()?)
    }

    fn collect(&mut self) -> Result<Collected> {
        Ok(self.collect()?)
    }

    fn read(&mut self, node: NodeIndex, what: &Written, offset: u64, limit: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.read(node, what, offset, limit)?)
    }

    fn suspend(&mut self, run: &Suspended) -> Result<()> {
        Ok(self.suspend(run)?)
    }

    fn keep_speed(&mut self, seen: &[SpeedSeen]) -> Result<Option<counters::Speed>> {
        Ok(self.keep_speed(seen)?)
    }

    fn tear_down(&mut self) -> Result<()> {
        Ok(self.tear_down()?)
    }
}
