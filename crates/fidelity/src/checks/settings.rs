//! Settings of the kernel that programs in nodes made.

use super::Judgement;
use counters::UntrueSetting;

/// So many are named, the rest is counted.
const NAMED: usize = 8;

/// Settings of programs are translated; others count in real time, and what follows from that nobody knows.
pub fn kernel_settings(untrue: Option<&[UntrueSetting]>) -> Judgement {
    let unit = "settings";
    let Some(untrue) = untrue else {
        let says = "The run was not dilated: what programs set is what the kernel has.".into();
        return Judgement::at_most(0.0, 0.0, unit, says);
    };
    let told = |UntrueSetting { node, what, cut }: &UntrueSetting| match cut {
        true => format!("{node} set {what} to more than the kernel takes in real time, and has the most that it takes"),
        false => format!("{node} set {what}, which is not, or not known to be, in virtual time"),
    };
    let mut says: Vec<String> = untrue.iter().take(NAMED).map(told).collect();
    if untrue.len() > NAMED {
        says.push(format!("and there are {} more", untrue.len() - NAMED));
    }
    let says = match untrue {
        [] => "All that programs set in the kernel is in virtual time, as far as it is known to be a time.".into(),
        _ => format!("{}.", says.join("; ")),
    };
    Judgement::at_most(untrue.len() as f64, 0.0, unit, says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Found;

    #[test]
    fn who_set_what_is_said() {
        let setting = |node: &str, what: &str, cut| UntrueSetting { node: node.into(), what: what.into(), cut };
        let judged = kernel_settings(Some(&[setting("a", "tc red", false), setting("b", "IFLA_BR_MAX_AGE", true)]));
        assert_eq!(judged.found, Found::Unsized);
        let red = "a set tc red, which is not, or not known to be, in virtual time; b set IFLA_BR_MAX_AGE to more";
        assert!(judged.says.starts_with(red), "{}", judged.says);
        let many: Vec<_> = (0..20).map(|n| setting("a", &n.to_string(), false)).collect();
        assert!(kernel_settings(Some(&many)).says.ends_with("known to be, in virtual time; and there are 12 more."));
        for harmless in [None, Some([].as_slice())] {
            assert_eq!(kernel_settings(harmless).found, Found::Effects(Vec::new()));
        }
    }
}
