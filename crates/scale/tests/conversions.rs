//! The conversions between real and virtual time, by the papers' examples and by properties.

use diorama_scale::{RealDuration, RealRate, Tdf, VirtualDuration, VirtualRate};
use proptest::prelude::*;

fn tdf(s: &str) -> Tdf {
    s.parse().unwrap()
}

/// Gupta et al., NSDI 2006, §2.1: to a node at TDF 10, a link of 10 Mbit/s and 100 ms is one of 100 Mbit/s and 10 ms.
#[test]
fn the_link_of_the_time_dilation_paper() {
    assert_eq!(tdf("10").to_real_rate(VirtualRate::from_bits_per_s(1e8)), RealRate::from_bits_per_s(1e7));
    let delay = tdf("10").to_real(VirtualDuration::from_secs_f64(0.010));
    assert_eq!(delay, RealDuration::from_secs_f64(0.100));
    // DieCast, NSDI 2008, §2.5: 1 Gbit/s and 100 µs become 100 Mbit/s and 1 ms.
    assert_eq!(tdf("10").to_real_rate(VirtualRate::from_bits_per_s(1e9)).bits_per_s(), 1e8);
    assert_eq!(tdf("10").to_real(VirtualDuration::from_nanos(100_000)), RealDuration::from_nanos(1_000_000));
}

#[test]
fn no_dilation_changes_nothing() {
    assert_eq!(Tdf::ONE.to_real(VirtualDuration::from_nanos(7)).as_nanos(), 7);
    assert_eq!(Tdf::ONE.to_virtual(RealDuration::from_nanos(7)).as_nanos(), 7);
    assert_eq!(Tdf::ONE.to_real_rate(VirtualRate::from_bits_per_s(56e3)).bits_per_s(), 56e3);
}

#[test]
fn fractions_are_exact_over_a_day() {
    let day = VirtualDuration::from_nanos(86_400_000_000_000);
    assert_eq!(tdf("1.1").to_real(day).as_nanos(), 95_040_000_000_000);
    assert_eq!(tdf("1.5").to_real(day).as_nanos(), 129_600_000_000_000);
    assert_eq!(tdf("1000").to_real(day).as_nanos(), 86_400_000_000_000_000);
    assert_eq!(tdf("1.5").to_virtual(RealDuration::from_nanos(3)).as_nanos(), 2);
    assert_eq!(tdf("1.5").to_real(VirtualDuration::from_nanos(1)).as_nanos(), 2);
}

