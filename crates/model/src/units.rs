//! Quantities with their units, as written in an experiment: `10ms`, `100Mbit/s`, `256MiB`, `0.1%`, `2s..12s`.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv4Addr;

use scale::{Tdf, VirtualDuration, VirtualInstant, VirtualRate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use crate::names::nearest;
use crate::tree::shorten;

/// Units of one kind of quantity, smallest first, and how much one of each is.
pub(crate) struct Units {
    what: &'static str,
    example: &'static str,
    units: &'static [(&'static str, f64)],
}

/// Times; the base is the second.
pub(crate) const TIME: Units = Units {
    what: "a time",
    example: "10ms",
    units: &[("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)],
};
/// Bandwidths; the base is the bit per second.
const RATE: Units = Units {
    what: "a bandwidth",
    example: "100Mbit/s",
    units: &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)],
};
const BYTES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KiB", 1024.0),
    ("MB", 1e6),
    ("MiB", 1_048_576.0),
    ("GB", 1e9),
    ("GiB", 1_073_741_824.0),
    ("TB", 1e12),
    ("TiB", 1_099_511_627_776.0),
];
/// Amounts of memory; the base is the byte.
const SIZE: Units = Units { what: "an amount of memory", example: "256MiB", units: BYTES };
/// Amounts of data in a network; the base is the byte.
const DATA: Units = Units { what: "an amount of data", example: "64KiB", units: BYTES };
/// Probabilities; the base is certainty.
const PROBABILITY: Units = Units { what: "a probability", example: "0.1%", units: &[("%", 0.01)] };
/// How far off numbers may be; the base is the percent.
const PERCENT: Units = Units { what: "an accuracy", example: "5%", units: &[("%", 1.0)] };
/// Absolute speeds of a core; the base is a unit of work per microsecond.
const WORK: Units =
    Units { what: "an absolute speed", example: "850 units/us", units: &[("units/µs", 1.0), ("units/us", 1.0)] };

impl Units {
    /// The quantity in the base unit, or what is wrong and what would be right.
    fn parse(&self, text: &str) -> Result<f64, String> {
        let Units { what, example, units } = self;
        let shown = shorten(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        if text.starts_with('-') {
            return Err(format!("`{shown}` is negative: write {what}, such as `{example}`"));
        }
        let plain = number.starts_with(|c: char| c.is_ascii_digit()) && number.ends_with(|c: char| c.is_ascii_digit());
        let value: f64 = match number.parse() {
            Ok(v) if plain && number.len() <= 20 => v,
            _ => {
                return Err(format!("`{shown}` is not {what}: write a decimal number and a unit, such as `{example}`"));
            }
        };
        if let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) {
            return Ok(value * factor);
        }
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        if unit.is_empty() {
            let all = names.join(", ");
            return Err(format!("`{shown}` has no unit: write {what} such as `{example}` (units: {all})"));
        }
        let near = nearest(unit.trim(), &names)
            .map_or(format!("units are {}", names.join(", ")), |near| format!("did you mean `{number}{near}`?"));
        Err(format!("`{shown}` is not {what}: there is no unit `{}`; {near}", shorten(unit)))
    }

    /// A regular expression for editors.
    fn pattern(&self) -> String {
        let names: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
        format!("^[0-9]+(\\.[0-9]+)?({})$", names.join("|"))
    }

    /// The factor of a unit of this kind, if it is one.
    pub(crate) fn factor(&self, unit: &str) -> Option<f64> {
        self.units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
    }
}

/// The longest time that means anything in an experiment: 1000 hours.
const LONGEST_S: f64 = 3.6e6;

fn duration(text: &str) -> Result<VirtualDuration, String> {
    let seconds = TIME.parse(text)?;
    if seconds > LONGEST_S {
        return Err(format!("`{}` is too long a time: write at most `1000h`", shorten(text)));
    }
    Ok(VirtualDuration::from_secs_f64(seconds))
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty), $description:expr, $pattern:expr, $parse:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(d)?;
                let parse: fn(&str) -> Result<$inner, String> = $parse;
                parse(&text).map($name).map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "description": $description, "pattern": $pattern })
            }
        }
    };
}

quantity!(
    /// A span of virtual time.
    Time(VirtualDuration), "A time with its unit: ns, us, ms, s, min or h", TIME.pattern(), duration
);

quantity!(
    /// By how much a date is off, in ns.
    Off(i64), "A time with its unit, which may be negative: 250ms, -3s",
    format!("^-?{}", TIME.pattern().trim_start_matches('^')),
    |text| {
        let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        Ok(sign * duration(rest)?.as_nanos() as i64)
    }
);

