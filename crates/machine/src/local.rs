//! The site in this process: this machine's part of a run.

mod background;
mod calls;
mod captures;
mod clock;
mod command;
mod counters;
mod disks;
mod events;
mod guests;
mod interface;
mod logs;
mod memory;
mod monitor;
mod network;
mod nodes;
mod packages;
mod packets;
mod ports;
mod programs;
mod senders;
mod shares;
mod visits;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cpu::NodeClocks;
use crossbeam_channel::Receiver;
use device::Change;
use host::user_limits::UserLimits;
use host::{cgroup, processes, warn};
use node::{Enclosure, EnclosureOptions, Runtime};
use record::RunDir;
use scale::RealInstant;
use site::{
    ClockChange, Closing, Collected, Command, CommandId, Conditions, Event, HardwareChange, How, NodeIndex,
    ProgramChange, Root, Sample, Setup, SpeedSeen, Start, Stop, Suspended, Timeline, Visits, Written, Zero,
};

use self::calls::{CallCounts, LoadedCalls};
use self::captures::Captures;
use self::clock::Dilation;
use self::counters::{Counters, Last};
use self::disks::NodeDisks;
use self::events::Events;
use self::memory::IdleMemory;
use self::monitor::Monitor;
use self::network::{Namespaces, Network};
use self::nodes::Nodes;
use self::packets::PacketCounts;
use self::ports::{Ports, TakenPorts};
use self::programs::Programs;
use self::shares::Shares;
use crate::error::{Error, Result};
use crate::host_speed::HostSpeed;
use crate::images::KeptImage;
use crate::registry::{CoreLocks, Registration};

/// This machine's part of a run. When it is dropped, everything of the run goes.
///
/// The order of the fields is that in which they are dropped: first what lives, last what it lived in.
pub struct LocalSite {
    counting: Option<Counting>,
    nodes: Option<Arc<Nodes>>,
    prepared: Option<Prepared>,
    programs: Programs,
    place: Option<Place>,
    events: Events,
    /// The nodes without power.
    off: BTreeSet<NodeIndex>,
    /// Whether the nodes have their limits.
    is_limited: bool,
    /// Counters of system calls, from then on until the clock starts.
    loaded_calls: Option<LoadedCalls>,
    /// Whether the nodes' files are to be kept.
    keeps: bool,
}

/// Where on this machine a run has its things.
pub struct Place {
    /// The run's identity, its private directories and its right to the cores.
    pub registration: Registration,
    /// The experiment's folder.
    pub folder: PathBuf,
    /// Where the nodes' logs and the captures go.
    pub results: RunDir,
}

/// Parts that are there before the nodes are, in the order in which they are dropped.
struct Prepared {
    /// They go before the nodes' networks, which they are connected to.
    _ports: Ports,
    network: Network,
    shares: Shares,
    disks: Option<NodeDisks>,
    idle_memory: IdleMemory,
    /// Nothing where this machine does not let them be raised.
    _user_limits: Option<UserLimits>,
    enclosure: Enclosure,
    dilation: Option<Arc<Dilation>>,
    namespaces: Namespaces,
    runtime: Runtime,
    /// The images that are the nodes' roots.
    images: BTreeMap<String, KeptImage>,
    setup: Setup,
}

impl Prepared {
    /// Removes all of it.
    fn remove(mut self) {
        let idle_memory = std::mem::replace(&mut self.idle_memory, IdleMemory::none());
        idle_memory.restore_beside(|| drop(self));
    }
}

/// Parts that there are while the clock runs.
struct Counting {
    captures: Captures,
    monitor: Option<Monitor>,
    calls: Option<CallCounts>,
    packets: Option<PacketCounts>,
    counters: Counters,
}

impl LocalSite {
    /// A site for a run that other commands cannot find by its name. `folder` is the experiment's, and in `results`
    /// each node has a directory for its logs.
    pub fn unnamed(cores: CoreLocks, folder: PathBuf, results: RunDir) -> Result<LocalSite> {
        Ok(LocalSite::new(Place { registration: Registration::new(cores)?, folder, results }))
    }

