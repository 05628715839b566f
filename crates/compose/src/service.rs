//! A service of a Compose file, as a node.

use std::collections::BTreeMap;

use model::yaml::{Data, Key, Span, Value, did_you_mean};

use crate::interpolate::settings;
use crate::{Reader, label};

/// A service.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// What the node is called.
    pub name: String,
    /// What it runs, as the experiment's file has it.
    pub run: String,
    pub root: Option<String>,
    pub count: Option<u32>,
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    /// Paths in the node, and in the folder.
    pub files: Vec<(String, String)>,
    pub after: Vec<String>,
    pub ready: Option<u16>,
    /// The networks' names, and where they stand.
    pub networks: Vec<(String, Span)>,
    /// Bytes, as an experiment writes them.
    pub memory: Option<String>,
    /// Of one core.
    pub cpus: Option<f64>,
}

/// What a service may say that changes nothing of what is measured.
const SILENT: &[&str] = &[
    "annotations",
    "attach",
    "container_name",
    "develop",
    "labels",
    "label_file",
    "logging",
    "profiles",
    "pull_policy",
    "stdin_open",
    "tty",
];
/// What is not carried over, and what to do instead.
const NOTED: &[(&str, &str)] = &[
    ("cap_drop", "a node's programs have few rights anyhow"),
    ("configs", "give the node its files by `files`"),
    ("cpu_shares", "a node has its own share: the `speed` of its machine"),
    ("cpuset", "nodes are put on cores by the plan"),
    ("dns", "names are in /etc/hosts of each node"),
    ("domainname", "names are in /etc/hosts of each node"),
    ("extra_hosts", "names are in /etc/hosts of each node"),
    ("healthcheck", "a node is ready when it listens: `ready: { tcp: PORT }`"),
    ("hostname", "a node is known by its own name"),
    ("init", "each node has an init that reaps"),
    ("mem_reservation", "`memory` of its machine is its limit"),
    ("memswap_limit", "there is no swap"),
    ("mac_address", "hardware addresses follow from the others"),
    ("oom_score_adj", "memory runs out in the node alone"),
    ("read_only", "what a node writes is its own, and gone afterwards"),
    ("restart", "a node that ends stays so: `events` can start it again"),
    ("secrets", "give the node its files by `files`"),
    ("shm_size", "/dev/shm counts to the node's memory"),
    ("stop_grace_period", "nodes have ten seconds at the end"),
    ("stop_signal", "nodes are ended by TERM"),
    ("tmpfs", "all that a node writes is in its own files"),
    ("ulimits", "set them in the command, by `sh -c`"),
    ("user", "programs begin as root: write `setpriv` or `su` into the command"),
];
/// What would make another system of it.
const REFUSED: &[(&str, &str)] = &[
    (
        "build",
        "images are not built here: build it, save it by `docker save IMAGE -o images/NAME.tar`, and write `image`",
    ),
    ("privileged", "nodes are shut in, all of them: take it out, and see whether the program needs it"),
    ("cap_add", "nodes have the rights that they have: take it out, and see whether the program needs it"),
    ("devices", "nodes have no devices of the machine: take it out"),
    ("gpus", "nodes have no devices of the machine: take it out"),
    ("device_cgroup_rules", "nodes have no devices of the machine: take it out"),
    ("network_mode", "each node has a network of its own: write `networks`"),
    ("pid", "each node has processes of its own: take it out"),
    ("ipc", "each node has memory of its own: take it out"),
    ("uts", "each node has a name of its own: take it out"),
    ("userns_mode", "nodes are shut in, all of them: take it out"),
    ("cgroup", "control groups are the plan's business: take it out"),
    ("cgroup_parent", "control groups are the plan's business: take it out"),
    ("security_opt", "nodes are shut in, all of them: take it out"),
    ("sysctls", "nodes have the kernel's usual settings, scaled: take it out"),
    ("volumes_from", "nodes share no files: give each its own by `files`"),
    ("extends", "write the service out: nothing is taken over from others"),
    ("links", "write `networks`: a node's name is known to all"),
    ("external_links", "no network leads out of an experiment"),
    ("provider", "nothing outside the experiment can be part of it"),
];
const KNOWN: &[&str] = &[
    "image",
    "command",
    "entrypoint",
    "environment",
    "env_file",
    "working_dir",
    "ports",
    "expose",
    "depends_on",
    "networks",
    "volumes",
    "scale",
    "deploy",
    "mem_limit",
    "cpus",
];

