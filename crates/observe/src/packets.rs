//! Packets, flow by flow, from what became of each on its way. Pure: somebody else says what the network has seen.
//!
//! Counters of TCP are those of tcptrace (S. Ostermann), but of both ends: what is sent again is known where it enters
//! the network, what comes twice where it leaves it. Delays are those of single packets, which OWAMP (RFC 4656)
//! has to estimate from the clocks of two machines.

mod copied;
mod headers;
mod spread;
mod stream;
mod tally;

use std::collections::HashMap;
use std::net::IpAddr;

use counters::{Flow, ObservedPackets, PacketCount, PacketCounters, Way};
use scale::{VirtualDuration, VirtualInstant};

use self::copied::Copied;
use self::headers::{ACK, Packet, RST, SYN, TCP};
use self::stream::Stream;
use self::tally::{Grown, Tally};

/// How many flows are followed at a time, but for tests, which are to be quick. What has ended makes room for others.
const MOST_FLOWS: usize = if cfg!(test) { 1 << 12 } else { 1 << 16 };
/// How many flows begin before it is looked again which have ended.
const BETWEEN_SWEEPS: usize = MOST_FLOWS / 16;
/// How long after its end a flow still has packets.
const LINGERS: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);
/// How long a flow of a protocol that says no end is silent before it counts as ended: as in Linux's tracking of
/// connections.
const SILENT: VirtualDuration = VirtualDuration::from_nanos(30_000_000_000);
/// How many ways are told apart.
const MOST_WAYS: usize = 1024;
/// How many flows are told by themselves.
const MOST_LISTED: usize = 512;
/// How long an interval is at first,
const INTERVAL: VirtualDuration = VirtualDuration::from_nanos(100_000_000);
/// and how many there are: of more, each two become one.
const MOST_INTERVALS: usize = 32;

/// Events of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It entered the network, at the node that it comes from.
    Entered,
    /// It entered, and is for more than one node.
    EnteredForSeveral,
    /// It left, at the node that it is for.
    Delivered {
        /// Which of all that are observed it is. Its copies have the same number.
        number: u32,
        /// When it had entered; `None` if another node has forwarded it.
        entered: Option<VirtualInstant>,
        /// Whether a link made it, as a copy of another.
        is_copy: bool,
    },
    /// It came to a link.
    Fared {
        /// Which of all that are observed it is.
        number: u32,
        /// Deeds of the link.
        fate: Fate,
    },
}

/// Deeds of a link to a packet: how often each, to the packet and its copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Lost.
    pub lost: u8,
    /// Found the queue full.
    pub queue_drops: u8,
    /// Dropped by RED.
    pub red_drops: u8,
    /// Met the link down, or was in it then.
    pub down_drops: u8,
    /// Longer than the link allows.
    pub too_long: u8,
    /// A bit was flipped.
    pub damaged: u8,
    /// A copy was made.
    pub copies: u8,
}

/// The packets of some nodes.
#[derive(Debug)]
pub struct Packets {
    nodes: Vec<String>,
    /// Which node has an address.
    names: HashMap<IpAddr, String>,
    flows: HashMap<Key, Box<State>>,
    ways: Vec<WayState>,
    places: HashMap<WayKey, usize>,
    from: VirtualInstant,
    interval: VirtualDuration,
    since_sweep: usize,
    unlisted: u64,
    others: PacketCount,
    flowless: PacketCount,
}

/// A flow, both directions: the lesser end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    protocol: u8,
    ends: [(IpAddr, u16); 2],
}

#[derive(Debug)]
struct State {
    /// Where the sums are of what each end sends; `None` if there was no room.
    ways: [Option<usize>; 2],
    ends: [End; 2],
    has_ports: bool,
    /// Which end opened it.
    opener: usize,
    seen: [VirtualInstant; 2],
}

/// One end of a flow, by what it sends.
#[derive(Debug, Default)]
struct End {
    tally: Tally,
    stream: Stream,
    /// The delay of the last packet that arrived.
    delay: Option<VirtualDuration>,
    /// The last, in the order of sending, of those that have arrived.
    latest: Option<u32>,
    copied: Copied,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WayKey {
    protocol: String,
    from: String,
    to: String,
    server_port: Option<u16>,
    asks: bool,
}

#[derive(Debug)]
struct WayState {
    key: WayKey,
    flows: u64,
    tally: Tally,
    intervals: Vec<PacketCounters>,
}

impl Packets {
    /// Nothing has been seen yet of these `nodes`. `names` says which node has an address, of all that there are;
    /// `from` is when the run begins.
    pub fn of(nodes: Vec<String>, names: HashMap<IpAddr, String>, from: VirtualInstant) -> Packets {
        Packets {
            nodes,
            names,
            flows: HashMap::new(),
            ways: Vec::new(),
            places: HashMap::new(),
            from,
            interval: INTERVAL,
            since_sweep: 0,
            unlisted: 0,
            others: PacketCount::default(),
            flowless: PacketCount::default(),
        }
    }