    /// A site that has made nothing yet.
    pub fn new(place: Place) -> LocalSite {
        LocalSite {
            counting: None,
            nodes: None,
            prepared: None,
            programs: Programs::default(),
            place: Some(place),
            events: Events::new(),
            off: BTreeSet::new(),
            is_limited: false,
            loaded_calls: None,
            keeps: false,
        }
    }

    fn place(&self) -> Result<&Place> {
        there(self.place.as_ref())
    }

    fn prepared(&self) -> Result<&Prepared> {
        there(self.prepared.as_ref())
    }

    fn nodes(&self) -> Result<&Arc<Nodes>> {
        there(self.nodes.as_ref())
    }

    /// Takes the images that are roots of nodes, so that nobody removes them, and unpacks those that never were.
    fn images(&self, setup: &Setup) -> Result<BTreeMap<String, KeptImage>> {
        let names = setup.nodes.iter().filter_map(|node| match &node.root {
            Root::Image(name) => Some(name.clone()),
            _ => None,
        });
        let names: BTreeSet<String> = names.collect();
        names.into_iter().map(|name| Ok((name.clone(), KeptImage::take(&name)?))).collect()
    }

    /// Gives a node its disk back, as its power cut has left it. The node has ended.
    fn boot(&mut self, node: NodeIndex) -> Result<()> {
        let Some(nodes) = self.nodes.clone() else { return there(None) };
        nodes.await_end(node);
        // Programs that are open on it.
        self.programs.close();
        nodes.unmount(node)?;
        let disks = there(there(self.prepared.as_mut())?.disks.as_mut())?;
        disks.mount_again(node, || nodes.mount_again(node))?;
        self.off.remove(&node);
        Ok(())
    }

    /// Ends what still runs, and has the disks take what has not been written to them.
    fn write_out(&mut self) -> Result<()> {
        let (Some(nodes), Some(prepared)) = (&self.nodes, &mut self.prepared) else { return Ok(()) };
        let Some(disks) = &mut prepared.disks else { return Ok(()) };
        nodes.end_those_with_disks();
        nodes.sync_disks()?;
        disks.count().map(drop)
    }

    /// The counters at the instant of an observation of the network.
    fn sample_with(&mut self, network: net::Observation) -> Result<Sample> {
        let prepared = there(self.prepared.as_mut())?;
        let sample = there(self.counting.as_mut())?.counters.sample(network, prepared)?;
        Ok(Sample { commands: self.nodes()?.commands(), ..sample })
    }
}

/// The core of what is not the emulator, if there is but one: else it is left where this process may be.
fn only(setup: &Setup) -> Option<usize> {
    let own = setup.cores.engine();
    own.first().copied().filter(|_| own.len() == 1)
}

/// Fails for a part that is missing if a call comes too early, or after the site was taken down.
fn there<T>(part: Option<T>) -> Result<T> {
    part.ok_or_else(|| Error::SiteLost("the site was asked for something that is not there yet, or no more".into()))
}

