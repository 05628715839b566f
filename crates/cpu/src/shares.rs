//! Pure arithmetic: what may be sold of a core, and what is left of it.

use crate::{Error, NodeShare};

/// What a plan may sell of one core. The rest covers foreign work, interrupts and noise: the usable
/// fraction η measured when limits are applied must not be below the sum of the shares sold.
pub const PLANNED_USABLE: f64 = 0.90;

/// What is usually left of a core for all groups, where nobody else wants it.
pub const USUALLY_USABLE: f64 = 0.99;

/// The share of the core that no group has when `usable` (η) of the core is left for all groups together: η − Σ share.
///
/// Fails if the shares are not numbers between 0 and 1, or if they sum to more than η.
pub fn unsold(shares: &[NodeShare], usable: f64) -> Result<f64, Error> {
    let sold = sum(shares)?;
    if sold > usable + 1e-9 {
        return Err(host::Lack::new(
            format!("the nodes' shares sum to {sold:.3} of a core, but only {usable:.3} of it is usable just now"),
            "stop other work on that core, or raise the TDF so that the shares shrink",
        )
        .into());
    }
    Ok(usable - sold)
}

/// The bare shares.
pub fn fractions(shares: &[NodeShare]) -> Vec<f64> {
    shares.iter().map(|n| n.share).collect()
}

/// What has been sold in all.
///
/// Fails if the shares are not numbers between 0 and 1.
pub fn sum(shares: &[NodeShare]) -> Result<f64, Error> {
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
    fn what_is_not_sold_is_known() {
        assert!((unsold(&shares(&[0.5, 0.08]), 0.93).unwrap() - 0.35).abs() < 1e-12);
    }

    #[test]
    fn a_core_is_not_oversold() {
        let error = unsold(&shares(&[0.5, 0.5]), 0.93).unwrap_err();
        assert!(matches!(error, Error::Machine(_)));
        let error = error.to_string();
        assert!(error.contains("sum to 1.000") && error.contains("0.930"), "{error}");
        assert!(unsold(&shares(&[0.5, 0.43]), 0.93).is_ok(), "all of what is usable may be sold");
    }

    #[test]
    fn a_share_must_be_a_fraction() {
        for bad in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            let error = unsold(&shares(&[0.1, bad]), 0.93).unwrap_err();
            assert!(error.to_string().contains("n-1"), "{error}");
        }
    }
}
