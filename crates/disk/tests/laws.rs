//! Laws that hold for every disk, whatever is asked of it.

use std::collections::{HashMap, HashSet};

use crate::common::*;
use diorama_disk::{Disk, Event, EventKind, LONGEST, Op, Parameters, Refused, Request, catalogue};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use scale::VirtualInstant;
use serde_json::{Map, Value, json};

/// Requests with the time between them in µs; places in sectors, within a range that is the smaller the more they are
/// to meet.
fn requests() -> impl Strategy<Value = Vec<(u64, Op, u64, u64)>> {
    let op = prop_oneof![
        4 => Just(Op::Read),
        5 => Just(Op::Write),
        1 => Just(Op::WriteThrough),
        1 => Just(Op::Flush),
        1 => Just(Op::Trim),
    ];
    let gap = prop_oneof![3 => 0..200_u64, 1 => 0..30_000_u64];
    let place = prop_oneof![3 => 0..400_u64, 2 => 0..400_000_u64, 1 => 0..100_000_000_u64];
    let length = prop_oneof![4 => 1..32_u64, 1 => 32..2048_u64];
    prop::collection::vec((gap, op, place, length), 1..120)
}

/// Any disk, some of them with little room.
fn parameters() -> impl Strategy<Value = Parameters> {
    let small_hdd = json!({"capacity-bytes": 64 * GIB, "write-cache": {"bytes": 64 * KIB}, "queue": {"depth": 4}});
    let fifo = json!({"queue": {"order": "fifo", "depth": 2}, "track-cache": {"segments": 0, "segment-bytes": 0,
        "read-ahead-bytes": 0}, "write-cache": {"bytes": 0}});
    let small_ssd = json!({"cache": {"bytes": 256 * KIB}, "queue-depth": 3, "state": "steady"});
    let slow = json!({"requests": {"credits": 20}, "queue-depth": 2});
    let changed = [
        ("hdd-7200", small_hdd),
        ("hdd-15k", fifo),
        ("samsung-850-evo", small_ssd),
        ("gp2", slow),
        ("ssd-sata", json!({"fast": {"bytes": MIB, "program-us": 100}, "flash": {"suspend-us": null}})),
    ];
    let mut all: Vec<Parameters> = catalogue::names().into_iter().filter_map(catalogue::named).collect();
    all.extend(changed.map(|(name, changes)| Parameters::like(name, changes.as_object().unwrap()).unwrap()));
    let made = |(name, changes): Changes| Parameters::like(name, &changes).ok();
    let strange = strange().prop_filter_map("no such disk", made);
    let extreme = extreme().prop_filter_map("no such disk", made);
    prop_oneof![2 => select(all), 1 => strange, 1 => extreme]
}

