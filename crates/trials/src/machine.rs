//! Description of the machine under the trials: figures without that are worth nothing.

use std::fmt;
use std::fs;
use std::process::Command;

use serde::Serialize;

/// The machine and the day.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// As the processor names itself.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Name of the distribution.
    pub system: String,
    /// UTC.
    pub date: String,
}

impl Machine {
    /// This one, now.
    pub fn here() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let unknown = || "unknown".to_string();
        Machine {
            cpu: field(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            system: field(&read("/etc/os-release"), "PRETTY_NAME", '=').unwrap_or_else(unknown),
            date: Command::new("date")
                .args(["-u", "+%Y-%m-%d %H:%M UTC"])
                .output()
                .map_or_else(|_| unknown(), |out| String::from_utf8_lossy(&out.stdout).trim().to_string()),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} cores, Linux {}, {}, {}", self.cpu, self.cores, self.kernel, self.system, self.date)
    }
}

/// The value of the first line `KEY SEPARATOR VALUE`, without quotes.
fn field(text: &str, key: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().trim_matches('"').to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 1\nmodel name\t: AMD EPYC\nmodel name\t: another\n";
        assert_eq!(field(text, "model name", ':').as_deref(), Some("AMD EPYC"));
        assert_eq!(field("A=1\nPRETTY_NAME=\"Debian 12\"\n", "PRETTY_NAME", '=').as_deref(), Some("Debian 12"));
        assert_eq!(field(text, "flags", ':'), None);
    }
}
