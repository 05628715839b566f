//! The packets of nodes: noted by the emulator, and summed flow by flow by a thread beside it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use net::{Passage, Passages, Passed};
use observe::{Fate, Happened, Packets};
use scale::RealDuration;
use site::{CountedPackets, NodeIndex, Setup, Timeline};

use super::background::Background;
use super::network::Network;
use crate::error::Result;

/// How long the thread sleeps in between, for which the ring is long enough. A wake-up would cost the emulator's thread
/// a system call.
const PAUSE: Duration = Duration::from_millis(20);

/// The thread.
pub struct PacketCounts {
    thread: Background,
    counted: Arc<OnceLock<CountedPackets>>,
}

impl PacketCounts {
    /// Begins at virtual zero; `None` if nobody's packets are observed.
    pub fn begin(setup: &Setup, network: &Network, timeline: Timeline) -> Result<Option<PacketCounts>> {
        let wanted = setup.nodes.iter().enumerate().filter(|(_, node)| node.observes_packets);
        let (places, names): (Vec<NodeIndex>, Vec<String>) = wanted.map(|(place, n)| (place, n.name.clone())).unzip();
        if places.is_empty() {
            return Ok(None);
        }
        let owners = network.owners().iter().cloned().collect();
        let packets = Packets::of(names, owners, timeline.from);
        let passages = network.emulator().watch(&places)?;
        let counted = Arc::new(OnceLock::new());
        let (stop, stopped) = channel();
        let body = {
            let counted = counted.clone();
            move || {
                let packets = count(packets, passages, timeline, &stopped);
                drop(counted.set(CountedPackets { packets: Ok(packets), cpu: host::time::of_this_thread() }));
            }
        };
        Ok(Some(PacketCounts { thread: Background::start("packets", stop, body)?, counted }))
    }

    /// Ends counting, when all is counted that has been noted.
    pub fn finish(self, network: &Network) -> CountedPackets {
        let ended = network.emulator().end_watch();
        drop(self.thread);
        let counted = self.counted.get().cloned();
        let uncounted = |because: String| CountedPackets { packets: Err(because), cpu: RealDuration::ZERO };
        match ended {
            Err(e) => uncounted(e.to_string()),
            Ok(()) => counted.unwrap_or_else(|| uncounted("the thread that counts packets has died".into())),
        }
    }
}

fn count(
    mut packets: Packets,
    mut passages: Passages,
    timeline: Timeline,
    stopped: &Receiver<()>,
) -> counters::ObservedPackets {
    loop {
        // Asked before the ring is emptied: what was noted before the end must not be missed.
        let ended = passages.have_ended() || stopped.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout);
        while let Some(passage) = passages.take() {
            let happened = happened(&passage, timeline);
            packets.see(timeline.at(passage.at), &happened, passage.bytes(), passage.length.into());
        }
        if ended {
            return packets.finish(timeline.at(host::now()), passages.missed());
        }
    }
}

fn happened(passage: &Passage, timeline: Timeline) -> Happened {
    match passage.what {
        Passed::Entered => Happened::Entered,
        Passed::EnteredForSeveral => Happened::EnteredForSeveral,
        Passed::Left => Happened::Delivered {
            number: passage.number,
            entered: Some(timeline.at(passage.entered)),
            is_copy: passage.is_copy,
        },
        Passed::LeftForwarded => {
            Happened::Delivered { number: passage.number, entered: None, is_copy: passage.is_copy }
        }
        Passed::Fared => {
            let [lost, queue_drops, red_drops, down_drops, too_long, damaged, copies] = passage.fates;
            let fate = Fate { lost, queue_drops, red_drops, down_drops, too_long, damaged, copies };
            Happened::Fared { number: passage.number, fate }
        }
    }
}
