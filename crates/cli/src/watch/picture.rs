//! The picture of a run, as far as it has been seen: plain data, of which nothing grows with the run.

use std::collections::{BTreeMap, HashMap, VecDeque};

use engine::Progress;
use fidelity::so_far::{SoFar, Standing};
use record::{DiskInterval, Event, NodeInterval, PipeInterval, Plan, RunResult, SpeedInterval};

use crate::events;

/// How many events are kept, and how much of each, in characters.
const EVENTS: usize = 500;
const LONGEST_EVENT: usize = 1000;
/// How many nodes and links are shown of a run that came without its plan.
const MOST_WITHOUT_PLAN: usize = 4096;
/// A direction of a link that has had no row for so long is idle, virtual s: rows are one second apart.
const IDLE: f64 = 1.5;

/// A run as it is shown. No string in it has anything that a terminal would obey.
#[derive(Debug, Default)]
pub struct Picture {
    pub name: String,
    pub variant: String,
    pub tdf: Option<String>,
    pub stage: Stage,
    pub progress: Progress,
    pub nodes: Rows<Node>,
    pub links: Rows<Link>,
    /// By core, the last second.
    pub speeds: BTreeMap<usize, SpeedInterval>,
    /// The newest last, and how many there were.
    pub events: VecDeque<String>,
    pub events_seen: u64,
    pub result: Option<RunResult>,
    /// Evidence for checks, as far as files hold it while the run goes on.
    so_far: SoFar,
    /// How far nodes get more time for a slower core.
    gain: Option<f64>,
    /// Lines of its files that were not what they had to be.
    pub bad_lines: u64,
    /// Why it could not be read further.
    pub trouble: Option<String>,
    /// Whether it has been suspended, or is just being.
    pub is_suspended: bool,
    is_planned: bool,
    /// The newest virtual second that anything tells of.
    newest_s: f64,
}

/// Whether the run goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It does.
    #[default]
    Live,
    /// Who looks may not know.
    Unknown,
    /// It has been suspended.
    Suspended,
    /// It has ended.
    Over,
}

/// A node.
#[derive(Debug, Default, PartialEq)]
pub struct Node {
    pub state: &'static str,
    pub cpus: Option<f64>,
    pub of_cpus: Option<u32>,
    pub memory: Option<u64>,
    pub of_memory: Option<u64>,
    /// Bytes a virtual second.
    pub disk: Option<[f64; 2]>,
    pub disk_use: Option<f64>,
    pub traffic: Option<[f64; 2]>,
}

/// One direction of a link.
#[derive(Debug, Default, PartialEq)]
pub struct Link {
    /// From where to where it leads, if its plan says so.
    pub ends: Option<[String; 2]>,
    pub bits_per_s: Option<f64>,
    pub last: Option<LinkSecond>,
}

/// A link's last second in which anything happened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkSecond {
    pub to_s: f64,
    pub utilisation: Option<f64>,
    pub queue_mean: f64,
    pub queue_max: u64,
    pub bits_per_s: f64,
    /// Frames that were lost, whyever.
    pub lost: u64,
}

/// Rows by name, in the order in which they came.
#[derive(Debug, Default)]
pub struct Rows<T> {
    pub all: Vec<(String, T)>,
    places: HashMap<String, usize>,
}

impl<T: Default> Rows<T> {
    /// The row of a name; none if it is new and there may be no more.
    fn of(&mut self, name: &str, is_full: bool) -> Option<&mut T> {
        let is_full = is_full || self.all.len() >= MOST_WITHOUT_PLAN;
        (!is_full || self.places.contains_key(name)).then(|| self.or_new(name))
    }

    /// The row of a name, which is added if it is new.
    fn or_new(&mut self, name: &str) -> &mut T {
        let place = self.places.get(name).copied().unwrap_or_else(|| {
            self.all.push((shown(name), T::default()));
            self.places.insert(name.to_string(), self.all.len() - 1);
            self.all.len() - 1
        });
        &mut self.all[place].1
    }
}

/// A text in one line in which a terminal obeys nothing.
pub fn shown(text: &str) -> String {
    engine::one_line(&engine::visible(text)).replace('\t', "\\t")
}

impl Picture {
    /// Takes in what the run was to be.
    pub fn plan(&mut self, plan: &Plan) {
        self.name = shown(&plan.experiment);
        self.variant = plan.variant.as_str().into();
        self.tdf = Some(plan.tdf.to_string());
        for (name, planned) in &plan.nodes {
            let node = self.nodes.or_new(name);
            (node.of_cpus, node.of_memory) = (Some(planned.cpus), Some(planned.memory_bytes));
        }
        for (name, planned) in &plan.pipes {
            let link = self.links.or_new(name);
            link.bits_per_s = planned.target.bits_per_s;
            link.ends = planned.ends.as_ref().map(|ends| ends.each_ref().map(|end| shown(end)));
        }
        self.gain = plan.cpu.and_then(|cpu| cpu.gain);
        self.is_planned = true;
    }

