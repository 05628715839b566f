//! Usage of nodes over virtual time, as far as a drawing can show it.

use indexmap::IndexMap;
use record::{NodeInterval, RunDir};

use crate::error::Error;

/// The most steps of a curve: a page is not a copy of the series.
const PARTS: usize = 200;
/// The most steps of all curves together: of more nodes, each has fewer.
const ALL_PARTS: usize = 200_000;
/// The most nodes, and the longest name of one, in bytes.
const NODES: usize = 20_000;
const NAME: usize = 255;

/// Usage of all nodes, in equal parts of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    /// How long a part is, virtual s.
    pub part_s: f64,
    /// By name, in the order of the plan; all of one length.
    pub nodes: IndexMap<String, Vec<Part>>,
}

/// Usage of a node, or of several on average, in a part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Part {
    /// How much of it is known, virtual s.
    pub known_s: f64,
    /// CPUs at work × virtual s.
    pub cpu_s: f64,
    /// The most memory that it had.
    pub memory_bytes: f64,
    /// Bytes that its disk read and wrote; none without a disk.
    pub disk_bytes: Option<f64>,
    /// Bytes that reached it, and that it sent.
    pub bytes_in: f64,
    pub bytes_out: f64,
}

impl Part {
    /// CPUs at work, on average.
    pub fn cpus(&self) -> f64 {
        self.a_second(self.cpu_s)
    }

    /// Converts a count to one a virtual second.
    pub fn a_second(&self, counted: f64) -> f64 {
        if self.known_s > 0.0 { counted / self.known_s } else { 0.0 }
    }

    /// One of parts that follow one another.
    fn together(parts: &[Part]) -> Part {
        let sum = |of: fn(&Part) -> f64| parts.iter().map(of).sum();
        Part {
            known_s: sum(|part| part.known_s),
            cpu_s: sum(|part| part.cpu_s),
            memory_bytes: parts.iter().map(|part| part.memory_bytes).fold(0.0, f64::max),
            disk_bytes: parts.iter().filter_map(|part| part.disk_bytes).reduce(|sum, bytes| sum + bytes),
            bytes_in: sum(|part| part.bytes_in),
            bytes_out: sum(|part| part.bytes_out),
        }
    }

    fn add(&mut self, interval: &NodeInterval, overlap_s: f64) {
        let lasted = interval.to_s - interval.from_s;
        let part = overlap_s / lasted;
        self.known_s += overlap_s;
        self.cpu_s += interval.cpus.unwrap_or(0.0) * overlap_s;
        self.memory_bytes = self.memory_bytes.max(interval.memory_bytes.unwrap_or(0) as f64);
        if let (Some(read), Some(written)) = (interval.read_bytes, interval.written_bytes) {
            *self.disk_bytes.get_or_insert(0.0) += (read + written) as f64 * part;
        }
        self.bytes_in += interval.bytes_in as f64 * part;
        self.bytes_out += interval.bytes_out as f64 * part;
    }
}

impl Usage {
    /// Reads the series of a run that lasted so long.
    pub fn of(dir: &RunDir, end_s: f64) -> Result<Usage, Error> {
        let mut part_s = end_s.max(1e-9) / PARTS as f64;
        let mut count = PARTS;
        let mut nodes: IndexMap<String, Vec<Part>> = IndexMap::new();
        dir.each_node_interval(|interval| {
            let (from, to) = (interval.from_s.max(0.0), interval.to_s.min(end_s));
            if to <= from {
                return Ok(());
            }
            if !nodes.contains_key(interval.node) {
                if nodes.len() == NODES || interval.node.len() > NAME {
                    return Err(format!("more than {NODES} nodes, or a name of more than {NAME} letters"));
                }
                while (nodes.len() + 1) * count > ALL_PARTS {
                    nodes.values_mut().for_each(|parts| *parts = parts.chunks(2).map(Part::together).collect());
                    (part_s, count) = (2.0 * part_s, count.div_ceil(2));
                }
                nodes.insert(interval.node.to_owned(), vec![Part::default(); count]);
            }
            let parts = &mut nodes[interval.node];
            let (first, last) = ((from / part_s) as usize, ((to / part_s).ceil() as usize).min(count));
            for (place, part) in parts.iter_mut().enumerate().take(last).skip(first) {
                let overlap_s = to.min((place + 1) as f64 * part_s) - from.max(place as f64 * part_s);
                if overlap_s > 0.0 {
                    part.add(interval, overlap_s);
                }
            }
            Ok(())
        })?;
        Ok(Usage { part_s, nodes })
    }

    /// Nodes of which one is called as another but for the number at its end, together: what one of them used on
    /// average.
    pub fn tiers(&self) -> IndexMap<String, Vec<Part>> {
        let mut tiers: IndexMap<&str, Vec<&Vec<Part>>> = IndexMap::new();
        for (node, parts) in &self.nodes {
            tiers.entry(tier(node)).or_default().push(parts);
        }
        let together = |(name, nodes): (&str, Vec<&Vec<Part>>)| {
            let name = if nodes.len() > 1 { format!("{name}-*") } else { self.whole_name(name) };
            (name, (0..nodes[0].len()).map(|place| mean(nodes.iter().map(|parts| parts[place]))).collect())
        };
        tiers.into_iter().map(together).collect()
    }

