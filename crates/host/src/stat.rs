//! Ticks of the machine's cores, by `/proc/stat`.

use std::path::Path;

pub use counters::CoreTicks;

use crate::Error;

/// The ticks of every core, by its number; zeros for a core that is offline.
pub fn core_ticks() -> Result<Vec<CoreTicks>, Error> {
    let path = Path::new("/proc/stat");
    let text = std::fs::read_to_string(path).map_err(|e| Error::file("read", path, e))?;
    parse(&text).map_err(|what| Error::system(what, std::io::ErrorKind::InvalidData))
}

fn parse(stat: &str) -> Result<Vec<CoreTicks>, String> {
    let mut cores = Vec::new();
    for line in stat.lines() {
        let Some((core, rest)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else { continue };
        let Ok(core) = core.parse::<usize>() else { continue };
        // user nice system idle iowait irq softirq steal; guest times are counted in user and nice already.
        let fields: Result<Vec<u64>, _> = rest.split_whitespace().take(8).map(str::parse).collect();
        let fields = fields.ok().filter(|f| f.len() == 8).ok_or_else(|| format!("/proc/stat: no steal in `{line}`"))?;
        // Cores that are offline leave a gap in the numbers.
        cores.resize(cores.len().max(core + 1), CoreTicks::default());
        cores[core] = CoreTicks { idle: fields[3] + fields[4], steal: fields[7], total: fields.iter().sum() };
    }
    if cores.is_empty() { Err("/proc/stat names no core".into()) } else { Ok(cores) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_field_and_guest_time_is_not_counted_twice() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 0 50 800 20 5 5 20 40 0\ncpu2 1 0 0 0 0 0 0 0 0 0\nintr 5\n";
        let ticks = parse(stat).unwrap();
        assert_eq!(ticks[0], CoreTicks { idle: 820, steal: 20, total: 1000 });
        assert_eq!(ticks[1], CoreTicks::default(), "core 1 is offline");
        assert_eq!(ticks[2].total, 1);
        assert!(parse("cpu0 1 2 3\n").unwrap_err().contains("no steal"));
        assert!(parse("intr 5\n").is_err());
    }

    #[test]
    fn this_machine_is_understood() {
        let ticks = core_ticks().unwrap();
        assert!(ticks.iter().all(|t| t.total >= t.steal + t.idle) && ticks.iter().any(|t| t.total > 0), "{ticks:?}");
    }
}
