//! The clocks of nodes, kept by programs in the kernel: each stands still while its node waits for the core, and
//! goes on with the node's work while that has it.
//!
//! So *when* a node has the core does not show in it, and slices can be long. `docs/cpu.md` has the whole story;
//! `bpf/node_clock.bpf.c` is the program, `crates/scale/include/node_clock.h` what it keeps.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use counters::Looks;
use host::bpf;
use host::node_clock::{NodeClock, NodeState};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapImpl, MapType, Object, ProgramMut, ProgramType};
use scale::{NodeRate, RealDuration, RealInstant};

use crate::keeper::protocol::Maps;
use crate::keeper::shared_array::SharedArray;
use crate::{Error, NodeShare};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/node_clock.bpf.o"));
const PAGE_SIZE: u32 = 4096;
/// Of any machine: as in the program.
pub(crate) const MOST_CPUS: usize = 1024;
/// Shares of the core count in units of 2^-32.
const SHARE_UNIT: f64 = (1u64 << 32) as f64;

/// The first version of the kernel that does not trace how it ends datagrams; the program that only older ones need,
/// and the one that newer ones need, too, to tell which datagram a thread takes.
const DATAGRAMS_END_UNTRACED: (u32, u32) = (6, 18);
const BY_END: &str = "on_consume";
const BY_SOCKET: &str = "on_data";

/// The first version that traces what comes to sockets: there a thread of a node with several CPUs changes places with
/// one that waits, and looks that find nothing are counted.
const SOCKETS_TRACED: (u32, u32) = (6, 3);
const LOOKS: &str = "on_receive";

/// `struct node` of the program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeWords {
    rate: u64,
    share: u64,
    burner: u32,
    cpus: u32,
    runnable: u32,
    round: u32,
    round_from: u64,
    all_cpus: u64,
    counted: u64,
    wanted: u64,
    lead: i64,
    since: u64,
    ran: u64,
    waited: u64,
    slices: u64,
    worked: u64,
    uncounted: u64,
    counts: u64,
    group: u64,
    entity: u64,
    queued: u64,
    looks: u64,
    looks_ahead: u64,
    behind: [u32; BUCKETS],
    ahead: [u32; BUCKETS],
}

/// `struct burner` of the program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurnerWords {
    awake: u64,
    since: u64,
    owed: u64,
    unused: [u64; 5],
}

/// `struct core` of the program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreWords {
    group: u64,
    running: u32,
    empty: u32,
    timers: [u64; 2],
    socket: [u64; 3],
}

/// A histogram's, by the logarithm of µs.
pub const BUCKETS: usize = 32;

/// How a node has had its core so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTimes {
    /// For how long it had the core.
    pub ran: RealDuration,
    /// For how long it wanted the core and did not have it.
    pub waited: RealDuration,
    /// How often it has had it.
    pub slices: u64,
    /// By how much its clock has gone on while it had the core, on the run's clock.
    pub worked: RealDuration,
    /// How many of its CPUs its threads wanted, over time: CPUs × real time.
    pub wanted: RealDuration,
    /// For how long at least one of its threads could run.
    pub awake: RealDuration,
    /// How often a thread could not be counted, for want of memory.
    pub uncounted: u64,
    /// Of its looks at sockets that found nothing.
    pub looks: Looks,
    /// How often its clock was so far behind the run's when it got the core: below 1 µs of real time, below 2, 4 and
    /// so on.
    pub behind: [u32; BUCKETS],
    /// How often it was so far ahead when all of its threads went to sleep.
    pub ahead: [u32; BUCKETS],
}

/// The clocks of a run's nodes. They stand when this is dropped.
pub struct NodeClocks {
    clocks: Vec<NodeClock>,
    /// The numbers of the maps that have them.
    numbers: Vec<u32>,
    nodes: SharedArray<NodeWords>,
    burners: usize,
    // In this order: the links refer to the object.
    _links: Vec<Link>,
    object: Object,
}

impl std::fmt::Debug for NodeClocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeClocks").field("nodes", &self.clocks.len()).finish_non_exhaustive()
    }
}

