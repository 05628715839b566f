//! Quantities as ns and Netbed write them.

/// A bandwidth in bits per second; none: whatever there is. A bare number is bits per second, as in ns.
pub fn bandwidth(text: &str) -> Result<Option<f64>, String> {
    if matches!(text, "*" | "~") {
        return Ok(None);
    }
    let wrong = || format!("`{text}` is not a bandwidth: write one such as `10Mb`, `1.5Mbps` or `64kb`");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let factor = match unit {
        "" | "b" | "bps" => 1.0,
        "k" | "K" | "kb" | "Kb" | "kbps" | "Kbps" => 1e3,
        "m" | "M" | "mb" | "Mb" | "mbps" | "Mbps" => 1e6,
        "g" | "G" | "gb" | "Gb" | "gbps" | "Gbps" => 1e9,
        "B" => 8.0,
        "kB" | "KB" => 8e3,
        "MB" => 8e6,
        "GB" => 8e9,
        _ => return Err(wrong()),
    };
    let bits = number * factor;
    match (1.0..=1e13).contains(&bits) {
        true => Ok(Some(bits)),
        false => Err(format!("`{text}` is no bandwidth that a link has: write one such as `10Mb`")),
    }
}

/// A delay in seconds. A bare number is seconds, as in ns.
pub fn delay(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a delay: write one such as `20ms`");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return Err(wrong()),
    };
    Ok(number * factor)
}

/// A time of an event in seconds: `10.5`, or `1h20m3s`.
pub fn time(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a time: write seconds such as `10.5`, or `1h20m3s`");
    if let Ok(seconds) = text.parse::<f64>() {
        return if seconds.is_finite() && seconds >= 0.0 { Ok(seconds) } else { Err(wrong()) };
    }
    let (mut seconds, mut rest, mut units) = (0.0, text, ["h", "m", "s"].as_slice());
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|at| *at > 0).ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit = units.iter().position(|u| rest[digits..].starts_with(u)).ok_or_else(wrong)?;
        seconds += number * [3600.0, 60.0, 1.0][3 - units.len() + unit];
        units = &units[unit + 1..];
        rest = &rest[digits + 1..];
    }
    Ok(seconds)
}

/// A probability, 0 to 1.
pub fn loss(text: &str) -> Result<f64, String> {
    let p = text.parse::<f64>().ok().filter(|p| (0.0..=1.0).contains(p));
    p.ok_or_else(|| format!("`{text}` is not a loss rate: write a number from 0 to 1, such as `0.05`"))
}

fn split(text: &str) -> Option<(f64, &str)> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..at].parse().ok()?;
    Some((number, &text[at..]))
}

/// A number without needless digits.
fn short(number: f64) -> String {
    let text = format!("{number:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A bandwidth as an experiment has it.
pub fn as_rate(bits: f64) -> String {
    let (factor, unit) = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")]
        .into_iter()
        .find(|(factor, _)| bits >= *factor)
        .unwrap_or((1.0, "bit/s"));
    format!("{}{unit}", short(bits / factor))
}

/// A time as an experiment has it.
pub fn as_time(seconds: f64) -> String {
    match seconds >= 1.0 {
        true => format!("{}s", short(seconds)),
        false => format!("{}ms", short((seconds * 1e9).round() / 1e6)),
    }
}

/// A probability as an experiment has it.
pub fn as_percent(p: f64) -> String {
    format!("{}%", short(p * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_and_delays_are_those_of_ns() {
        let right = [("10Mb", 1e7), ("1.5Mbps", 1.5e6), ("64kb", 64e3), ("1000000", 1e6), ("1Gb", 1e9), ("1MB", 8e6)];
        for (text, bits) in right {
            assert_eq!(bandwidth(text), Ok(Some(bits)), "{text}");
        }
        assert_eq!((bandwidth("*"), bandwidth("~")), (Ok(None), Ok(None)));
        for text in ["", "fast", "10Mbit/s", "-1Mb", "0Mb", "1e99Mb"] {
            assert!(bandwidth(text).is_err(), "{text}");
        }
        for (text, seconds) in [("20ms", 0.02), ("1", 1.0), ("0.5s", 0.5), ("0ms", 0.0), ("150us", 150e-6)] {
            assert_eq!(delay(text), Ok(seconds), "{text}");
        }
        assert!(delay("20 ms").is_err() && delay("-1ms").is_err() && delay("ms").is_err());
    }

    #[test]
    fn times_of_events() {
        for (text, seconds) in [("10.5", 10.5), ("0", 0.0), ("2m", 120.0), ("1h20m3s", 4803.0), ("90s", 90.0)] {
            assert_eq!(time(text), Ok(seconds), "{text}");
        }
        for text in ["-1", "1s2m", "soon", "m", "nan", "inf"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_what_was_read() {
        assert_eq!([as_rate(1e7), as_rate(1.5e6), as_rate(800.0)], ["10Mbit/s", "1.5Mbit/s", "800bit/s"]);
        assert_eq!([as_time(0.0), as_time(0.0025), as_time(10.5)], ["0ms", "2.5ms", "10.5s"]);
        assert_eq!([as_percent(0.05), as_percent(1.0 - 0.95f64.sqrt())], ["5%", "2.532056552%"]);
    }
}
