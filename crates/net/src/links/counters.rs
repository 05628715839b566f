//! Counters of pipes and ports, each named once.

use serde::{Deserialize, Serialize};

/// A structure of counters that knows their names and their order, which is that of the columns of files.
macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: u64,)*
        }

        impl $name {
            /// The names of the counters, in the order in which files have them.
            pub const COLUMNS: &[&str] = &[$(stringify!($field)),*];

            /// The counters, in the order of [`Self::COLUMNS`].
            pub fn values(&self) -> [u64; Self::COLUMNS.len()] {
                [$(self.$field),*]
            }

            /// By how much the counters have grown since they were `before`.
            pub fn since(&self, before: &Self) -> Self {
                Self { $($field: self.$field - before.$field),* }
            }
        }
    };
}

counters! {
    /// Events on one pipe since the start.
    PipeCounters {
        /// Frames that left at the far end.
        packets,
        /// Their bytes, as charged.
        bytes,
        /// Frames lost on entering, as the pipe's loss says.
        lost,
        /// Frames that found the queue full.
        queue_drops,
        /// Frames that met the pipe down, or were in it when it went down.
        down_drops,
        /// Frames longer than the link's MTU allows, which a switch had to send into it.
        too_long,
        /// Frames that RED dropped before the queue was full.
        red_drops,
        /// Copies made, whatever became of them.
        duplicated,
        /// Frames, copies included, in which a bit was flipped.
        corrupted,
        /// Frames that left after one that was sent later (RFC 4737, §3).
        reordered,
    }
}

counters! {
    /// Frames that a port refused to take from its node.
    PortCounters {
        /// Frames that are not IPv4, or for an address that does not lie behind the port; on a LAN, those for the port
        /// itself.
        unroutable,
        /// Frames too short, longer than the link's MTU allows, or with an IP header that contradicts itself.
        malformed,
        /// Frames for which the emulator had no memory left.
        no_memory,
        /// Frames for nodes from which the port's node was cut off then.
        cut,
        /// Copies of frames for this port, broadcasts too, that some pipe or LAN was to make and did not, because the
        /// emulator had no memory left.
        uncopied,
    }
}