impl Service {
    pub fn read(reader: &mut Reader<'_>, key: &Key, value: &Value, services: &[&str]) -> Service {
        let name = label(&key.text);
        if name.is_empty() || name == "localhost" {
            reader.wrong(key.span, format!("`{}` cannot be the name of a node: rename it", key.text));
        } else if name != key.text {
            let what = format!("`{}` is called `{name}` here, also by others", key.text);
            reader.note(key.span, Some(&name), what);
        }
        let mut service = Service {
            name: name.clone(),
            run: String::new(),
            root: None,
            count: None,
            env: BTreeMap::new(),
            cwd: None,
            files: Vec::new(),
            after: Vec::new(),
            ready: None,
            networks: Vec::new(),
            memory: None,
            cpus: None,
        };
        let (mut entrypoint, mut command) = (None, None);
        for (option, value) in reader.map(value, "a service") {
            let at = option.span;
            match option.text.as_str() {
                "image" => service.image(reader, value),
                "command" => command = Some(value).filter(|v| !v.is_null()),
                "entrypoint" => entrypoint = Some(value).filter(|v| !v.is_null()),
                "environment" => service.environment(reader, value),
                "env_file" => service.env_files(reader, value),
                "working_dir" => service.cwd = reader.scalar(value),
                "ports" | "expose" => service.port(reader, value),
                "depends_on" => service.depends(reader, value, services),
                "networks" => service.network(value, reader),
                "volumes" => service.volumes(reader, value),
                "scale" => service.replicas(reader, value),
                "mem_limit" => service.memory = reader.scalar(value).and_then(|text| bytes(reader, value, &text)),
                "cpus" => service.cpu(reader, value),
                "deploy" => service.deploy(reader, value),
                "network_mode" if reader.scalar(value).as_deref() == Some("bridge") => (),
                "privileged" | "init" | "read_only" if is_false(value) => (),
                other if SILENT.contains(&other) || other.starts_with("x-") => (),
                other => match (find(NOTED, other), find(REFUSED, other)) {
                    (Some(why), _) => reader.note(at, Some(&name), format!("`{other}` is not carried over: {why}")),
                    (None, Some(why)) => reader.wrong(at, format!("`{other}`: {why}")),
                    (None, None) => {
                        let known: Vec<&str> = KNOWN.to_vec();
                        let what = format!("a service has no `{other}`{}", did_you_mean(other, &known));
                        reader.wrong(at, what);
                    }
                },
            }
        }
        service.runs(reader, key, entrypoint, command);
        if service.networks.is_empty() {
            service.networks.push(("default".into(), key.span));
        }
        service
    }

    /// Who it is in lists of nodes.
    pub fn pattern(&self) -> String {
        if self.count.is_some() { format!("{}-*", self.name) } else { self.name.clone() }
    }

    fn image(&mut self, reader: &mut Reader<'_>, value: &Value) {
        let Some(image) = reader.scalar(value) else { return };
        // redis:7 and registry.example/group/redis:7 are redis.
        let last = image.rsplit('/').next().unwrap_or(&image);
        let short = label(last.split([':', '@']).next().unwrap_or(last));
        let archive = format!("images/{short}.tar");
        if reader.folder.join(&archive).is_file() {
            self.root = Some(archive);
        } else {
            let what = format!(
                "image `{image}` is not here, so this machine's own programs run: save it by `docker save {image} -o \
                 {archive}` and convert again, or write `root: {archive}`"
            );
            reader.note(value.span, Some(&self.name), what);
        }
    }

    /// What is run, as Compose puts it together: the entry point, and the command behind it.
    fn runs(&mut self, reader: &mut Reader<'_>, key: &Key, entrypoint: Option<&Value>, command: Option<&Value>) {
        let all: Vec<&Value> = entrypoint.into_iter().chain(command).collect();
        self.run = match all[..] {
            [] => {
                let what = "what it runs is known to its image only: write `command`, which `docker inspect` of the \
                            image says (Entrypoint and Cmd)";
                reader.wrong(key.span, what);
                return;
            }
            [Value { data: Data::Scalar { .. }, .. }] => quoted(&reader.scalar(all[0]).unwrap_or_default()),
            _ => {
                let mut words = Vec::new();
                for part in all {
                    match &part.data {
                        Data::List(_) => words.extend(reader.list(part)),
                        _ => {
                            let text = reader.scalar(part).unwrap_or_default();
                            if text.contains(['"', '\'', '\\']) {
                                let what = "write it as a list of words: its quotes would have to be read twice";
                                reader.wrong(part.span, what);
                            }
                            words.extend(text.split_whitespace().map(str::to_owned));
                        }
                    }
                }
                format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
            }
        };
    }

