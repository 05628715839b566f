//! A service as a node: what an experiment can say of it, and notes of all that it cannot.

mod files;
mod image;
mod names;
mod ready;
mod user;

use std::collections::BTreeMap;

use model::yaml::Span;

pub(crate) use self::ready::Ready;
use crate::load::Loader;
use crate::options::{Fate, option};
use crate::project::{Project, Service};
use crate::tree::{Data, Key, Value};
use crate::{Image, Options, label};

/// Capabilities of nodes' programs as root for which Compose would have to be asked.
const CAPABILITIES: [&str; 16] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// A node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub name: String,
    /// The `run` of the experiment's file.
    pub run: String,
    pub root: Option<String>,
    pub count: Option<u32>,
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    pub user: Option<String>,
    pub hostname: Option<String>,
    pub names: Vec<String>,
    pub stop_signal: Option<String>,
    /// Paths in the node, and in the folder.
    pub files: Vec<(String, String)>,
    pub after: Vec<String>,
    pub ready: Option<Ready>,
    /// Bytes, as an experiment writes them.
    pub memory: Option<String>,
    /// How many CPUs it has, and how fast each is, of one core.
    pub cpus: Option<(u32, f64)>,
}

impl Node {
    /// Who it is in lists of nodes.
    pub fn pattern(&self) -> String {
        if self.count.is_some() { format!("{}-*", self.name) } else { self.name.clone() }
    }
}

/// Makes a node of each service that has any.
pub(crate) fn nodes(loader: &mut Loader, project: &Project, options: &Options<'_>) -> Vec<Node> {
    let mut labels: BTreeMap<String, &str> = BTreeMap::new();
    for service in &project.services {
        if service.name.is_empty() || service.name == "localhost" {
            loader.wrong(service.span, format!("`{}` cannot be the name of a node: rename it", service.key));
        } else if let Some(other) = labels.insert(service.name.clone(), &service.key) {
            let what = format!("`{other}` and `{}` would be one node: rename one", service.key);
            loader.wrong(service.span, what);
        }
    }
    let mut nodes = Vec::new();
    for service in &project.services {
        if service.scale == Some(0) {
            let what = format!("`{}` is left out: there are to be none of it", service.key);
            loader.note(service.span, None, what);
            continue;
        }
        nodes.push(node(loader, project, service, options));
    }
    nodes
}

fn node(loader: &mut Loader, project: &Project, service: &Service, options: &Options<'_>) -> Node {
    let name = service.name.clone();
    if name != service.key {
        let what = format!("`{}` is called `{name}` here; others know it by both names", service.key);
        loader.note(service.span, Some(&name), what);
    }
    told(loader, service);
    let mut node = Node { name, count: service.scale.filter(|count| *count > 1), ..Node::default() };
    let found = image::find(loader, project, service, options);
    node.root = found.as_ref().map(|image| image.root.clone());
    node.run = image::run(loader, service, found.as_ref());
    node.cwd = image::working_dir(service, found.as_ref());
    for (variable, value) in &service.environment {
        match value {
            Some(value) => drop(node.env.insert(variable.clone(), value.clone())),
            None => {
                let what = format!("`{variable}` has no value, here or in the environment, and is not set");
                loader.note(service.span, Some(&service.name), what);
            }
        }
    }
    node.after = after(loader, project, service);
    node.ready = ready::ready(loader, service, found.as_ref());
    files::files(loader, project, service, &mut node.files);
    node.memory = service.memory.map(|(bytes, _)| amount(bytes));
    node.cpus = service.cpus.map(|(limit, span)| cpus(loader, service, limit, span));
    if let Some(user) = user::user(loader, service, found.as_ref(), options) {
        node.user = Some(user.numbers);
        let has_home = |image: &Image| image.environment.iter().any(|line| line.starts_with("HOME="));
        if let Some(home) = user.home
            && !found.as_ref().is_some_and(has_home)
        {
            node.env.entry("HOME".into()).or_insert(home);
        }
    }
    node.names = names::names(loader, project, service);
    node.hostname = service.hostname.clone().filter(|hostname| node.names.contains(hostname));
    let signal = service.stop_signal.clone().or_else(|| Some(found.as_ref()?.stop_signal.clone()));
    let plain = |signal: String| signal.to_ascii_uppercase().trim_start_matches("SIG").to_owned();
    node.stop_signal = signal.map(plain).filter(|signal| !matches!(signal.as_str(), "" | "TERM" | "15"));
    node
}

/// A limit of CPU time as CPUs, as few as can use it, and the speed of each.
///
/// Compose limits what all threads of a service take together, and any one of them may have a whole CPU.
fn cpus(loader: &mut Loader, service: &Service, limit: f64, span: Span) -> (u32, f64) {
    let count = limit.ceil().max(1.0);
    let speed = (limit / count * 1e4).round() / 1e4;
    if count > 1.0 && speed < 1.0 {
        let what = format!(
            "its threads may use {limit} CPUs together there; here it has {count} CPUs of speed {speed}, so that one \
             thread alone gets {speed} of a core where it would get all of one"
        );
        loader.note(span, Some(&service.name), what);
    }
    // A count that no experiment may have is refused where it is read.
    (count as u32, speed)
}

