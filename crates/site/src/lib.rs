//! A site: all that one machine does for a run.
//!
//! A run (`crates/run`) decides what happens and when; its site does it: it makes the enclosure, the network and the
//! nodes, applies limits, starts the clock, starts and ends programs, counts, and takes everything down again. Every
//! argument and every answer is plain data that can be serialised ([`wire`] does so), and none is a descriptor or a
//! path of the machine, so a second machine is a second `Site`, and nothing above changes.
//!
//! Nodes are named by their place in [`Setup::nodes`], pipes by their names (`A--B/ab`). Real instants are those of the
//! machine's own `CLOCK_MONOTONIC`.

mod calls;
mod conditions;
mod error;
mod far_clock;
mod findings;
mod hello;
mod image;
mod machine;
#[cfg(test)]
mod quiet_site;
mod sample;
mod setup;
mod suspended;
mod timeline;
mod visits;
pub mod wire;

use crossbeam_channel::Receiver;
use net::PipeChange;
use scale::RealInstant;

pub use self::calls::{
    ClockChange, Command, CommandId, Event, Execution, Exit, HardwareChange, How, NodeExit, ProgramChange, ProgramDeed,
    Start, Stop, Written, Zero,
};
pub use self::conditions::{Conditions, DiskConditions, OtherWriteback};
pub use self::error::{Error, Kind, Result};
pub use self::far_clock::{Exchange, FarClock, FarTime, Jump};
pub use self::findings::{Finding, State};
pub use self::image::{KeptAbout, Origin, SaveImage};
pub use self::machine::{About, LONGEST_PIECE, Machine, Opening, RemoteMachine, SharedDir, serve_machine};
pub use self::sample::{
    Closing, Collected, CountedCalls, CountedPackets, CutLog, Injections, Monitored, Recording, Sample, SpeedSeen,
};
pub use self::setup::{
    Base, Boot, CaptureSetup, Continues, CoreChoice, CoreSharing, GuestSetup, MonitorSetup, NodeSetup, Root, Setup,
    Source,
};
pub use self::suspended::{Ended, Part, Suspended, SuspendedNode};
pub use self::timeline::Timeline;
pub use self::visits::{AHEAD, PIECE, Said, Stdio, Told, VisitId, Visits, Wish};

/// A node, by its place in the plan.
pub type NodeIndex = usize;

/// One machine's part of a run. Calls come in the order of the methods; those from `start` to `sample` come again and
/// again between `start_clock` and `finish`.
pub trait Site {
    /// Makes the enclosure, the clock, the control groups and the network. Nothing of a node runs yet.
    fn prepare(&mut self, setup: Setup) -> Result<()>;

    /// Creates the containers of all nodes, without limits.
    fn create_nodes(&mut self) -> Result<()>;

    /// Applies all limits, and says under which conditions the run will take place.
    fn apply_limits(&mut self) -> Result<Conditions>;

    /// The time on the machine's clock.
    fn now(&mut self) -> Result<RealInstant>;

    /// Starts virtual time at a real instant, or as soon after as the machine can; the answer tells when. Counting and
    /// capturing begin with it.
    fn start_clock(&mut self, at: RealInstant) -> Result<Zero>;

    /// Starts the programs of nodes: for the first time, or again where they have ended.
    fn start(&mut self, nodes: &[Start]) -> Result<()>;

    /// Ends the program of a node; returns before it has.
    fn stop(&mut self, node: NodeIndex, how: Stop) -> Result<()>;

    /// Changes pipes, all at one instant.
    fn change_pipes(&mut self, changes: &[(String, PipeChange)]) -> Result<()>;

    /// Has something happen to a flow of the emulator's, by its place in the specification of the network.
    fn change_flow(&mut self, flow: usize, change: net::FlowChange) -> Result<()>;

    /// Has something happen to the disk of a node, which has one.
    fn change_disk(&mut self, node: NodeIndex, change: device::Change) -> Result<()>;

    /// Ends all that runs in a node which has a disk, at once, and has the disk lose what a power cut takes.
    fn cut_power(&mut self, node: NodeIndex) -> Result<device::Cut>;

    /// Sets the date of a node off against the others'. What has started there before virtual zero sees it, too.
    fn change_clock(&mut self, node: NodeIndex, change: ClockChange) -> Result<()>;

    /// Changes what a node's machine has, from now on. Of memory, gives how many bytes are in force then.
    fn change_hardware(&mut self, node: NodeIndex, change: HardwareChange) -> Result<Option<u64>>;

    /// Stops all processes of a node where they are, or lets them go on. Its clock goes on.
    fn pause(&mut self, node: NodeIndex, paused: bool) -> Result<()>;

    /// Which nodes cannot reach which others from now on, pairs of a sender and a receiver; all others can.
    fn cut(&mut self, pairs: &[[NodeIndex; 2]]) -> Result<()>;

    /// Starts a program beside a node's own, or sends one a signal; whether there was anything to do: one that runs is
    /// not started, and one that does not run gets no signal.
    fn change_program(&mut self, change: &ProgramChange) -> Result<bool>;

    /// Which of these programs beside nodes' own run.
    fn programs_running(&mut self, programs: &[(NodeIndex, String)]) -> Result<Vec<bool>>;

    /// Which of these nodes listen on the TCP port that is given with each.
    fn listening(&mut self, waiting: &[(NodeIndex, u16)]) -> Result<Vec<NodeIndex>>;

    /// Where events arrive as they happen, once there are nodes. Nobody has to ask for them, so a run over several
    /// sites waits for all of them at once.
    fn events(&mut self) -> Result<Receiver<Event>>;

    /// Where commands from outside are heard and answered, once there are limits: they do not wait for the run's calls,
    /// nor the run for them.
    fn visits(&mut self) -> Result<Visits>;

    /// Begins a command in a node that runs; its end is an [event](Event::CommandEnded) with the number given here.
    fn begin_command(&mut self, command: &Command) -> Result<CommandId>;

    /// Notes which programs the nodes run at this instant.
    fn note_programs(&mut self) -> Result<()>;

    /// Reads all counters.
    fn sample(&mut self) -> Result<Sample>;

    /// Ends counting and capturing, all at one instant. Nodes that run are left alone.
    fn finish(&mut self) -> Result<Closing>;

    /// Collects results that only the end of the nodes tells.
    fn collect(&mut self) -> Result<Collected>;

    /// Reads output of a node: at most `limit` bytes of a file or a log from `offset` on, nothing behind its end.
    /// `None`: there is no such file. Logs are as they were when they were [collected](Site::collect).
    fn read(&mut self, node: NodeIndex, what: &Written, offset: u64, limit: u64) -> Result<Option<Vec<u8>>>;

    /// Writes down what it takes to go on with the run some day: its nodes' files are kept when it is taken down. What
    /// was written down before is replaced; there is room for what may be longer by little.
    fn suspend(&mut self, run: &Suspended) -> Result<()>;

    /// Keeps how fast the nodes' cores were, for the plans of runs after this one; the speed to which those relate
    /// shares, if this has moved it.
    fn keep_speed(&mut self, seen: &[SpeedSeen]) -> Result<Option<counters::Speed>>;

    /// Takes everything down. Nothing of the run is left on the machine when this returns, but what is to be kept, and
    /// further calls fail.
    fn tear_down(&mut self) -> Result<()>;
}
