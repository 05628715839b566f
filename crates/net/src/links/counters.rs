//! What is counted on pipes and at ports.

/// What has happened on one pipe since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipeCounters {
    /// Frames that left at the far end.
    pub packets: u64,
    /// Their bytes, as charged.
    pub bytes: u64,
    /// Frames lost on entering, as the pipe's loss says.
    pub lost: u64,
    /// Frames that found the queue full.
    pub queue_drops: u64,
    /// Frames that RED dropped before it was.
    pub red_drops: u64,
    /// Frames that met the pipe down, or were in it when it went down.
    pub down_drops: u64,
    /// Frames longer than the link's MTU allows, which a switch had to send into it.
    pub too_long: u64,
    /// Copies made, whatever became of them.
    pub duplicated: u64,
    /// Frames, copies included, in which a bit was flipped.
    pub corrupted: u64,
    /// Frames that left after one that was sent later (RFC 4737, §3).
    pub reordered: u64,
}

impl PipeCounters {
    /// By how much the counters have grown since they were `before`.
    pub(crate) fn since(&self, before: &PipeCounters) -> PipeCounters {
        PipeCounters {
            packets: self.packets - before.packets,
            bytes: self.bytes - before.bytes,
            lost: self.lost - before.lost,
            queue_drops: self.queue_drops - before.queue_drops,
            red_drops: self.red_drops - before.red_drops,
            down_drops: self.down_drops - before.down_drops,
            too_long: self.too_long - before.too_long,
            duplicated: self.duplicated - before.duplicated,
            corrupted: self.corrupted - before.corrupted,
            reordered: self.reordered - before.reordered,
        }
    }
}

/// What a port refused to take from its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames that are not IPv4, or for an address that does not lie behind the port.
    pub unroutable: u64,
    /// Frames too short, longer than the link's MTU allows, or with an IP header that contradicts itself.
    pub malformed: u64,
    /// Frames for which the emulator had no memory left.
    pub no_memory: u64,
    /// Copies of frames for this port that some pipe was to make and did not, because the emulator had no memory left.
    pub uncopied: u64,
}
