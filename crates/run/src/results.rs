//! Results of a run: samples from what the nodes wrote, the end of each node, and `result.json`.

use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use fidelity::findings::Measured;
use indexmap::IndexMap;
use model::{Combine, Experiment, Metric, Ready, Source, Stream};
use net::{Observation, PipeCounters, PortObservation};
use plan::Plan;
use record::{
    Counters, Ended as EndedRecord, LogStream, MetricRecord, NodeOutcome, PipeTotals, PortTotals, RunDir, RunResult,
    Sample, Samples, Status,
};
use scale::{RealDuration, RealInstant, VirtualInstant};
use site::{Collected, CutLog, Ended, Exit, Kind, NodeIndex, Site, Written};

use crate::Run;
use crate::close::Judged;
use crate::end::End;
use crate::error::{Error, Result};
use crate::samples::{self, Columns, MetricError, Rows, Search, Thinned, Unfinished, Window};
use crate::schedule::{Ending, Late};

/// The most that is read of one node's file or log. More samples than fit into that tell no more.
const LONGEST_FILE: u64 = 1 << 30;
/// How much of it is read at once.
const PIECE: u64 = 1 << 20;
/// The most samples that are kept of all metrics of the experiment, of as many again that belong to its flows, and of
/// one metric. One takes 40 bytes, and some 200 while its interval is looked for.
const MOST_SAMPLES: usize = 1 << 18;
const OF_A_METRIC: usize = 1 << 17;
/// How long results are read that belong to a run which somebody wants to end.
const HASTE: Duration = Duration::from_millis(500);
/// Where a node's last words are looked for: this many bytes at the end of its logs.
const LAST_WORDS: u64 = 4096;

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

/// Writes what each direction of each link did as `pipes.csv`, and what happened at their ends as `ports.csv`.
pub fn write_pipes(dir: &RunDir, network: &Observation) -> Result<()> {
    let ports = network.ports.iter().map(|port| PortTotals {
        node: port.node.clone(),
        interface: port.interface.clone(),
        counters: Counters::new(PortObservation::COLUMNS, port.values()),
    });
    dir.write_port_totals(PortObservation::COLUMNS, &ports.collect::<Vec<_>>())?;
    let pipes = network.pipes.iter().map(|pipe| PipeTotals {
        pipe: pipe.name.clone(),
        counters: Counters::new(PipeCounters::COLUMNS, pipe.counters.values()),
    });
    Ok(dir.write_pipe_totals(PipeCounters::COLUMNS, &pipes.collect::<Vec<_>>())?)
}