impl NodeClocks {
    /// Loads the programs, for nodes of which each is in the control group of this number, and shares the core with
    /// those that have the same burner. Their clocks are the run's until they run. Takes some 0.1 s.
    pub(crate) fn start(
        shares: &[NodeShare],
        groups: &[u64],
        burners: &[usize],
        slice: RealDuration,
    ) -> Result<NodeClocks, Error> {
        let why = |why: String| Error::Clocks(why);
        let refused = |e| Error::Clocks(bpf::refused(e));
        let count = u32::try_from(shares.len().max(1)).map_err(|e| Error::Clocks(e.to_string()))?;
        let most = burners.iter().max().map_or(1, |most| most + 1) as u32;

        let mut cores = [0u64; MOST_CPUS / 64];
        for node in shares {
            let word = cores.get_mut(node.core / 64).ok_or_else(|| Error::Clocks("too many processors".into()))?;
            *word |= 1 << (node.core % 64);
        }
        let mut config = cores.map(u64::to_ne_bytes).concat();
        config.extend(slice.as_nanos().to_ne_bytes());
        let before = |version| host::slices::version().is_some_and(|here| here < version);
        let (by_end, several) = (before(DATAGRAMS_END_UNTRACED), shares.iter().any(|node| node.cpus > 1));
        let traced = !before(SOCKETS_TRACED);
        let changes_places = several && traced;
        config.extend([by_end, changes_places].map(|yes| u64::from(yes).to_ne_bytes()).concat());
        let mut open = bpf::open(PROGRAM).map_err(why)?;
        for mut program in open.progs_mut() {
            let needed = match program.name().to_string_lossy().as_ref() {
                BY_END => by_end,
                BY_SOCKET => changes_places || !by_end,
                LOOKS => traced,
                _ => true,
            };
            program.set_autoload(needed);
        }
        let fill = |v: &mut [u8]| v[..config.len()].copy_from_slice(&config);
        bpf::initial_value(&mut open, ".rodata", config.len(), fill).map_err(why)?;
        let of_nodes = ["clocks", "nodes", "groups", "waiters"].map(|map| (map, count));
        for (map, entries) in of_nodes.into_iter().chain([("burners", most), ("senders", 16 * count)]) {
            bpf::find(&mut open, map).map_err(why)?.set_max_entries(entries).map_err(refused)?;
        }
        let object = open.load().map_err(refused)?;

        let nodes = SharedArray::<NodeWords>::map(map(&object, "nodes")?.as_fd(), shares.len())?;
        let (outer, groups_map) = (map(&object, "clocks")?, map(&object, "groups")?);
        let (mut clocks, mut numbers) = (Vec::new(), Vec::new());
        for (i, node) in shares.iter().enumerate() {
            let (inner, clock) = page()?;
            clock.begin(host::now());
            outer.update(&key(i), &inner.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY).map_err(refused)?;
            groups_map.update(&groups[i].to_ne_bytes(), &key(i + 1), MapFlags::ANY).map_err(refused)?;
            clocks.push(clock);
            numbers.push(inner.info().map_err(refused)?.info.id);
            let words = nodes.at(i);
            // SAFETY: the mapping lives as long as `nodes`, and no program runs yet.
            unsafe {
                (*words).rate = NodeRate::of_share(node.share_of_cpu(), 1.0).bits();
                (*words).share = (node.share_of_cpu() * SHARE_UNIT) as u64;
                (*words).burner = burners[i] as u32;
                (*words).cpus = node.cpus;
                (*words).counted = host::now().as_nanos();
            }
        }
        let mut links = Vec::new();
        let traces = |program: &ProgramMut| program.prog_type() == ProgramType::Tracing && program.autoload();
        for program in object.progs_mut().filter(traces) {
            links.push(program.attach().map_err(refused)?);
        }
        Ok(NodeClocks { clocks, numbers, nodes, burners: most as usize, _links: links, object })
    }

    /// Whether this machine can keep clocks of nodes: tried.
    pub fn try_here() -> Result<(), Error> {
        NodeClocks::start(&[], &[], &[], crate::DEFAULT_SLICE).map(drop)
    }

    /// The clocks, in the order of the nodes.
    pub fn clocks(&self) -> &[NodeClock] {
        &self.clocks
    }

    /// The number of the map that has a node's clock, by which another process opens it ([`NodeClock::open`]).
    pub fn number(&self, node: usize) -> u32 {
        self.numbers[node]
    }

