//! Fates of a frame that comes to a pipe.

use crate::links::counters::PipeCounters;

/// Counts of the entry of one frame: a bit for each counter that can grow then.
///
/// With its copy a frame can count twice, the two dropped for different reasons or only one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Impairments(pub u8);

/// Why a frame, or its copy, went no further; the places are those of the bits.
const DROPPED: [&str; 5] = [
    "lost, as the link's loss says",
    "the queue was full",
    "early, by RED",
    "the link was down",
    "longer than the link's MTU allows",
];
const DUPLICATED: u8 = 1 << 5;
const CORRUPTED: u8 = 1 << 6;
/// Of a frame and its copy one went on.
const HALF: u8 = 1 << 7;

impl Impairments {
    /// From what one frame's entry counted.
    pub fn of(entry: &PipeCounters) -> Impairments {
        let PipeCounters { lost, queue_drops, red_drops, down_drops, too_long, duplicated, corrupted, .. } = *entry;
        let drops = [lost, queue_drops, red_drops, down_drops, too_long];
        let mut bits = drops.iter().enumerate().map(|(i, n)| u8::from(*n > 0) << i).sum();
        if duplicated > 0 {
            bits |= DUPLICATED;
            bits |= if drops.iter().sum::<u64>() == 1 { HALF } else { 0 };
        }
        bits |= if corrupted > 0 { CORRUPTED } else { 0 };
        Impairments(bits)
    }

    /// Its description.
    pub fn comments(self) -> impl Iterator<Item = String> {
        let has = move |bit: u8| self.0 & bit != 0;
        let who = if has(HALF) { "one of the two dropped" } else { "dropped" };
        let changed = [(DUPLICATED, "duplicated"), (CORRUPTED, "corrupted: a bit was flipped after this")];
        let changed = changed.into_iter().filter(move |(bit, _)| has(*bit)).map(|(_, what)| what.to_owned());
        let dropped = DROPPED.iter().enumerate().filter(move |(i, _)| has(1 << i));
        changed.chain(dropped.map(move |(_, why)| format!("{who}: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: PipeCounters = PipeCounters {
        packets: 0,
        bytes: 0,
        lost: 0,
        queue_drops: 0,
        red_drops: 0,
        down_drops: 0,
        too_long: 0,
        duplicated: 0,
        corrupted: 0,
        reordered: 0,
    };

    fn said(entry: PipeCounters) -> String {
        Impairments::of(&entry).comments().collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_fate_is_what_the_entry_counted() {
        assert_eq!(Impairments::of(&NONE), Impairments::default());
        assert_eq!(said(NONE), "");
        assert_eq!(said(PipeCounters { lost: 1, ..NONE }), "dropped: lost, as the link's loss says");
        assert_eq!(said(PipeCounters { queue_drops: 1, ..NONE }), "dropped: the queue was full");
        assert_eq!(said(PipeCounters { red_drops: 1, ..NONE }), "dropped: early, by RED");
        assert_eq!(said(PipeCounters { down_drops: 1, ..NONE }), "dropped: the link was down");
        assert_eq!(said(PipeCounters { too_long: 1, ..NONE }), "dropped: longer than the link's MTU allows");
        assert_eq!(said(PipeCounters { corrupted: 1, ..NONE }), "corrupted: a bit was flipped after this");
    }

    #[test]
    fn a_frame_and_its_copy_may_fare_differently() {
        let twice = PipeCounters { duplicated: 1, ..NONE };
        assert_eq!(said(twice), "duplicated");
        assert_eq!(
            said(PipeCounters { queue_drops: 1, ..twice }),
            "duplicated, one of the two dropped: the queue was full"
        );
        assert_eq!(said(PipeCounters { queue_drops: 2, ..twice }), "duplicated, dropped: the queue was full");
        let both = said(PipeCounters { queue_drops: 1, red_drops: 1, ..twice });
        assert_eq!(both, "duplicated, dropped: the queue was full, dropped: early, by RED");
    }
}
