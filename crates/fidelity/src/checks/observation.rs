//! The cost of counting nodes' system calls.

use super::Judgement;
use crate::effects::Effect;
use crate::evidence::{Observation, ObservedNode};
use crate::wording::number;

/// Counting takes time of the CPU of the program that calls, so that its work takes longer by as much.
pub fn observation(seen: Option<&Result<Observation, String>>) -> Judgement {
    let unit = "% of a node's CPU";
    let Observation { nodes, for_each_s: each, uncounted } = match seen {
        Some(Ok(seen)) => seen,
        Some(Err(because)) => {
            return Judgement::unmeasured(unit, format!("Nothing is known of system calls: {because}."));
        }
        None => return Judgement::unmeasured(unit, "Nobody counted the nodes' system calls.".into()),
    };
    let cost = |node: &ObservedNode| {
        let counting = node.calls as f64 * each;
        // The node's own is the rest.
        100.0 * counting / (node.cpu_s - counting).max(counting).max(f64::MIN_POSITIVE)
    };
    let called = nodes.iter().filter(|node| node.calls > 0);
    let Some(most) = called.max_by(|a, b| cost(a).total_cmp(&cost(b))) else {
        return Judgement::with(0.0, unit, [], "No node whose calls were counted made any.".into());
    };
    let value = cost(most);
    let mut says = format!(
        "To count a system call took {} real µs; {} made {} of them, for which it needed {} % of its CPU more.",
        number(1e6 * each),
        most.node,
        most.calls,
        number(value)
    );
    if *uncounted > 0 {
        says += &format!(" {uncounted} threads or steps were not counted, for want of memory.");
    }
    Judgement::with(value, unit, [Effect::Work([0.0, value])], says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Found;

    fn node(name: &str, calls: u64, cpu_s: f64) -> ObservedNode {
        ObservedNode { node: name.into(), calls, cpu_s }
    }

    #[test]
    fn the_node_for_which_counting_took_most_is_named() {
        let nodes = vec![node("server", 1_000_000, 10.2), node("client", 1_000, 1.0), node("idle", 0, 0.0)];
        let judged = observation(Some(&Ok(Observation { nodes, for_each_s: 200e-9, uncounted: 3 })));
        assert_eq!(judged.found, Found::Effects(vec![Effect::Work([0.0, judged.value.unwrap()])]));
        assert!((judged.value.unwrap() - 2.0).abs() < 1e-9, "{judged:?}");
        assert!(judged.says.starts_with("To count a system call took 0.2 real µs; server made 1000000 of them"));
        assert!(judged.says.ends_with("3 threads or steps were not counted, for want of memory."), "{}", judged.says);
    }

    #[test]
    fn what_is_not_known_is_not_promised() {
        let seen = |nodes| observation(Some(&Ok(Observation { nodes, for_each_s: 200e-9, uncounted: 0 })));
        assert_eq!((observation(None).value, observation(None).found), (None, Found::Nothing));
        let no_bpf = observation(Some(&Err("the kernel has no BTF".into())));
        assert!(no_bpf.value.is_none() && no_bpf.says.contains("no BTF"), "{}", no_bpf.says);
        assert_eq!(seen(vec![node("a", 0, 1.0)]).value, Some(0.0));
        // A node that did hardly anything else.
        assert!(seen(vec![node("a", 1_000_000, 0.1)]).value.unwrap() <= 100.1);
    }
}
