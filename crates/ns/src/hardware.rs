//! Types of hardware and operating systems, and what they become here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::yaml::Kind;
use serde::Deserialize;

use crate::error::Error;

/// The file that is used where there is none.
const SHIPPED: &str = include_str!("hardware.yaml");
/// The name of a file of hardware beside the script.
const BESIDE: &str = "hardware.yaml";

/// A class of machine, in the words of an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// How many CPUs it has; none: one.
    pub cpus: Option<u32>,
    /// The speed of each.
    pub speed: String,
    /// Its memory.
    pub memory: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    usual: Option<String>,
    #[serde(default)]
    machines: BTreeMap<String, Machine>,
    #[serde(default)]
    systems: BTreeMap<String, String>,
    limit: Option<String>,
}

/// Types of hardware and operating systems, and what they become here.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Where an unknown one would have to be written.
    pub file: PathBuf,
    /// The class of a node of which nothing is said.
    pub usual: String,
    /// Classes by type of hardware.
    pub machines: BTreeMap<String, Machine>,
    /// Root file systems by patterns of names of operating systems.
    pub systems: BTreeMap<String, String>,
    /// When a run ends of which nothing is said.
    pub limit: String,
}

const KIND: Kind = Kind {
    the: "the file of hardware",
    is: "a file of hardware is a YAML file",
    missing: "`--machines` names a YAML file that says what hardware and operating systems are here",
    longest: 1 << 20,
};

impl Hardware {
    /// The shipped types, with those of `given`, or of the file beside the script.
    pub fn read(folder: &Path, given: Option<&Path>) -> Result<Hardware, Error> {
        let shipped: File =
            model::read_yaml(Path::new("the shipped hardware.yaml"), Some(SHIPPED), &KIND).map_err(Error::Hardware)?;
        let beside = folder.join(BESIDE);
        let mut all = Hardware {
            file: given.map_or_else(|| beside.clone(), Path::to_path_buf),
            usual: shipped.usual.unwrap_or_default(),
            machines: shipped.machines,
            systems: shipped.systems,
            limit: shipped.limit.unwrap_or_default(),
        };
        let own = given.map(Path::to_path_buf).or_else(|| beside.exists().then_some(beside));
        if let Some(path) = own {
            let own: File = model::read_yaml(&path, None, &KIND).map_err(Error::Hardware)?;
            all.machines.extend(own.machines);
            all.systems.extend(own.systems);
            all.usual = own.usual.unwrap_or(all.usual);
            all.limit = own.limit.unwrap_or(all.limit);
        }
        Ok(all)
    }

    /// The root file system of an operating system: of the longest pattern that matches.
    pub fn system(&self, name: &str) -> Option<&str> {
        let found = self.systems.iter().filter(|(pattern, _)| model::matches(pattern, name));
        found.max_by_key(|(pattern, _)| pattern.len()).map(|(_, root)| root.as_str())
    }

    /// The message about something that is not in the file.
    pub fn unknown(&self, what: &str, name: &str, section: &str, example: &str) -> String {
        let known: Vec<&String> = match section {
            "machines" => self.machines.keys().collect(),
            _ => self.systems.keys().collect(),
        };
        let say = match model::nearest(name, &known) {
            Some(near) => format!("; did you mean `{near}`? Or say"),
            None => ": say".into(),
        };
        format!(
            "there is no {what} `{name}` here{say} what it is, in {} under `{section}`: `{name}: {example}`",
            self.file.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_is_right_and_one_beside_the_script_adds_to_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let shipped = Hardware::read(dir.path(), None).expect("it is right");
        assert!(shipped.machines.contains_key(&shipped.usual));
        assert_eq!((shipped.system("FBSD45-STD"), shipped.system("WIN98")), (Some("host"), None));
        let own = "usual: big\nmachines: { big: { cpus: 4, speed: 2, memory: 1GiB } }\nsystems: { FBSD45*: bsd }\n";
        std::fs::write(dir.path().join(BESIDE), own).expect("it is written");
        let both = Hardware::read(dir.path(), None).expect("it is right");
        assert_eq!((both.system("FBSD45-STD"), both.system("FBSD-STD")), (Some("bsd"), Some("host")));
        assert_eq!((both.usual.as_str(), both.machines["big"].speed.as_str()), ("big", "2"));
        assert_eq!((both.machines["big"].cpus, both.machines["pc850"].cpus), (Some(4), None));
        let said = both.unknown("hardware", "pc8500", "machines", "{ … }");
        assert!(said.contains("did you mean `pc850`?") && said.contains(BESIDE), "{said}");
        std::fs::write(dir.path().join("other"), "machine: {}\n").expect("it is written");
        let wrong = Hardware::read(dir.path(), Some(&dir.path().join("other"))).expect_err("a wrong key");
        assert!(wrong.to_string().contains("did you mean `machines`?"), "{wrong}");
    }
}
