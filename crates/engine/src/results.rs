//! What a run leaves: samples from what the nodes wrote, what became of each node, and `result.json`.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use fidelity::statistics::summary;
use indexmap::IndexMap;
use model::{Combine, Experiment, Metric, Ready, Source, Stream};
use net::Observation;
use record::{
    Counters, Ended as EndedRecord, Fidelity, LogStream, MetricRecord, NodeOutcome, PipeTotals, PortTotals, RunResult,
    Sample, Samples, Status,
};
use regex::bytes::Regex;
use scale::{RealDuration, RealInstant, VirtualInstant};

use crate::collect::{self, Columns, Window};
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::rundir::RunDir;
use crate::script::{Ended, Ending, Exit, Late, NodeIndex, Script};
use crate::series::{PIPE_COUNTERS, pipe_counters};
use crate::stage::Stage;
use crate::timeline::Timeline;

/// The most that is read of one node's file or log. More samples than fit into that tell no more.
const LONGEST_FILE: u64 = 1 << 30;

/// The end of a run.
pub struct Finale<'a> {
    /// Where virtual zero was.
    pub line: Timeline,
    /// When the run ended.
    pub end: RealInstant,
    /// What became of the nodes.
    pub script: &'a Script,
    /// Why the run is over.
    pub ending: &'a Ending,
    /// Whether to trust it.
    pub fidelity: Fidelity,
    /// CPU time that each node's programs used, in the order of the plan; empty if it is not known.
    pub used: Vec<RealDuration>,
}

/// The result of a run that came to its end before it began.
pub fn unmeasured(experiment: &Experiment, plan: &Plan) -> RunResult {
    RunResult {
        experiment: experiment.name.clone(),
        variant: plan.variant,
        tdf: plan.tdf,
        scaling_factor: plan.scaling_factor,
        status: Status::Failed,
        why: None,
        virtual_seconds: 0.0,
        real_seconds: 0.0,
        metrics: IndexMap::new(),
        nodes: experiment.nodes.iter().map(|n| (n.name.clone(), outcome(None, false, None))).collect(),
        fidelity: fidelity::conclude(Vec::new()),
    }
}

/// Reads what the nodes wrote, writes the samples into the run directory and says how the run went. A metric that
/// cannot be had fails the run, but loses nothing else.
pub fn gather(
    experiment: &Experiment,
    plan: &Plan,
    stage: &Stage,
    dir: &mut RunDir,
    finale: Finale,
) -> Result<RunResult> {
    let Finale { line, end, script, ending, fidelity, used } = finale;
    let end_virtual = line.at(end);
    let mut why = why(ending, experiment, script, stage, dir);
    let (from, to) = experiment.measure.unwrap_or((VirtualInstant::ZERO, end_virtual));
    let window = Window { from, to, zero_unix_s: line.zero_unix_s() };
    let mut metrics = IndexMap::new();
    for metric in &experiment.metrics {
        let mut fault = |what: String| add(&mut why, format!("metric {}: {what}", metric.name));
        match samples_of(metric, experiment, script, stage, dir, window) {
            Ok(Collected { rows, without }) => {
                for node in without {
                    let detail = serde_json::json!({ "metric": metric.name, "because": "an event ended the node" });
                    dir.record(line, end, "metric-without", Some(experiment.nodes[node].name.clone()), detail);
                }
                let file = dir.files().write_samples(&metric.name, &rows)?;
                let values = rows.iter().map(|r| r.value).collect();
                match Samples::new(values).map(|s| summary(&s)) {
                    Ok(Some(summary)) => {
                        let record = MetricRecord { unit: metric.unit.result.clone(), summary, file };
                        metrics.insert(metric.name.clone(), record);
                    }
                    Ok(None) => fault(nothing(metric, experiment)),
                    Err(what) => fault(what),
                }
            }
            Err(Error::Failed(what)) => fault(what),
            Err(other) => return Err(other),
        }
    }
    let nodes = experiment
        .nodes
        .iter()
        .enumerate()
        .map(|(index, n)| {
            let oom = stage.cast.with(index, node::Node::oom_killed);
            (n.name.clone(), outcome(script.outcome(index), oom, used.get(index).copied()))
        })
        .collect();
    Ok(RunResult {
        experiment: experiment.name.clone(),
        variant: plan.variant,
        tdf: plan.tdf,
        scaling_factor: plan.scaling_factor,
        status: if why.is_none() { Status::Ok } else { Status::Failed },
        why,
        virtual_seconds: end_virtual.as_secs_f64(),
        real_seconds: end.since(line.zero).as_secs_f64(),
        metrics,
        nodes,
        fidelity,
    })
}