/// A disk of the catalogue, and what is to be changed of it.
type Changes = (&'static str, Map<String, Value>);

/// Any parameters of a kind, most of which make a disk.
fn strange() -> impl Strategy<Value = Changes> {
    let part = || 0.0..1.0_f64;
    (0..3_u8, 1_u64..2_000, 1_u32..20, part(), part(), part(), 0_u64..64).prop_map(|(kind, mib, few, a, b, c, small)| {
        let changes = match kind {
            0 => json!({
                "capacity-bytes": mib * MIB, "drive-bytes": (mib + small * small * small * few as u64) * MIB,
                "seek": {"published": {"average-ms": 7.0}}, "rpm": 1_000.0 + 29_000.0 * a, "heads": few,
                "zones": {"published": {"count": 1 + small % 9, "outer-bytes-per-s": 1e5 + 1e8 * b,
                    "inner-bytes-per-s": (1e5 + 1e8 * b) * (0.3 + 0.7 * c)}},
                "write-settle-ms": 2.0 * c, "head-switch-ms": 2.0 * a, "write-cache": {"bytes": small * 4096},
                "track-cache": {"segments": few - 1, "segment-bytes": small * 4096, "read-ahead-bytes": small * 2048},
                "queue": {"depth": few, "age-limit-ms": 300.0 * b},
            }),
            1 => json!({
                "capacity-bytes": mib * MIB, "spare": 0.01 + a, "state": if c < 0.5 { "fresh" } else { "steady" },
                "flash": {"channels": few, "dies-per-channel": 1 + small % 5,
                    "program-bytes": 16 * KIB * (1 + small % 3),
                    "block-bytes": 16 * KIB * (1 + small % 3) * 40, "erase-us": 9_000.0 * b},
                "cache": {"bytes": 32 * KIB * (3 + small), "power-loss-protection": b < 0.3},
                "queue-depth": few, "read-ahead-bytes": small * 8192,
            }),
            _ => json!({
                "capacity-bytes": mib * MIB, "request-bytes": 512 * (1 + small), "queue-depth": few,
                "requests": {"baseline-per-s": 1.0 + 999.0 * a, "burst-per-s": 1_000.0 + 9_000.0 * b,
                    "credits": 9e3 * c},
            }),
        };
        let name = ["hdd-7200", "samsung-970-evo-plus", "gp3"][usize::from(kind)];
        (name, changes.as_object().unwrap().clone())
    })
}

/// Any disk with a few numbers that are much too small, much too large, or just about possible.
fn extreme() -> impl Strategy<Value = Changes> {
    const FACTORS: [f64; 10] = [0.0, 1e-9, 1e-6, 1e-3, 0.1, 0.5, 2.0, 10.0, 1e3, 1e6];
    const WHOLE: [u64; 13] = [0, 1, 2, 3, 512, 513, 4096, 1 << 15, 1 << 20, 1 << 26, 1 << 36, 256 << 40, u64::MAX];
    let change = (any::<Index>(), select(&FACTORS[..]), select(&WHOLE[..]), any::<bool>());
    (select(catalogue::names()), prop::collection::vec(change, 1..5)).prop_map(|(name, changes)| {
        let Value::Object(mut all) = serde_json::to_value(catalogue::named(name).unwrap()).unwrap() else {
            panic!("parameters are a map")
        };
        for (index, factor, whole, scales) in changes {
            let mut numbers = Vec::new();
            all.values_mut().for_each(|value| numbers_in(value, &mut numbers));
            let at = index.index(numbers.len());
            let number = &mut *numbers[at];
            *number = match number.as_u64() {
                Some(is) if scales => json!((is as f64 * factor) as u64 / 512 * 512),
                Some(_) => json!(whole),
                None => json!(number.as_f64().unwrap() * factor),
            };
        }
        all.shift_remove("kind");
        (name, all)
    })
}

/// All numbers in a value.
fn numbers_in<'a>(value: &'a mut Value, numbers: &mut Vec<&'a mut Value>) {
    match value {
        Value::Number(_) => numbers.push(value),
        Value::Object(fields) => fields.values_mut().for_each(|inner| numbers_in(inner, numbers)),
        _ => {}
    }
}

/// Strategies of many parameters: how many make a disk, and what is said of the others.
fn judged(strategy: impl Strategy<Value = Changes>, count: usize) -> (usize, Vec<(Changes, String)>) {
    let mut runner = TestRunner::deterministic();
    let mut refused = Vec::new();
    for _ in 0..count {
        let changes = strategy.new_tree(&mut runner).unwrap().current();
        match Parameters::like(changes.0, &changes.1) {
            Ok(parameters) => drop(Disk::new(&parameters, 1).unwrap()),
            Err(wrong) => refused.push((changes, wrong.to_string())),
        }
    }
    (count - refused.len(), refused)
}