    /// Something happened to a packet at an instant. `frame` begins with its headers, and was `length` bytes long.
    pub fn see(&mut self, at: VirtualInstant, happened: &Happened, frame: &[u8], length: u64) {
        let packet = headers::read(frame).filter(|_| *happened != Happened::EnteredForSeveral);
        let Some(packet) = packet else {
            let enters = matches!(happened, Happened::Entered | Happened::EnteredForSeveral);
            if enters {
                self.flowless.add(length);
            }
            return;
        };
        let ends = [0, 1].map(|end| (packet.addresses[end], packet.ports.map_or(0, |ports| ports[end])));
        // Which of the two ends of the key sends.
        let from = usize::from(ends[0] > ends[1]);
        let key = Key { protocol: packet.protocol, ends: [ends[from], ends[1 - from]] };
        if !self.flows.contains_key(&key) && !self.begin(key, from, at, &packet) {
            if *happened == Happened::Entered {
                self.others.add(length);
            }
            return;
        }
        let Some(state) = self.flows.get_mut(&key) else { return };
        state.seen[1] = state.seen[1].max(at);
        let is_new = state.opens_anew(from, happened, &packet);
        let (grown, answered) = state.grown(from, at, happened, &packet, length);
        let ways = state.ways;
        if ways[from].is_none() && *happened == Happened::Entered {
            self.others.add(length);
        }
        self.add(ways[from], at, &grown, is_new);
        self.add(ways[1 - from], at, &answered, is_new);
    }

    /// Everything that was seen until `at`. `missed`: how much could not be.
    pub fn finish(mut self, at: VirtualInstant, missed: u64) -> ObservedPackets {
        while at.since(self.from).as_nanos().div_ceil(self.interval.as_nanos()) > MOST_INTERVALS as u64 {
            self.double();
        }
        let Packets { nodes, names, mut unlisted, ways, others, flowless, interval, from, .. } = self;
        let mut states: Vec<(Key, Box<State>)> = self.flows.into_iter().collect();
        states.sort_by_key(|(key, state)| (std::cmp::Reverse(state.packets()), *key));
        unlisted += states.len().saturating_sub(MOST_LISTED) as u64;
        states.truncate(MOST_LISTED);
        let flows = states.iter().flat_map(|(key, state)| state.told(key, &names)).collect();
        let longest = ways.iter().map(|way| way.intervals.len()).max().unwrap_or(0);
        let lasted = at.since(from).as_nanos().div_ceil(interval.as_nanos()) as usize;
        let end = |place: usize| from + VirtualDuration::from_nanos((place as u64 + 1) * interval.as_nanos());
        let mut intervals_ns: Vec<_> = (0..lasted.max(longest)).map(end).collect();
        if let Some(last) = intervals_ns.last_mut().filter(|last| **last > at) {
            // A node whose clock is ahead may have sent something later than that.
            *last = at.max(*last - interval);
        }
        let mut ways: Vec<Way> = ways.into_iter().map(|way| way.told(intervals_ns.len())).collect();
        ways.sort_by_key(|way| std::cmp::Reverse(way.carried.counters.packets));
        ObservedPackets { nodes, intervals_ns, ways, flows, unlisted, others, flowless, missed }
    }

    /// Follows a new flow, of which this is the first packet; false if there is no room for it.
    fn begin(&mut self, key: Key, from: usize, at: VirtualInstant, packet: &Packet) -> bool {
        self.since_sweep += 1;
        if self.flows.len() >= MOST_FLOWS {
            if self.since_sweep < BETWEEN_SWEEPS {
                return false;
            }
            self.since_sweep = 0;
            let before = self.flows.len();
            self.flows.retain(|key, state| !state.has_ended(key, at));
            self.unlisted += (before - self.flows.len()) as u64;
            if self.flows.len() >= MOST_FLOWS {
                return false;
            }
        }
        let opener = opener(&key, from, packet);
        let ways = [0, 1].map(|end| self.way(&key, end, opener, packet.ports.is_some()));
        for way in ways.into_iter().flatten() {
            self.ways[way].flows += 1;
        }
        let (ends, has_ports) = (<[End; 2]>::default(), packet.ports.is_some());
        self.flows.insert(key, Box::new(State { ways, ends, has_ports, opener, seen: [at, at] }));
        true
    }