/// Says what becomes of options that the experiment cannot have.
fn told(loader: &mut Loader, service: &Service) {
    let mut idle: Vec<&str> = Vec::new();
    let mut first = None;
    for (key, value) in &service.options {
        let name = key.text.as_str();
        let is_off = matches!(value.data, Data::Bool(false)) || value.is_null();
        match option(name).map(|(_, fate)| fate) {
            _ if is_off => {}
            Some(Fate::Idle) => {
                idle.push(name);
                first = first.or(Some(key.span));
            }
            None if name.starts_with("x-") => {
                idle.push(name);
                first = first.or(Some(key.span));
            }
            Some(Fate::Noted(why)) => {
                loader.note(key.span, Some(&service.name), format!("`{name}` is not carried over: {why}"));
            }
            Some(Fate::Refused(why)) => loader.wrong(key.span, format!("`{name}`: {why}")),
            _ => told_of(loader, service, key, value),
        }
    }
    if let Some(span) = first {
        let many = if idle.len() == 1 { "changes" } else { "change" };
        let what = format!("`{}` {many} nothing that is measured", idle.join("`, `"));
        loader.note(span, Some(&service.name), what);
    }
}

/// Says it of options that the experiment has in part.
fn told_of(loader: &mut Loader, service: &Service, key: &Key, value: &Value) {
    let node = Some(service.name.as_str());
    match key.text.as_str() {
        "cap_add" => {
            for item in value.items() {
                let given = item.as_text().unwrap_or_default().to_ascii_uppercase();
                let plain = given.strip_prefix("CAP_").unwrap_or(&given);
                if !CAPABILITIES.contains(&plain) {
                    let what = format!("`{plain}` is a right that nodes do not have: see whether the program needs it");
                    loader.note(item.span, node, what);
                }
            }
        }
        "network_mode" => match service.network_mode.as_ref().map(|(mode, _)| mode.as_str()) {
            Some("bridge" | "default") => {}
            Some(mode) => {
                let what = format!("`network_mode: {mode}`: each node has a network of its own: write `networks`");
                loader.wrong(key.span, what);
            }
            None => {}
        },
        "deploy" => {
            for (key, value) in value.entries() {
                match key.text.as_str() {
                    "replicas" => {}
                    "labels" => loader.note(key.span, node, "`labels` of `deploy` change nothing that is measured"),
                    "resources" => {
                        if value.get("reservations").is_some() {
                            loader.note(key.span, node, "nothing is reserved: a node has all that its machine has");
                        }
                        if value.get("limits").is_some_and(|limits| limits.get("pids").is_some()) {
                            loader.note(key.span, node, "`pids` is not limited here");
                        }
                    }
                    other => loader.note(key.span, node, format!("`{other}` of `deploy` is not carried over")),
                }
            }
        }
        "networks" => {
            for member in &service.networks {
                for (key, _) in member.options.entries() {
                    if !matches!(key.text.as_str(), "ipv4_address" | "aliases") {
                        let what = format!("`{}` in network `{}` is not carried over", key.text, member.network);
                        loader.note(key.span, node, what);
                    }
                }
            }
        }
        "extra_hosts" => {
            for (host, span) in &service.extra_hosts {
                let what = format!("`{host}` is not known here: /etc/hosts has the nodes, and nobody else is reached");
                loader.note(*span, node, what);
            }
        }
        "sysctls" => {
            loader.note(value.span, node, "`sysctls` are not carried over: nodes have the kernel's usual settings")
        }
        _ => {}
    }
}

/// Whom a node waits for.
fn after(loader: &mut Loader, project: &Project, service: &Service) -> Vec<String> {
    let mut after = Vec::new();
    for dependency in &service.depends_on {
        let Some(other) = project.services.iter().find(|other| other.key == dependency.service) else {
            let what = format!("it does not wait for `{}`, which is left out", dependency.service);
            loader.note(dependency.span, Some(&service.name), what);
            continue;
        };
        if other.scale == Some(0) {
            continue;
        }
        if dependency.condition == "service_completed_successfully" {
            let what = format!("it waits for `{}` to be ready, not to be over", dependency.service);
            loader.note(dependency.span, Some(&service.name), what);
        }
        after.push(label(&dependency.service));
    }
    after
}

/// An amount of memory as an experiment writes it, in the largest unit in which it is short.
fn amount(bytes: u64) -> String {
    for (unit, size) in [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        let value = bytes as f64 / size as f64;
        if value >= 1.0 && (value * 100.0).fract() == 0.0 {
            return format!("{value}{unit}");
        }
    }
    format!("{bytes}B")
}