#[test]
fn of_what_makes_no_disk_the_parameter_is_named() {
    let (some, refused) = judged(strange(), 300);
    assert!(some > 200, "most make a disk, not just {some} of 300: {:?}", refused.first());
    let (few, more) = judged(extreme(), 3_000);
    assert!(few > 500, "some make a disk, not just {few} of 3000");
    for ((name, changes), said) in refused.iter().chain(&more) {
        let (field, right) = said.split_once("; right would be: ").unwrap_or_else(|| panic!("{said}"));
        let field = field.split('`').nth(1).unwrap_or_else(|| panic!("no field is named: {said}"));
        let mut inner = &Value::Object(changes.clone());
        for part in field.split('.') {
            inner = inner.get(part).or(inner.get("published")).unwrap_or_else(|| panic!("`{field}` of {name}: {said}"));
        }
        // Right descriptions can be: bounds are not the wrong way round.
        if let Some((least, most)) = right.strip_prefix("from ").and_then(|bounds| bounds.split_once(" to ")) {
            let most = most.split(' ').next().unwrap().trim_end_matches(',');
            let bounds = (least.parse::<f64>().unwrap(), most.parse::<f64>().unwrap());
            assert!(bounds.0 <= bounds.1, "{name}: {said}");
        }
    }
}

/// Requests and when they arrive.
fn arrivals(requests: &[(u64, Op, u64, u64)], capacity: u64) -> Vec<(VirtualInstant, Request)> {
    let mut now = VirtualInstant::ZERO;
    let arrival = requests.iter().enumerate().map(|(n, &(gap, op, place, length))| {
        now = now + ms(gap as f64 / 1e3);
        let (offset, length) = if op == Op::Flush { (0, 0) } else { (place * 512, length * 512) };
        (now, request(n as u64, op, offset.min(capacity - length), length))
    });
    arrival.collect()
}

/// Answers of a disk; between arrivals it is asked in steps of `step_us`, or not at all.
fn run(disk: &mut Disk, arrivals: &[(VirtualInstant, Request)], step_us: Option<u64>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut now = VirtualInstant::ZERO;
    for (at, request) in arrivals {
        while let Some(step) = step_us.map(|us| ms(us as f64 / 1e3)).filter(|step| now + *step < *at) {
            now = now + step;
            disk.advance(now, &mut events);
        }
        now = *at;
        disk.submit(now, *request).unwrap();
    }
    disk.advance(now, &mut events);
    while let Some(next) = disk.next_event() {
        assert!(next >= now, "the next event is at {next:?}, and it is {now:?}");
        now = next;
        disk.advance(now, &mut events);
    }
    events
}

