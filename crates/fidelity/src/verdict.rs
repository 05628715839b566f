//! The verdict: what follows from the checks.

use record::{Check, Fidelity, Verdict};

/// One breach makes the run suspect. So does a run that checked nothing: silence is not trust.
pub fn conclude(checks: Vec<Check>) -> Fidelity {
    let breached = checks.iter().any(|c| c.ok == Some(false));
    let checked = checks.iter().any(|c| c.ok == Some(true));
    let verdict = if breached || !checked { Verdict::Suspect } else { Verdict::Trustworthy };
    Fidelity { verdict, checks }
}

#[cfg(test)]
mod tests {
    use record::CheckName;

    use super::*;

    fn check(ok: Option<bool>) -> Check {
        Check { name: CheckName::Steal, value: Some(1.0), limit: Some(2.0), unit: "1".into(), ok, says: String::new() }
    }

    #[test]
    fn one_breach_makes_a_run_suspect_and_null_does_not() {
        assert_eq!(conclude(vec![check(Some(true)), check(None)]).verdict, Verdict::Trustworthy);
        assert_eq!(conclude(vec![check(Some(true)), check(Some(false))]).verdict, Verdict::Suspect);
        assert_eq!(conclude(vec![check(None)]).verdict, Verdict::Suspect, "nothing was checked");
        assert_eq!(conclude(vec![]).verdict, Verdict::Suspect);
    }
}
