//! Which pair of runs is of which kind, and which of the two is troubled.

use record::Variant;

use super::kinds::Kind;
use super::trouble::Trouble;

/// Two runs of one experiment: one that is left alone, and one whose verdict and intervals are put to the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pairing {
    /// The experiment.
    pub kind: Kind,
    /// The disturbance of the tested run, if any.
    pub trouble: Option<Trouble>,
    /// The variant of the tested run.
    pub tested: Variant,
    /// Whether the tested run is made first.
    pub tested_first: bool,
}

impl Pairing {
    /// The variant of the run that is left alone.
    pub fn reference(&self) -> Variant {
        if self.tested == Variant::Scaled { Variant::Baseline } else { Variant::Scaled }
    }
}

/// Every second pair is troubled, right after one of the same kind that is not, so that the hour is the same for both.
/// Each trouble meets scaled runs and, the next time round, baselines. There must be a kind.
pub(super) fn pairings(pairs: usize, kinds: &[Kind], troubles: &[Trouble]) -> Vec<Pairing> {
    let pairing = |number: usize| {
        let round = number / 2;
        let kind = kinds[round % kinds.len()];
        let tested_first = round % 2 == 1;
        let quiet = Pairing { kind, trouble: None, tested: Variant::Scaled, tested_first };
        if number.is_multiple_of(2) || troubles.is_empty() {
            return quiet;
        }
        let tested = if (round / troubles.len()).is_multiple_of(2) { Variant::Scaled } else { Variant::Baseline };
        Pairing { trouble: Some(troubles[round % troubles.len()]), tested, ..quiet }
    };
    (0..pairs).map(pairing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_pairs_are_troubled_and_everything_has_its_turn() {
        let troubles = &Trouble::ALL[..6];
        let all = pairings(40, &Kind::ALL, troubles);
        let troubled: Vec<&Pairing> = all.iter().filter(|p| p.trouble.is_some()).collect();
        assert_eq!((all.len(), troubled.len()), (40, 20));
        for kind in Kind::ALL {
            assert_eq!(all.iter().filter(|p| p.kind == kind).count(), 8);
            assert_eq!(troubled.iter().filter(|p| p.kind == kind).count(), 4);
        }
        for trouble in troubles {
            let of: Vec<_> = troubled.iter().filter(|p| p.trouble == Some(*trouble)).collect();
            assert!(of.len() >= 3, "{trouble:?}");
            assert!(of.iter().any(|p| p.tested == Variant::Scaled) && of.iter().any(|p| p.tested == Variant::Baseline));
            let mut kinds: Vec<_> = of.iter().map(|p| p.kind.name()).collect();
            kinds.dedup();
            assert_eq!(kinds.len(), of.len(), "{trouble:?} meets another kind each time");
        }
    }

    #[test]
    fn a_quiet_pair_is_a_model_and_its_target() {
        for pairing in pairings(9, &Kind::ALL, &Trouble::ALL).iter().filter(|p| p.trouble.is_none()) {
            assert_eq!((pairing.tested, pairing.reference()), (Variant::Scaled, Variant::Baseline));
        }
        assert!(pairings(8, &Kind::ALL, &[]).iter().all(|p| p.trouble.is_none()));
        assert!(pairings(8, &[Kind::Mixed], &[]).iter().all(|p| p.kind == Kind::Mixed));
    }
}
