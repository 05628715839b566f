//! How links, and changes of links, are written.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::tree::shorten;
use crate::units::{Address, Data, LinkBandwidth, Probability, Snap, Subnet, Time};

/// A structure with keys of its own and all those that say what happens to packets in one direction.
macro_rules! with_properties {
    ($(#[$doc:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            $($own)*
            /// Bits per second; at first unlimited, so that transmission takes no time
            pub(crate) bandwidth: Option<LinkBandwidth>,
            /// Propagation delay; at first 0ms
            pub(crate) delay: Option<Time>,
            /// How the delay varies from packet to packet; at first not at all
            pub(crate) jitter: Option<Jitter>,
            /// How packets are lost; at first none is
            pub(crate) loss: Option<Loss>,
            /// The probability that a packet arrives twice; at first 0%
            pub(crate) duplicate: Option<Probability>,
            /// The probability that one bit of a packet is flipped; at first 0%
            pub(crate) corrupt: Option<Probability>,
            /// The queue of packets that wait for transmission; at first 100 packets
            pub(crate) queue: Option<Queue>,
            /// Whether it works; at first true
            pub(crate) up: Option<bool>,
        }
    };
}

with_properties! {
    /// A link. What is said of packets holds for each direction, but for what `ab` and `ba` say
    Link {
        /// A node or switch; `*` stands for any characters and makes one link each
        pub(crate) from: String,
        /// A node or switch; `*` stands for any characters and makes one link each
        pub(crate) to: String,
        /// Its name; without it, FROM--TO. Parallel links need one
        pub(crate) name: Option<String>,
        /// The longest IP packet, in bytes; without it 1500
        #[schemars(range(min = 68, max = 65535))]
        pub(crate) mtu: Option<u32>,
        /// Whether TCP hands it bursts of several segments at once (segmentation offload); without it true
        pub(crate) tso: Option<bool>,
        /// Whether its packets are recorded in `captures/`; without it false
        pub(crate) capture: Option<Capture>,
        /// IPv4 addresses of the nodes at its ends, by name of the node; without them, as they are given out
        #[serde(default)]
        pub(crate) addresses: BTreeMap<String, Address>,
        /// Differences in the direction from `from` to `to`
        pub(crate) ab: Option<Direction>,
        /// Differences in the direction from `to` to `from`
        pub(crate) ba: Option<Direction>,
    }
}

with_properties! {
    /// A shared segment. What is said of packets holds for each of a member's two directions, but for what `ab`, `ba`
    /// and `except` say
    Lan {
        /// Nodes; `*` stands for any characters. Each has an interface on it, and a link of its own, NODE--LAN
        pub(crate) members: Vec<String>,
        /// The block of IPv4 addresses of its members, such as `192.168.1.0/24`; without it one that nobody else has
        pub(crate) subnet: Option<Subnet>,
        /// IPv4 addresses of members, by name of the node; without them, the free ones of the block in order
        #[serde(default)]
        pub(crate) addresses: BTreeMap<String, Address>,
        /// The longest IP packet, in bytes; without it 1500
        #[schemars(range(min = 68, max = 65535))]
        pub(crate) mtu: Option<u32>,
        /// Whether TCP hands it bursts of several segments at once (segmentation offload); without it true
        pub(crate) tso: Option<bool>,
        /// Whether its packets are recorded in `captures/`, for each member; without it false
        pub(crate) capture: Option<Capture>,
        /// Differences from members to the LAN
        pub(crate) ab: Option<Direction>,
        /// Differences from the LAN to members
        pub(crate) ba: Option<Direction>,
        /// Differences of some members; `*` stands for any characters
        #[serde(default)]
        pub(crate) except: BTreeMap<String, LinkChange>,
    }
}

with_properties! {
    /// The changes of a link; the rest stays as it is
    LinkChange {
        /// Changes in the direction `ab` only
        pub(crate) ab: Option<Direction>,
        /// Changes in the direction `ba` only
        pub(crate) ba: Option<Direction>,
    }
}

with_properties! {
    /// One direction of a link
    Direction {}
}

/// Keys of packets in both directions, of a link or of a change of one.
macro_rules! both_directions {
    ($($name:ident)*) => {
        $(impl $name {
            pub(crate) fn both(&self) -> Direction {
                let $name { bandwidth, delay, jitter, loss, duplicate, corrupt, queue, up, .. } = self.clone();
                Direction { bandwidth, delay, jitter, loss, duplicate, corrupt, queue, up }
            }
        })*
    };
}

both_directions! { Link Lan LinkChange }

/// Something that is written in one word, or as a map where there is more to say.
#[derive(Clone, Debug)]
pub(crate) enum WordOr<W, M> {
    Word(W),
    Map(M),
}

/// The expectation that the error message names.
pub(crate) trait Expected {
    const EXPECTED: &'static str;
}

impl<'de, W: Deserialize<'de>, M: Deserialize<'de> + Expected> Deserialize<'de> for WordOr<W, M> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either<W, M>(PhantomData<(W, M)>);
        impl<'de, W: Deserialize<'de>, M: Deserialize<'de> + Expected> Visitor<'de> for Either<W, M> {
            type Value = WordOr<W, M>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(M::EXPECTED)
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                W::deserialize(BorrowedStrDeserializer::new(text)).map(WordOr::Word)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                M::deserialize(MapAccessDeserializer::new(map)).map(WordOr::Map)
            }
        }
        d.deserialize_any(Either(PhantomData))
    }
}