    /// From now on what is sent from an interface with the hardware address `02:00` and this, is a node's.
    pub fn sends_from(&self, address: [u8; 4], node: usize) -> Result<(), Error> {
        let senders = map(&self.object, "senders")?;
        senders.update(&address, &key(node + 1), MapFlags::ANY).map_err(|e| Error::Clocks(bpf::refused(e)))
    }

    /// The program for the way out of interfaces (clsact, direct action) that writes into each frame when its sender
    /// sent it.
    pub fn stamper(&self) -> Result<OwnedFd, Error> {
        self.program("stamp")
    }

    /// Those for the loopback of a node, once it has a queue: for its way out, and for its way in.
    pub fn of_loopback(&self) -> Result<[OwnedFd; 2], Error> {
        Ok([self.program("stamp_own")?, self.program("date_own")?])
    }

    /// The program for the way into interfaces (the same) that writes to each frame when it arrives.
    pub fn dater(&self) -> Result<OwnedFd, Error> {
        self.program("date")
    }

    fn program(&self, name: &str) -> Result<OwnedFd, Error> {
        let program = self.object.progs_mut().find(|program| program.name() == OsStr::new(name));
        let program = program.ok_or_else(|| Error::Clocks(format!("its compiled program has no `{name}`")))?;
        let kept = program.as_fd().try_clone_to_owned();
        kept.map_err(|e| Error::Clocks(e.to_string()))
    }

    /// From now on a node has this part of the share that it had at first: its work counts as so much more of its time.
    pub(crate) fn slow(&self, node: usize, share_of_cpu: f64, factor: f64) {
        let words = self.nodes.at(node);
        // SAFETY: the mapping lives as long as `self`; the programs, and the keeper, read each word as a whole. Should
        // the keeper tell the rate of the old share just now, it sees at its next look that the share is another.
        unsafe {
            let [share, rate] = [&raw mut (*words).share, &raw mut (*words).rate];
            let before = share.read_volatile().max(1) as f64;
            let after = (share_of_cpu * factor * SHARE_UNIT).max(1.0);
            rate.write_volatile(NodeRate::from_bits(rate.read_volatile()).times(before / after).bits());
            share.write_volatile(after as u64);
        }
    }

    /// How a node has had its core so far.
    pub fn times(&self, node: usize) -> NodeTimes {
        // SAFETY: the mapping lives as long as `self`. What is read while the program writes it is off by one slice.
        let words = unsafe { self.nodes.at(node).read_volatile() };
        let [ran, waited, worked, wanted] =
            [words.ran, words.waited, words.worked, words.wanted].map(RealDuration::from_nanos);
        // A wait that goes on now is counted when it ends.
        let goes_on = if words.runnable > 0 {
            host::now().since(RealInstant::from_nanos(words.since))
        } else {
            RealDuration::ZERO
        };
        let NodeWords { slices, uncounted, behind, ahead, .. } = words;
        let awake = ran + waited + goes_on;
        let looks = Looks { count: words.looks, ahead_ns: words.looks_ahead };
        NodeTimes { ran, waited, slices, worked, wanted, awake, uncounted, looks, behind, ahead }
    }

    /// The counters of what nodes have done, for another thread.
    pub(crate) fn work_done(&self) -> Result<WorkDone, Error> {
        Ok(WorkDone(SharedArray::map(map(&self.object, "nodes")?.as_fd(), self.clocks.len())?))
    }

    /// Where another process finds what nodes want.
    pub(crate) fn maps(&self) -> Result<Maps, Error> {
        let number = |name| {
            let info = map(&self.object, name)?.info().map_err(|e| Error::Clocks(bpf::refused(e)))?;
            Ok::<u32, Error>(info.info.id)
        };
        let (nodes, burners, cores) = (number("nodes")?, number("burners")?, number("cores")?);
        let look = bpf::number_of(self.program("look")?.as_fd()).map_err(Error::io("ask for a program's number"))?;
        Ok(Maps { nodes, burners, cores, look, node_count: self.clocks.len(), burner_count: self.burners })
    }
}

/// By how much the clocks of nodes have gone on while they had their cores.
#[derive(Debug)]
pub(crate) struct WorkDone(SharedArray<NodeWords>);