    /// The name of the only node of a tier.
    fn whole_name(&self, of: &str) -> String {
        self.nodes.keys().find(|node| tier(node) == of).cloned().unwrap_or_default()
    }
}

/// A node's name without the number that `count` gave it.
fn tier(node: &str) -> &str {
    match node.rsplit_once('-') {
        Some((name, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => node,
    }
}

/// The average of several in a part.
fn mean(parts: impl Iterator<Item = Part> + Clone) -> Part {
    let count = parts.clone().count().max(1) as f64;
    let sum = |of: fn(&Part) -> f64| parts.clone().map(|part| of(&part)).sum::<f64>() / count;
    let disks: Vec<f64> = parts.clone().filter_map(|part| part.disk_bytes).collect();
    Part {
        known_s: sum(|p| p.known_s),
        cpu_s: sum(|p| p.cpu_s),
        memory_bytes: sum(|p| p.memory_bytes),
        disk_bytes: (!disks.is_empty()).then(|| disks.iter().sum::<f64>() / count),
        bytes_in: sum(|p| p.bytes_in),
        bytes_out: sum(|p| p.bytes_out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rows: &[(f64, f64, &str, f64, u64)]) -> Usage {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        let mut log = dir.node_log(1 << 20).unwrap();
        for (from_s, to_s, node, cpus, memory) in rows {
            let of = NodeInterval { from_s: *from_s, to_s: *to_s, node, ..NodeInterval::default() };
            let (cpus, memory_bytes) = (Some(*cpus), Some(*memory));
            log.add(&NodeInterval { cpus, memory_bytes, bytes_in: 1_000, ..of }).unwrap();
        }
        log.flush().unwrap();
        Usage::of(&dir, 10.0).unwrap()
    }

    #[test]
    fn long_intervals_are_spread_and_short_ones_are_put_together() {
        let short = (0..10).map(|i| 5.0 + f64::from(i) / 200.0);
        let mut rows: Vec<_> = short.map(|at| (at, at + 0.005, "a", 1.0, 7)).collect();
        rows.push((0.0, 1.0, "b", 0.5, 50));
        let usage = written(&rows);
        let a = &usage.nodes["a"];
        let busy = a[100];
        assert!((busy.cpus() - 1.0).abs() < 1e-6 && (busy.bytes_in - 10_000.0).abs() < 1.0, "{busy:?}");
        assert_eq!((a[0], a[102]), (Part::default(), Part::default()));
        let b = &usage.nodes["b"];
        assert!(b[..20].iter().all(|p| (p.cpus() - 0.5).abs() < 1e-9 && p.memory_bytes == 50.0), "{b:?}");
        assert!((b[..20].iter().map(|p| p.bytes_in).sum::<f64>() - 1_000.0).abs() < 1e-6);
        assert_eq!((b[20], b[0].disk_bytes), (Part::default(), None));
    }

    #[test]
    fn of_very_many_nodes_each_has_fewer_parts_and_nothing_is_lost() {
        let names: Vec<String> = (0..5000).map(|n| format!("n-{n}")).collect();
        let usage = written(&names.iter().map(|name| (2.0, 5.0, name.as_str(), 0.5, 7)).collect::<Vec<_>>());
        assert_eq!((usage.nodes.len(), usage.nodes["n-0"].len(), usage.part_s), (5000, 25, 0.4));
        for name in ["n-0", "n-2500", "n-4999"] {
            let parts = &usage.nodes[name];
            let (known, cpu): (f64, f64) = parts.iter().fold((0.0, 0.0), |s, p| (s.0 + p.known_s, s.1 + p.cpu_s));
            assert!((known - 3.0).abs() < 1e-6 && (cpu - 1.5).abs() < 1e-6, "{name}: {known} {cpu}");
            assert_eq!((parts[4], parts[13], parts[12].memory_bytes), (Part::default(), Part::default(), 7.0));
        }
        assert!((usage.tiers()["n-*"][11].cpus() - 0.5).abs() < 1e-6);
    }

    #[test]
    fn nodes_of_one_kind_are_one_tier() {
        let row = |node, cpus| (0.0, 10.0, node, cpus, 10);
        let usage = written(&[row("web-1", 0.2), row("web-2", 0.4), row("db", 1.0), row("lb-1", 0.7), row("x-", 0.1)]);
        let tiers = usage.tiers();
        assert_eq!(tiers.keys().collect::<Vec<_>>(), ["web-*", "db", "lb-1", "x-"]);
        assert!((tiers["web-*"][7].cpus() - 0.3).abs() < 1e-9 && tiers["db"][7].memory_bytes == 10.0);
    }
}