/// The most by which a clock may drift: a tenth.
const LARGEST_DRIFT: f64 = 0.1;

quantity!(
    /// By how much a clock drifts, as a part of the time that passes.
    Drift(f64), "A drift in ppm, which may be negative: 200ppm, -30ppm", "^-?[0-9]+(\\.[0-9]+)?ppm$",
    |text| {
        let number = text.strip_suffix("ppm").and_then(|number| number.trim().parse::<f64>().ok());
        match number.map(|ppm| ppm / 1e6) {
            Some(drift) if drift.abs() <= LARGEST_DRIFT => Ok(drift),
            _ => Err(format!("`{}` is no drift: write ppm, such as `200ppm`, up to 100000ppm", shorten(text))),
        }
    }
);

quantity!(
    /// When a flow starts, since the start of the run; none: when an event says so.
    Start(Option<VirtualDuration>), "A time with its unit: ns, us, ms, s, min or h; or `event`",
    format!("^event$|{}", TIME.pattern()),
    |text| match text {
        "event" => Ok(None),
        _ => duration(text).map(Some),
    }
);

/// The fastest link that can be written, in bits per second. A full packet takes 1.2 ns there: so it has no limit.
const FASTEST: f64 = 1e13;

fn bandwidth(text: &str) -> Result<VirtualRate, String> {
    let bits = RATE.parse(text)?;
    if !(1.0..=FASTEST).contains(&bits) {
        let shown = shorten(text);
        return Err(format!("`{shown}` is out of range: write a bandwidth from `1bit/s` to `10000Gbit/s`"));
    }
    Ok(VirtualRate::from_bits_per_s(bits))
}

quantity!(
    /// A bandwidth, in bits per virtual second.
    Bandwidth(VirtualRate), "A bandwidth with its unit: bit/s, kbit/s, Mbit/s or Gbit/s", RATE.pattern(), bandwidth
);

quantity!(
    /// The bandwidth of a link, in bits per virtual second; none: a packet takes no time to transmit.
    LinkBandwidth(Option<VirtualRate>),
    "A bandwidth with its unit: bit/s, kbit/s, Mbit/s or Gbit/s; or `unlimited`",
    format!("^unlimited$|{}", RATE.pattern()),
    |text| match text {
        "unlimited" => Ok(None),
        _ => bandwidth(text).map(|rate| Some(rate).filter(|rate| rate.bits_per_s() < FASTEST)),
    }
);

quantity!(
    /// A bound on how far a node's clock gets ahead in a timeslice, in virtual time; not zero.
    Lead(VirtualDuration), "A time with its unit: ns, us, ms, s, min or h; above zero", TIME.pattern(),
    |text| match duration(text)? {
        VirtualDuration::ZERO => Err(format!(
            "`{}` is no lead, for every timeslice takes its time: write how far a node's clock may get ahead in \
             one, such as `2ms`, or leave `lead` out",
            shorten(text)
        )),
        lead => Ok(lead),
    }
);

quantity!(
    /// How far off a number may be, in percent.
    Percent(f64), "A percentage from 0.1% to 100%, such as 5%", PERCENT.pattern(),
    |text| {
        let percent = PERCENT.parse(text)?;
        if !(0.1..=100.0).contains(&percent) {
            return Err(format!("`{}` is out of range: write an accuracy from `0.1%` to `100%`", shorten(text)));
        }
        Ok(percent)
    }
);

quantity!(
    /// An amount of memory, in bytes.
    Size(u64), "An amount of memory with its unit: B, kB, KiB, MB, MiB, GB, GiB, TB or TiB", SIZE.pattern(),
    |text| {
        let bytes = SIZE.parse(text)?;
        if !(1_048_576.0..=1e15).contains(&bytes) {
            return Err(format!("`{}` is out of range: write a memory from `1MiB` to `1000TB`", shorten(text)));
        }
        Ok(bytes.round() as u64)
    }
);

quantity!(
    /// How large a disk is, in bytes.
    DiskSize(u64), "An amount of memory with its unit: MB, MiB, GB, GiB, TB or TiB",
    SIZE.pattern().replace("?(", "? ?("),
    |text| {
        let bytes = SIZE.parse(&text.replacen(' ', "", 1))?;
        if !(1_048_576.0..=1e15).contains(&bytes) {
            return Err(format!("`{}` is out of range: write a size from `64MiB` to `256TiB`", shorten(text)));
        }
        Ok(bytes.round() as u64)
    }
);

