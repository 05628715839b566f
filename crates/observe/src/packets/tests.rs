use super::headers::tests::tcp;
use super::headers::{FIN, Segment};
use super::*;

const CLIENT: (u8, u16) = (1, 40_000);
const SERVER: (u8, u16) = (2, 80);

fn at(us: u64) -> VirtualInstant {
    VirtualInstant::from_nanos(us * 1_000)
}

fn packets() -> Packets {
    let names = [("client", 1), ("server", 2)].map(|(name, last)| (IpAddr::from([10, 0, 0, last]), name.to_owned()));
    Packets::of(vec!["client".into()], names.into(), VirtualInstant::ZERO)
}

fn segment(sequence: u32, flags: u8, acknowledges: u32) -> Segment {
    Segment { sequence, acknowledges, flags, window: 1_000, window_scale: (flags & SYN != 0).then_some(7) }
}

/// A wire whose delay is 5 ms.
struct Wire {
    packets: Packets,
    number: u32,
}

impl Wire {
    fn enters(&mut self, us: u64, frame: &[u8]) -> u32 {
        self.number += 1;
        self.packets.see(at(us), &Happened::Entered, &frame[..frame.len().min(96)], frame.len() as u64);
        self.number
    }

    fn leaves(&mut self, us: u64, frame: &[u8], entered: u64, number: u32) {
        self.arrives(us, frame, entered, (number, false));
    }

    fn arrives(&mut self, us: u64, frame: &[u8], entered: u64, (number, is_copy): (u32, bool)) {
        let happened = Happened::Delivered { number, entered: Some(at(entered)), is_copy };
        self.packets.see(at(us), &happened, &frame[..frame.len().min(96)], frame.len() as u64);
    }

    fn is_lost(&mut self, us: u64, frame: &[u8]) {
        self.fares(us, frame, 0, Fate { lost: 1, ..Fate::default() });
    }

    fn fares(&mut self, us: u64, frame: &[u8], number: u32, fate: Fate) {
        let happened = Happened::Fared { number, fate };
        self.packets.see(at(us), &happened, &frame[..frame.len().min(96)], frame.len() as u64);
    }

    fn carries(&mut self, us: u64, frame: &[u8]) {
        let number = self.enters(us, frame);
        self.leaves(us + 5_000, frame, us, number);
    }
}

/// A request of 100 bytes and its answer of 3,000, of which the second of three segments is lost once.
fn exchange(wire: &mut Wire, client: (u8, u16), from: u64) {
    let up =
        |sequence, flags, acknowledges, payload| tcp(client, SERVER, segment(sequence, flags, acknowledges), payload);
    let down =
        |sequence, flags, acknowledges, payload| tcp(SERVER, client, segment(sequence, flags, acknowledges), payload);
    wire.carries(from, &up(0, SYN, 0, 0));
    wire.carries(from + 5_000, &down(9_000, SYN | ACK, 1, 0));
    wire.carries(from + 10_000, &up(1, ACK, 9_001, 0));
    wire.carries(from + 10_100, &up(1, ACK, 9_001, 100));
    wire.carries(from + 16_000, &down(9_001, ACK, 101, 1_000));
    let second = down(10_001, ACK, 101, 1_000);
    wire.enters(from + 16_100, &second);
    wire.is_lost(from + 16_100, &second);
    wire.carries(from + 16_200, &down(11_001, ACK, 101, 1_000));
    wire.carries(from + 21_000, &up(101, ACK, 10_001, 0));
    wire.carries(from + 21_200, &up(101, ACK, 10_001, 0));
    wire.carries(from + 40_000, &second);
    wire.carries(from + 45_000, &up(101, ACK, 12_001, 0));
    wire.carries(from + 45_100, &up(101, ACK | FIN, 12_001, 0));
    wire.carries(from + 50_100, &down(12_001, ACK | FIN, 102, 0));
    wire.carries(from + 55_100, &up(102, ACK, 12_002, 0));
}

