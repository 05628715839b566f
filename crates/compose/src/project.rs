//! A Compose project: services, networks and volumes as Compose has them once all files are read.

mod environment;
mod json;
mod service;

use std::collections::BTreeMap;

use model::yaml::{Span, did_you_mean};

use crate::load::{Environment, Loader};
use crate::tree::{Data, Key, Value};

pub(crate) use self::service::{Healthcheck, Service};

/// Compose's keys at the top of a file.
const TOP: [&str; 9] =
    ["name", "version", "services", "networks", "volumes", "configs", "secrets", "include", "models"];

/// A project.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub name: String,
    pub services: Vec<Service>,
    /// Whether a service, also one that is left out, is in the network that needs no declaration.
    pub uses_default: bool,
    /// Services that no profile asks for.
    pub left_out: Vec<(String, Span)>,
    pub networks: Vec<Network>,
    /// Named volumes.
    pub volumes: Vec<String>,
    /// Files and texts that services may be given, by `configs` and `secrets`.
    pub configs: BTreeMap<String, Value>,
    pub secrets: BTreeMap<String, Value>,
}

/// A network.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub key: String,
    pub span: Span,
    /// Blocks of addresses.
    pub subnets: Vec<(String, Span)>,
    pub options: Value,
}

/// Reads a project out of its merged tree.
pub(crate) fn read(loader: &mut Loader, root: &Value, name: String, environment: &Environment<'_>) -> Project {
    top(loader, root);
    let services = root.get("services");
    let mut all = Vec::new();
    match services.map(|services| &services.data) {
        Some(Data::Map(entries)) => {
            for (key, value) in entries {
                all.extend(Service::read(loader, key, value));
            }
        }
        Some(_) => loader.wrong(services.map_or(root.span, |s| s.span), "`services` is a map of services"),
        None => loader.wrong(root.span, "there are no `services`: an experiment is made of these"),
    }
    let networks = networks(loader, root);
    let named = |kind: &str| {
        let entries = root.get(kind).map_or(&[][..], Value::entries);
        entries.iter().map(|(key, value)| (key.text.clone(), value.clone())).collect::<BTreeMap<_, _>>()
    };
    let volumes = named("volumes").into_keys().collect();
    for (kind, ways) in [("configs", &["file", "environment", "content"][..]), ("secrets", &["file", "environment"])] {
        for (key, value) in root.get(kind).map_or(&[][..], Value::entries) {
            let said = ways.iter().filter(|way| value.get(way).is_some()).count();
            let is_elsewhere = value.get("external").is_some() || value.get("driver").is_some();
            if said > 1 || (said == 0 && !is_elsewhere) {
                let what = format!("`{}` is given by one of these: {}", key.text, ways.join(", "));
                loader.wrong(key.span, what);
            }
        }
    }
    let in_default = |service: &Service| service.networks.iter().any(|member| member.network == "default");
    let mut project = Project {
        name,
        uses_default: all.iter().any(in_default),
        services: all,
        left_out: Vec::new(),
        networks,
        volumes,
        configs: named("configs"),
        secrets: named("secrets"),
    };
    for service in &mut project.services {
        environment::look_up(service, environment);
    }
    project
}

impl Project {
    /// Leaves out the services that belong to other profiles than these, and checks what names what.
    pub fn choose(&mut self, loader: &mut Loader, profiles: &[String]) {
        let is_wanted = |service: &Service| {
            let is_asked_for = |own: &String| profiles.iter().any(|asked| asked == "*" || asked == own);
            service.profiles.is_empty() || service.profiles.iter().any(is_asked_for)
        };
        let (wanted, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.services).into_iter().partition(is_wanted);
        for service in &others {
            let listed = service.profiles.join("`, `");
            let what = format!(
                "`{}` is left out, as it belongs to the profile `{listed}`: `--profile {}` brings it",
                service.key, service.profiles[0]
            );
            loader.note(service.span, None, what);
        }
        self.left_out = others.into_iter().map(|service| (service.key, service.span)).collect();
        self.services = wanted;
        self.check(loader);
    }

    /// Reads the files of settings of those that take part.
    pub fn read_settings(&mut self, loader: &mut Loader, environment: &Environment<'_>) {
        for service in &mut self.services {
            environment::read_files(loader, service, environment);
        }
    }

    /// Checks what services name.
    fn check(&mut self, loader: &mut Loader) {
        let names: Vec<String> = self.services.iter().map(|service| service.key.clone()).collect();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        for service in &mut self.services {
            service.depends_on.retain(|dependency| {
                let name = &dependency.service;
                if known.contains(&name.as_str()) {
                    return true;
                }
                let is_left_out = self.left_out.iter().any(|(other, _)| other == name);
                if is_left_out && !dependency.required {
                    return true;
                }
                let what = match is_left_out {
                    true => format!("`{name}` belongs to a profile that nobody asks for: add `--profile`"),
                    false => format!("there is no service `{name}`{}", did_you_mean(name, &known)),
                };
                loader.wrong(dependency.span, what);
                false
            });
            for member in &service.networks {
                if member.network != "default" && !self.networks.iter().any(|n| n.key == member.network) {
                    let declared: Vec<&str> = self.networks.iter().map(|n| n.key.as_str()).collect();
                    let what =
                        format!("there is no network `{}`{}", member.network, did_you_mean(&member.network, &declared));
                    loader.wrong(member.span, what);
                }
            }
            for (kind, items, declared) in
                [("config", &service.configs, &self.configs), ("secret", &service.secrets, &self.secrets)]
            {
                for item in items {
                    let source = item.get("source").and_then(Value::shown).unwrap_or_default();
                    if !declared.contains_key(&source) {
                        let known: Vec<&str> = declared.keys().map(String::as_str).collect();
                        let what = format!("there is no {kind} `{source}`{}", did_you_mean(&source, &known));
                        loader.wrong(item.span, what);
                    }
                }
            }
            for (volume, span) in &service.volumes {
                if volume.kind == "volume"
                    && let Some(source) = &volume.source
                    && !self.volumes.contains(source)
                {
                    let declared: Vec<&str> = self.volumes.iter().map(String::as_str).collect();
                    let what = format!("there is no volume `{source}`{}", did_you_mean(source, &declared));
                    loader.wrong(*span, format!("{what}: name it under `volumes`, or write ./{source} for a folder"));
                }
            }
        }
        self.cycles(loader);
    }