quantity!(
    /// An amount of data in a network, in bytes.
    Data(u64), "An amount of data with its unit: B, kB, KiB, MB, MiB, GB, GiB, TB or TiB", DATA.pattern(),
    |text| {
        let bytes = DATA.parse(text)?;
        if bytes > 1e12 {
            return Err(format!("`{}` is out of range: write at most `1TB`", shorten(text)));
        }
        Ok(bytes.round() as u64)
    }
);

quantity!(
    /// How much of a packet is kept, in bytes.
    Snap(u64), "A number of bytes with its unit, at least the 14B of an Ethernet header, such as 128B", DATA.pattern(),
    |text| {
        let bytes = DATA.parse(text)?;
        if bytes < 14.0 {
            let shown = shorten(text);
            return Err(format!(
                "`{shown}` is less than an Ethernet header: write at least `14B`; `128B` keeps all headers"
            ));
        }
        Ok(bytes.round() as u64)
    }
);

quantity!(
    /// A probability, 0 to 1.
    Probability(f64), "A probability in percent, such as 0.1%", PROBABILITY.pattern(),
    |text| {
        let p = PROBABILITY.parse(text)?;
        if p > 1.0 {
            return Err(format!("`{}` is more than certain: write a probability from `0%` to `100%`", shorten(text)));
        }
        Ok(p)
    }
);

quantity!(
    /// A window of virtual time.
    Window((VirtualInstant, Option<VirtualInstant>)), "Two times, such as 2s..12s, or one and no end: 2s..",
    format!("{}\\.\\.({})?$", TIME.pattern().trim_end_matches('$'), TIME.pattern().trim_matches(['^', '$'])),
    |text| {
        let wrong = || {
            let shown = shorten(text);
            format!("`{shown}` is not a window of time: write two times, such as `2s..12s`, or `2s..`")
        };
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        if from.is_empty() {
            return Err(wrong());
        }
        let from = duration(from)?;
        if to.is_empty() {
            return Ok((VirtualInstant::ZERO + from, None));
        }
        let to = duration(to)?;
        if from >= to {
            let shown = shorten(text);
            return Err(format!("`{shown}` is empty: the second time must be later than the first, as in `2s..12s`"));
        }
        Ok((VirtualInstant::ZERO + from, Some(VirtualInstant::ZERO + to)))
    }
);

/// A number of an address or a block, as a pattern, without more digits than it needs.
const OCTET: &str = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])";

fn address_pattern() -> String {
    format!("{OCTET}(\\.{OCTET}){{3}}")
}

quantity!(
    /// An IPv4 address that an interface can have.
    Address(Ipv4Addr), "An IPv4 address, such as 192.168.1.2", format!("^{}$", address_pattern()),
    |text| {
        let shown = shorten(text);
        let address: Ipv4Addr = text.parse()
            .map_err(|_| format!("`{shown}` is not an address: write one such as `192.168.1.2`"))?;
        match address.octets() {
            [0 | 127 | 224..=255, ..] => {
                Err(format!("no interface can have the address {shown}: write one such as `10.1.1.2`"))
            }
            [10, 128..=255, ..] => {
                Err(format!("{shown} is in 10.128.0.0/9, which is the emulator's own: write another"))
            }
            _ => Ok(address),
        }
    }
);

quantity!(
    /// A block of IPv4 addresses: its first, and how many bits all have in common.
    Subnet((Ipv4Addr, u8)), "A block of IPv4 addresses, such as 192.168.1.0/24",
    format!("^{}/[0-9]+$", address_pattern()),
    |text| {
        let shown = shorten(text);
        let read = text.split_once('/').and_then(|(a, n)| Some((a.parse::<Ipv4Addr>().ok()?, n.parse::<u8>().ok()?)));
        let (address, bits) =
            read.ok_or_else(|| format!("`{shown}` is not a block of addresses: write one such as `192.168.1.0/24`"))?;
        if !(8..=30).contains(&bits) {
            return Err(format!("`{shown}`: a LAN has a block of /8 to /30: write one such as `192.168.1.0/24`"));
        }
        let first = Ipv4Addr::from_bits(address.to_bits() & u32::MAX << (32 - bits));
        if first != address {
            return Err(format!("`{shown}` is in the middle of a block: did you mean `{first}/{bits}`?"));
        }
        let emulators = Ipv4Addr::new(10, 128, 0, 0);
        let own = |a: Ipv4Addr| a.to_bits() >> 23 == emulators.to_bits() >> 23;
        if own(address) || (bits == 8 && address.octets()[0] == 10) {
            return Err(format!("`{shown}` is not free: 10.128.0.0/9 is the emulator's own; write another block"));
        }
        match address.octets()[0] {
            0 | 127 | 224..=255 => Err(format!("no interface can have an address of `{shown}`: write another block")),
            _ => Ok((address, bits)),
        }
    }
);