/// The calls of the interface.
impl LocalSite {
    fn prepare(&mut self, setup: Setup) -> Result<()> {
        let own = setup.cores.engine().to_vec();
        there(own.first())?;
        host::descriptors::raise_limit();
        let mut places = vec![self.place()?.registration.state_dir().to_path_buf()];
        if !setup.captures.is_empty() {
            // They grow with each frame that nodes send, on what may be another disk.
            places.push(self.place()?.results.path().to_path_buf());
        }
        places.iter().try_for_each(|place| host::room::check(place, 0))?;
        self.events.watch_room(places)?;
        let taken = TakenPorts::take(&setup.nodes)?;
        let images = self.images(&setup)?;
        // Asked before this process restricts itself to the harness's cores.
        let (policy, because) = shares::policy_of(&setup);
        // Keeps the engine, and all threads that it starts from here on, off the nodes' cores.
        host::cores::restrict(&own).map_err(|e| {
            Error::machine(
                format!("{} cannot be used: {e}", host::cores::named(&own)),
                "a run needs two cores that this process may use (see `taskset -p $$`)",
            )
        })?;
        if let Some(lack) = host::too_few_namespaces(setup.nodes.len()) {
            return Err(Error::machine(lack.what, lack.help));
        }
        let runtime = Runtime::detect()?;
        if setup.user_namespaces && !runtime.makes_user_namespaces() {
            return Err(Error::machine(
                format!("{} makes no nodes with user namespaces", runtime.name()),
                "`apt-get install crun`, or leave `user_namespaces` out",
            ));
        }
        let place = self.place()?;
        // As it lies on the host, however it was named.
        let folder = place.folder.canonicalize().map_err(Error::io(place.folder.display()))?;
        let enclosure = Enclosure::open(EnclosureOptions {
            state: place.registration.state_dir().to_path_buf(),
            init: "/proc/self/exe".into(),
            core: only(&setup),
            hide: vec![folder, place.results.path().to_path_buf()],
            user_namespaces: setup.user_namespaces,
        })?;
        let raised = UserLimits::raise(&place.registration.id);
        if let Err(e) = &raised {
            warn(format_args!("nodes can use up inotify and epoll of the host's root: no more can be had here: {e}"));
        }
        let _user_limits = raised.ok();
        let shares = Shares::create(&place.registration.id, &setup, policy, because)?;
        cgroup::Tree::of(&place.registration.id)?.limit_processes(processes::most_of_a_run())?;
        let clocks = shares.clocks();
        let disks = NodeDisks::make(&setup, &enclosure, &place.registration, clocks)?;
        let dilation = Dilation::of(&setup, clocks.map_or(&[], NodeClocks::clocks))?.map(Arc::new);
        let (network, namespaces) = Network::create(&setup, clocks)?;
        let ports = taken.open(namespaces.all(), network.addresses(), &self.events.teller())?;
        self.programs = Programs::but_own(&runtime);
        // After all other settings: nobody changes any while the kernel takes up to half a second for this one.
        let idle_memory = IdleMemory::take(&self.place()?.registration.id, setup.tdf);
        let made = Prepared {
            _ports: ports,
            network,
            shares,
            disks,
            idle_memory,
            _user_limits,
            enclosure,
            dilation,
            namespaces,
            runtime,
            images,
            setup,
        };
        self.prepared = Some(made);
        Ok(())
    }

    fn create_nodes(&mut self) -> Result<()> {
        let prepared = self.prepared()?;
        let setup = &prepared.setup;
        let (own, all) = (setup.cores.engine().to_vec(), setup.cores.all());
        // The nodes' cores have nothing to do yet. What cannot be had of them only takes longer.
        let widened = prepared.enclosure.call(move || host::cores::restrict(&all));
        let created = Nodes::create(prepared, self.place()?);
        if matches!(widened, Ok(Ok(()))) {
            let narrowed = prepared.enclosure.call(move || host::cores::restrict(&own))?;
            narrowed.map_err(Error::io("the harness's cores"))?;
        }
        let nodes = created?;
        self.events.follow(prepared.enclosure.exits().clone(), nodes.pids())?;
        self.nodes = Some(Arc::new(nodes));
        there(self.prepared.as_mut())?.disks.as_mut().map_or(Ok(()), NodeDisks::mounted)
    }

    fn apply_limits(&mut self) -> Result<Conditions> {
        let prepared = there(self.prepared.as_mut())?;
        let not_applied = prepared.network.not_applied().to_vec();
        let disks = prepared.disks.as_ref().map(NodeDisks::conditions);
        let Prepared { shares, enclosure, idle_memory, setup, .. } = prepared;
        // Idle memory last: the kernel may not have changed that yet, and does so meanwhile.
        let conditions = shares.apply(enclosure)?;
        self.loaded_calls = LoadedCalls::load(setup, shares);
        self.is_limited = true;
        Ok(Conditions { not_applied, disks, idle_memory: idle_memory.conditions(), ..conditions })
    }

    fn now(&mut self) -> Result<RealInstant> {
        Ok(host::now())
    }

