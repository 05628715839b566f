//! A service as Compose has it.

use std::collections::BTreeMap;

use model::yaml::{Span, did_you_mean};

use super::{known_keys, map, text};
use crate::label;
use crate::load::Loader;
use crate::options::{Fate, OPTIONS, option};
use crate::short::{self, Port, Volume, words};
use crate::tree::{Data, Key, Value};

/// Keys of `build`.
const BUILD: &[&str] = &[
    "additional_contexts",
    "args",
    "cache_from",
    "cache_to",
    "context",
    "dockerfile",
    "dockerfile_inline",
    "entitlements",
    "extra_hosts",
    "isolation",
    "labels",
    "network",
    "no_cache",
    "no_cache_filter",
    "platforms",
    "privileged",
    "provenance",
    "pull",
    "sbom",
    "secrets",
    "shm_size",
    "ssh",
    "tags",
    "target",
    "ulimits",
];

/// A service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    /// As the file calls it, and what its node is called.
    pub key: String,
    pub name: String,
    pub span: Span,
    pub image: Option<(String, Span)>,
    pub build: Option<Span>,
    pub entrypoint: Option<Vec<String>>,
    pub command: Option<Vec<String>>,
    /// The command as it was written, if it was one text of which all is run, and its place.
    pub line: Option<String>,
    /// A variable that is nothing is only named.
    pub environment: BTreeMap<String, Option<String>>,
    pub env_files: Vec<SettingsFile>,
    pub working_dir: Option<String>,
    pub user: Option<String>,
    pub hostname: Option<String>,
    pub container_name: Option<String>,
    pub networks: Vec<Member>,
    pub network_mode: Option<(String, Span)>,
    pub depends_on: Vec<Dependency>,
    /// Further names that it has for others: which service, and which name.
    pub links: Vec<(String, String, Span)>,
    pub ports: Vec<Port>,
    pub expose: Vec<(String, Span)>,
    pub volumes: Vec<(Volume, Span)>,
    pub configs: Vec<Value>,
    pub secrets: Vec<Value>,
    pub scale: Option<u32>,
    pub cpus: Option<(f64, Span)>,
    pub memory: Option<(u64, Span)>,
    /// CPUs and memory, by `deploy`.
    cpu_limit: Option<(f64, Span)>,
    memory_limit: Option<(u64, Span)>,
    pub healthcheck: Option<Healthcheck>,
    pub sysctls: BTreeMap<String, String>,
    pub extra_hosts: Vec<(String, Span)>,
    pub stop_signal: Option<String>,
    pub profiles: Vec<String>,
    /// All that was written, by name.
    pub options: Vec<(Key, Value)>,
}

/// A file of settings.
#[derive(Clone, Debug)]
pub(crate) struct SettingsFile {
    pub path: String,
    pub required: bool,
    pub format: Option<String>,
    pub span: Span,
}

/// That a service is in a network.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub network: String,
    pub span: Span,
    pub aliases: Vec<String>,
    pub ipv4: Option<String>,
    pub options: Value,
}

/// That a service waits for another.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub service: String,
    pub span: Span,
    pub condition: String,
    pub required: bool,
    /// Whether it is to start again with the other; nothing was said.
    pub restart: Option<bool>,
}

/// The test of whether a service is healthy.
#[derive(Clone, Debug)]
pub(crate) struct Healthcheck {
    pub span: Span,
    /// Its command: CMD or CMD-SHELL, and what is run.
    pub test: Vec<String>,
    pub disable: bool,
    /// How often it is run, and how long it may take, as they are written.
    pub interval: Option<String>,
    pub timeout: Option<String>,
}