    /// Where the sums are of all that goes the way of what an end sends.
    fn way(&mut self, key: &Key, end: usize, opener: usize, has_ports: bool) -> Option<usize> {
        let name = |end: usize| name(&self.names, key.ends[end].0);
        let server_port = has_ports.then_some(key.ends[1 - opener].1);
        let protocol = headers::name(key.protocol);
        let key = WayKey { protocol, from: name(end), to: name(1 - end), server_port, asks: end == opener };
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        let place = self.ways.len();
        (place < MOST_WAYS).then(|| {
            self.ways.push(WayState { key: key.clone(), flows: 0, tally: Tally::default(), intervals: Vec::new() });
            self.places.insert(key, place);
            place
        })
    }

    /// Makes intervals twice as long, and half as many.
    fn double(&mut self) {
        self.interval = self.interval.saturating_add(self.interval);
        self.ways.iter_mut().for_each(WayState::halve);
    }

    fn add(&mut self, way: Option<usize>, at: VirtualInstant, grown: &Grown, is_new: bool) {
        let Some(way) = way else { return };
        let mut place = at.since(self.from).as_nanos() / self.interval.as_nanos();
        while place >= MOST_INTERVALS as u64 {
            self.double();
            place /= 2;
        }
        let way = &mut self.ways[way];
        way.flows += u64::from(is_new);
        way.tally.add(grown);
        if way.intervals.len() <= place as usize {
            way.intervals.resize(place as usize + 1, PacketCounters::default());
        }
        way.intervals[place as usize].add(&grown.counters);
    }
}

/// Which end opened a flow of which this is the first packet: who sent a SYN; else who is not on the lesser port, which
/// is the server's; else who sent first.
fn opener(key: &Key, from: usize, packet: &Packet) -> usize {
    let flags = packet.tcp.map_or(0, |segment| segment.flags);
    match flags & (SYN | ACK) {
        SYN => from,
        f if f == SYN | ACK => 1 - from,
        _ if packet.tcp.is_none() => from,
        _ => match key.ends[from].1.cmp(&key.ends[1 - from].1) {
            std::cmp::Ordering::Less => 1 - from,
            _ => from,
        },
    }
}

fn name(names: &HashMap<IpAddr, String>, address: IpAddr) -> String {
    names.get(&address).cloned().unwrap_or_else(|| address.to_string())
}

impl State {
    fn packets(&self) -> u64 {
        self.ends.iter().map(|end| end.tally.counters.packets).sum()
    }

    /// Whether it ended so long ago that nothing more is to be seen of it.
    fn has_ended(&self, key: &Key, now: VirtualInstant) -> bool {
        let silence = now.since(self.seen[1]);
        match key.protocol {
            TCP => self.ends.iter().all(|end| end.stream.ended) && silence > LINGERS,
            _ => silence > SILENT,
        }
    }

    /// Whether the packet is the first of another connection between the same ports, which is then followed from its
    /// beginning.
    fn opens_anew(&mut self, from: usize, happened: &Happened, packet: &Packet) -> bool {
        let is_new = *happened == Happened::Entered
            && packet.tcp.is_some_and(|segment| !segment.has(ACK) && self.ends[from].stream.opens_anew(&segment));
        if is_new {
            self.ends.iter_mut().for_each(|end| end.stream = Stream::default());
        }
        is_new
    }