/// The least that a request of so many bytes takes, in s.
fn least_s(parameters: &Parameters, op: Op, bytes: u64) -> f64 {
    let bytes = if matches!(op, Op::Read | Op::Write | Op::WriteThrough) { bytes as f64 } else { 0.0 };
    match parameters {
        Parameters::Hdd(hdd) => bytes / hdd.bus_bytes_per_s,
        Parameters::Ssd(ssd) => bytes / ssd.link_bytes_per_s + ssd.command_us / 1e6,
        Parameters::Cloud(cloud) => match op {
            Op::Read => cloud.read.least_ms / 1e3,
            Op::Flush => cloud.flush.least_ms / 1e3,
            _ => cloud.write.least_ms / 1e3,
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_done_once_in_order_and_not_too_soon(parameters in parameters(), requests in requests()) {
        let mut disk = Disk::new(&parameters, 5).unwrap();
        let arrivals = arrivals(&requests, disk.capacity_bytes());
        let events = run(&mut disk, &arrivals, None);
        prop_assert!(events.windows(2).all(|two| two[0].at <= two[1].at), "time goes on");
        let mut completed: HashMap<u64, VirtualInstant> = HashMap::new();
        let mut durable: HashMap<u64, VirtualInstant> = HashMap::new();
        for event in &events {
            let told = if event.kind == EventKind::Completed { &mut completed } else { &mut durable };
            prop_assert_eq!(told.insert(event.id, event.at), None, "nothing is told twice");
        }
        for (at, request) in &arrivals {
            let Some(done) = completed.get(&request.id) else { return Err(TestCaseError::fail("it is complete")) };
            // A nanosecond for rounding.
            let least = least_s(&parameters, request.op, request.length) - 2e-9;
            prop_assert!(done.since(*at).as_secs_f64() >= least, "{:?} took {:?}", request, done.since(*at));
            let safe = durable.get(&request.id);
            match request.op {
                Op::Write => prop_assert!(safe.is_some_and(|safe| safe >= done)),
                Op::WriteThrough => prop_assert!(safe.is_some_and(|safe| safe <= done)),
                _ => prop_assert_eq!(safe, None),
            }
            if request.op == Op::Flush {
                let before = arrivals.iter().filter(|(_, r)| completed[&r.id] <= *at);
                for (_, write) in before.filter(|(_, r)| r.op == Op::Write) {
                    prop_assert!(durable[&write.id] <= *done, "{:?} is flushed", write);
                }
            }
        }
        prop_assert!(disk.at_risk().is_empty());
        // All names are free again.
        let (_, first) = arrivals[0];
        let latest = arrivals.iter().map(|(at, _)| *at).chain(events.iter().map(|event| event.at)).max().unwrap();
        let later = latest + ms(1e6);
        prop_assert_eq!(disk.submit(later, first), Ok(later));
        // Of some disks, a flush takes no time.
        if disk.next_event().is_some_and(|next| next > later) {
            prop_assert_eq!(disk.submit(later, first), Err(Refused::SameName(first.id)));
        }
    }

    #[test]
    fn nothing_depends_on_how_often_it_is_asked(
        parameters in parameters(),
        requests in requests(),
        step in 50..5_000_u64,
    ) {
        let new = || Disk::new(&parameters, 5).unwrap();
        let arrivals = arrivals(&requests, new().capacity_bytes());
        let events = run(&mut new(), &arrivals, None);
        prop_assert_eq!(&run(&mut new(), &arrivals, None), &events, "the same again");
        prop_assert_eq!(&run(&mut new(), &arrivals, Some(step)), &events, "in steps of {} µs", step);
    }

    #[test]
    fn a_power_cut_loses_what_was_not_said_to_be_durable_and_nothing_else(
        parameters in parameters(),
        requests in requests(),
        cut_us in 0..200_000_u64,
    ) {
        let mut disk = Disk::new(&parameters, 5).unwrap();
        let cut = at_ms(cut_us as f64 / 1e3);
        let arrivals = arrivals(&requests, disk.capacity_bytes());
        let before: Vec<_> = arrivals.iter().take_while(|(at, _)| *at <= cut).copied().collect();
        let mut events = Vec::new();
        for (at, request) in &before {
            disk.submit(*at, *request).unwrap();
        }
        let mut at_risk = HashSet::new();
        disk.advance(cut, &mut events);
        at_risk.extend(disk.at_risk());
        let lost = disk.cut_power(cut, &mut events);
        let told = |kind| events.iter().filter(move |e| e.kind == kind).map(|e| e.id).collect::<HashSet<u64>>();
        let (completed, durable) = (told(EventKind::Completed), told(EventKind::Durable));
        let names: HashSet<u64> = lost.iter().map(|l| l.id).collect();
        for (_, write) in before.iter().filter(|(_, r)| matches!(r.op, Op::Write | Op::WriteThrough)) {
            prop_assert!(names.contains(&write.id) != durable.contains(&write.id), "{:?} is lost or durable", write);
        }
        for l in &lost {
            prop_assert_eq!(l.completed, completed.contains(&l.id));
            prop_assert_eq!(l.completed && before[l.id as usize].1.op == Op::Write, at_risk.contains(&l.id));
            let (offset, length) = (before[l.id as usize].1.offset, before[l.id as usize].1.length);
            let inside = l.kept.iter().all(|k| offset <= k.begin && k.begin < k.end && k.end <= offset + length);
            prop_assert!(inside, "{:?}", l);
            prop_assert!(l.kept.iter().map(|k| k.len()).sum::<u64>() <= length, "{:?}", l);
        }
        prop_assert_eq!(disk.next_event(), None);
        // It works again, and under the old names.
        let later = [(cut, request(0, Op::Write, 0, 4096)), (cut, request(1, Op::Read, 0, 4096))];
        let again = run(&mut disk, &later, None);
        prop_assert_eq!(again.iter().filter(|e| e.kind == EventKind::Completed).count(), 2);
    }
}

#[test]
fn the_seed_decides_what_is_left_to_chance() {
    for name in ["hdd-7200", "nvme", "gp3"] {
        let parameters = catalogue::named(name).unwrap();
        let seen = |seed| {
            let mut disk = Disk::new(&parameters, seed).unwrap();
            closed(&mut disk, VirtualInstant::ZERO, 4, 50, at_random(Op::Read, 0, 90 * GIB, 4096, 1)).response_ms
        };
        assert_eq!(seen(1), seen(1), "{name}");
        assert_ne!(seen(1), seen(2), "{name}");
    }
}

#[test]
fn what_no_disk_has_is_refused_with_what_would_be_right() {
    let mut disk = disk("gp3");
    let mut refused =
        |op, offset, length| disk.submit(VirtualInstant::ZERO, request(1, op, offset, length)).unwrap_err();
    let behind = refused(Op::Read, 100 * GIB - 4096, 8192).to_string();
    assert_eq!(
        behind,
        "bytes 107374178304 to 107374186496 are asked for, and the disk has 107374182400: ask for what lies below its \
         capacity"
    );
    assert_eq!(refused(Op::Write, 100, 512), Refused::NoSectors { offset: 100, length: 512 });
    assert_eq!(refused(Op::Trim, 0, 0), Refused::NoSectors { offset: 0, length: 0 });
    assert!(matches!(refused(Op::Read, u64::MAX - 511, 512), Refused::BehindTheEnd { .. }));
    assert_eq!(refused(Op::Read, 0, LONGEST + 512), Refused::TooLong { length: LONGEST + 512 });
    assert_eq!(disk.submit(VirtualInstant::ZERO, request(2, Op::Read, 0, LONGEST)), Ok(VirtualInstant::ZERO));
    assert_eq!(disk.submit(VirtualInstant::ZERO, request(3, Op::Trim, 0, 100 * GIB)), Ok(VirtualInstant::ZERO));
}

#[test]
fn instants_that_go_back_count_as_the_latest() {
    let mut disk = disk("hdd-7200");
    let mut events = Vec::new();
    disk.advance(at_ms(100.0), &mut events);
    disk.submit(at_ms(50.0), request(1, Op::Read, 0, 4096)).unwrap();
    assert!(disk.next_event().unwrap() > at_ms(100.0));
}

#[test]
fn what_is_handed_over_a_little_late_was_there_in_time_but_for_the_arm() {
    let completes = |name: &str, known: VirtualInstant| {
        let mut disk = disk(name);
        let mut events = Vec::new();
        disk.submit(at_ms(1.0), request(1, Op::Read, 0, 4096)).unwrap();
        disk.advance(known, &mut events);
        let arrived = disk.submit(at_ms(1.03), request(2, Op::Read, 50 * GIB, 4096)).unwrap();
        disk.advance(at_ms(1_000.0), &mut events);
        let of = |id| events.iter().find(|e| (e.id, e.kind) == (id, EventKind::Completed)).unwrap().at;
        (arrived, of(1), of(2))
    };
    for name in ["ssd-sata", "nvme", "gp3"] {
        assert_eq!(completes(name, at_ms(1.05)), completes(name, at_ms(1.03)), "{name}");
    }
    let (arrived, first, _) = completes("hdd-7200", at_ms(1.05));
    assert_eq!((arrived, first), (at_ms(1.05), completes("hdd-7200", at_ms(1.03)).1));
    // Not of long ago.
    assert_eq!(completes("nvme", at_ms(90.0)).0, at_ms(89.0));
}