impl Service {
    pub fn read(loader: &mut Loader, key: &Key, value: &Value) -> Option<Service> {
        if key.text.contains(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
            loader.wrong(key.span, format!("`{}` cannot be the name of a service: letters, digits, . _ -", key.text));
        }
        let Data::Map(entries) = &value.data else {
            loader.wrong(value.span, format!("a service is a map, and this is {}", value.kind()));
            return None;
        };
        let mut service = Service {
            key: key.text.clone(),
            name: label(&key.text),
            span: key.span,
            options: entries.clone(),
            ..Service::default()
        };
        let known: Vec<&str> = OPTIONS.iter().map(|(name, ..)| *name).collect();
        for (key, value) in entries {
            match option(&key.text) {
                Some((form, _)) if form.wrong(value).is_some() => {
                    let what = form.wrong(value).unwrap_or_default();
                    loader.wrong(value.span, format!("`{}`: {what}", key.text));
                }
                Some((_, Fate::Used)) => service.option(loader, key, value),
                Some(_) => {}
                None if key.text.starts_with("x-") => {}
                None => {
                    let what = format!("a service has no `{}`{}", key.text, did_you_mean(&key.text, &known));
                    loader.wrong(key.span, what);
                }
            }
        }
        service.label_files(loader);
        service.together(loader);
        Some(service)
    }

    fn option(&mut self, loader: &mut Loader, key: &Key, value: &Value) {
        match key.text.as_str() {
            "image" => self.image = text(loader, value).map(|image| (image, value.span)).filter(|(i, _)| !i.is_empty()),
            "build" => {
                known_keys(loader, value, BUILD, "`build`");
                self.build = Some(key.span);
            }
            "command" => {
                let (words, line) = command(loader, value);
                (self.command, self.line) = (words, line);
            }
            "entrypoint" => self.entrypoint = command(loader, value).0,
            "environment" => self.environment = environment(loader, value),
            "env_file" => self.env_file(loader, value),
            "working_dir" => self.working_dir = text(loader, value),
            "user" => self.user = text(loader, value),
            "hostname" => self.hostname = text(loader, value),
            "container_name" => self.container_name = text(loader, value),
            "networks" => self.network(loader, value),
            "network_mode" => self.network_mode = text(loader, value).map(|mode| (mode, value.span)),
            "depends_on" => self.depends(loader, value),
            "links" => {
                for item in value.items() {
                    let whole = text(loader, item).unwrap_or_default();
                    let (service, alias) = whole.split_once(':').unwrap_or((&whole, &whole));
                    self.links.push((service.to_owned(), alias.to_owned(), item.span));
                }
            }
            "ports" => self.port(loader, value),
            "expose" => {
                for item in value.items() {
                    self.expose.extend(text(loader, item).map(|port| (port, item.span)));
                }
            }
            "volumes" => self.volume(loader, value),
            "configs" => self.configs = value.items().to_vec(),
            "secrets" => self.secrets = value.items().to_vec(),
            "scale" => self.scale = replicas(loader, value),
            "cpus" => self.cpus = cpus(loader, value),
            "mem_limit" => self.memory = bytes(loader, value),
            "deploy" => self.deploy(loader, value),
            "healthcheck" => self.healthcheck(loader, value),
            "sysctls" => {
                let pairs = environment(loader, value).into_iter();
                self.sysctls = pairs.map(|(name, value)| (name, value.unwrap_or_default())).collect();
            }
            "extra_hosts" => self.extra_hosts = extra_hosts(loader, value),
            "stop_signal" => self.stop_signal = text(loader, value),
            "profiles" => self.profiles = value.items().iter().filter_map(|item| text(loader, item)).collect(),
            _ => {}
        }
    }

    /// Files of labels, which are not read, have to be there all the same.
    fn label_files(&self, loader: &mut Loader) {
        let files = self.options.iter().filter(|(key, _)| key.text == "label_file");
        for file in files.flat_map(|(_, value)| value.items()) {
            if let Some(path) = file.as_text()
                && !std::path::Path::new(path).exists()
            {
                loader.wrong(file.span, format!("there is no file `{path}`"));
            }
        }
    }