/// The counters of an interface, as the files of a run name them.
const PORT_COUNTERS: [&str; 7] =
    ["unroutable", "malformed", "no_memory", "uncopied", "write_errors", "ring_drops", "receive_drops"];

/// What came to no pipe, or out of the last one to no node.
fn port_totals(port: &net::PortObservation) -> PortTotals {
    let net::PortCounters { unroutable, malformed, no_memory, uncopied } = port.refused;
    let refused = [unroutable, malformed, no_memory, uncopied, port.write_errors].map(Some);
    // An interface that the node has removed took the kernel's counters along.
    let of_kernel = [port.ring_drops, port.receive_drops];
    let counters = Counters::new(&PORT_COUNTERS, refused.into_iter().chain(of_kernel));
    PortTotals { node: port.node.clone(), interface: port.interface.clone(), counters }
}

/// Records what each direction of each link did in all, and what happened at their ends.
pub fn write_totals(dir: &RunDir, network: &Observation) -> Result<()> {
    let ports: Vec<_> = network.ports.iter().map(port_totals).collect();
    dir.files().write_port_totals(&PORT_COUNTERS, &ports)?;
    let pipe =
        |pipe: &net::PipeObservation| PipeTotals { pipe: pipe.name.clone(), counters: pipe_counters(&pipe.counters) };
    let pipes: Vec<_> = network.pipes.iter().map(pipe).collect();
    Ok(dir.files().write_pipe_totals(&PIPE_COUNTERS, &pipes)?)
}

/// The samples of a metric.
struct Collected {
    rows: Vec<Sample>,
    /// Nodes that have none because an event ended them.
    without: Vec<NodeIndex>,
}

/// A node that has nothing to read fails the metric (a sum over the others would look like a result), unless an event ended
/// it or kept it from starting.
fn samples_of(
    metric: &Metric,
    experiment: &Experiment,
    script: &Script,
    stage: &Stage,
    dir: &RunDir,
    window: Window,
) -> Result<Collected> {
    let mut rows = Vec::new();
    let mut silent = Vec::new();
    match &metric.source {
        Source::Rows { path, start, value } => {
            let columns = Columns { start: *start, value: *value, per_second: 1.0 / metric.unit.start_seconds };
            for node in &metric.nodes {
                let name = &experiment.nodes[*node].name;
                let place = format!("node {name}: {path}");
                let file = stage.cast.with(*node, |n| n.read_file(Path::new(path)));
                let text = match file.and_then(read) {
                    Ok(text) => text,
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {
                        silent.push(*node);
                        continue;
                    }
                    Err(e) => return Err(Error::failed(place, e)),
                };
                let read = collect::rows(&text, name, columns, window)
                    .map_err(|bad| Error::Failed(format!("{place}:{}: {}", bad.line, bad.what)))?;
                rows.extend(read);
            }
        }
        Source::Line { regex, from, combine } => {
            let pattern = Regex::new(regex.as_str()).map_err(|e| Error::failed("its pattern", e))?;
            let stream = match from {
                Stream::Stdout => LogStream::Stdout,
                Stream::Stderr => LogStream::Stderr,
            };
            let mut values = Vec::new();
            for node in &metric.nodes {
                let path = dir.files().log(&experiment.nodes[*node].name, stream);
                let text = fs::File::open(&path).and_then(read).map_err(|e| Error::failed(path.display(), e))?;
                match collect::line(&text, &pattern) {
                    Some(value) => values.push(value),
                    None => silent.push(*node),
                }
            }
            if !values.is_empty() {
                let value = combined(&values, *combine);
                rows.push(Sample { virtual_s: None, value, node: String::new() });
            }
        }
    }
    let (without, missing): (Vec<_>, Vec<_>) = silent.into_iter().partition(|n| script.was_cut_short(*n));
    if !missing.is_empty() {
        let looked = match &metric.source {
            Source::Rows { path, .. } => format!("there is no {path}"),
            Source::Line { regex, .. } => format!("no line matches `{regex}`"),
        };
        return Err(Error::Failed(format!("{looked} on {}", names(experiment, &missing))));
    }
    for row in &mut rows {
        row.value *= metric.unit.factor;
    }
    Ok(Collected { rows, without })
}