/// How fast a CPU of the target is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As a fraction of one core of the host, as fast as that usually is.
    OfHost(f64),
    /// In units of work per microsecond, which mean the same on every host.
    Absolute(f64),
}

/// The forms of a speed, for messages.
const SPEED: &str = "a number, the fraction of one core of this host, such as 0.5, or an absolute speed, such as \
                     `850 units/us`";

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = Speed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SPEED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Speed, E> {
                speed(text).map_err(E::custom)
            }
        }
        d.deserialize_any(Scalar)
    }
}

fn speed(text: &str) -> Result<Speed, String> {
    // Rust also reads `inf`, `nan` and `infinity`.
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || b".+-eE".contains(&b));
    match text.parse::<f64>() {
        Ok(fraction) if numeric && fraction.is_finite() => return Ok(Speed::OfHost(fraction)),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return Err(format!("this is `{}`: write {SPEED}", shorten(text)));
    }
    // As it is spoken, with a space, and as all other quantities are written.
    WORK.parse(&text.replacen(' ', "", 1)).map(Speed::Absolute)
}

impl JsonSchema for Speed {
    fn schema_name() -> Cow<'static, str> {
        "Speed".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = WORK.pattern().replacen(")?(", ")? ?(", 1);
        json_schema!({
            "description": "The fraction of one core of this host, or units of work per microsecond",
            "oneOf": [
                { "type": "number", "minimum": 0.001, "maximum": 1000 },
                { "type": "string", "pattern": pattern }
            ]
        })
    }
}

/// The time dilation factor, a plain number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor(pub Tdf);

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(d)?;
        text.parse().map(Factor).map_err(de::Error::custom)
    }
}

impl JsonSchema for Factor {
    fn schema_name() -> Cow<'static, str> {
        "Factor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "number",
            "description": "The time dilation factor: real time over virtual time, such as 10 or 1.5",
            "minimum": 1,
            "maximum": Tdf::MAX
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        for (text, ns) in
            [("0ms", 0), ("0.1ms", 100_000), ("1.5s", 1_500_000_000), ("7µs", 7_000), ("1h", 3_600_000_000_000)]
        {
            assert_eq!(duration(text).unwrap(), VirtualDuration::from_nanos(ns), "{text}");
        }
    }

    #[test]
    fn a_wrong_quantity_says_what_to_write() {
        for (text, right) in [
            ("10", "`10ms`"),
            ("", "such as `10ms`"),
            ("ms", "such as `10ms`"),
            ("10 ms", "did you mean `10ms`?"),
            ("10MS", "did you mean `10ms`?"),
            ("10sec", "did you mean `10s`?"),
            ("-3s", "negative"),
            ("1e300s", "there is no unit"),
            ("9999999999h", "too long"),
            ("1..s", "decimal number"),
            ("nan", "decimal number"),
        ] {
            let message = duration(text).unwrap_err();
            assert!(message.contains(right), "{text}: {message}");
        }
        assert!(RATE.parse("100Mbps").unwrap_err().contains("did you mean `100Mbit/s`?"));
        assert!(SIZE.parse("256M").unwrap_err().contains("did you mean `256MB`?"));
        assert!(PROBABILITY.parse("0.1").unwrap_err().contains("`0.1%`"));
    }

    #[test]
    fn a_speed_is_a_fraction_or_has_units() {
        assert_eq!(speed("0.5"), Ok(Speed::OfHost(0.5)));
        assert_eq!(speed("1e-2"), Ok(Speed::OfHost(0.01)));
        for text in ["850 units/us", "850units/us", "850.0 units/µs"] {
            assert_eq!(speed(text), Ok(Speed::Absolute(850.0)), "{text}");
        }
        for (text, right) in [
            ("fast", "this is `fast`: write a number"),
            ("nan", "write a number"),
            ("850 units/ms", "did you mean `850units/us`?"),
            ("2.4GHz", "there is no unit `GHz`"),
            ("-850 units/us", "negative"),
            ("8 50 units/us", "there is no unit"),
        ] {
            let message = speed(text).unwrap_err();
            assert!(message.contains(right), "{text}: {message}");
        }
    }
}