    fn start_clock(&mut self, at: RealInstant) -> Result<Zero> {
        self.place()?.registration.note_begin()?;
        // Writes to the disks until now take no time.
        self.nodes()?.sync_disks()?;
        std::thread::sleep(Duration::from(at.since(host::now())));
        let prepared = self.prepared()?;
        let zero =
            prepared.dilation.as_ref().map_or_else(clock::native_zero, |d| d.start(prepared.setup.continues.as_ref()));
        let timeline = Timeline::new(zero, prepared.setup.tdf);
        if let Some(disks) = &mut there(self.prepared.as_mut())?.disks {
            disks.begin(zero.real)?;
        }
        let (place, prepared) = (self.place()?, self.prepared()?);
        let captures = Captures::begin(&prepared.setup.captures, &prepared.network, &place.results, timeline)?;
        let packets = PacketCounts::begin(&prepared.setup, &prepared.network, timeline)?;
        prepared.network.start_series(timeline);
        let monitor = Some(Monitor::begin(prepared, &place.results, timeline)?);
        let counters = Counters::begin(prepared, &place.registration)?;
        let calls = self.loaded_calls.take().map(|calls| calls.begin(timeline)).transpose()?;
        self.counting = Some(Counting { captures, monitor, calls, packets, counters });
        Ok(zero)
    }

    fn start(&mut self, nodes: &[Start]) -> Result<()> {
        for node in nodes.iter().filter(|start| start.how == How::Boot).map(|start| start.node) {
            self.boot(node)?;
        }
        self.nodes()?.start(nodes)
    }

    fn stop(&mut self, node: NodeIndex, how: Stop) -> Result<()> {
        let stop = |n: &node::Node| match how {
            Stop::Ask => n.terminate(),
            Stop::Kill => n.signal(libc::SIGKILL),
        };
        Ok(self.nodes()?.with(node, stop)?)
    }

    fn change_pipes(&mut self, changes: &[(String, net::PipeChange)]) -> Result<()> {
        self.prepared()?.network.change(changes)
    }

    fn change_flow(&mut self, flow: usize, change: net::FlowChange) -> Result<()> {
        self.prepared()?.network.change_flow(flow, change)
    }

    fn change_disk(&mut self, node: NodeIndex, change: device::Change) -> Result<()> {
        there(there(self.prepared.as_mut())?.disks.as_mut())?.change(node, change).map(drop)
    }

    fn change_clock(&mut self, node: NodeIndex, change: ClockChange) -> Result<()> {
        match &self.prepared()?.dilation {
            Some(dilation) => dilation.change_clock(node, change),
            None => Err(Error::Usage("a node's clock can be set off in scaled and baseline runs only".into())),
        }
    }

    fn cut_power(&mut self, node: NodeIndex) -> Result<device::Cut> {
        // First, so that nobody goes on with what an answer means that never came.
        self.nodes()?.with(node, node::Node::cut_off)?;
        self.off.insert(node);
        there(there(self.prepared.as_mut())?.disks.as_mut())?.change(node, Change::PowerOff)
    }

    fn change_hardware(&mut self, node: NodeIndex, change: HardwareChange) -> Result<Option<u64>> {
        match change {
            HardwareChange::Memory(bytes) => Ok(Some(self.nodes()?.with(node, |n| n.limit_memory(bytes))?)),
            HardwareChange::Speed(factor) => self.prepared()?.shares.slow(node, factor).map(|()| None),
        }
    }

    fn pause(&mut self, node: NodeIndex, paused: bool) -> Result<()> {
        Ok(self.nodes()?.with(node, |n| n.pause(paused))?)
    }

    fn cut(&mut self, pairs: &[[NodeIndex; 2]]) -> Result<()> {
        self.prepared()?.network.cut(pairs)
    }

    fn change_program(&mut self, change: &ProgramChange) -> Result<bool> {
        self.nodes()?.change_program(change)
    }

    fn programs_running(&mut self, programs: &[(NodeIndex, String)]) -> Result<Vec<bool>> {
        let nodes = self.nodes()?;
        Ok(programs.iter().map(|program| nodes.is_program_running(program)).collect())
    }

    fn listening(&mut self, waiting: &[(NodeIndex, u16)]) -> Result<Vec<NodeIndex>> {
        let (nodes, prepared) = (self.nodes()?, self.prepared()?);
        let mut listening = Vec::new();
        for (node, port) in waiting {
            let listens = match prepared.setup.nodes[*node].guest {
                Some(_) => prepared.network.guest_listens(*node, *port)?,
                None => nodes.with(*node, |n| n.listening(*port)),
            };
            listening.extend(listens.then_some(*node));
        }
        Ok(listening)
    }