impl WorkDone {
    /// Of a node with this clock, in ns on the run's clock: what it does just now is counted until `now`.
    pub fn of(&self, node: usize, clock: &NodeClock, now: RealInstant) -> u64 {
        let words = self.0.at(node);
        let mut work = 0;
        // It gets the core, or leaves it, meanwhile: seldom, and seldomer twice.
        for _ in 0..4 {
            let (line, state) = (clock.line(), clock.state());
            // SAFETY: the mapping lives as long as `self`; the programs write the word as a whole.
            let done = unsafe { (&raw const (*words).worked).read_volatile() };
            let under_way = if state == NodeState::Runs { line.gone_on(now).as_nanos() } else { 0 };
            work = done + under_way;
            if clock.line().base_real == line.base_real {
                break;
            }
        }
        work
    }
}

/// Who has a core: the number of the control group, and the place of the node, if it is one.
///
/// # Safety
/// `words` is mapped from the programs' map of cores.
pub(crate) unsafe fn who_has(words: *const CoreWords) -> (u64, Option<usize>) {
    // SAFETY: as this function asks of its callers; the programs write each word as a whole.
    let (group, node) =
        unsafe { ((&raw const (*words).group).read_volatile(), (&raw const (*words).running).read_volatile()) };
    (group, (node as usize).checked_sub(1))
}

/// The shares of the nodes of a burner that do not sleep now, together.
///
/// # Safety
/// `words` is mapped from the programs' map of burners.
pub(crate) unsafe fn awake_of(words: *const BurnerWords) -> f64 {
    // SAFETY: as this function asks of its callers; the programs write the word as a whole.
    unsafe { (&raw const (*words).awake).read_volatile() as f64 / SHARE_UNIT }
}

/// The shares of the nodes of a burner that did not sleep, together, on average since `before`: what they had been owed
/// then, and when that was; both are brought up to `now`.
///
/// # Safety
/// `words` is mapped from the programs' map of burners.
pub(crate) unsafe fn awake_on_average(
    words: *const BurnerWords,
    now: RealInstant,
    before: &mut (u64, RealInstant),
) -> f64 {
    // SAFETY: as this function asks of its callers. What is read while the programs write it is off by one slice.
    let BurnerWords { awake, since, owed, .. } = unsafe { words.read_volatile() };
    (on_average(awake >> 16, (owed, since), now, before) / (SHARE_UNIT / 65_536.0)).min(1.0)
}

/// The average since `before` of what is `value` now, and whose integral over real time was `counted` at an instant in
/// ns. `before` is such an integral and its instant, and is brought up to `now`.
fn on_average(value: u64, counted: (u64, u64), now: RealInstant, before: &mut (u64, RealInstant)) -> f64 {
    let integral = counted.0.saturating_add(value * now.since(RealInstant::from_nanos(counted.1)).as_nanos());
    let (grown, passed) = (integral.saturating_sub(before.0), now.since(before.1).as_nanos().max(1));
    *before = (integral, now);
    grown as f64 / passed as f64
}

/// A node that sleeps and is in its core's queue all the same, as it was when that was looked at last: its burner, and
/// its share. It has had more of its core than it was owed until now.
///
/// # Safety
/// `words` is mapped from the programs' map of nodes.
pub(crate) unsafe fn queued_asleep(words: *const NodeWords) -> Option<(usize, f64)> {
    // SAFETY: as this function asks of its callers. What is read while the programs write it is read again soon. The
    // histograms, which are most of it, are left alone: this is done for each node some thousand times a second.
    unsafe {
        let (runnable, queued) = (&raw const (*words).runnable, &raw const (*words).queued);
        (queued.read_volatile() != 0 && runnable.read_volatile() == 0).then(|| {
            let (burner, share) = (&raw const (*words).burner, &raw const (*words).share);
            (burner.read_volatile() as usize, share.read_volatile() as f64 / SHARE_UNIT)
        })
    }
}

/// How many nodes are looked at in one call: as in the program.
const MOST_LOOKED_AT: usize = 32;

/// `struct look` of the program.
#[repr(C)]
struct Look {
    count: u32,
    nodes: [u32; MOST_LOOKED_AT],
}

/// The program that looks which of the nodes that sleep have left the queue of their core.
#[derive(Debug)]
pub(crate) struct QueueLook(OwnedFd);

impl QueueLook {
    pub fn open(number: u32) -> std::io::Result<QueueLook> {
        bpf::open_program(number).map(QueueLook)
    }

