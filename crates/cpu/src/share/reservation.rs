//! Pure arithmetic: what may be sold of a core, and what is left of it.

use crate::{Error, NodeShare};

/// The most that a plan may sell of one core. The rest covers foreign work, interrupts and noise: the usable
/// fraction η measured when limits are applied must not be below the sum of the shares sold.
pub const PLANNED_USABLE: f64 = 0.90;

/// The usual fraction of a core for all groups, where nobody else wants it.
pub const USUALLY_USABLE: f64 = 0.99;

/// The cores of these nodes, in the order in which they first appear.
pub fn cores_of(shares: &[NodeShare]) -> Vec<usize> {
    let mut cores = Vec::new();
    for core in shares.iter().flat_map(|node| std::iter::once(&node.core).chain(&node.whole_cores)) {
        if !cores.contains(core) {
            cores.push(*core);
        }
    }
    cores
}

/// The share of a core that no group has when `usable` (η) of it is left for all groups together: η − Σ share.
///
/// Fails if the shares are not numbers between 0 and 1, or if those of its nodes sum to more than η.
pub fn slack(shares: &[NodeShare], core: usize, usable: f64) -> Result<f64, Error> {
    let sold = sold(shares, core)?;
    if sold > usable + 1e-9 {
        return Err(host::Lack::new(
            format!("the nodes' shares sum to {sold:.3} of core {core}, but only {usable:.3} of it is usable just now"),
            "stop other work on that core, or raise the TDF so that the shares shrink",
        )
        .into());
    }
    Ok(usable - sold)
}

/// The sum of the shares of a core.
///
/// Fails if the shares are not numbers between 0 and 1.
pub fn sold(shares: &[NodeShare], core: usize) -> Result<f64, Error> {
    if let Some(bad) = shares.iter().find(|n| !(n.share > 0.0 && n.share <= 1.0)) {
        return Err(Error::Input(format!(
            "node {}: a CPU share of {} is not a fraction of one core: it must be above 0 and at most 1",
            bad.name, bad.share
        )));
    }
    Ok(shares.iter().filter(|n| n.core == core).map(|n| n.share).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(of: &[f64]) -> Vec<NodeShare> {
        of.iter().enumerate().map(|(i, &share)| NodeShare::new(format!("n-{i}"), 3, share)).collect()
    }

    #[test]
    fn what_is_not_sold_is_known() {
        assert!((slack(&shares(&[0.5, 0.08]), 3, 0.93).unwrap() - 0.35).abs() < 1e-12);
    }

    #[test]
    fn each_core_is_sold_by_itself() {
        let mut shares = shares(&[0.5, 0.2, 0.8]);
        shares[2].core = 1;
        assert_eq!(cores_of(&shares), [3, 1]);
        let left = |core| slack(&shares, core, 0.9).unwrap();
        assert!((left(3) - 0.2).abs() < 1e-12 && (left(1) - 0.1).abs() < 1e-12 && left(2) == 0.9);
        shares[1].core = 1;
        assert!(slack(&shares, 1, 0.9).unwrap_err().to_string().contains("1.000 of core 1"));
    }

    #[test]
    fn a_core_is_not_oversold() {
        let error = slack(&shares(&[0.5, 0.5]), 3, 0.93).unwrap_err();
        assert!(matches!(error, Error::Machine(_)));
        let error = error.to_string();
        assert!(error.contains("sum to 1.000") && error.contains("0.930"), "{error}");
        assert!(slack(&shares(&[0.5, 0.43]), 3, 0.93).is_ok(), "all of what is usable may be sold");
    }

    #[test]
    fn a_share_must_be_a_fraction() {
        for bad in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            let error = slack(&shares(&[0.1, bad]), 3, 0.93).unwrap_err();
            assert!(error.to_string().contains("n-1"), "{error}");
        }
    }
}