    fn environment(&mut self, reader: &mut Reader<'_>, value: &Value) {
        match &value.data {
            Data::List(items) => {
                for item in items {
                    let Some(text) = reader.scalar(item) else { continue };
                    match text.split_once('=') {
                        Some((name, value)) => drop(self.env.insert(name.into(), value.into())),
                        None => {
                            let what = format!("`{text}` without a value is not taken from here: write {text}=VALUE");
                            reader.note(item.span, Some(&self.name), what);
                        }
                    }
                }
            }
            _ => {
                for (key, value) in reader.map(value, "`environment`") {
                    if let Some(text) = reader.scalar(value) {
                        self.env.insert(key.text.clone(), if value.is_null() { String::new() } else { text });
                    }
                }
            }
        }
    }

    fn env_files(&mut self, reader: &mut Reader<'_>, value: &Value) {
        for file in reader.list(value) {
            let Some(inside) = inside(&file) else {
                reader.wrong(value.span, format!("`{file}` leads out of the folder: put it there"));
                continue;
            };
            match std::fs::read_to_string(reader.folder.join(inside)) {
                // What the service itself says wins.
                Ok(text) => settings(&text).into_iter().for_each(|(name, value)| {
                    self.env.entry(name).or_insert(value);
                }),
                Err(e) => reader.wrong(value.span, format!("`{file}` cannot be read: {e}")),
            }
        }
    }

    /// It is ready when it listens on its first port.
    fn port(&mut self, reader: &mut Reader<'_>, value: &Value) {
        let Data::List(items) = &value.data else {
            reader.wrong(value.span, format!("this is a list of ports, and not {}", value.kind()));
            return;
        };
        for item in items {
            let (text, protocol) = match item.get("target") {
                Some(target) => {
                    let protocol = item.get("protocol").and_then(|p| reader.scalar(p));
                    (reader.scalar(target).unwrap_or_default(), protocol)
                }
                None => {
                    let text = reader.scalar(item).unwrap_or_default();
                    let (ports, protocol) = text.split_once('/').unwrap_or((&text, "tcp"));
                    let target = ports.rsplit(':').next().unwrap_or(ports);
                    (target.split('-').next().unwrap_or(target).to_owned(), Some(protocol.to_owned()))
                }
            };
            match text.parse::<u16>() {
                Ok(port) if protocol.as_deref().unwrap_or("tcp") == "tcp" => self.ready = self.ready.or(Some(port)),
                Ok(_) => (),
                Err(_) => reader.wrong(item.span, format!("`{text}` is no port: write a number from 1 to 65535")),
            }
        }
    }

    fn depends(&mut self, reader: &mut Reader<'_>, value: &Value, services: &[&str]) {
        let named: Vec<(String, Span)> = match &value.data {
            Data::List(items) => items.iter().filter_map(|item| Some((reader.scalar(item)?, item.span))).collect(),
            _ => {
                let entries = reader.map(value, "`depends_on`");
                for (key, value) in entries {
                    let condition = value.get("condition").and_then(|c| reader.scalar(c));
                    if condition.as_deref() == Some("service_completed_successfully") {
                        let what = format!("it waits for `{}` to be ready, not to be over", key.text);
                        reader.note(key.span, Some(&self.name), what);
                    }
                }
                entries.iter().map(|(key, _)| (key.text.clone(), key.span)).collect()
            }
        };
        for (name, at) in named {
            match services.contains(&name.as_str()) {
                true => self.after.push(label(&name)),
                false => reader.wrong(at, format!("there is no service `{name}`{}", did_you_mean(&name, services))),
            }
        }
    }

    fn network(&mut self, value: &Value, reader: &mut Reader<'_>) {
        match &value.data {
            Data::List(items) => {
                let all = items.iter().filter_map(|item| Some((reader.scalar(item)?, item.span)));
                self.networks = all.collect();
            }
            _ => {
                let entries = reader.map(value, "`networks`");
                for (key, value) in entries {
                    for (option, _) in reader.map(value, "a network of a service") {
                        let what = format!("`{}` in network `{}` is not carried over", option.text, key.text);
                        reader.note(option.span, Some(&self.name), what);
                    }
                }
                self.networks = entries.iter().map(|(key, _)| (key.text.clone(), key.span)).collect();
            }
        }
    }

