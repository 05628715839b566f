//! Compose files (<https://compose-spec.io>) as experiments: services become nodes, networks LANs.
//!
//! What an experiment cannot say stands in its file as a comment; what would make another system of it is an error with
//! its line. Nothing here touches the machine but reading the file, and looking which images lie beside it.

mod interpolate;
mod service;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use model::Error;
use model::Experiment;
use model::yaml::{self, Data, Kind, Problems, Span, Value, did_you_mean};

use crate::interpolate::Variables;
use crate::service::Service;

const COMPOSE: Kind = Kind {
    the: "the Compose file",
    is: "a Compose file is a YAML file, such as compose.yaml",
    missing: "name a Compose file, such as compose.yaml, or an ns script",
    longest: 1 << 20,
};

/// What Compose has at the top of a file.
const TOP: [&str; 9] =
    ["name", "version", "services", "networks", "volumes", "configs", "secrets", "include", "models"];

/// An experiment's file that was made of a Compose file.
#[derive(Clone, Debug)]
pub struct Converted {
    file: PathBuf,
    folder: PathBuf,
    text: String,
    /// What is different from what the file says, each with its line.
    pub notes: Vec<String>,
}

/// Whether a name is that of a Compose file.
pub fn is_compose(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "yaml" || e == "yml")
}

/// Makes an experiment's file of a Compose file. `environment` says what a variable in it stands for; what it does not
/// know is looked up in the file `.env` beside it.
///
/// # Errors
///
/// What is wrong with the file or cannot be carried over, each place with its line.
pub fn convert(file: &Path, environment: impl Fn(&str) -> Option<String>) -> Result<Converted, Error> {
    let text = yaml::text(file, &COMPOSE)?;
    let folder = match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let (root, problems) = yaml::open(file, &COMPOSE)?;
    let variables = Variables::new(&folder, &environment);
    let mut reader = Reader { text: &text, folder: &folder, variables, problems, notes: Vec::new() };
    let services = reader.services(&root);
    let name = reader.name(&root, file);
    let networks = reader.networks(&root, &services);
    let Reader { problems, notes, .. } = reader;
    if !problems.none() {
        return Err(problems.into_error());
    }
    let shown = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = write::experiment(&name, &shown, &services, &networks, &notes);
    let notes = notes.iter().map(|note| format!("{}:{}: {}", file.display(), note.line, note.what)).collect();
    Ok(Converted { file: file.to_owned(), folder, text, notes })
}

impl Converted {
    /// The experiment.
    ///
    /// # Errors
    ///
    /// If it is wrong after all.
    pub fn load(&self) -> Result<Experiment, Error> {
        model::load_text(&self.text, &self.file.with_extension("experiment.yaml"), &self.folder, &[])
    }

    /// The text of its file, with this time dilation factor.
    pub fn text(&self, tdf: &str) -> String {
        self.text.replacen("\ntdf: 1\n", &format!("\ntdf: {tdf}\n"), 1)
    }
}

/// Something that is different in the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    line: usize,
    /// The node concerned, if one is.
    node: Option<String>,
    what: String,
}

/// A network, and who is in it.
#[derive(Clone, Debug)]
struct Network {
    name: String,
    members: Vec<String>,
    subnet: Option<String>,
}

/// What reads a file, and notes what is wrong or different.
struct Reader<'a> {
    text: &'a str,
    folder: &'a Path,
    variables: Variables<'a>,
    problems: Problems,
    notes: Vec<Note>,
}