fn read(file: fs::File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(LONGEST_FILE).read_to_end(&mut text)?;
    Ok(text)
}

fn combined(values: &[f64], how: Combine) -> f64 {
    match how {
        Combine::Sum => values.iter().sum(),
        Combine::Mean => values.iter().sum::<f64>() / values.len() as f64,
        Combine::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        Combine::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

fn nothing(metric: &Metric, experiment: &Experiment) -> String {
    let looked = match &metric.source {
        Source::Rows { path, .. } => format!("no row of {path} starts inside `measure`"),
        Source::Line { regex, .. } => format!("no line matches `{regex}`"),
    };
    format!("{looked} on {}", names(experiment, &metric.nodes))
}

fn names(experiment: &Experiment, nodes: &[NodeIndex]) -> String {
    nodes.iter().map(|n| experiment.nodes[*n].name.as_str()).collect::<Vec<_>>().join(", ")
}

fn add(why: &mut Option<String>, what: String) {
    match why {
        Some(why) => {
            why.push_str("; ");
            why.push_str(&what);
        }
        None => *why = Some(what),
    }
}

/// Why the run failed, if it did, with the last words of the node concerned.
fn why(ending: &Ending, experiment: &Experiment, script: &Script, stage: &Stage, dir: &RunDir) -> Option<String> {
    let name = |n: &usize| experiment.nodes[*n].name.as_str();
    let last_words = |n: &usize| {
        let mut words = [LogStream::Stderr, LogStream::Stdout].into_iter();
        let words = words.find_map(|stream| last_line(&dir.files().log(name(n), stream)));
        words.map(|w| format!("; its last words: {w}")).unwrap_or_default()
    };
    match ending {
        Ending::Exited | Ending::Limit => None,
        Ending::Interrupted => Some("the run was interrupted".into()),
        Ending::Broken(why) => Some(why.clone()),
        Ending::Late(Late { running, unready, unstarted }) => {
            let mut text = format!("the limit of {} s was reached", experiment.ends.limit.as_secs_f64());
            if !running.is_empty() {
                text += &format!(" before {} had exited", names(experiment, running));
            }
            for node in unready {
                let Some(Ready::Tcp(port)) = experiment.nodes[*node].ready else { continue };
                let words = last_words(node);
                text += &format!("; node {} never listened on TCP port {port} (`ready`){words}", name(node));
            }
            if !unstarted.is_empty() {
                text +=
                    &format!("; never started, for they wait for others (`after`): {}", names(experiment, unstarted));
            }
            Some(text)
        }
        Ending::Failed(node) => {
            let how = match script.outcome(*node).map(|(_, exit)| exit) {
                Some(Exit::Code(code)) => format!("exited with code {code}"),
                Some(Exit::Signal(_)) if stage.cast.with(*node, node::Node::oom_killed) => {
                    "ran out of its machine's memory".to_string()
                }
                Some(Exit::Signal(signal)) => format!("was ended by signal {signal}"),
                None => "ended".into(),
            };
            Some(format!("node {} {how}{}", name(node), last_words(node)))
        }
    }
}

fn last_line(path: &Path) -> Option<String> {
    let text = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(4096)..]).into_owned();
    text.lines().rev().map(str::trim).find(|l| !l.is_empty()).map(|l| l.chars().take(300).collect())
}