    /// Checks and converts what several options say together.
    fn together(&mut self, loader: &mut Loader) {
        if let Some((mode, span)) = &self.network_mode
            && !self.networks.is_empty()
        {
            loader.wrong(*span, format!("`network_mode: {mode}` and `networks` exclude one another: keep one"));
        }
        if self.networks.is_empty() && self.network_mode.is_none() {
            let options = Value::new(self.span, Data::Null);
            let member =
                Member { network: "default".into(), span: self.span, aliases: Vec::new(), ipv4: None, options };
            self.networks.push(member);
        }
        if let Some(name) = &self.container_name
            && self.scale.is_some_and(|scale| scale > 1)
        {
            let what = format!("`container_name: {name}` is one name for several: take it out");
            loader.wrong(self.span, what);
        }
        let differs = |own: f64, limit: f64| own.to_bits() != limit.to_bits();
        if let (Some((own, span)), Some((limit, _))) = (self.cpus, self.cpu_limit)
            && differs(own, limit)
        {
            loader.wrong(span, "`cpus` and `cpus` of `deploy` say different numbers: keep one");
        }
        if let (Some((own, span)), Some((limit, _))) = (self.memory, self.memory_limit)
            && own != limit
        {
            loader.wrong(span, "`mem_limit` and `memory` of `deploy` say different amounts: keep one");
        }
        (self.cpus, self.memory) = (self.cpu_limit.or(self.cpus), self.memory_limit.or(self.memory));
        let shares = ["network_mode", "ipc", "pid", "uts", "cgroup"].into_iter().filter_map(|option| {
            let (_, value) = self.options.iter().find(|(key, _)| key.text == option)?;
            Some((value.as_text()?.strip_prefix("service:")?.to_owned(), value.span, Some(true)))
        });
        let links = self.links.iter().map(|(service, _, span)| (service.clone(), *span, Some(true)));
        let from = self.options.iter().find(|(key, _)| key.text == "volumes_from");
        let from = from.map_or(&[][..], |(_, value)| value.items()).iter().filter_map(|item| {
            let service = item.as_text()?.split(':').next().filter(|first| *first != "container")?;
            Some((service.to_owned(), item.span, Some(false)))
        });
        for (service, span, restart) in links.chain(shares).chain(from).collect::<Vec<_>>() {
            if self.depends_on.iter().all(|dependency| dependency.service != service) {
                let condition = "service_started".into();
                self.depends_on.push(Dependency { service, span, condition, required: true, restart });
            }
        }
    }

    fn env_file(&mut self, loader: &mut Loader, value: &Value) {
        for item in value.items() {
            known_keys(loader, item, &["path", "required", "format"], "a file of settings");
            let Some(path) = item.get("path").and_then(|path| text(loader, path)) else {
                loader.wrong(item.span, "write PATH, or { path: PATH, required: false }");
                continue;
            };
            let required = item.get("required").and_then(Value::shown);
            self.env_files.push(SettingsFile {
                path,
                required: !matches!(required.as_deref(), Some("false" | "0")),
                format: item.get("format").and_then(Value::shown).filter(|format| !format.is_empty()),
                span: item.span,
            });
        }
        if value.is_null() {
            loader.wrong(value.span, "`env_file` is a path, or a list of them");
        }
    }

    fn network(&mut self, loader: &mut Loader, value: &Value) {
        let known = [
            "aliases",
            "interface_name",
            "ipv4_address",
            "ipv6_address",
            "link_local_ips",
            "mac_address",
            "driver_opts",
            "priority",
            "gw_priority",
            "use_service_name_alias",
        ];
        if value.is_null() {
            loader.wrong(value.span, "`networks` is a list, or a map");
        }
        for (key, value) in map(loader, value, "`networks`") {
            known_keys(loader, value, &known, "a network of a service");
            let aliases = value.get("aliases").map_or(&[][..], Value::items);
            self.networks.push(Member {
                network: key.text.clone(),
                span: key.span,
                aliases: aliases.iter().filter_map(|alias| text(loader, alias)).collect(),
                ipv4: value.get("ipv4_address").and_then(|address| text(loader, address)),
                options: value.clone(),
            });
        }
    }

    fn depends(&mut self, loader: &mut Loader, value: &Value) {
        if value.is_null() {
            loader.wrong(value.span, "`depends_on` is a list, or a map");
        }
        for (key, value) in map(loader, value, "`depends_on`") {
            known_keys(loader, value, &["condition", "required", "restart"], "a service in `depends_on`");
            let condition = value.get("condition").and_then(Value::shown).unwrap_or_default();
            let conditions = ["service_started", "service_healthy", "service_completed_successfully"];
            if !conditions.contains(&condition.as_str()) {
                let near = did_you_mean(&condition, &conditions);
                loader.wrong(value.span, format!("there is no condition `{condition}`{near}"));
            }
            let truth = |key: &str| value.get(key).map(|value| value.data == Data::Bool(true));
            self.depends_on.push(Dependency {
                service: key.text.clone(),
                span: key.span,
                condition,
                required: truth("required").unwrap_or(true),
                restart: truth("restart"),
            });
        }
    }