#[test]
fn what_is_no_factor_is_refused() {
    for wrong in ["0", "-1", "0.9", "1e3", "nan", "inf", "", ".5", "1.x", "100001", "99999999999999999999", "١"] {
        assert!(wrong.parse::<Tdf>().is_err(), "{wrong}");
    }
    for wrong in [f64::NAN, f64::INFINITY, 0.0, -3.0, 1e300, 1e-300] {
        assert!(Tdf::try_from(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn overflow_is_the_longest_duration_and_not_a_short_one() {
    assert_eq!(tdf("1000").to_real(VirtualDuration::MAX), RealDuration::MAX);
}

#[test]
fn twice_and_half_a_factor() {
    assert_eq!((tdf("10").doubled(), tdf("10").halved()), (Some(tdf("20")), Some(tdf("5"))));
    assert_eq!((tdf("1.5").doubled(), tdf("1.5").halved()), (Some(tdf("3")), None));
    assert_eq!((tdf("100000").doubled(), tdf("2").halved(), Tdf::ONE.halved()), (None, Some(Tdf::ONE), None));
}

fn float(tdf: Tdf) -> f64 {
    let (num, den) = tdf.parts_for_c();
    num as f64 / den as f64
}

fn factors() -> impl Strategy<Value = Tdf> {
    prop_oneof![
        (1u64..=100_000).prop_map(|n| Tdf::new(n, 1).unwrap()),
        (1u64..=1_000_000, 1u64..=1_000_000).prop_filter_map("at least 1", |(n, d)| Tdf::new(n, d).ok()),
    ]
}

proptest! {
    /// A timer of `d` virtual nanoseconds is never early, and late by less than one real nanosecond.
    #[test]
    fn there_and_back_is_never_early(tdf in factors(), ns in 0u64..=u64::MAX / 100_001) {
        let d = VirtualDuration::from_nanos(ns);
        prop_assert!(tdf.to_virtual(tdf.to_real(d)) >= d);
        let real = tdf.to_real(d);
        if let Some(before) = real.as_nanos().checked_sub(1) {
            prop_assert!(tdf.to_virtual(RealDuration::from_nanos(before)) < d);
        }
    }

    #[test]
    fn both_conversions_are_monotone(tdf in factors(), a in any::<u64>(), b in any::<u64>()) {
        let (a, b) = (a.min(b), a.max(b));
        prop_assert!(tdf.to_real(VirtualDuration::from_nanos(a)) <= tdf.to_real(VirtualDuration::from_nanos(b)));
        prop_assert!(tdf.to_virtual(RealDuration::from_nanos(a)) <= tdf.to_virtual(RealDuration::from_nanos(b)));
    }

    /// A timer armed under one factor, and re-armed `passed` later, when the factor changes, is not early, and late by
    /// no more than three virtual nanoseconds.
    #[test]
    fn a_rest_is_never_cut_short(old in factors(), new in factors(), ns in 0u64..=1 << 40, passed in 0.0f64..1.0) {
        let due = VirtualDuration::from_nanos(ns);
        let real = old.to_real(due);
        let passed = RealDuration::from_nanos((real.as_nanos() as f64 * passed) as u64).min(real);
        let rest = old.rest_under(new, real.saturating_sub(passed));
        // In units of 1/(old·new) virtual ns, in which both factors are exact.
        let (a, b) = (old.parts_for_c(), new.parts_for_c());
        let virt = |r: RealDuration, of: (u64, u64), other: (u64, u64)| {
            u128::from(r.as_nanos()) * u128::from(of.1) * u128::from(other.0)
        };
        let unit = u128::from(a.0) * u128::from(b.0);
        let seen = virt(passed, a, b) + virt(rest, b, a);
        prop_assert!(seen >= u128::from(ns) * unit || rest == RealDuration::ZERO);
        prop_assert!(seen <= (u128::from(ns) + 2) * unit + unit, "{} late", seen - u128::from(ns) * unit);
        let interval = VirtualDuration::from_nanos(ns);
        prop_assert_eq!(old.interval_under(new, old.to_real(interval)), new.to_real(interval));
    }

    /// A frame on a dilated link takes as long, seen through the TDF, as on the target (to a nanosecond a side).
    #[test]
    fn transmission_scales_as_time_does(tdf in factors(), kbit in 1u32..=10_000_000, bytes in 64usize..=1518) {
        let rate = VirtualRate::from_bits_per_s(f64::from(kbit) * 1e3);
        let target = tdf.to_real(rate.transmission(bytes)).as_nanos() as f64;
        let harness = tdf.to_real_rate(rate).transmission(bytes).as_nanos() as f64;
        prop_assert!((target - harness).abs() <= float(tdf) + 2.0 + target * 1e-9, "{target} {harness}");
    }

    #[test]
    fn what_a_factor_prints_as_is_that_factor(n in 1u64..=100_000, tenths in 0u64..10) {
        prop_assume!(n < 100_000 || tenths == 0);
        let tdf = Tdf::new(n * 10 + tenths, 10).unwrap();
        prop_assert_eq!(tdf.to_string().parse::<Tdf>().unwrap(), tdf);
        prop_assert_eq!(Tdf::try_from(float(tdf)).unwrap(), tdf);
    }

    #[test]
    fn tenths_above_and_below(v in 1.0f64..90_000.0) {
        let (above, below) = (Tdf::at_least(v).unwrap(), Tdf::at_most(v).unwrap());
        prop_assert!(float(below) <= v + 1e-9 && v <= float(above) + 1e-9);
        prop_assert!(float(above) - float(below) <= 0.1 + 1e-9);
    }
}