#[test]
fn an_exchange_is_counted_as_its_two_ends_saw_it() {
    let mut wire = Wire { packets: packets(), number: 0 };
    exchange(&mut wire, CLIENT, 0);
    let seen = wire.packets.finish(at(1_450_000), 0);
    let [up, down] = &seen.ways[..] else { panic!("{:?}", seen.ways) };
    assert_eq!((up.from.as_str(), up.to.as_str(), up.server_port, up.asks), ("client", "server", Some(80), true));
    assert_eq!((down.from.as_str(), down.asks, down.flows, down.protocol.as_str()), ("server", false, 1, "tcp"));
    let (down_counted, up_counted) = (&down.carried.counters, &up.carried.counters);
    let expected = PacketCounters {
        packets: 6,
        bytes: 6 * 54 + 8 + 4_000,
        payload_bytes: 4_000,
        segments: 6,
        retransmissions: 1,
        retransmitted_bytes: 1_000,
        delivered: 5,
        lost: 1,
        delays: 5,
        delay_ns: 25_000_000,
        jitters: 4,
        // SYN, the first segment and FIN; the others were acknowledged with one that came twice.
        round_trips: 3,
        round_trip_ns: 10_000_000 + 10_000_000 + 10_000_000,
        ..PacketCounters::default()
    };
    assert_eq!(*down_counted, expected);
    assert_eq!((up_counted.packets, up_counted.segments, up_counted.retransmissions), (8, 3, 0));
    assert_eq!(up_counted.round_trips, 3, "of SYN, request and FIN");
    let round_trips = up.carried.round_trips_ns.unwrap();
    assert_eq!((round_trips.least, round_trips.most), (10_000_000, 10_900_000));
    assert_eq!(down.carried.delays_ns.unwrap().median, 5_000_000);
    assert_eq!(down.carried.windows.unwrap().most, 1_000 << 7);
    // 2 SYN and FIN carry nothing, 4 segments 1,000 bytes.
    assert_eq!((down.carried.sizes[0], down.carried.sizes[10], down.carried.sizes.len()), (2, 4, 11));
    assert_eq!((seen.intervals_ns.len(), seen.intervals_ns[14]), (15, at(1_450_000)));
    assert_eq!((down.intervals[0], down.intervals[14]), (*down_counted, PacketCounters::default()));
    assert_eq!((seen.flows.len(), seen.unlisted, seen.others.packets), (2, 0, 0));
    let listed = seen.flows.iter().find(|flow| flow.asks).unwrap();
    assert_eq!((listed.ports, &listed.carried), (Some([40_000, 80]), &up.carried));
    assert_eq!(listed.seen_ns, [at(0), at(60_100)]);
}

#[test]
fn what_comes_twice_or_too_late_is_told_of_any_protocol() {
    let mut wire = Wire { packets: packets(), number: 0 };
    let mut datagram = tcp(CLIENT, SERVER, segment(0, ACK, 0), 100);
    datagram[23] = 17;
    let numbers: Vec<u32> = (0..4).map(|n| wire.enters(n, &datagram)).collect();
    for (place, us) in [(1, 5_000), (0, 5_100), (2, 5_200), (3, 5_300)] {
        wire.leaves(us, &datagram, place as u64, numbers[place]);
    }
    wire.arrives(6_000, &datagram, 3, (numbers[3], true));
    wire.fares(6_000, &datagram, 77, Fate { copies: 1, queue_drops: 1, ..Fate::default() });
    // Forwarded by another node: it has come, and nobody knows how long it took.
    let forwarded = Happened::Delivered { number: 99, entered: None, is_copy: false };
    wire.packets.see(at(6_000), &forwarded, &datagram, datagram.len() as u64);
    let mut arp = datagram.clone();
    arp[13] = 6;
    wire.packets.see(at(6_000), &Happened::Entered, &arp, 60);
    wire.packets.see(at(6_000), &Happened::EnteredForSeveral, &datagram, 40);
    let seen = wire.packets.finish(at(7_000), 3);
    let way = seen.ways.iter().find(|way| way.asks).unwrap();
    let counted = &way.carried.counters;
    assert_eq!((way.protocol.as_str(), way.server_port, counted.packets), ("udp", Some(80), 4));
    assert_eq!((counted.delivered, counted.duplicates, counted.out_of_order), (6, 1, 1));
    assert_eq!((counted.copies, counted.queue_drops, counted.delays, counted.segments), (1, 1, 5, 0));
    assert_eq!((seen.flowless, seen.missed), (PacketCount { packets: 2, bytes: 100 }, 3));
}

#[test]
fn a_copy_that_comes_before_its_original_or_without_it_is_no_duplicate() {
    for protocol in [6, 17] {
        let mut wire = Wire { packets: packets(), number: 0 };
        let copied = Fate { copies: 1, ..Fate::default() };
        let frame = |n: u32| {
            let mut frame = tcp(CLIENT, SERVER, segment(100 * n, ACK, 0), 100);
            frame[23] = protocol;
            frame
        };
        let numbers: Vec<u32> = (0..4).map(|n| wire.enters(n.into(), &frame(n))).collect();
        (0..3).for_each(|n| wire.fares(10, &frame(n), numbers[n as usize], copied));
        // The first: its copy overtakes it. The second: the other way round. The third: a copy alone, behind the last.
        let order = [(0, true), (0, false), (1, false), (1, true), (3, false), (2, true)];
        for (us, (n, is_copy)) in (5_000..).zip(order) {
            wire.arrives(us, &frame(n), n.into(), (numbers[n as usize], is_copy));
        }
        let seen = wire.packets.finish(at(7_000), 0);
        let counted = &seen.ways.iter().find(|way| way.asks).unwrap().carried.counters;
        assert_eq!((counted.packets, counted.delivered, counted.copies), (4, 6, 3));
        assert_eq!((counted.duplicates, counted.out_of_order), (2, 1), "protocol {protocol}");
    }
}

