//! How often an emulator that does not let itself be woken looks for work.

use crate::{RealDuration, Tdf, VirtualDuration};

/// The longest that a frame may wait to be seen, in the target's time: a two-hundredth of a link of 1 ms.
const UNSEEN: VirtualDuration = VirtualDuration::from_nanos(5_000);
/// Looking more often than this would cost the harness more than being woken costs the nodes.
const SHORTEST: RealDuration = RealDuration::from_nanos(25_000);
/// Looking less often than this saves nothing more.
const LONGEST: RealDuration = RealDuration::from_nanos(50_000);

impl Tdf {
    /// The real time between two looks at the nodes' interfaces; `None` if being woken is more exact.
    ///
    /// A frame that wakes a sleeping emulator has its *sender* pay for the wake-up, an interrupt to another core: 5 to
    /// 10 µs of a virtual machine's time. On the target a network card takes the frame, and wakes nobody. Without
    /// dilation frames are so close together that the emulator is mostly awake; under dilation they are sparse, and
    /// nearly each would pay.
    pub fn polling_interval(self) -> Option<RealDuration> {
        let unseen = self.to_real(UNSEEN);
        (unseen >= SHORTEST).then(|| unseen.min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dilated_network_can_afford_to_be_looked_at_now_and_then() {
        let interval = |tdf: &str| tdf.parse::<Tdf>().unwrap().polling_interval().map(RealDuration::as_nanos);
        assert_eq!(interval("1"), None);
        assert_eq!(interval("4.9"), None);
        assert_eq!(interval("5"), Some(25_000));
        assert_eq!(interval("7.5"), Some(37_500));
        assert_eq!(interval("10"), Some(50_000));
        assert_eq!(interval("1000"), Some(50_000));
    }
}