    fn volumes(&mut self, reader: &mut Reader<'_>, value: &Value) {
        let Data::List(items) = &value.data else {
            reader.wrong(value.span, format!("this is a list of volumes, and not {}", value.kind()));
            return;
        };
        for item in items {
            let (source, target) = match item.get("target") {
                Some(target) => {
                    let source = item.get("source").and_then(|source| reader.scalar(source));
                    (source, reader.scalar(target).unwrap_or_default())
                }
                None => {
                    let text = reader.scalar(item).unwrap_or_default();
                    let mut parts = text.split(':');
                    match (parts.next(), parts.next()) {
                        (Some(source), Some(target)) => (Some(source.to_owned()), target.to_owned()),
                        _ => (None, text.clone()),
                    }
                }
            };
            let name = self.name.clone();
            match source {
                Some(path) if path.starts_with(['.', '/', '~']) => match inside(&path) {
                    Some(inside) if reader.folder.join(inside).exists() => {
                        self.files.push((target, inside.to_owned()));
                        let what = format!("`{path}` is copied into the node: what it writes there is its own");
                        reader.note(item.span, Some(&name), what);
                    }
                    Some(_) => reader.wrong(item.span, format!("there is no `{path}` in the folder")),
                    None => {
                        let what = format!("`{path}` leads out of the folder: copy it there, and name it as ./PATH");
                        reader.wrong(item.span, what);
                    }
                },
                _ => {
                    let what =
                        format!("the volume at `{target}` is the node's own, empty at first, and gone afterwards");
                    reader.note(item.span, Some(&name), what);
                }
            }
        }
    }

    fn replicas(&mut self, reader: &mut Reader<'_>, value: &Value) {
        let Some(text) = reader.scalar(value) else { return };
        match text.parse::<u32>() {
            Ok(0) => reader.wrong(value.span, "none of it: leave the service out"),
            Ok(1) => (),
            Ok(n) => self.count = Some(n),
            Err(_) => reader.wrong(value.span, format!("`{text}` is no number of nodes")),
        }
    }

    fn cpu(&mut self, reader: &mut Reader<'_>, value: &Value) {
        let Some(text) = reader.scalar(value) else { return };
        match text.parse::<f64>() {
            Ok(cpus) if cpus > 0.0 && cpus <= 1.0 => self.cpus = Some(cpus),
            Ok(cpus) if cpus > 1.0 => {
                self.cpus = Some(1.0);
                let what = format!("it may use {text} CPUs there, and has one here");
                reader.note(value.span, Some(&self.name.clone()), what);
            }
            _ => reader.wrong(value.span, format!("`{text}` is no number of CPUs")),
        }
    }

    fn deploy(&mut self, reader: &mut Reader<'_>, value: &Value) {
        for (key, value) in reader.map(value, "`deploy`") {
            match key.text.as_str() {
                "replicas" => self.replicas(reader, value),
                "resources" => {
                    let Some(limits) = value.get("limits") else { continue };
                    for (key, value) in reader.map(limits, "`limits`") {
                        match key.text.as_str() {
                            "cpus" => self.cpu(reader, value),
                            "memory" => {
                                self.memory = reader.scalar(value).and_then(|text| bytes(reader, value, &text));
                            }
                            other => {
                                let what = format!("`{other}` is not limited here");
                                reader.note(key.span, Some(&self.name.clone()), what);
                            }
                        }
                    }
                }
                other => {
                    let what = format!("`{other}` of `deploy` is not carried over");
                    reader.note(key.span, Some(&self.name.clone()), what);
                }
            }
        }
    }
}

fn find(all: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    all.iter().find(|(known, _)| *known == name).map(|(_, why)| *why)
}

fn is_false(value: &Value) -> bool {
    matches!(&value.data, Data::Scalar { text, plain: true } if text == "false")
}

/// A path below the folder, without `./`; none if it may lead out.
fn inside(path: &str) -> Option<&str> {
    let path = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
    let leads_out = path.is_empty() || path.starts_with(['/', '~']) || path.split('/').any(|part| part == "..");
    (!leads_out).then_some(path)
}

/// An amount of memory as an experiment writes it: Compose's units are powers of 1024, whether they end in `b` or not.
fn bytes(reader: &mut Reader<'_>, value: &Value, text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let unit = match unit {
        "" | "b" => "B",
        "k" | "kb" => "KiB",
        "m" | "mb" => "MiB",
        "g" | "gb" => "GiB",
        "t" | "tb" => "TiB",
        _ => "",
    };
    if unit.is_empty() || number.parse::<f64>().is_err() {
        reader.wrong(value.span, format!("`{text}` is no amount of memory: write 64m, 1.5gb, …"));
        return None;
    }
    Some(format!("{number}{unit}"))
}

/// A text as YAML has it: in double quotes, in which YAML reads JSON's escapes.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
