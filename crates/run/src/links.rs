//! How busy links were in the time that is measured, and whose traffic went through which.

use fidelity::links::{LinkUse, PipeUse};
use model::Experiment;
use net::{Network, PipeInterval};
use plan::network_spec;
use scale::{RealDuration, VirtualInstant};
use site::Timeline;

use crate::error::Result;

/// No more pipes than this are looked at, those that were busiest.
const MOST: usize = 16;

/// Sums over the intervals of each pipe.
#[derive(Clone, Debug)]
pub struct PipeSums {
    window: (VirtualInstant, Option<VirtualInstant>),
    pipes: Vec<Sum>,
}

#[derive(Clone, Debug, Default)]
struct Sum {
    /// In the whole run.
    bytes: u64,
    /// In those intervals that are measured from beginning to end.
    lasted: RealDuration,
    busy_s: f64,
    packets: u64,
    /// How long all that were there waited together.
    waited_s: f64,
}

impl PipeSums {
    /// Of a run that is measured from … to …; up to its end, if nothing else is said.
    pub fn begin(pipes: usize, window: Option<(VirtualInstant, Option<VirtualInstant>)>) -> PipeSums {
        let window = window.unwrap_or((VirtualInstant::ZERO, None));
        PipeSums { window, pipes: vec![Sum::default(); pipes] }
    }

    /// Adds an interval of one pipe.
    pub fn add(&mut self, interval: &PipeInterval, timeline: Timeline) {
        let PipeInterval { pipe, from, to, utilisation, queue_mean, grew, .. } = interval;
        let Some(sum) = self.pipes.get_mut(pipe.index()) else { return };
        sum.bytes += grew.bytes;
        let [from_virtual, to_virtual] = [*from, *to].map(|at| timeline.at(at));
        let (begins, ends) = self.window;
        let Some(busy) = utilisation.filter(|_| from_virtual >= begins && ends.is_none_or(|ends| to_virtual <= ends))
        else {
            return;
        };
        let lasted = to.since(*from);
        sum.lasted = sum.lasted + lasted;
        sum.busy_s += busy * lasted.as_secs_f64();
        sum.packets += grew.packets;
        sum.waited_s += queue_mean * lasted.as_secs_f64();
    }

    /// Which links may decide what nodes get done.
    ///
    /// # Errors
    ///
    /// If the experiment has no network, which a run of it had.
    pub fn finish(&self, experiment: &Experiment, timeline: Timeline) -> Result<LinkUse> {
        let waited =
            |sum: &Sum| timeline.tdf.to_virtual(RealDuration::from_secs_f64(sum.waited_s / sum.packets.max(1) as f64));
        let use_of = |sum: &Sum| PipeUse {
            busy: sum.busy_s / sum.lasted.as_secs_f64(),
            // Little's law.
            waited_s: waited(sum).as_secs_f64(),
            bytes: sum.bytes,
            ..PipeUse::default()
        };
        let uses = self.pipes.iter().map(use_of).enumerate();
        let mut busy: Vec<(usize, PipeUse)> = uses.filter(|(_, pipe)| pipe.may_decide()).collect();
        // Traffic on a link beside the nodes' own is not told apart from that.
        if busy.is_empty() || !experiment.background.is_empty() {
            return Ok(LinkUse::default());
        }
        busy.sort_by(|a, b| b.1.busy.total_cmp(&a.1.busy));
        busy.truncate(MOST);
        let network = Network::new(network_spec(experiment, timeline.tdf), 0)?;
        let nodes = 0..experiment.nodes.len();
        for (number, pipe) in &mut busy {
            for to in nodes.clone() {
                let through = network.route_sums(to, |pipe| u64::from(pipe.index() == *number));
                let from: Vec<usize> = (0..through.len()).filter(|from| through[*from].unwrap_or(0) > 0).collect();
                pipe.to.extend((!from.is_empty()).then_some(to));
                pipe.from.extend(from);
            }
            pipe.from.sort_unstable();
            pipe.from.dedup();
        }
        let bytes = |pipe: usize| self.pipes.get(pipe).map_or(0, |sum| sum.bytes);
        let of_node = |name: &str| {
            let mut both = [0, 0];
            for (link, joined) in experiment.links.iter().enumerate() {
                let [ab, ba] = [bytes(2 * link), bytes(2 * link + 1)];
                let [sent, heard] = match name {
                    name if name == joined.a => [ab, ba],
                    name if name == joined.b => [ba, ab],
                    _ => [0, 0],
                };
                both = [both[0] + sent, both[1] + heard];
            }
            both
        };
        let nodes = experiment.nodes.iter().map(|node| of_node(&node.name)).collect();
        Ok(LinkUse { pipes: busy.into_iter().map(|(_, pipe)| pipe).collect(), nodes })
    }
}