#[test]
fn flows_of_datagrams_make_room_when_they_have_been_silent() {
    let mut wire = Wire { packets: packets(), number: 0 };
    let second = 1_000_000;
    // As many as there is room for, then more within their silence, then as many again behind it.
    let begin = |wire: &mut Wire, flows: std::ops::Range<usize>, us: u64| {
        for n in flows {
            let mut datagram = tcp((3 + (n / 50_000) as u8, (n % 50_000) as u16 + 10_000), SERVER, segment(0, 0, 0), 0);
            datagram[23] = 17;
            wire.enters(us, &datagram);
        }
    };
    begin(&mut wire, 0..MOST_FLOWS, 0);
    begin(&mut wire, MOST_FLOWS..MOST_FLOWS + BETWEEN_SWEEPS, 29 * second);
    begin(&mut wire, 2 * MOST_FLOWS..3 * MOST_FLOWS, 31 * second);
    let seen = wire.packets.finish(at(32 * second), 0);
    let flows = seen.ways.iter().filter(|way| way.asks).map(|way| way.flows).sum::<u64>();
    assert_eq!((flows, seen.others.packets), (2 * MOST_FLOWS as u64, BETWEEN_SWEEPS as u64));
    assert_eq!(seen.unlisted, flows - MOST_LISTED as u64);
}

#[test]
fn intervals_are_few_however_long_nobody_sends_before_the_end() {
    let mut wire = Wire { packets: packets(), number: 0 };
    wire.enters(0, &tcp(CLIENT, SERVER, segment(0, SYN, 0), 0));
    let seen = wire.packets.finish(at(3_600_000_000), 0);
    assert!((MOST_INTERVALS / 2..=MOST_INTERVALS).contains(&seen.intervals_ns.len()), "{}", seen.intervals_ns.len());
    let way = &seen.ways[0];
    assert_eq!((way.intervals.len(), way.intervals[0].packets), (seen.intervals_ns.len(), 1));
}

#[test]
fn more_flows_than_there_is_room_for_are_summed() {
    let mut wire = Wire { packets: packets(), number: 0 };
    // All of them end at once, and are one way.
    for n in 0..u64::from(MOST_FLOWS as u32) + 5_000 {
        let client = (3 + (n / 50_000) as u8, (n % 50_000) as u16 + 10_000);
        exchange(&mut wire, client, 60_000 * n);
    }
    let way_flows = |seen: &ObservedPackets| seen.ways.iter().map(|way| way.flows).sum::<u64>();
    let seen = wire.packets.finish(at(60_000 * (MOST_FLOWS as u64 + 5_064)), 0);
    assert_eq!(way_flows(&seen), 2 * (MOST_FLOWS as u64 + 5_000));
    assert_eq!(seen.flows.len(), 2 * MOST_LISTED);
    assert_eq!(seen.unlisted as usize, MOST_FLOWS + 5_000 - MOST_LISTED);
    assert_eq!(seen.others, PacketCount::default());
    assert!(seen.ways.iter().all(|way| way.intervals.len() == seen.intervals_ns.len()));
    assert!((MOST_INTERVALS / 2..=MOST_INTERVALS).contains(&seen.intervals_ns.len()), "{}", seen.intervals_ns.len());
    for way in &seen.ways {
        let mut sum = PacketCounters::default();
        way.intervals.iter().for_each(|interval| sum.add(interval));
        assert_eq!(sum, way.carried.counters);
    }
}

#[test]
fn flows_that_never_end_leave_others_out_and_say_how_many() {
    let mut wire = Wire { packets: packets(), number: 0 };
    for n in 0..MOST_FLOWS + 10 {
        let client = (3 + (n / 50_000) as u8, (n % 50_000) as u16 + 10_000);
        wire.enters(n as u64, &tcp(client, SERVER, segment(0, SYN, 0), 0));
    }
    let seen = wire.packets.finish(at(1_000_000), 0);
    assert_eq!(seen.others.packets, 10);
    assert_eq!(seen.ways.iter().map(|way| way.carried.counters.packets).sum::<u64>(), MOST_FLOWS as u64);
}

#[test]
fn a_port_that_is_used_again_is_another_flow() {
    let mut wire = Wire { packets: packets(), number: 0 };
    (0..3).for_each(|n| exchange(&mut wire, CLIENT, 100_000 * n));
    let seen = wire.packets.finish(at(1_000_000), 0);
    let down = seen.ways.iter().find(|way| !way.asks).unwrap();
    let counted = &down.carried.counters;
    assert_eq!((down.flows, counted.retransmissions, counted.duplicates, counted.round_trips), (3, 3, 0, 9));
}