    fn port(&mut self, loader: &mut Loader, value: &Value) {
        for item in value.items() {
            let known = ["name", "mode", "host_ip", "target", "published", "protocol", "app_protocol"];
            known_keys(loader, item, &known, "a port");
            let part = |key: &str| item.get(key).and_then(Value::shown);
            if part("host_ip").is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_err()) {
                loader.wrong(item.span, "`host_ip` is an address, such as 127.0.0.1");
            }
            match part("target").map(|target| target.parse::<u16>()) {
                Some(Ok(target)) => self.ports.push(Port {
                    target,
                    published: part("published"),
                    protocol: part("protocol").unwrap_or("tcp".into()),
                    host_ip: part("host_ip"),
                }),
                Some(Err(_)) => loader.wrong(item.span, "`target` is a port, a number from 1 to 65535"),
                None => loader.wrong(item.span, "a port has a `target`, the port inside"),
            }
        }
    }

    fn volume(&mut self, loader: &mut Loader, value: &Value) {
        for item in value.items() {
            let known = ["type", "source", "target", "read_only", "consistency", "bind", "volume", "tmpfs", "image"];
            known_keys(loader, item, &known, "a volume");
            let part = |key: &str| item.get(key).and_then(Value::shown);
            let kinds = ["bind", "volume", "tmpfs", "cluster", "npipe", "image"];
            if part("type").as_deref() == Some("bind") && part("source").is_none() {
                loader.wrong(item.span, "a volume of type `bind` has a `source`, the path of what is shown");
            }
            match (part("type"), part("target")) {
                (Some(kind), Some(target)) if kinds.contains(&kind.as_str()) => {
                    let read_only = item.get("read_only").is_some_and(|value| value.data == Data::Bool(true));
                    let target = short::clean(&target);
                    self.volumes.push((Volume { kind, source: part("source"), target, read_only }, item.span));
                }
                (Some(kind), Some(_)) => {
                    loader.wrong(item.span, format!("there is no type `{kind}`{}", did_you_mean(&kind, &kinds)));
                }
                _ => loader.wrong(item.span, "a volume has a `type` and a `target`"),
            }
        }
    }

    fn deploy(&mut self, loader: &mut Loader, value: &Value) {
        let known = [
            "mode",
            "endpoint_mode",
            "replicas",
            "labels",
            "rollback_config",
            "update_config",
            "resources",
            "restart_policy",
            "placement",
        ];
        known_keys(loader, value, &known, "`deploy`");
        if let Some(count) = value.get("replicas") {
            let count_here = replicas(loader, count);
            if self.options.iter().any(|(key, _)| key.text == "scale")
                && self.scale != count_here
                && self.scale.is_some()
            {
                loader.wrong(count.span, "`scale` and `replicas` say different numbers: keep one");
            }
            self.scale = count_here;
        }
        let Some(resources) = value.get("resources") else { return };
        known_keys(loader, resources, &["limits", "reservations"], "`resources`");
        let Some(limits) = resources.get("limits") else { return };
        known_keys(loader, limits, &["cpus", "memory", "pids"], "`limits`");
        if let Some(value) = limits.get("cpus") {
            self.cpu_limit = cpus(loader, value);
        }
        if let Some(value) = limits.get("memory") {
            self.memory_limit = bytes(loader, value);
        }
    }

    fn healthcheck(&mut self, loader: &mut Loader, value: &Value) {
        let known = ["disable", "interval", "retries", "test", "timeout", "start_period", "start_interval"];
        known_keys(loader, value, &known, "`healthcheck`");
        let test = match value.get("test").map(|test| (&test.data, test)) {
            Some((Data::Text(line), _)) => vec!["CMD-SHELL".into(), line.clone()],
            Some((Data::List(items), test)) => {
                let words: Vec<String> = items.iter().filter_map(|item| text(loader, item)).collect();
                if !words.first().is_none_or(|first| matches!(first.as_str(), "CMD" | "CMD-SHELL" | "NONE")) {
                    loader.wrong(test.span, "a `test` that is a list begins with CMD, CMD-SHELL or NONE");
                }
                words
            }
            Some((_, test)) => {
                loader.wrong(test.span, format!("`test` is a text or a list, and not {}", test.kind()));
                Vec::new()
            }
            None => Vec::new(),
        };
        let disable = value.get("disable").is_some_and(|value| value.data == Data::Bool(true));
        let mut time = |key| value.get(key).and_then(|value| text(loader, value));
        let (interval, timeout) = (time("interval"), time("timeout"));
        self.healthcheck = Some(Healthcheck { span: value.span, test, disable, interval, timeout });
    }
}

