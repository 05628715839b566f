//! A TDF's effect on a link, and that links are plain data.

use diorama_scale as scale;

use scale::link::{
    DEFAULT_MTU, Distribution, GilbertElliott, Jitter, Limit, Link, LinkChange, Loss, Pipe, PipeChange, Queue, Red,
};
use scale::{Real, RealDuration, RealRate, Tdf, Time, Virtual, VirtualDuration, VirtualRate};

fn ms(n: u64) -> VirtualDuration {
    VirtualDuration::from_nanos(n * 1_000_000)
}

fn real_ms(n: u64) -> RealDuration {
    RealDuration::from_nanos(n * 1_000_000)
}

fn ten() -> Tdf {
    "10".parse().expect("ten is a factor")
}

/// A link on which everything is said, differently in each direction.
fn rough() -> Link<Virtual> {
    let red = Red { min: 5, max: 15, limit: Limit::Packets(50), max_p: 0.2, weight: 0.002, packet: 500, gentle: true };
    let ab = Pipe {
        rate: Some(VirtualRate::from_bits_per_s(1e8)),
        delay: ms(10),
        jitter: Jitter { distribution: Distribution::Pareto, spread: ms(2), reorder: true },
        loss: Loss::GilbertElliott(GilbertElliott { p: 0.01, r: 0.19, good: 0.001, bad: 0.9 }),
        duplicate: 0.05,
        corrupt: 0.06,
        queue: Queue::Red(red),
        up: false,
    };
    let ba = Pipe { loss: Loss::Packets(vec![2, 7]), queue: Queue::DropTail(Limit::Bytes(9_000)), ..Pipe::default() };
    Link { name: "a--b".into(), a: "a".into(), b: "b".into(), ab, ba, mtu: DEFAULT_MTU, tso: true }
}

#[test]
fn rates_are_divided_times_multiplied_and_nothing_else_changes() {
    let target = rough();
    let harness = target.to_harness(ten());
    assert_eq!(harness.ab.rate, Some(RealRate::from_bits_per_s(1e7)));
    assert_eq!((harness.ab.delay, harness.ab.jitter.spread), (real_ms(100), real_ms(20)));
    // The rest, when the times are taken away.
    fn timeless<T: Time>(pipe: &Pipe<T>) -> impl std::fmt::Debug {
        let Pipe { rate: _, delay: _, jitter, loss, duplicate, corrupt, queue, up } = pipe.clone();
        (jitter.distribution, jitter.reorder, loss, duplicate, corrupt, queue, up)
    }
    assert_eq!(format!("{:?}", timeless(&harness.ab)), format!("{:?}", timeless(&target.ab)));
    assert_eq!((harness.ba.rate, harness.ba.delay), (None, RealDuration::ZERO));
    assert_eq!((harness.name, harness.mtu, harness.tso), (target.name, target.mtu, target.tso));
    assert_eq!(harness.ba.loss, target.ba.loss);
}

fn change<T: Time>(rate: Option<Option<T::Rate>>, delay: Option<T::Duration>) -> PipeChange<T> {
    PipeChange { rate, delay, loss: Some(Loss::Every(3)), ..Default::default() }
}

#[test]
fn a_change_scales_as_the_pipe_does() {
    let fast = Some(VirtualRate::from_bits_per_s(1e9));
    for change in [change(Some(fast), Some(ms(3))), change(Some(None), None), change(None, Some(ms(4)))] {
        let pipe = rough().ab;
        assert_eq!(pipe.with(&change).to_harness(ten()), pipe.to_harness(ten()).with(&change.to_harness(ten())));
    }
    let (first, second) = (change::<Virtual>(Some(fast), Some(ms(3))), change(None, Some(ms(4))));
    assert_eq!(first.but(&second), change(Some(fast), Some(ms(4))));
}

#[test]
fn links_and_changes_are_read_as_they_were_written() {
    fn read_back<V: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(value: &V) {
        let text = serde_json::to_string(value).expect("it can be written");
        assert_eq!(serde_json::from_str::<V>(&text).expect("it can be read"), *value, "{text}");
    }
    read_back(&rough());
    read_back(&rough().to_harness(ten()));
    let rate = RealRate::from_bits_per_s(0.1 + 0.2);
    for rate in [None, Some(None), Some(Some(rate))] {
        read_back(&LinkChange { ab: change::<Real>(rate, Some(real_ms(1))), ba: PipeChange::default() });
    }
}