    fn events(&mut self) -> Result<Receiver<Event>> {
        Ok(self.events.told())
    }

    fn visits(&mut self) -> Result<Visits> {
        // Not before, so that no command from outside runs without limits.
        there(self.is_limited.then_some(()))?;
        visits::receive(self.nodes()?).map_err(Error::io("a thread"))
    }

    fn begin_command(&mut self, command: &Command) -> Result<CommandId> {
        let running = self.nodes()?.begin(command)?;
        self.events.await_command(running)
    }

    fn note_programs(&mut self) -> Result<()> {
        let proc = there(self.prepared.as_ref())?.enclosure.proc();
        // If this fails, the next time finds them.
        let _ = self.programs.scan(proc);
        Ok(())
    }

    fn sample(&mut self) -> Result<Sample> {
        there(self.counting.as_ref())?.captures.check()?;
        let network = self.prepared()?.network.observe()?;
        self.sample_with(network)
    }

    fn finish(&mut self) -> Result<Closing> {
        let network = self.prepared()?.network.end_series();
        let sample = network.and_then(|network| self.sample_with(network)).map_err(site::Error::from);
        let counting = there(self.counting.as_mut())?;
        let monitored = counting.monitor.take().map(Monitor::finish).unwrap_or_default();
        let calls = counting.calls.take().and_then(CallCounts::finish);
        // The kernel takes its time for that, and nothing that counts happens any more.
        there(self.prepared.as_mut())?.idle_memory.begin_to_restore();
        // Reads from now on are of results.
        if let Some(disks) = &mut there(self.prepared.as_mut())?.disks {
            disks.pass()?;
        }
        // Disks of nodes without power hold what those find who look after it.
        for node in std::mem::take(&mut self.off) {
            // Where that is nothing that can be mounted, nothing is found.
            let _ = self.boot(node);
        }
        let injections = self.nodes()?.injections();
        let Counting { captures, counters, packets, .. } = there(self.counting.take())?;
        let prepared = self.prepared()?;
        let packets = packets.map(|packets| packets.finish(&prepared.network));
        let recordings = captures.finish(&prepared.network).map_err(site::Error::from);
        let Last { clock_error_ppm, caches } = counters.finish(prepared.setup.tdf);
        Ok(Closing { sample, clock_error_ppm, caches, injections, recordings, monitored, calls, packets })
    }

    fn collect(&mut self) -> Result<Collected> {
        let nodes = self.nodes()?;
        let out_of_memory = (0..nodes.len()).map(|n| nodes.with(n, node::Node::oom_killed)).collect();
        Ok(Collected { out_of_memory, programs: self.programs.versions(), cut_logs: nodes.settle_logs()? })
    }

    fn read(&mut self, node: NodeIndex, what: &Written, offset: u64, limit: u64) -> Result<Option<Vec<u8>>> {
        self.nodes()?.read(node, what, offset, limit)
    }

    fn suspend(&mut self, run: &Suspended) -> Result<()> {
        self.place()?.registration.write_suspended(run)?;
        self.keeps = true;
        Ok(())
    }

    fn keep_speed(&mut self, seen: &[SpeedSeen]) -> Result<Option<::counters::Speed>> {
        HostSpeed::here().add(seen)
    }

    fn tear_down(&mut self) -> Result<()> {
        self.counting = None;
        let written = match self.keeps {
            true => self.write_out(),
            false => Ok(()),
        };
        if let (Some(nodes), Some(prepared)) = (self.nodes.take(), &mut self.prepared)
            && let Some(disks) = &mut prepared.disks
        {
            // While somebody serves them, they are unmounted in silence: if nobody uses a file of theirs any more.
            let _ = disks.ending();
            self.programs = Programs::default();
            nodes.end_those_with_disks();
            drop(nodes);
            // Its thread leaves the mounts of the last node.
            let _ = prepared.enclosure.call(|| ());
        }
        if let Some(prepared) = self.prepared.take() {
            prepared.remove();
        }
        let kept = match &self.place {
            // Everything that could be written is kept in any case.
            Some(place) if self.keeps => place.registration.suspend(),
            _ => Ok(()),
        };
        self.place = None;
        written.and(kept)
    }
}
