//! The options of a command: names and values in turn.

use std::collections::HashMap;
use std::str::FromStr;

use crate::departures::{Pattern, Shape};

/// The options, by name.
pub(super) struct Options<'a>(HashMap<&'a str, &'a str>);

impl<'a> Options<'a> {
    pub fn new(words: &'a [String]) -> Result<Options<'a>, String> {
        let mut all = HashMap::new();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(format!("`{}` has no value", pair[0])) };
            all.insert(name.as_str(), value.as_str());
        }
        Ok(Options(all))
    }

    pub fn text(&self, name: &str) -> Result<&'a str, String> {
        self.0.get(name).copied().ok_or_else(|| format!("the option `{name}` is missing"))
    }

    pub fn number<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| format!("`{name} {text}`: this is no number that could be meant"))
    }

    fn maybe<T: FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        self.0.contains_key(name).then(|| self.number(name)).transpose()
    }

    /// Whether packets are carried by a connection.
    pub fn connected(&self) -> Result<bool, String> {
        match self.text("over")? {
            "udp" => Ok(false),
            "tcp" => Ok(true),
            other => Err(format!("`over {other}`: write udp or tcp")),
        }
    }

    pub fn pattern(&self) -> Result<Pattern, String> {
        let interval = || self.number("interval");
        let shape = match self.text("shape")? {
            "constant" => Shape::Constant { interval: interval()?, noise: false },
            "noise" => Shape::Constant { interval: interval()?, noise: true },
            "poisson" => Shape::Poisson { interval: interval()? },
            "bursts" => Shape::Bursts {
                interval: interval()?,
                on: self.number("on")?,
                off: self.number("off")?,
                pareto: self.maybe("pareto")?,
            },
            "greedy" => Shape::Greedy,
            other => return Err(format!("there is no shape `{other}`")),
        };
        Ok(Pattern { shape, packets: self.maybe("packets")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, Transport};

    #[test]
    fn what_a_source_is_told_is_what_was_meant() {
        let shapes = [
            Shape::Constant { interval: 0.1 + 0.2, noise: false },
            Shape::Constant { interval: 1e-6, noise: true },
            Shape::Poisson { interval: 1.0 / 3.0 },
            Shape::Bursts { interval: 0.001, on: 0.5, off: 1.5, pareto: None },
            Shape::Bursts { interval: 0.001, on: 0.5, off: 1.5, pareto: Some(1.2) },
            Shape::Greedy,
        ];
        for (shape, packets) in shapes.into_iter().zip([None, Some(7)].into_iter().cycle()) {
            let pattern = Pattern { shape, packets };
            let source = Source {
                flow: "video".into(),
                to: "client".into(),
                port: 7000,
                over: Transport::Tcp,
                packet: 1000,
                pattern,
                seed: 9,
            };
            let argv = source.argv();
            let options = Options::new(&argv[2..]).unwrap();
            assert_eq!(options.pattern(), Ok(pattern));
            assert_eq!(options.connected(), Ok(true));
            assert_eq!(options.number::<u16>("port"), Ok(7000));
            assert_eq!(options.text("log"), Ok("/var/log/traffic/video.sent"));
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let of = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        assert_eq!(Options::new(&of(&["port"])).err().unwrap(), "`port` has no value");
        let words = of(&["port", "x", "over", "sctp"]);
        let options = Options::new(&words).unwrap();
        assert_eq!(options.text("to").unwrap_err(), "the option `to` is missing");
        assert!(options.number::<u16>("port").unwrap_err().contains("`port x`"));
        assert!(options.connected().unwrap_err().contains("udp or tcp"));
    }
}
