//! A rate that is limited, and may be exceeded as long as there are credits.
//!
//! Providers describe it so (Amazon, *EBS User Guide*, "I/O credits and burst performance"): credits come at the
//! baseline rate, up to a limit; each request, or byte, costs one; as long as there are any, the rate may be as high as
//! the burst rate. Within a short time the rate may be exceeded, as long as its mean is kept.

use scale::{VirtualDuration, VirtualInstant};

use super::parameters::Rate;

/// Over such a time the burst rate is a mean: an estimate, as no provider says it.
const TICK_S: f64 = 0.01;

#[derive(Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    /// Credits there are at an instant.
    credits: f64,
    counted: VirtualInstant,
    /// When what has been let in would be finished at the burst rate.
    busy: VirtualInstant,
}

impl Bucket {
    /// A bucket that is full.
    pub fn new(rate: Rate) -> Bucket {
        let most = rate.credits.max(rate.baseline_per_s * TICK_S);
        Bucket { rate, credits: most, counted: VirtualInstant::ZERO, busy: VirtualInstant::ZERO }
    }

    /// Lets something in that costs so many credits; when that is. Things are let in in the order in which they come.
    pub fn take(&mut self, now: VirtualInstant, cost: f64) -> VirtualInstant {
        let Rate { baseline_per_s, burst_per_s, credits } = self.rate;
        let slack = VirtualDuration::from_secs_f64(TICK_S);
        // The burst rate first: it is behind by no more than the slack.
        self.busy = self.busy.max(now) + VirtualDuration::from_secs_f64(cost / burst_per_s);
        let paced = now.max(self.busy - slack);
        if burst_per_s <= baseline_per_s {
            return paced;
        }
        let at = paced.max(self.counted);
        let earned = at.since(self.counted).as_secs_f64() * baseline_per_s;
        let most = credits.max(baseline_per_s * TICK_S);
        self.credits = (self.credits + earned).min(most) - cost;
        self.counted = at;
        if self.credits >= 0.0 {
            return at;
        }
        // Missing credits have to be earned first.
        let let_in = at + VirtualDuration::from_secs_f64(-self.credits / baseline_per_s);
        self.credits = 0.0;
        self.counted = let_in;
        self.busy = self.busy.max(let_in);
        let_in
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many requests are let in within a second that begins there, when as many come as can.
    fn let_in(bucket: &mut Bucket, from_s: u64) -> u32 {
        let second = VirtualInstant::from_nanos(from_s * 1_000_000_000);
        let end = VirtualInstant::from_nanos((from_s + 1) * 1_000_000_000);
        let (mut now, mut count) = (second, 0);
        loop {
            now = bucket.take(now, 1.0);
            if now >= end {
                return count;
            }
            count += 1;
        }
    }

    #[test]
    fn credits_run_out_and_come_back_at_the_baseline_rate() {
        let mut bucket = Bucket::new(Rate { baseline_per_s: 300.0, burst_per_s: 3000.0, credits: 27_000.0 });
        let near = |is: u32, should: f64| (f64::from(is) - should).abs() < 0.02 * should + 2.0;
        // 27,000 credits last for 10 s, as 300 a second come back.
        for second in 0..15 {
            let count = let_in(&mut bucket, second);
            let should = if second < 10 { 3000.0 } else { 300.0 };
            assert!(near(count, should), "{count} in second {second}");
        }
        // Ten seconds of rest are worth one of bursting.
        let count = let_in(&mut bucket, 25);
        assert!(near(count, 3000.0), "{count} after a rest");
        let (then, later) = (let_in(&mut bucket, 26), let_in(&mut bucket, 27));
        assert!((500..=610).contains(&then) && near(later, 300.0), "{then}, {later}");
    }

    #[test]
    fn without_credits_the_rate_is_kept_over_a_hundredth_of_a_second() {
        let mut bucket = Bucket::new(Rate { baseline_per_s: 1000.0, burst_per_s: 1000.0, credits: 0.0 });
        assert_eq!(let_in(&mut bucket, 0), 1009);
        assert_eq!(let_in(&mut bucket, 5), 1009);
    }
}
