//! The end of counting: what was counted last, and the checks of all of it.

use fidelity::evidence::{Observation, ObservedNode};
use fidelity::findings::Findings;
use host::warn;
use scale::{RealDuration, RealInstant};
use serde_json::json;
use site::{Closing, CountedCalls, CountedPackets, Injections, Monitored, Recording, Sample};

use crate::error::Error;
use crate::links::PipeSums;
use crate::observer::Told;
use crate::{End, Run, results};

/// The result of the end of counting.
pub(crate) struct Closed {
    pub judged: Judged,
    pub recordings: Vec<Recording>,
}

/// The counters of a run, judged.
pub(crate) struct Judged {
    /// Findings of the checks; none, if they were not made.
    pub findings: Findings,
    /// CPU time that each node's programs used, in the order of the plan; empty if it is not known.
    pub used: Vec<RealDuration>,
    /// How busy links were.
    pub links: PipeSums,
}

impl Run<'_> {
    /// Notes, once, that the nodes' cores are no longer theirs alone. The run goes on: what others do on them is
    /// counted.
    pub(crate) fn note_lost_cores(&mut self, sample: &Sample) {
        if let Some(why) = sample.cores_lost.as_ref().filter(|_| !self.cores_lost) {
            self.cores_lost = true;
            warn(format_args!("the nodes' cores are open to other programs from now on: the kernel says `{why}`"));
            self.event("cores-lost", None, json!({ "kernel": why }));
        }
    }

    /// Ends counting, and makes the checks of what was counted. What fails is noted, and leaves the rest as it is.
    pub(crate) fn close(&mut self, end: &mut End) -> Closed {
        let mut closed = Closed {
            judged: Judged { findings: Findings::default(), used: Vec::new(), links: PipeSums::begin(0, None) },
            recordings: Vec::new(),
        };
        let closing = match self.site.finish() {
            Ok(closing) => closing,
            Err(e) => {
                end.breaks(e);
                return closed;
            }
        };
        let Closing { sample, clock_error_ppm, caches, injections, recordings, monitored, calls, packets } = closing;
        if let Some(Injections { dilated, refused, .. }) = &injections {
            let detail = json!({ "programs_dilated": dilated, "programs_refused": refused });
            self.record(end.at, "end", None, detail);
        }
        self.note_monitored(end.at, &monitored);
        let observation = calls.map(|calls| self.keep_calls(end, calls));
        if let Some(packets) = packets {
            self.keep_packets(end, packets);
        }
        let judged = sample.map_err(Error::from).and_then(|sample| {
            self.note_lost_cores(&sample);
            results::write_pipes(self.dir, &sample.network)?;
            let told = Told {
                clock_error_ppm,
                caches: &caches,
                injections: injections.as_ref(),
                monitored: &monitored,
                observation: observation.as_ref(),
            };
            self.observer.finish(&self.plan, sample, told)
        });
        self.keep_speed(end.at);
        match judged {
            Ok(judged) => closed.judged = judged,
            Err(e) => end.breaks(e),
        }
        match recordings {
            Ok(recordings) => closed.recordings = recordings,
            Err(told) => end.breaks(told),
        }
        for Recording { link, file, frames, missed } in &closed.recordings {
            let detail = json!({ "file": file, "frames": frames, "missed": missed });
            self.record(end.at, "capture", Some(link.clone()), detail);
        }
        closed
    }

    /// Notes where the series of what nodes used is not as it was to be. A run does not fail for that.
    fn note_monitored(&mut self, end: RealInstant, monitored: &Monitored) {
        for (at, every) in &monitored.coarser {
            let detail = json!({ "from_s": at.as_secs_f64(), "every_s": every.as_secs_f64() });
            self.record(end, "monitor-coarser", None, detail);
        }
        if let Some((at, why)) = &monitored.ended {
            warn(format_args!("nodes.csv ends at {:.3} virtual s: {why}", at.as_secs_f64()));
            self.record(end, "monitor-ended", None, json!({ "at_s": at.as_secs_f64(), "because": why }));
        }
    }

    /// Writes the system calls of nodes to the run directory, and says what it took to count them. A run does not fail
    /// where they cannot be counted; that they cannot be written breaks it, as with all results.
    fn keep_calls(
        &mut self,
        end: &mut End,
        counted: std::result::Result<CountedCalls, String>,
    ) -> std::result::Result<Observation, String> {
        let CountedCalls { nodes, for_each } = counted.inspect_err(|because| {
            warn(format_args!("{because}; so the run has no `calls.json`"));
            self.record(end.at, "calls-uncounted", None, json!({ "because": because }));
        })?;
        let uncounted = nodes.first().map_or(0, |(_, calls)| calls.uncounted);
        let mut seen = Vec::with_capacity(nodes.len());
        for (node, calls) in nodes {
            let name = self.experiment.nodes[node].name.clone();
            seen.push(ObservedNode { node: name.clone(), calls: calls.made(), cpu_s: calls.core_seconds() });
            if let Err(e) = self.dir.write_calls(&name, calls) {
                end.breaks(Error::from(e));
            }
        }
        Ok(Observation { nodes: seen, for_each_s: for_each.as_secs_f64(), uncounted })
    }

    /// Writes the packets of nodes to the run directory. A run does not fail where they cannot be counted.
    fn keep_packets(&mut self, end: &mut End, counted: CountedPackets) {
        let CountedPackets { packets, cpu } = counted;
        let packets = match packets {
            Ok(packets) => packets,
            Err(because) => {
                warn(format_args!("{because}; so the packets of the run are not in it"));
                return self.record(end.at, "packets-uncounted", None, json!({ "because": because }));
            }
        };
        let sum = packets.ways.iter().map(|way| way.carried.counters.packets).sum::<u64>() + packets.others.packets;
        let detail = json!({ "packets": sum, "missed": packets.missed, "core_s": cpu.as_secs_f64() });
        self.record(end.at, "packets", None, detail);
        if packets.missed > 0 {
            let missed = packets.missed;
            warn(format_args!(
                "{missed} entries, arrivals or losses of packets passed uncounted: the harness was too busy"
            ));
        }
        if let Err(e) = self.dir.write_packets(packets) {
            end.breaks(Error::from(e));
        }
    }

    /// Keeps what the core did, for the runs after this one. A run does not fail for that.
    fn keep_speed(&mut self, end: RealInstant) {
        match self.site.keep_speed(&self.observer.speeds_seen()) {
            Ok(Some(reference)) => {
                self.record(end, "host-usual", None, json!({ "reference_units_per_us": reference }));
            }
            Ok(None) => {}
            Err(e) => warn(format_args!("the host's usual speed is not kept: {e}")),
        }
    }
}