impl Run<'_> {
    /// Reads what the nodes wrote, writes the samples into the run directory and says how the run went. A metric that
    /// cannot be had fails the run, but loses nothing else. Also gives whether one was not read because of an
    /// interrupt.
    pub(super) fn write_results(
        &mut self,
        over: &End,
        judged: Judged,
        interrupts: &Receiver<i32>,
    ) -> Result<(RunResult, bool)> {
        let End { ending, at: end, .. } = over;
        let end = *end;
        let collected = self.site.collect()?;
        for CutLog { node, log, bytes } in &collected.cut_logs {
            let detail = serde_json::json!({ "log": log, "bytes": bytes });
            self.record(end, "log-cut", Some(self.experiment.nodes[*node].name.clone()), detail);
        }
        let hasty = over.is_hasty();
        let patience = Patience { interrupts, until: hasty.then(|| Instant::now() + HASTE) };
        let end_virtual = self.timeline.at(end);
        let mut why = self.why(ending, &collected);
        let (from, to) = self.experiment.measure.unwrap_or((VirtualInstant::ZERO, None));
        let to = to.unwrap_or(end_virtual);
        let window = Window { from, to, zero_unix_s: self.timeline.zero_unix_s() };
        let mut metrics = IndexMap::new();
        let mut samples = Vec::new();
        let mut unread = false;
        // Those of the experiment share what may be kept, and so do those that belong to its flows.
        let most = [false, true].map(|of_flow| {
            let all = self.experiment.metrics.iter().filter(|m| !matches!(m.source, Source::Line { .. }));
            MOST_SAMPLES / all.filter(|m| m.of_flow == of_flow).count().max(1)
        });
        for metric in &self.experiment.metrics {
            let thinned = Thinned::new(most[usize::from(metric.of_flow)].min(OF_A_METRIC));
            match self.measure(metric, thinned, end, window, &patience) {
                Ok((record, of_metric)) => {
                    metrics.insert(metric.name.clone(), record);
                    samples.push((metric, of_metric));
                }
                // A flow need not have sent anything.
                Err(Error::Metric(MetricError::Missing { .. })) if metric.of_flow => {}
                // A sample that is not there yet may come when the run goes on.
                Err(Error::Metric(_)) if *ending == Ending::Suspended => {}
                Err(Error::Metric(fault)) => add(&mut why, format!("metric {}: {fault}", metric.name)),
                // It has an end all the same, and what is known until then is told.
                Err(Error::Interrupted) => {
                    unread = true;
                    add(&mut why, format!("metric {}: not read, for the run was interrupted", metric.name));
                }
                Err(other) => return Err(other),
            }
        }
        let links = judged.links.finish(self.experiment, self.timeline)?;
        let measured = metrics.values_mut().zip(&samples).map(|(record, (metric, samples))| {
            let Metric { name, nodes, of_flow, clocked, .. } = metric;
            let link = links.deciding(nodes);
            Measured { name, record, samples, judged: !of_flow, clocked: *clocked, link }
        });
        let mut measured: Vec<_> = measured.collect();
        // Samples of cool-down are not there to be taken.
        let window = [from, to.min(end_virtual)].map(VirtualInstant::as_secs_f64);
        let fidelity = judged.findings.conclude(self.accuracy, window, &mut measured);
        let nodes = self.experiment.nodes.iter().enumerate().map(|(index, n)| {
            let oom = collected.out_of_memory[index];
            let used = judged.used.get(index).copied();
            (n.name.clone(), outcome(self.schedule.outcome(index), oom, used))
        });
        let result = RunResult {
            experiment: self.experiment.name.clone(),
            variant: self.plan.variant,
            tdf: self.plan.tdf,
            scaling_factor: self.plan.scaling_factor,
            status: if why.is_none() { Status::Ok } else { Status::Failed },
            why,
            virtual_seconds: end_virtual.as_secs_f64(),
            real_seconds: end.since(self.timeline.zero).as_secs_f64(),
            metrics,
            nodes: nodes.collect(),
            fidelity,
        };
        self.dir.write_result(&result)?;
        self.plan.versions.extend(collected.programs);
        self.dir.write_plan(self.plan.recorded())?;
        report::write_report(self.dir)?;
        Ok((result, unread))
    }

    /// Writes the samples of a metric, and summarises them.
    fn measure(
        &mut self,
        metric: &Metric,
        thinned: Thinned,
        end: RealInstant,
        window: Window,
        patience: &Patience<'_>,
    ) -> Result<(MetricRecord, Vec<Sample>)> {
        let Found { samples, without, every } = self.samples_of(metric, thinned, window, patience)?;
        if every > 1 {
            self.record(end, "metric-thinned", None, serde_json::json!({ "metric": metric.name, "every": every }));
        }
        for node in without {
            let detail = serde_json::json!({ "metric": metric.name, "because": "an event ended the node" });
            self.record(end, "metric-without", Some(self.experiment.nodes[node].name.clone()), detail);
        }
        let file = self.dir.write_samples(&metric.name, &samples)?;
        let values = Samples::new(samples.iter().map(|s| s.value).collect()).map_err(MetricError::NoMeasurement)?;
        let missing = || {
            let looked_for = match &metric.source {
                Source::Rows { path, .. } => format!("no row of {path} starts inside `measure`"),
                Source::Background { .. } => "nothing was sent inside `measure`".into(),
                Source::Line { regex, .. } => format!("no line matches `{regex}`"),
            };
            MetricError::Missing { looked_for, nodes: self.names(&metric.nodes) }
        };
        let summary = fidelity::statistics::summary(&values).ok_or_else(missing)?;
        Ok((MetricRecord::new(metric.unit.result.clone(), summary, file), samples))
    }

    /// A node that has nothing to read fails the metric (a sum over the others would look like a result), unless an
    /// event ended it or kept it from starting.
    fn samples_of(
        &mut self,
        metric: &Metric,
        mut thinned: Thinned,
        window: Window,
        patience: &Patience<'_>,
    ) -> Result<Found> {
        let mut silent = Vec::new();
        match &metric.source {
            Source::Background { flow, what } => {
                let name = &self.experiment.background[*flow].name;
                let of_flow = self.observer.flows().iter().filter(|i| i.flow == *flow);
                let told = of_flow.filter_map(|i| samples::flow_sample(i, *what, name, &self.timeline));
                for sample in told.filter(|s| s.virtual_s.is_some_and(|at| window.holds(at))) {
                    thinned.add(|| sample);
                }
            }
            Source::Rows { path, start, value } => {
                let columns = Columns { start: *start, value: *value, per_second: 1.0 / metric.unit.start_seconds };
                for node in &metric.nodes {
                    let name = &self.experiment.nodes[*node].name;
                    let bad = |bad: samples::BadRow| MetricError::Row {
                        node: name.clone(),
                        path: path.clone(),
                        line: bad.line,
                        what: bad.what,
                    };
                    let mut rows = Rows::new(name, columns, window, &mut thinned);
                    let file = Written::File(path.clone());
                    if !read(self.site, *node, &file, patience, |piece| Ok(rows.read(&piece).map_err(bad)?))? {
                        silent.push(*node);
                    }
                }
            }
            Source::Line { regex, from, combine } => {
                let pattern = samples::pattern(regex).map_err(MetricError::from)?;
                let mut values = Vec::new();
                for node in &metric.nodes {
                    let name = &self.experiment.nodes[*node].name;
                    let unfinished = |why| match why {
                        Unfinished::Slow => Error::from(MetricError::Slow { node: name.clone() }),
                        Unfinished::Unwanted => Error::Interrupted,
                    };
                    let wanted = || !patience.is_over();
                    let search = Search::begin(pattern.clone()).map_err(Error::io("a search for a pattern"))?;
                    let log = Written::Log(log_of(*from));
                    let on = |piece| search.read(piece, &wanted).map_err(unfinished);
                    read(self.site, *node, &log, patience, on)?;
                    match search.finish(&wanted).map_err(unfinished)? {
                        Some(value) => values.push(value),
                        None => silent.push(*node),
                    }
                }
                if !values.is_empty() {
                    let value = combined(&values, *combine);
                    thinned.add(|| Sample { virtual_s: None, value, node: "".into() });
                }
            }
        }
        let (without, missing): (Vec<_>, Vec<_>) = silent.into_iter().partition(|n| self.schedule.was_cut_short(*n));
        if !missing.is_empty() {
            let looked_for = match &metric.source {
                Source::Background { .. } => "nothing was sent".into(),
                Source::Rows { path, .. } => format!("there is no {path}"),
                Source::Line { regex, .. } => format!("no line matches `{regex}`"),
            };
            return Err(MetricError::Missing { looked_for, nodes: self.names(&missing) }.into());
        }
        let every = thinned.every();
        let mut samples = thinned.kept();
        for sample in &mut samples {
            sample.value *= metric.unit.factor;
        }
        Ok(Found { samples, without, every })
    }

    /// Why the run failed, if it did, with the last words of the node concerned.
    fn why(&mut self, ending: &Ending, collected: &Collected) -> Option<String> {
        let experiment = self.experiment;
        let name = |n: &usize| experiment.nodes[*n].name.as_str();
        match ending {
            Ending::Exited | Ending::Limit | Ending::Suspended => None,
            Ending::Interrupted => Some("the run was interrupted".into()),
            Ending::Broken(why) => Some(why.clone()),
            Ending::Late(Late { running, unready, unstarted }) => {
                let mut text = format!("the limit of {} s was reached", experiment.ends.limit.as_secs_f64());
                if !running.is_empty() {
                    text += &format!(" before {} had exited", self.names(running).join(", "));
                }
                for node in running {
                    if let Some(last) = self.last_of_console(*node) {
                        text += &format!("; the last lines of {}'s console: {last}", name(node));
                    }
                }
                for node in unready {
                    let never = match &experiment.nodes[*node].ready {
                        None => continue,
                        Some(Ready::Tcp(port)) => format!("listened on TCP port {port} (`ready`)"),
                        Some(Ready::Run { argv, .. }) => format!("was ready: `{}` did not end with 0", argv.join(" ")),
                    };
                    text += &format!("; node {} never {never}{}", name(node), self.last_words(*node));
                }
                if !unstarted.is_empty() {
                    let waiting = self.names(unstarted).join(", ");
                    text += &format!("; never started, for they wait for others (`after`): {waiting}");
                }
                Some(text)
            }
            Ending::Failed(node) => {
                if let Some(why) = self.gave_up(*node) {
                    return Some(format!("the guest {} gave up: {why}", name(node)));
                }
                let how = match self.schedule.outcome(*node).map(|(_, exit)| exit) {
                    Some(Exit::Code(code)) => format!("exited with code {code}"),
                    Some(Exit::Signal(_)) if collected.out_of_memory[*node] => "ran out of its machine's memory".into(),
                    Some(Exit::Signal(signal)) => format!("was ended by signal {signal}"),
                    None => "ended".into(),
                };
                Some(format!("node {} {how}{}", name(node), self.last_words(*node)))
            }
        }
    }

    /// The last line that a node printed, to be put at the end of a sentence; empty if there is none.
    fn last_words(&mut self, node: NodeIndex) -> String {
        let console = self.last_of_console(node).map(|last| format!("; the last lines of its console: {last}"));
        if let Some(last) = console {
            return last;
        }
        let line = [LogStream::Stderr, LogStream::Stdout]
            .into_iter()
            .find_map(|stream| last_line(&self.site.read(node, &Written::LogEnd(stream), 0, LAST_WORDS).ok()??));
        line.map(|words| format!("; its last words: {words}")).unwrap_or_default()
    }

    fn names(&self, nodes: &[NodeIndex]) -> Vec<String> {
        nodes.iter().map(|n| self.experiment.nodes[*n].name.clone()).collect()
    }
}

