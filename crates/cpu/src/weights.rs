//! Pure arithmetic: what weights and quotas give the shares asked for.

use std::time::Duration;

use crate::cgroup::{MAX_WEIGHT, MIN_WEIGHT};
use crate::{Error, NodeShare};

/// What a plan may sell of one core. The rest covers foreign work, interrupts and noise: the usable
/// fraction η measured when limits are applied must not be below the sum of the shares sold.
pub const PLANNED_USABLE: f64 = 0.90;

/// The weight of a whole core. Shares down to 0.001 are then exact to 1 %, from 0.005 to 0.1 %.
const WEIGHT_OF_CORE: f64 = 200_000.0;

/// The smallest quota that the kernel accepts (`min_cfs_quota_period`).
const MIN_QUOTA: Duration = Duration::from_millis(1);

/// Weights of the groups that compete for the core.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// One per node, in the order of the shares.
    pub nodes: Vec<u64>,
    /// Of the group that burns what is not sold.
    pub fill: u64,
}

/// The weights under which each node gets its share of the core when `usable` (η) of it is left for
/// all groups together: w_k = share_k and w_fill = η − Σ share, in units of the core's weight.
///
/// Fails if the shares are not numbers between 0 and 1, or if they sum to more than η.
pub fn slots(shares: &[NodeShare], usable: f64) -> Result<Weights, Error> {
    let sold = checked_sum(shares)?;
    if sold > usable + 1e-9 {
        return Err(Error::Machine {
            what: format!(
                "the nodes' shares sum to {sold:.3} of a core, but only {usable:.3} of it is usable just now"
            ),
            help: "stop other work on that core, or raise the TDF so that the shares shrink".into(),
        });
    }
    Ok(Weights { nodes: shares.iter().map(|n| weight(n.share)).collect(), fill: weight(usable - sold) })
}

/// Weights for work-conserving nodes: in proportion to the shares.
pub fn proportional(shares: &[NodeShare]) -> Result<Vec<u64>, Error> {
    checked_sum(shares)?;
    Ok(shares.iter().map(|n| weight(n.share)).collect())
}

/// Quota and period that cap a group at `share` of a core: the shortest period from 10 ms up whose
/// quota the kernel accepts. At most 1 s, so at least a thousandth of a core.
pub fn quota(share: f64) -> (Duration, Duration) {
    let shortest = MIN_QUOTA.as_secs_f64() / share;
    let period = Duration::from_secs_f64(shortest.clamp(0.010, 1.0));
    (period.mul_f64(share).max(MIN_QUOTA), period)
}

fn weight(share: f64) -> u64 {
    ((share * WEIGHT_OF_CORE).round() as u64).clamp(MIN_WEIGHT, MAX_WEIGHT)
}

fn checked_sum(shares: &[NodeShare]) -> Result<f64, Error> {
    if let Some(bad) = shares.iter().find(|n| !(n.share > 0.0 && n.share <= 1.0)) {
        return Err(Error::Input(format!(
            "node {}: a CPU share of {} is not a fraction of one core: it must be above 0 and at most 1",
            bad.name, bad.share
        )));
    }
    Ok(shares.iter().map(|n| n.share).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(of: &[f64]) -> Vec<NodeShare> {
        of.iter().enumerate().map(|(i, &share)| NodeShare { name: format!("n-{i}"), share }).collect()
    }

    #[test]
    fn every_node_gets_its_share_of_the_whole_core() {
        for (of, usable) in [(vec![0.5, 0.08, 0.08, 0.08, 0.08], 0.93), (vec![0.008; 100], 0.91), (vec![0.05], 0.95)] {
            let w = slots(&shares(&of), usable).unwrap();
            let total = (w.nodes.iter().sum::<u64>() + w.fill) as f64;
            for (share, weight) in of.iter().zip(&w.nodes) {
                let got = usable * *weight as f64 / total;
                assert!((got / share - 1.0).abs() < 0.002, "{got} of a core for a share of {share}");
            }
        }
    }

    #[test]
    fn a_core_is_not_oversold() {
        let error = slots(&shares(&[0.5, 0.5]), 0.93).unwrap_err();
        assert!(matches!(error, Error::Machine { .. }));
        let error = error.to_string();
        assert!(error.contains("sum to 1.000") && error.contains("0.930"), "{error}");
        assert!(slots(&shares(&[0.5, 0.43]), 0.93).is_ok(), "all of what is usable may be sold");
    }

    #[test]
    fn a_share_must_be_a_fraction() {
        for bad in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            let error = slots(&shares(&[0.1, bad]), 0.93).unwrap_err();
            assert!(error.to_string().contains("n-1"), "{error}");
        }
    }

    #[test]
    fn quotas_respect_the_kernels_floor() {
        assert_eq!(quota(0.5), (Duration::from_millis(5), Duration::from_millis(10)));
        assert_eq!(quota(0.05), (Duration::from_millis(1), Duration::from_millis(20)));
        let (quota, period) = quota(0.0001);
        assert_eq!((quota, period), (MIN_QUOTA, Duration::from_secs(1)), "the floor, not zero");
    }
}