    /// Has it look at these nodes: those that have left are no longer [`queued_asleep`].
    pub fn at(&self, nodes: &[usize]) -> std::io::Result<()> {
        for some in nodes.chunks(MOST_LOOKED_AT) {
            let mut look = Look { count: some.len() as u32, nodes: [0; MOST_LOOKED_AT] };
            look.nodes.iter_mut().zip(some).for_each(|(to, node)| *to = *node as u32 + 1);
            // SAFETY: the program takes just such a value, of which it reads `count` nodes.
            unsafe { bpf::run(self.0.as_fd(), &mut look)? };
        }
        Ok(())
    }
}

/// How many CPUs of a node are at work, and how far its clock is ahead of the run's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AtWork {
    /// CPUs, just now.
    pub at_once: f64,
    /// CPUs, on average.
    pub on_average: f64,
    /// The lead when it last got the core or left it, ns of real time; negative where it is behind.
    pub lead_ns: f64,
    /// By how much its clock goes on in a ns of the core with one CPU at work.
    pub rate: f64,
    /// The fraction of its core that one of its CPUs has now.
    pub share_of_cpu: f64,
}

/// Reads how many CPUs of a node are at work: just now, and on average since `before`, which is the integral of that
/// and its instant, and is brought up to `now`.
///
/// # Safety
/// `words` is mapped from the programs' map of nodes.
pub(crate) unsafe fn at_work(words: *const NodeWords, now: RealInstant, before: &mut (u64, RealInstant)) -> AtWork {
    // SAFETY: as this function asks of its callers. What is read while the programs write it is off by one slice.
    let NodeWords { rate, share, cpus, runnable, counted, wanted, lead, .. } = unsafe { words.read_volatile() };
    let at_once = runnable.min(cpus);
    let on_average = on_average(u64::from(at_once), (wanted, counted), now, before).min(f64::from(cpus));
    let rate = rate as f64 / NodeRate::UNIT.bits() as f64;
    let share_of_cpu = share as f64 / SHARE_UNIT;
    AtWork { at_once: f64::from(at_once), on_average, lead_ns: lead as f64, rate, share_of_cpu }
}

/// The share of each of a node's CPUs now, as the programs count it.
///
/// # Safety
/// `words` is mapped from the programs' map of nodes.
pub(crate) unsafe fn share_now(words: *const NodeWords) -> u64 {
    // SAFETY: as this function asks of its callers; the word is written as a whole.
    unsafe { (&raw const (*words).share).read_volatile() }
}

/// From its next slice on the work of a node counts as on a core of this speed, as a part of the reference, if its
/// burner is one that `concerns`: for which share of each of its CPUs, then.
///
/// # Safety
/// `words` is mapped from the programs' map of nodes; who else writes the rate does so with a new share, of which this
/// is told at the next look.
pub(crate) unsafe fn tell_rate(
    words: *mut NodeWords,
    core_speed: f64,
    concerns: impl Fn(usize) -> bool,
) -> Option<u64> {
    // SAFETY: as this function asks of its callers; the programs read the word as a whole.
    unsafe {
        let share = share_now(words);
        concerns((&raw const (*words).burner).read_volatile() as usize).then(|| {
            let rate = NodeRate::of_share(share as f64 / SHARE_UNIT, core_speed);
            (&raw mut (*words).rate).write_volatile(rate.bits());
            share
        })
    }
}

fn map<'o>(object: &'o Object, name: &str) -> Result<MapImpl<'o>, Error> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    found.ok_or_else(|| Error::Clocks(format!("its compiled program has no map `{name}`")))
}

fn key(number: usize) -> [u8; 4] {
    (number as u32).to_ne_bytes()
}

/// A new page for a clock, and the clock.
fn page() -> Result<(MapHandle, NodeClock), Error> {
    let refused = |e| Error::Clocks(bpf::refused(e));
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let map = MapHandle::create(MapType::Array, Some("node_clock"), 4, PAGE_SIZE, 1, &options).map_err(refused)?;
    // The kernel maps nothing of a map that is opened for reading only. What is mapped for reading can never be
    // written.
    let guest = map.as_fd().try_clone_to_owned().map_err(|e| Error::Clocks(e.to_string()))?;
    let clock = NodeClock::new(map.as_fd(), guest)?;
    Ok((map, clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Left out of `make check`.
    mod as_root {
        use super::*;

        #[test]
        fn the_kernel_takes_the_programs() {
            NodeClocks::try_here().unwrap();
        }
    }
}