    /// Counts a packet: how much it adds to what its sender has sent, and to what the other has, if it answers that.
    fn grown(
        &mut self,
        from: usize,
        at: VirtualInstant,
        happened: &Happened,
        packet: &Packet,
        length: u64,
    ) -> (Grown, Grown) {
        let [first, second] = &mut self.ends;
        let (sender, other) = if from == 0 { (first, second) } else { (second, first) };
        let (mut grown, mut answered) = (Grown::default(), Grown::default());
        match happened {
            Happened::Entered | Happened::EnteredForSeveral => sender.sent(other, at, packet, length, &mut grown),
            Happened::Delivered { number, entered, is_copy } => {
                sender.delivered(at, *entered, (*number, *is_copy), packet, &mut grown);
                if let Some(sample) = packet.tcp.and_then(|segment| other.stream.acknowledged(&segment, at)) {
                    answered.round_trip = Some(sample.as_nanos());
                    answered.counters.round_trips = 1;
                    answered.counters.round_trip_ns = sample.as_nanos();
                }
            }
            Happened::Fared { number, fate } => {
                if fate.copies > 0 {
                    sender.copied.add(*number);
                }
                fate.count(&mut grown.counters);
            }
        }
        sender.tally.add(&grown);
        other.tally.add(&answered);
        (grown, answered)
    }

    /// Its two directions, as they are told.
    fn told(&self, key: &Key, names: &HashMap<IpAddr, String>) -> [Flow; 2] {
        [0, 1].map(|end| {
            let [from, to] = [key.ends[end], key.ends[1 - end]];
            Flow {
                protocol: headers::name(key.protocol),
                from: name(names, from.0),
                to: name(names, to.0),
                from_address: from.0,
                to_address: to.0,
                ports: self.has_ports.then_some([from.1, to.1]),
                asks: end == self.opener,
                seen_ns: self.seen,
                carried: self.ends[end].tally.told(),
            }
        })
    }
}

impl End {
    fn sent(&mut self, other: &mut End, at: VirtualInstant, packet: &Packet, length: u64, grown: &mut Grown) {
        grown.size = Some(packet.payload);
        let counters = &mut grown.counters;
        (counters.packets, counters.bytes, counters.payload_bytes) = (1, length, u64::from(packet.payload));
        let Some(segment) = packet.tcp else { return };
        let sent = self.stream.sent(&segment, packet.payload, at);
        counters.segments = u64::from(sent.counts);
        counters.retransmissions = u64::from(sent.again);
        counters.retransmitted_bytes = u64::from(sent.bytes_again);
        // A reset ends both.
        other.stream.ended |= segment.has(RST);
        grown.window = self.stream.window(&other.stream, &segment);
    }

    /// A packet arrived, of this number, which its copies have, too; and whether it is one of those.
    fn delivered(
        &mut self,
        at: VirtualInstant,
        entered: Option<VirtualInstant>,
        (number, is_copy): (u32, bool),
        packet: &Packet,
        grown: &mut Grown,
    ) {
        let counters = &mut grown.counters;
        counters.delivered = 1;
        // A copy may come first, or alone; then it is the packet.
        let has_come = self.copied.has_come(number, is_copy);
        let came_before = packet.tcp.is_some_and(|segment| self.stream.arrived(&segment, packet.payload));
        counters.duplicates = u64::from(has_come || came_before);
        let Some(entered) = entered else { return };
        let is_late = self.latest.is_some_and(|latest| (latest.wrapping_sub(number) as i32) > 0);
        counters.out_of_order = u64::from(is_late && !has_come);
        if !is_late {
            self.latest = Some(number);
        }
        let delay = at.since(entered);
        grown.delay = Some(delay.as_nanos());
        (counters.delays, counters.delay_ns) = (1, delay.as_nanos());
        if let Some(before) = self.delay.replace(delay) {
            (counters.jitters, counters.jitter_ns) = (1, delay.as_nanos().abs_diff(before.as_nanos()));
        }
    }
}

impl Fate {
    fn count(&self, counters: &mut PacketCounters) {
        counters.lost = self.lost.into();
        counters.queue_drops = self.queue_drops.into();
        counters.red_drops = self.red_drops.into();
        counters.down_drops = self.down_drops.into();
        counters.too_long = self.too_long.into();
        counters.damaged = self.damaged.into();
        counters.copies = self.copies.into();
    }
}

impl WayState {
    fn halve(&mut self) {
        let sum = |pair: &[PacketCounters]| {
            let mut sum = PacketCounters::default();
            pair.iter().for_each(|one| sum.add(one));
            sum
        };
        self.intervals = self.intervals.chunks(2).map(sum).collect();
    }

    fn told(mut self, intervals: usize) -> Way {
        self.intervals.resize(intervals, PacketCounters::default());
        let WayKey { protocol, from, to, server_port, asks } = self.key;
        let (flows, carried, intervals) = (self.flows, self.tally.told(), self.intervals);
        Way { protocol, from, to, server_port, asks, flows, carried, intervals }
    }
}

#[cfg(test)]
mod tests;