impl Reader<'_> {
    fn wrong(&mut self, at: Span, what: impl Into<String>) {
        self.problems.add(at, what);
    }

    fn note(&mut self, at: Span, node: Option<&str>, what: impl Into<String>) {
        let line = self.text.chars().take(at.start).filter(|c| *c == '\n').count() + 1;
        self.notes.push(Note { line, node: node.map(str::to_owned), what: what.into() });
    }

    /// The entries of a map; nothing, and a mistake, if it is none.
    fn map<'v>(&mut self, value: &'v Value, what: &str) -> &'v [(yaml::Key, Value)] {
        match &value.data {
            Data::Map(entries) => entries,
            _ if value.is_null() => &[],
            _ => {
                self.wrong(value.span, format!("{what} is a map, and this is {}", value.kind()));
                &[]
            }
        }
    }

    /// A text, with what variables stand for in their places.
    fn scalar(&mut self, value: &Value) -> Option<String> {
        let Data::Scalar { text, .. } = &value.data else {
            self.wrong(value.span, format!("a text belongs here, and this is {}", value.kind()));
            return None;
        };
        match self.variables.fill_in(text) {
            Ok((filled, unset)) => {
                for name in unset {
                    let what = format!("`{name}` is set neither in the environment nor in `.env`: it is empty here");
                    self.note(value.span, None, what);
                }
                Some(filled)
            }
            Err(what) => {
                self.wrong(value.span, what);
                None
            }
        }
    }

    /// The texts of a list, or the only one.
    fn list(&mut self, value: &Value) -> Vec<String> {
        match &value.data {
            Data::List(items) => items.iter().filter_map(|item| self.scalar(item)).collect(),
            _ if value.is_null() => Vec::new(),
            _ => self.scalar(value).into_iter().collect(),
        }
    }

    fn name(&mut self, root: &Value, file: &Path) -> String {
        let given = root.get("name").and_then(|name| self.scalar(name));
        let folder = std::path::absolute(file).ok().and_then(|f| Some(f.parent()?.file_name()?.to_owned()));
        let name = given.or_else(|| Some(folder?.to_string_lossy().into_owned())).unwrap_or_default();
        let label = label(&name);
        if label.is_empty() { "compose".into() } else { label }
    }

    fn services(&mut self, root: &Value) -> Vec<Service> {
        for (key, value) in self.map(root, "a Compose file") {
            match key.text.as_str() {
                "include" => self.wrong(key.span, "`include` is not carried over: put the services into one file"),
                "configs" | "secrets" => {
                    self.note(key.span, None, format!("`{}`: give nodes their files by `files`", key.text));
                }
                known if TOP.contains(&known) || known.starts_with("x-") => (),
                other => {
                    let what = format!("Compose has no `{other}` here{}", did_you_mean(other, &TOP));
                    self.wrong(key.span, what);
                }
            }
            let _ = value;
        }
        let Some(all) = root.get("services") else {
            self.wrong(root.span, "there are no `services`: an experiment is made of these");
            return Vec::new();
        };
        let entries = self.map(all, "`services`");
        let names: Vec<&str> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
        let mut labels: BTreeMap<String, &str> = BTreeMap::new();
        for (key, _) in entries {
            if let Some(other) = labels.insert(label(&key.text), &key.text) {
                let what = format!("`{other}` and `{}` would be one node: rename one", key.text);
                self.wrong(key.span, what);
            }
        }
        entries.iter().map(|(key, value)| Service::read(self, key, value, &names)).collect()
    }

    fn networks(&mut self, root: &Value, services: &[Service]) -> Vec<Network> {
        let declared = root.get("networks").map_or(&[][..], |value| self.map(value, "`networks`"));
        let mut all: Vec<Network> = Vec::new();
        for service in services {
            for (name, at) in &service.networks {
                if name != "default" && !declared.iter().any(|(key, _)| key.text == *name) {
                    let known: Vec<&str> = declared.iter().map(|(key, _)| key.text.as_str()).collect();
                    self.wrong(*at, format!("there is no network `{name}`{}", did_you_mean(name, &known)));
                }
                let lan = label(name);
                match all.iter_mut().find(|network| network.name == lan) {
                    Some(network) => network.members.push(service.pattern()),
                    None => all.push(Network { name: lan, members: vec![service.pattern()], subnet: None }),
                }
            }
        }
        for (key, value) in declared {
            let lan = label(&key.text);
            for (option, value) in self.map(value, "a network") {
                match option.text.as_str() {
                    "ipam" => {
                        let subnet = value.get("config").and_then(|config| match &config.data {
                            Data::List(items) => items.first().and_then(|item| item.get("subnet")),
                            _ => None,
                        });
                        let subnet = subnet.and_then(|subnet| self.scalar(subnet)).filter(|s| !s.contains(':'));
                        all.iter_mut().filter(|n| n.name == lan).for_each(|n| n.subnet = subnet.clone());
                    }
                    "external" => self.note(option.span, None, "no network leads out of an experiment"),
                    "driver" | "name" | "internal" | "labels" | "attachable" | "enable_ipv6" | "enable_ipv4" => (),
                    other => self.note(option.span, None, format!("`{other}` of a network is not carried over")),
                }
            }
        }
        // A segment is shared by two at least.
        let of = |network: &Network| {
            let members = network.members.iter().map(|m| services.iter().find(|s| s.pattern() == *m));
            members.map(|service| service.map_or(1, |s| s.count.unwrap_or(1))).sum::<u32>()
        };
        let (lans, alone): (Vec<Network>, Vec<Network>) = all.into_iter().partition(|network| of(network) > 1);
        for network in alone {
            let what = format!("network `{}` has one member, who would speak to nobody there", network.name);
            self.note(root.span, None, what);
        }
        lans
    }
}

/// A name as hosts can have it: lower-case letters, digits, and single hyphens inside.
fn label(name: &str) -> String {
    let plain =
        name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>();
    plain.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}