/// The samples of a metric.
struct Found {
    samples: Vec<Sample>,
    /// Nodes that have none because an event ended them.
    without: Vec<NodeIndex>,
    /// How many rows there were for each.
    every: u64,
}

/// How long somebody waits for results.
struct Patience<'a> {
    interrupts: &'a Receiver<i32>,
    /// Of a run that is to end soon.
    until: Option<Instant>,
}

impl Patience<'_> {
    fn is_over(&self) -> bool {
        !self.interrupts.is_empty() || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Reads what a node wrote, piece by piece; whether there is anything. That it cannot be read, such as a folder, is the
/// metric's failure.
fn read(
    site: &mut dyn Site,
    node: NodeIndex,
    what: &Written,
    patience: &Patience<'_>,
    mut on: impl FnMut(Vec<u8>) -> Result<()>,
) -> Result<bool> {
    let mut offset = 0;
    while offset < LONGEST_FILE {
        if patience.is_over() {
            return Err(Error::Interrupted);
        }
        let piece = match site.read(node, what, offset, PIECE) {
            Err(e) if e.kind == Kind::Lost => return Err(e.into()),
            read => read.map_err(|e| MetricError::Unreadable(e.to_string()))?,
        };
        let Some(piece) = piece else { return Ok(false) };
        let length = piece.len() as u64;
        if length == 0 {
            break;
        }
        on(piece)?;
        offset += length;
    }
    Ok(true)
}

fn log_of(stream: Stream) -> LogStream {
    match stream {
        Stream::Stdout => LogStream::Stdout,
        Stream::Stderr => LogStream::Stderr,
    }
}

fn combined(values: &[f64], how: Combine) -> f64 {
    match how {
        Combine::Sum => values.iter().sum(),
        Combine::Mean => values.iter().sum::<f64>() / values.len() as f64,
        Combine::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        Combine::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
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

/// The last line that is not empty, or the first 300 characters of it.
fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
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
    fn numbers_of_several_nodes_become_one() {
        let values = [1.0, 2.0, 6.0];
        assert_eq!(combined(&values, Combine::Sum), 9.0);
        assert_eq!(combined(&values, Combine::Mean), 3.0);
        assert_eq!(combined(&values, Combine::Min), 1.0);
        assert_eq!(combined(&values, Combine::Max), 6.0);
    }

    #[test]
    fn what_became_of_a_node_is_told_in_the_words_of_result_json() {
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
