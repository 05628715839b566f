//! The CPU time of nodes, compared.
//!
//! DieCast (NSDI'08, figure 9) asks of a scaled system that its nodes' CPU use be the original's too, not only what
//! users see. Where both did the same work, the difference is what that work cost more: because others used the caches
//! meanwhile, say.

use serde::Serialize;

use super::error_percent;
use crate::statistics::median;
use record::Run;

/// A node is worth a row of a table if it used this part of what the busiest did,
const WORTH_A_ROW: f64 = 0.2;
/// and is one of so many.
const ROWS: usize = 5;

/// How long one node's programs had a core of this machine, in seconds of the core. `None` where a run did not measure
/// it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeComparison {
    /// The node.
    pub name: String,
    /// In the base; of several runs, the median.
    pub base_core_seconds: Option<f64>,
    /// In the other, likewise.
    pub other_core_seconds: Option<f64>,
    /// How far the other is off; of several pairs, the median of theirs.
    pub error_percent: Option<f64>,
}

/// All nodes of the base.
pub(super) fn compare(pairs: &[(&Run, &Run)]) -> Vec<NodeComparison> {
    let Some((first, _)) = pairs.first() else { return Vec::new() };
    let compare_node = |name: &String| {
        let used = |run: &Run| run.result.nodes.get(name)?.core_seconds;
        let middle = |values: Option<Vec<f64>>| values.and_then(median);
        NodeComparison {
            name: name.clone(),
            base_core_seconds: middle(pairs.iter().map(|(b, _)| used(b)).collect()),
            other_core_seconds: middle(pairs.iter().map(|(_, o)| used(o)).collect()),
            error_percent: middle(pairs.iter().map(|(b, o)| error_percent(used(b)?, used(o)?)).collect()),
        }
    };
    first.result.nodes.keys().map(compare_node).collect()
}

/// Those whose CPU time is worth showing, in the order given: of a few hundred nodes, most did little or what others
/// did.
pub fn busiest(nodes: &[NodeComparison]) -> Vec<&NodeComparison> {
    let used = |n: &NodeComparison| n.base_core_seconds.unwrap_or(0.0);
    let most = nodes.iter().map(used).fold(0.0, f64::max);
    let mut worth: Vec<_> =
        nodes.iter().enumerate().filter(|(_, n)| most > 0.0 && used(n) >= WORTH_A_ROW * most).collect();
    worth.sort_by(|(_, a), (_, b)| used(b).total_cmp(&used(a)));
    worth.truncate(ROWS);
    worth.sort_by_key(|(index, _)| *index);
    worth.into_iter().map(|(_, n)| n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, used: Option<f64>) -> NodeComparison {
        NodeComparison {
            name: name.into(),
            base_core_seconds: used,
            other_core_seconds: used,
            error_percent: Some(0.0),
        }
    }

    #[test]
    fn of_many_nodes_those_that_did_most_are_shown_in_their_order() {
        let names = |nodes: &[NodeComparison]| busiest(nodes).iter().map(|n| n.name.clone()).collect::<Vec<_>>();
        let web =
            [node("client", Some(0.9)), node("server", Some(5.0)), node("idle", Some(0.0)), node("unknown", None)];
        assert_eq!(names(&web), ["server"], "a client used less than a fifth of what the server did");
        let cluster: Vec<_> = (0..9).map(|i| node(&i.to_string(), Some(1.0 + f64::from(i % 7)))).collect();
        assert_eq!(names(&cluster), ["2", "3", "4", "5", "6"]);
        assert!(names(&[node("a", Some(0.0)), node("b", None)]).is_empty());
    }
}
