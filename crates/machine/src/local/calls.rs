//! The system calls of nodes: counted in the kernel, and read by a thread that ends an interval each virtual second.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};

use observe::{Calls, Scope};
use scale::VirtualDuration;
use site::{CountedCalls, NodeIndex, Setup, Timeline};

use super::background::Background;
use super::monitor::following;
use super::shares::Shares;
use crate::error::Result;

const INTERVAL: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);

/// Counters of those nodes of which calls are counted: loaded, and nothing that is to be counted has begun.
pub struct LoadedCalls {
    nodes: Vec<NodeIndex>,
    calls: std::result::Result<Calls, String>,
}

/// The counted calls, or why they are not known.
type Counted = std::result::Result<CountedCalls, String>;

/// The thread.
pub struct CallCounts {
    thread: Background,
    counted: Arc<OnceLock<Counted>>,
}

impl LoadedCalls {
    /// `None` if calls are counted of no node.
    pub fn load(setup: &Setup, shares: &Shares) -> Option<LoadedCalls> {
        let wanted = setup.nodes.iter().enumerate().filter(|(_, node)| node.observes_calls);
        let nodes: Vec<NodeIndex> = wanted.map(|(index, _)| index).collect();
        if nodes.is_empty() {
            return None;
        }
        let scope = || {
            let groups = nodes.iter().map(|node| shares.group_number(&setup.nodes[*node].name));
            let image = setup.dilated.then_some(clock::IMAGE_UPPER_HALF);
            Ok(Scope { groups: groups.collect::<Result<_>>()?, image })
        };
        let calls = scope().map_err(|e: crate::Error| e.to_string());
        let calls = calls.and_then(|scope| Calls::start(&scope).map_err(|e| e.to_string()));
        Some(LoadedCalls { nodes, calls })
    }

    /// Ends an interval again and again, from virtual zero on.
    pub fn begin(self, timeline: Timeline) -> Result<CallCounts> {
        let counted = Arc::new(OnceLock::new());
        let (stop, stopped) = channel();
        let body = {
            let counted = counted.clone();
            move || {
                let LoadedCalls { nodes, calls } = self;
                let read = calls.and_then(|calls| count(calls, timeline, &stopped).map_err(|e| e.to_string()));
                drop(counted.set(read.map(|(calls, taken)| CountedCalls {
                    nodes: nodes.into_iter().zip(calls).collect(),
                    for_each: taken.for_each,
                })));
            }
        };
        Ok(CallCounts { thread: Background::start("calls", stop, body)?, counted })
    }
}

impl CallCounts {
    /// Ends counting.
    pub fn finish(self) -> Option<Counted> {
        drop(self.thread);
        self.counted.get().cloned()
    }
}

fn count(
    mut calls: Calls,
    timeline: Timeline,
    stopped: &Receiver<()>,
) -> std::result::Result<(Vec<counters::NodeCalls>, observe::Taken), observe::Error> {
    loop {
        let now = host::now();
        let wait = timeline.until(following(timeline.at(now), INTERVAL), now);
        if stopped.recv_timeout(wait.into()) != Err(RecvTimeoutError::Timeout) {
            return calls.finish(timeline.at(host::now()), timeline.tdf);
        }
        calls.look(timeline.at(host::now()))?;
    }
}
