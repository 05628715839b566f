//! Kinds of metrics, by their units.

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A time; so many of its units are a second.
    Time {
        /// How long one unit is, s.
        seconds: f64,
    },
    /// Something per second.
    Rate,
    /// Anything else, of which nobody can say what more time does to it.
    Other,
}

/// The quantity that this unit measures, as the experiment wrote it.
pub fn kind(unit: &str) -> Kind {
    let seconds = match unit.trim() {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        unit if unit.ends_with("/s") => return Kind::Rate,
        _ => return Kind::Other,
    };
    Kind::Time { seconds }
}

/// Whether a unit counts events by the second.
pub fn counts_events(unit: &str) -> bool {
    unit.trim() == "1/s"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_told_from_the_rest() {
        assert_eq!(kind("ms"), Kind::Time { seconds: 1e-3 });
        assert_eq!(kind("µs"), kind("us"));
        assert_eq!([kind("1/s"), kind("Mbit/s"), kind("requests/s")], [Kind::Rate; 3]);
        assert_eq!([kind("1"), kind("bytes"), kind("%"), kind("")], [Kind::Other; 4]);
        assert!(counts_events("1/s") && !counts_events("Mbit/s"));
    }
}