    /// Refuses services that wait for one another.
    fn cycles(&self, loader: &mut Loader) {
        let mut left: Vec<&Service> = self.services.iter().collect();
        loop {
            let names: Vec<&str> = left.iter().map(|service| service.key.as_str()).collect();
            let waits = |s: &&Service| s.depends_on.iter().any(|d| names.contains(&d.service.as_str()));
            let still: Vec<&Service> = left.iter().copied().filter(waits).collect();
            if still.len() == left.len() {
                break;
            }
            left = still;
        }
        if let Some(first) = left.first() {
            let names: Vec<&str> = left.iter().map(|service| service.key.as_str()).collect();
            loader.wrong(first.span, format!("`{}` wait for one another by `depends_on`", names.join("`, `")));
        }
    }
}

fn top(loader: &mut Loader, root: &Value) {
    for (key, value) in root.entries() {
        match key.text.as_str() {
            "version" => loader.note(key.span, None, "`version` means nothing any more"),
            "models" => loader.note(key.span, None, "`models`: no model is run here"),
            "name" if value.as_text().is_none() => {
                loader.wrong(value.span, format!("`name` is a text, and not {}", value.kind()));
            }
            known if TOP.contains(&known) => (),
            own if own.starts_with("x-") => {
                loader.note(key.span, None, format!("`{own}` is the file's own: only what refers to it takes it over"));
            }
            other => {
                let what = format!("Compose has no `{other}` here{}", did_you_mean(other, &TOP));
                loader.wrong(key.span, what);
            }
        }
        if matches!(key.text.as_str(), "networks" | "volumes" | "configs" | "secrets")
            && !matches!(value.data, Data::Map(_))
        {
            loader.wrong(value.span, format!("`{}` is a map, and this is {}", key.text, value.kind()));
        }
    }
    for (kind, options) in [
        ("volumes", &["name", "driver", "driver_opts", "external", "labels"][..]),
        ("configs", &["name", "content", "environment", "file", "external", "labels", "template_driver"][..]),
        (
            "secrets",
            &["name", "environment", "file", "external", "labels", "driver", "driver_opts", "template_driver"][..],
        ),
    ] {
        for (_, value) in root.get(kind).map_or(&[][..], Value::entries) {
            known_keys(loader, value, options, &format!("one of `{kind}`"));
        }
    }
}

/// Refuses keys that are not among those that Compose has there.
pub(crate) fn known_keys(loader: &mut Loader, value: &Value, known: &[&str], what: &str) {
    match &value.data {
        Data::Null | Data::Map(_) => (),
        _ => loader.wrong(value.span, format!("{what} is a map, and this is {}", value.kind())),
    }
    for (key, _) in value.entries() {
        if !known.contains(&key.text.as_str()) && !key.text.starts_with("x-") {
            loader.wrong(key.span, format!("{what} has no `{}`{}", key.text, did_you_mean(&key.text, known)));
        }
    }
}

fn networks(loader: &mut Loader, root: &Value) -> Vec<Network> {
    let options = [
        "name",
        "driver",
        "driver_opts",
        "ipam",
        "external",
        "internal",
        "enable_ipv4",
        "enable_ipv6",
        "attachable",
        "labels",
    ];
    let mut all = Vec::new();
    for (key, value) in root.get("networks").map_or(&[][..], Value::entries) {
        known_keys(loader, value, &options, "a network");
        let mut subnets = Vec::new();
        if let Some(ipam) = value.get("ipam") {
            known_keys(loader, ipam, &["driver", "config", "options"], "`ipam`");
            for block in ipam.get("config").map_or(&[][..], Value::items) {
                known_keys(loader, block, &["subnet", "ip_range", "gateway", "aux_addresses"], "a block of addresses");
                if let Some(subnet) = block.get("subnet").and_then(Value::as_text) {
                    subnets.push((subnet.to_owned(), block.span));
                }
            }
        }
        all.push(Network { key: key.text.clone(), span: key.span, subnets, options: value.clone() });
    }
    all
}

/// The text of a value, and a mistake if it is none.
pub(crate) fn text(loader: &mut Loader, value: &Value) -> Option<String> {
    let shown = value.shown();
    if shown.is_none() {
        loader.wrong(value.span, format!("a text belongs here, and this is {}", value.kind()));
    }
    shown
}

/// A map's entries, and a mistake if it is none.
pub(crate) fn map<'v>(loader: &mut Loader, value: &'v Value, what: &str) -> &'v [(Key, Value)] {
    if !matches!(value.data, Data::Map(_) | Data::Null) {
        loader.wrong(value.span, format!("{what} is a map, and this is {}", value.kind()));
    }
    value.entries()
}
