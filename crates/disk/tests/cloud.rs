//! Behaviour of a cloud volume, against what its provider promises.

use crate::common::*;
use diorama_disk::{Disk, Op};
use scale::VirtualInstant;
use serde_json::json;

const START: VirtualInstant = VirtualInstant::ZERO;

/// Requests per second that a program gets which keeps 64 of 4 KiB outstanding, for a while from an instant on.
fn rate(disk: &mut Disk, from_s: f64, count: usize) -> (f64, f64) {
    let seen = closed(disk, at_ms(from_s * 1e3), 64, count, at_random(Op::Read, 0, 90 * GIB, 4096, 3));
    (seen.per_s(), seen.until.as_secs_f64())
}

#[test]
fn gp2_bursts_until_its_credits_are_used_up_and_earns_them_at_its_baseline() {
    // EBS User Guide: credits over burst rate less baseline is how long a burst lasts, 2,000 s for 100 GiB. With a
    // hundredth of the credits, 20 s.
    let mut disk = like("gp2", json!({"requests": {"credits": 54_000}}));
    let (burst, until) = rate(&mut disk, 0.0, 57_000);
    near("the burst", burst, 3_000.0, 1.0);
    near("it has lasted", until, 19.0, 1.0);
    let (_, until) = rate(&mut disk, until, 6_000);
    let (baseline, until) = rate(&mut disk, until, 3_000);
    near("then it is the baseline", baseline, 300.0, 1.0);
    // A minute of rest earns 18,000 credits, good for 6.7 s of burst.
    let (again, _) = rate(&mut disk, until + 60.0, 18_000);
    near("after a rest", again, 3_000.0, 2.0);
}

#[test]
fn the_burst_of_a_new_gp2_volume_lasts_for_as_long_as_the_guide_says() {
    // 5.4 million credits: 2,000 s for 100 GiB at 3,000 requests a second, of which 300 are earned back.
    let mut disk = disk("gp2");
    let seen = closed(&mut disk, START, 64, 6_100_000, |n| (Op::Write, n % 1_000_000 * 4096, 4096));
    // 6,000,000 requests in 2,000 s, and then 300 a second.
    near("so many requests take", seen.took_s, 2_000.0 + 100_000.0 / 300.0, 1.0);
}

#[test]
fn the_burst_of_azure_lasts_half_an_hour() {
    let mut disk = like("azure-p10", json!({"requests": {"credits": 54_000}}));
    let (burst, _) = rate(&mut disk, 0.0, 60_000);
    near("bursting", burst, 3_500.0, 1.0);
    let (_, until) = rate(&mut disk, 18.0, 10_000);
    let (baseline, _) = rate(&mut disk, until, 4_000);
    near("the baseline", baseline, 500.0, 1.0);
}

#[test]
fn whichever_is_less_limits_requests_or_bytes() {
    let sized = |name: &str, length: u64| {
        let mut disk = disk(name);
        let seen = closed(&mut disk, START, 64, 20_000, at_random(Op::Read, 0, 90 * GIB, length, 3));
        (seen.per_s(), seen.mb_per_s() * 1e6 / MIB as f64)
    };
    near("gp3, 4 KiB", sized("gp3", 4096).0, 3_000.0, 1.0);
    near("gp3, 16 KiB", sized("gp3", 16 * KIB).0, 3_000.0, 1.0);
    near("gp3, 256 KiB", sized("gp3", 256 * KIB).1, 125.0, 1.0);
    near("pd-ssd, 4 KiB", sized("pd-ssd", 4096).0, 21_000.0, 1.0);
    near("pd-ssd, 256 KiB", sized("pd-ssd", 256 * KIB).1, 480.0, 1.0);
    near(
        "a large request counts as several",
        {
            let mut disk = like("gp3", json!({"bytes": {"baseline-per-s": 1e10, "burst-per-s": 1e10}}));
            closed(&mut disk, START, 64, 5_000, at_random(Op::Read, 0, 90 * GIB, MIB, 3)).per_s()
        },
        750.0,
        1.0,
    );
}

#[test]
fn latencies_are_distributed_as_given() {
    let mut disk = disk("gp3");
    let seen = closed(&mut disk, START, 1, 20_000, at_random(Op::Read, 0, 90 * GIB, 4096, 3));
    near("median", seen.quantile_ms(0.5), 0.6, 3.0);
    near("p99", seen.quantile_ms(0.99), 2.0, 6.0);
    assert!(seen.quantile_ms(0.0) >= 0.25);
}

#[test]
fn what_is_complete_is_durable() {
    let mut disk = disk("pd-ssd");
    let seen = closed(&mut disk, START, 4, 100, at_random(Op::Write, 0, 90 * GIB, 4096, 3));
    let mut events = Vec::new();
    disk.submit(seen.until, request(7, Op::Write, 0, 4096)).unwrap();
    assert!(disk.at_risk().is_empty());
    let lost = disk.cut_power(seen.until, &mut events);
    assert_eq!((lost.len(), lost[0].id, lost[0].completed), (1, 7, false));
}