impl<W: JsonSchema, M: JsonSchema> JsonSchema for WordOr<W, M> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Or{}", W::schema_name(), M::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [generator.subschema_for::<W>(), generator.subschema_for::<M>()] })
    }
}

pub(crate) type Jitter = WordOr<Time, JitterMap>;

/// Variation of the delay: one of `uniform`, `normal` and `pareto`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JitterMap {
    /// The largest deviation from the delay; all up to it are equally likely
    pub(crate) uniform: Option<Time>,
    /// The standard deviation of normally distributed delays
    pub(crate) normal: Option<Time>,
    /// The standard deviation of delays distributed as Pareto's with exponent 3, most of them short and few very long
    pub(crate) pareto: Option<Time>,
    /// Whether packets may overtake one another; without it false
    pub(crate) reorder: Option<bool>,
}

impl Expected for JitterMap {
    const EXPECTED: &'static str = "a time such as `2ms`, or a map such as { normal: 2ms, reorder: true }";
}

pub(crate) type Loss = WordOr<Probability, LossMap>;

/// Losses that are not independent: one of `every`, `packets` and `gilbert-elliott`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LossMap {
    /// Every so many packets one
    #[schemars(range(min = 1))]
    pub(crate) every: Option<u64>,
    /// The packets with these ordinal numbers, counted from 1 since the loss was set
    #[schemars(inner(range(min = 1)))]
    pub(crate) packets: Option<Vec<u64>>,
    /// In bursts
    #[serde(rename = "gilbert-elliott")]
    pub(crate) gilbert_elliott: Option<GilbertElliott>,
}

impl Expected for LossMap {
    const EXPECTED: &'static str = "a probability such as `0.1%`, or a map such as { every: 100 }, \
                                    { packets: [3, 17] } or { gilbert-elliott: { p: 1%, r: 25% } }";
}

/// Losses in bursts, by a chain with a good and a bad state
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GilbertElliott {
    /// The probability, before each packet, of passing from the good state to the bad one
    pub(crate) p: Probability,
    /// The probability, before each packet, of passing from the bad state to the good one
    pub(crate) r: Probability,
    /// The probability of losing a packet in the good state; without it 0%
    pub(crate) good: Option<Probability>,
    /// The probability of losing a packet in the bad state; without it 100%
    pub(crate) bad: Option<Probability>,
}

pub(crate) type Queue = WordOr<Length, QueueMap>;

/// A queue that drops packets before it is full
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueMap {
    /// Random early detection
    pub(crate) red: Red,
}

impl Expected for QueueMap {
    const EXPECTED: &'static str = "packets such as `100`, an amount of data such as `64KiB`, or a map such as \
                                    { red: { min: 5, max: 15, limit: 50 } }";
}

/// Random early detection (Floyd and Jacobson 1993); `min`, `max` and `limit` all in packets or all in bytes
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Red {
    /// The average length of the queue from which on packets are dropped at random
    pub(crate) min: Length,
    /// The average length of the queue from which on all are dropped
    pub(crate) max: Length,
    /// The most that the queue holds
    pub(crate) limit: Length,
    /// The probability of dropping just below `max`; without it 10%
    pub(crate) max_p: Option<Probability>,
    /// How much the average follows each new length; without it 0.002
    #[schemars(range(max = 1.0))]
    pub(crate) weight: Option<f64>,
    /// The size of a typical packet, by which idle times are counted; without it 500B
    pub(crate) packet: Option<Data>,
    /// Whether the probability grows on to 100% between `max` and twice that; without it false
    pub(crate) gentle: Option<bool>,
}

pub(crate) type Capture = WordOr<Whole, CapturePart>;

/// Whether packets are recorded, as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole(pub(crate) bool);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(d)?;
        match &*text {
            "true" => Ok(Whole(true)),
            "false" => Ok(Whole(false)),
            other => Err(de::Error::custom(format!("`{}` is not {}", shorten(other), CapturePart::EXPECTED))),
        }
    }
}

impl JsonSchema for Whole {
    fn schema_name() -> Cow<'static, str> {
        "Whole".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean", "description": "Whether packets are recorded, as a whole" })
    }
}

/// Packets are recorded in part
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapturePart {
    /// How much of each packet is kept, from its beginning
    pub(crate) snap: Snap,
}

impl Expected for CapturePart {
    const EXPECTED: &'static str = "`true`, `false` or how much of each packet is kept, such as `{ snap: 128B }`";
}

/// A length of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Length {
    Packets(u64),
    Bytes(u64),
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(d)?;
        if text.parse::<f64>().is_ok() {
            let wrong = || {
                let shown = shorten(&text);
                de::Error::custom(format!(
                    "`{shown}` is not a length of a queue: write packets such as `100`, or `64KiB`"
                ))
            };
            return text.parse().map(Length::Packets).map_err(|_| wrong());
        }
        Data::deserialize(de::value::CowStrDeserializer::new(text)).map(|data| Length::Bytes(data.0))
    }
}

impl JsonSchema for Length {
    fn schema_name() -> Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "How many packets, or how much data",
            "oneOf": [{ "type": "integer", "minimum": 1, "maximum": 1_000_000 }, generator.subschema_for::<Data>()]
        })
    }
}