    /// Whether the plan has been taken in.
    pub fn is_planned(&self) -> bool {
        self.is_planned
    }

    /// Takes in what a node used.
    pub fn node(&mut self, row: &NodeInterval) {
        let lasted = row.to_s - row.from_s;
        if !(lasted > 0.0 && row.to_s.is_finite()) {
            return;
        }
        self.newest_s = self.newest_s.max(row.to_s);
        let a_second = |bytes: u64| bytes as f64 / lasted;
        if let Some(node) = self.nodes.of(row.node, self.is_planned) {
            node.cpus = row.cpus.filter(|cpus| cpus.is_finite());
            node.memory = row.memory_bytes;
            node.disk = row.read_bytes.zip(row.written_bytes).map(|(read, written)| [read, written].map(a_second));
            node.traffic = Some([row.bytes_in, row.bytes_out].map(a_second));
        }
    }

    /// Takes in what a node's disk did.
    pub fn disk(&mut self, row: &DiskInterval) {
        self.so_far.disk(row);
        if let Some(node) = self.nodes.of(&row.node, self.is_planned) {
            node.disk_use = Some(row.utilisation).filter(|part| part.is_finite());
        }
    }

    /// Takes in what one direction of a link did.
    pub fn pipe(&mut self, row: &PipeInterval) {
        let lasted = row.to_s - row.from_s;
        if !(lasted > 0.0 && row.to_s.is_finite()) {
            return;
        }
        self.newest_s = self.newest_s.max(row.to_s);
        let counted = |name| row.counters.get(name).unwrap_or(0);
        let lost = ["lost", "queue_drops", "down_drops", "too_long", "red_drops"].map(counted);
        let second = LinkSecond {
            to_s: row.to_s,
            utilisation: row.utilisation,
            queue_mean: row.queue_mean,
            queue_max: row.queue_max,
            bits_per_s: 8.0 * counted("bytes") as f64 / lasted,
            lost: lost.into_iter().fold(0, u64::saturating_add),
        };
        if let Some(link) = self.links.of(&row.pipe, self.is_planned) {
            link.last = Some(second);
        }
    }

    /// Takes in how fast a core was.
    pub fn speed(&mut self, row: SpeedInterval) {
        if self.speeds.len() < MOST_WITHOUT_PLAN || self.speeds.contains_key(&row.core) {
            self.so_far.speed(&row);
            self.speeds.insert(row.core, row);
        }
    }

    /// Takes in an event.
    pub fn event(&mut self, event: &Event) {
        if let Some(at) = event.virtual_s.filter(|at| at.is_finite()) {
            self.newest_s = self.newest_s.max(at);
        }
        let state = match event.event.as_str() {
            "start" => "runs",
            "ready" => "ready",
            "exit" => "exited",
            "stop" => "stopped",
            "kill" => "killed",
            "pause" => "paused",
            "resume" => "runs",
            "power-off" => "no power",
            "power-on" => "boots",
            _ => "",
        };
        if let (false, Some(target)) = (state.is_empty(), &event.target)
            && let Some(place) = self.nodes.places.get(target)
        {
            self.nodes.all[*place].1.state = state;
        }
        self.is_suspended |= event.event == "aside";
        let told: String = shown(&events::told(event)).chars().take(LONGEST_EVENT).collect();
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(told);
        self.events_seen += 1;
    }

    /// Checks as they stand, of a run that has no result yet.
    pub fn standing(&self) -> Vec<Standing> {
        if self.result.is_some() { Vec::new() } else { self.so_far.standing(self.gain) }
    }

    /// The virtual second of the picture.
    pub fn now_s(&self) -> f64 {
        let ended = self.result.as_ref().map(|result| result.virtual_seconds);
        ended.or(self.progress.virtual_s).filter(|at| at.is_finite()).unwrap_or(self.newest_s)
    }

    /// The work of a direction of a link now: nothing, if it has had no row for long; not known, if it never had one.
    pub fn now_of(&self, link: &Link) -> Option<LinkSecond> {
        let last = link.last?;
        let idle = LinkSecond { to_s: last.to_s, utilisation: last.utilisation.map(|_| 0.0), ..LinkSecond::default() };
        Some(if last.to_s < self.now_s() - IDLE { idle } else { last })
    }
}

#[cfg(test)]
pub mod tests {
    use record::plan::{Congestion, Cores, PipeValues, PlannedNode, PlannedPipe};
    use record::{Counters, Variant};

    use super::*;