#[cfg(test)]
mod tests {
    use net::PipeCounters;
    use scale::{RealInstant, Tdf};

    use super::*;
    use site::Zero;

    const STAR: &str = r#"
name: star
tdf: 10
measure: 1s..3s
machines: { any: { speed: 0.1, memory: 64MiB } }
nodes:
  server: { machine: any, run: "true" }
  client: { count: 2, machine: any, run: "true" }
links:
  - { from: server, to: core, bandwidth: 8Mbit/s }
  - { from: "client-*", to: core }
switches: [core]
ends: { exited: ["client-*"], limit: 60s }
"#;

    fn at(virtual_s: u64) -> RealInstant {
        RealInstant::from_nanos(virtual_s * 10_000_000_000)
    }

    /// A server that sends to two clients through a link which is as busy as that in each of four virtual seconds.
    fn links(busy: [f64; 4], yaml: &str) -> LinkUse {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("experiment.yaml"), yaml).unwrap();
        let experiment = model::load(dir.path(), &[]).unwrap();
        let network = Network::new(network_spec(&experiment, Tdf::ONE), 0).unwrap();
        let timeline = Timeline::new(Zero { real: at(0), from: VirtualInstant::ZERO, unix_ns: 0 }, experiment.tdf);
        let mut sums = PipeSums::begin(network.pipe_names().len(), experiment.measure);
        for (second, busy) in (0..).zip(busy) {
            let carried = [("server--core/ab", 1000), ("client-1--core/ba", 400), ("client-2--core/ba", 600)];
            for (name, bytes) in carried {
                let utilisation = name.starts_with("server").then_some(busy);
                let grew = PipeCounters { packets: 10, bytes, ..PipeCounters::default() };
                let (from, to) = (at(second), at(second + 1));
                let pipe = network.pipe(name).unwrap();
                let interval = PipeInterval { pipe, from, to, utilisation, queue_mean: 5.0, queue_max: 9, grew };
                sums.add(&interval, timeline);
            }
        }
        sums.finish(&experiment, timeline).unwrap()
    }

    #[test]
    fn a_link_that_is_busy_while_it_is_measured_is_known_with_those_behind_it() {
        let used = links([0.2, 1.0, 0.98, 0.1], STAR);
        let [pipe] = &used.pipes[..] else { panic!("{used:?}") };
        assert!((pipe.busy - 0.99).abs() < 1e-9, "{pipe:?}");
        assert!((pipe.waited_s - 0.5).abs() < 1e-9, "five at a time, ten a virtual second: {pipe:?}");
        assert_eq!((pipe.bytes, &pipe.from[..], &pipe.to[..]), (4_000, &[0][..], &[1, 2][..]));
        assert_eq!(used.nodes, [[4_000, 0], [0, 1_600], [0, 2_400]]);
        assert!(used.deciding(&[1, 2]).is_some());
        assert_eq!(links([1.0, 0.8, 1.0, 1.0], STAR), LinkUse::default(), "it had time left");
    }
}