/// A command: its words, and the text that it was if it was one and all of it is run.
fn command(loader: &mut Loader, value: &Value) -> (Option<Vec<String>>, Option<String>) {
    match &value.data {
        Data::Null => (None, None),
        Data::Text(line) => match words(line) {
            Ok((words, stop)) => {
                if let Some(sign) = stop {
                    let what = format!(
                        "Compose, which knows no shell, drops what follows `{sign}`: write [sh, -c, \"…\"] if it is to \
                         be run"
                    );
                    loader.note(value.span, None, what);
                }
                (Some(words), Some(line.clone()).filter(|_| stop.is_none()))
            }
            Err(what) => {
                loader.wrong(value.span, what);
                (None, None)
            }
        },
        _ => (Some(value.items().iter().filter_map(Value::shown).collect()), None),
    }
}

fn environment(loader: &mut Loader, value: &Value) -> BTreeMap<String, Option<String>> {
    let mut all = BTreeMap::new();
    for item in value.items() {
        let whole = text(loader, item).unwrap_or_default();
        let (name, value) = match whole.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (whole.as_str(), None),
        };
        if name.ends_with(char::is_whitespace) {
            loader.wrong(item.span, format!("the name of `{name}` ends in a space: take it out"));
        }
        all.insert(name.to_owned(), value);
    }
    for (key, value) in value.entries() {
        all.insert(key.text.clone(), value.shown());
    }
    all
}

fn extra_hosts(loader: &mut Loader, value: &Value) -> Vec<(String, Span)> {
    let mut all = Vec::new();
    for item in value.items() {
        match text(loader, item).as_deref().map(|whole| whole.split_once(['=', ':']).map(|(host, _)| host.to_owned())) {
            Some(Some(host)) => all.push((host, item.span)),
            Some(None) => loader.wrong(item.span, "write NAME=ADDRESS"),
            None => {}
        }
    }
    all.extend(value.entries().iter().map(|(key, _)| (key.text.clone(), key.span)));
    all
}

fn replicas(loader: &mut Loader, value: &Value) -> Option<u32> {
    match value.shown().and_then(|text| text.parse::<u32>().ok()) {
        Some(count) => Some(count),
        None => {
            loader.wrong(value.span, format!("a number of nodes belongs here, and this is {}", value.kind()));
            None
        }
    }
}

fn cpus(loader: &mut Loader, value: &Value) -> Option<(f64, Span)> {
    match value.shown().and_then(|text| text.parse::<f64>().ok()).filter(|cpus| *cpus >= 0.0) {
        Some(cpus) => Some((cpus, value.span)).filter(|(cpus, _)| *cpus > 0.0),
        None => {
            loader.wrong(value.span, format!("a number of CPUs belongs here, and this is {}", value.kind()));
            None
        }
    }
}

/// An amount of memory: Compose's units are powers of 1024, whether they end in `b`, in `ib` or not.
fn bytes(loader: &mut Loader, value: &Value) -> Option<(u64, Span)> {
    let parse = |text: &str| {
        let lower = text.trim().to_ascii_lowercase();
        let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
        let (number, unit) = lower.split_at(digits);
        let power = match unit.trim_start() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            "p" | "pb" | "pib" => 50,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        Some((number * (1_u64 << power) as f64) as u64)
    };
    match value.shown().as_deref().and_then(parse) {
        Some(bytes) => Some((bytes, value.span)).filter(|(bytes, _)| *bytes > 0),
        None => {
            loader.wrong(value.span, format!("{} is no amount of memory: write 64m, 1.5gb, …", value.kind()));
            None
        }
    }
}