    /// A plan of so many nodes in a row.
    pub fn plan(nodes: usize) -> Plan {
        let node = PlannedNode {
            core: 0,
            whole_cores: Vec::new(),
            cpus: 2,
            share: 0.05,
            memory_bytes: 128 << 20,
            addresses: Vec::new(),
            cpu_clock_divisor: 1.0,
            congestion: Congestion::Cubic,
            disk: None,
        };
        let values = PipeValues { bits_per_s: Some(100e6), ..PipeValues::default() };
        let pipe = PlannedPipe { ends: None, target: values.clone(), harness: values, mtu: 1500, tso: true };
        let directions = |n: usize| {
            let ends = [format!("n-{n}"), "core".to_string()];
            let back = [ends[1].clone(), ends[0].clone()];
            [("ab", ends), ("ba", back)]
                .map(|(way, ends)| (format!("n-{n}--core/{way}"), PlannedPipe { ends: Some(ends), ..pipe.clone() }))
        };
        Plan {
            processes: None,
            experiment: "web-\u{1b}[2Jhalf".into(),
            variant: Variant::Scaled,
            tdf: "10".parse().unwrap(),
            scaling_factor: nodes as f64,
            cores: Cores { nodes: vec![0], harness: vec![1] },
            sold: 0.5,
            timeslice: None,
            cpu: None,
            nodes: (1..=nodes).map(|n| (format!("n-{n}"), node.clone())).collect(),
            pipes: (1..=nodes).flat_map(directions).collect(),
            versions: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// A row of `metrics/pipes.csv` for the second before `to_s`.
    pub fn pipe(pipe: &str, to_s: f64, utilisation: f64) -> PipeInterval {
        PipeInterval {
            from_s: to_s - 1.0,
            to_s,
            pipe: pipe.into(),
            utilisation: Some(utilisation),
            queue_mean: 2.5,
            queue_max: 9,
            counters: Counters::new(&["packets", "bytes", "lost", "queue_drops"], [10, 1_250_000, 1, 2]),
        }
    }

    pub fn event(event: &str, target: Option<&str>, virtual_s: f64) -> Event {
        let (event, target) = (event.into(), target.map(str::to_string));
        Event { virtual_s: Some(virtual_s), real_s: 10.0 * virtual_s, event, target, detail: serde_json::Value::Null }
    }

    #[test]
    fn rows_of_nodes_and_links_are_the_last_ones() {
        let mut picture = Picture::default();
        picture.plan(&plan(2));
        for (from_s, cpus) in [(0.0, 0.5), (1.0, 1.5)] {
            let row =
                NodeInterval { from_s, to_s: from_s + 0.5, node: "n-2", cpus: Some(cpus), ..NodeInterval::default() };
            picture.node(&NodeInterval { read_bytes: Some(10), written_bytes: Some(20), bytes_in: 30, ..row });
        }
        picture.node(&NodeInterval { from_s: 1.0, to_s: 2.0, node: "stranger", ..NodeInterval::default() });
        picture.node(&NodeInterval { from_s: 1.0, to_s: f64::NAN, node: "n-1", ..NodeInterval::default() });
        let (name, node) = &picture.nodes.all[1];
        assert_eq!((name.as_str(), node.cpus, node.of_cpus), ("n-2", Some(1.5), Some(2)));
        assert_eq!((node.disk, node.traffic), (Some([20.0, 40.0]), Some([60.0, 0.0])));
        assert_eq!((picture.nodes.all.len(), picture.nodes.all[0].1.cpus), (2, None));

        picture.pipe(&pipe("n-1--core/ab", 2.0, 0.25));
        let link = &picture.links.all[0].1;
        let now = picture.now_of(link).unwrap();
        assert_eq!((now.utilisation, now.bits_per_s, now.lost), (Some(0.25), 1e7, 3));
        assert_eq!(picture.now_of(&picture.links.all[1].1), None);
        picture.progress.virtual_s = Some(4.0);
        let later = picture.now_of(&picture.links.all[0].1).unwrap();
        assert_eq!((later.utilisation, later.queue_max, later.lost), (Some(0.0), 0, 0));
    }

    #[test]
    fn events_tell_the_states_of_nodes_and_only_the_newest_are_kept() {
        let mut picture = Picture::default();
        picture.plan(&plan(1));
        picture.event(&event("ready", Some("n-1"), 1.0));
        assert_eq!(picture.nodes.all[0].1.state, "ready");
        for n in 0..2 * EVENTS {
            picture.event(&event("link\u{1b}[m\nx", Some("n-1--core"), n as f64));
        }
        assert_eq!((picture.events.len(), picture.events_seen), (EVENTS, 2 * EVENTS as u64 + 1));
        assert!(picture.events[0].contains("link\\x1b[m\\nx"), "{}", picture.events[0]);
        assert_eq!((picture.now_s(), picture.stage), (2.0 * EVENTS as f64 - 1.0, Stage::Live));
        picture.event(&event("aside", None, 5.0));
        assert!(picture.is_suspended);
    }

    #[test]
    fn a_run_without_a_plan_shows_what_its_files_name_but_not_without_end() {
        let mut picture = Picture::default();
        for n in 0..2 * MOST_WITHOUT_PLAN {
            let node = format!("n{n}\u{9b}");
            picture.node(&NodeInterval { to_s: 1.0, node: &node, ..NodeInterval::default() });
        }
        assert_eq!(picture.nodes.all.len(), MOST_WITHOUT_PLAN);
        assert_eq!(picture.nodes.all[0].0, "n0\\x9b");
    }
}