fn outcome(outcome: Option<(Ended, Exit)>, oom: bool, used: Option<RealDuration>) -> NodeOutcome {
    let (ended, exit) = outcome.unwrap_or((Ended::Stopped, Exit::Signal(0)));
    let exit = match exit {
        Exit::Code(code) => Some(code),
        Exit::Signal(_) => None,
    };
    let ended = match ended {
        Ended::Exited => EndedRecord::Exited,
        Ended::Stopped => EndedRecord::Stopped,
        Ended::Killed if oom => EndedRecord::Oom,
        Ended::Killed => EndedRecord::Killed,
    };
    NodeOutcome { exit, ended, core_seconds: used.map(RealDuration::as_secs_f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interface_has_a_row_of_what_was_refused_and_missed() {
        let link = net::LinkSpec {
            name: "a--b".into(),
            a: "a".into(),
            b: "b".into(),
            ab: net::PipeConfig::default(),
            ba: net::PipeConfig::default(),
            mtu: net::DEFAULT_MTU,
            tso: true,
        };
        let nodes = vec!["a".into(), "b".into()];
        let spec = net::NetworkSpec { nodes, links: vec![link], ..Default::default() };
        let network = net::Network::new(spec, 0).expect("a link is a network");
        let of = |i: usize, drops: Option<u64>| net::PortObservation {
            port: network.ports()[i].id,
            node: network.ports()[i].node.clone(),
            interface: network.ports()[i].name.clone(),
            refused: net::PortCounters { unroutable: 1, malformed: 2, no_memory: 3, uncopied: 4 },
            write_errors: 5,
            ring_drops: drops,
            receive_drops: drops.map(|n| n + 1),
        };
        let row = |port: &net::PortObservation| {
            let PortTotals { node, interface, counters } = port_totals(port);
            (node, interface, counters.iter().map(|(_, value)| value).collect::<Vec<_>>())
        };
        let counted = [1, 2, 3, 4, 5, 6, 7].map(Some);
        assert_eq!(row(&of(0, Some(6))), ("a".into(), "eth0".into(), counted.to_vec()));
        let removed = [&counted[..5], &[None, None]].concat();
        assert_eq!(row(&of(1, None)), ("b".into(), "eth0".into(), removed));
    }

    #[test]
    fn numbers_of_several_nodes_become_one() {
        let values = [1.0, 2.0, 6.0];
        assert_eq!(combined(&values, Combine::Sum), 9.0);
        assert_eq!(combined(&values, Combine::Mean), 3.0);
        assert_eq!(combined(&values, Combine::Min), 1.0);
        assert_eq!(combined(&values, Combine::Max), 6.0);
    }

    #[test]
    fn what_became_of_a_node_is_told_in_the_words_of_the_contract() {
        let of = |ended, exit, oom| {
            let o = outcome(Some((ended, exit)), oom, None);
            (o.ended, o.exit)
        };
        assert_eq!(of(Ended::Exited, Exit::Code(3), false), (EndedRecord::Exited, Some(3)));
        assert_eq!(of(Ended::Stopped, Exit::Signal(9), false), (EndedRecord::Stopped, None));
        assert_eq!(of(Ended::Killed, Exit::Signal(9), true), (EndedRecord::Oom, None));
        assert_eq!(of(Ended::Killed, Exit::Signal(9), false), (EndedRecord::Killed, None));
        assert_eq!(outcome(None, false, None).ended, EndedRecord::Stopped);
        let used = RealDuration::from_nanos(2_500_000_000);
        assert_eq!(outcome(None, false, Some(used)).core_seconds, Some(2.5));
    }
}
