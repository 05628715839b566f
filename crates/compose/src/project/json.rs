//! A project as JSON, in the form in which Compose's own reader prints it: the tests compare the two.

use serde_json::{Map, Value as Json, json};

use super::{Project, Service};
use crate::options::option;
use crate::tree::{Data, Value};

/// Options that are as they were written, but for numbers and truths in quotes.
const AS_WRITTEN: &[&str] = &[
    "attach",
    "cap_add",
    "cap_drop",
    "container_name",
    "cpuset",
    "dns",
    "dns_search",
    "domainname",
    "hostname",
    "image",
    "init",
    "ipc",
    "links",
    "mac_address",
    "network_mode",
    "pid",
    "platform",
    "privileged",
    "profiles",
    "pull_policy",
    "read_only",
    "restart",
    "runtime",
    "security_opt",
    "stdin_open",
    "stop_signal",
    "tmpfs",
    "tty",
    "user",
    "working_dir",
];

impl Project {
    pub fn to_json(&self) -> Json {
        let services: Map<String, Json> = self.services.iter().map(|s| (s.key.clone(), s.to_json())).collect();
        let mut networks = Map::new();
        for network in &self.networks {
            let mut shown = Map::new();
            for key in ["driver", "internal", "external", "attachable", "enable_ipv6"] {
                if let Some(value) = network.options.get(key).map(to_json)
                    && value != json!(false)
                    && !value.is_null()
                {
                    shown.insert(key.into(), if value.is_object() { json!(true) } else { value });
                }
            }
            let subnets: Vec<&String> = network.subnets.iter().map(|(subnet, _)| subnet).collect();
            shown.insert("subnets".into(), json!(subnets));
            networks.insert(network.key.clone(), Json::Object(shown));
        }
        if self.uses_default && !networks.contains_key("default") {
            networks.insert("default".into(), json!({ "subnets": [] }));
        }
        json!({ "name": self.name, "services": services, "networks": networks, "volumes": self.volumes })
    }
}

impl Service {
    fn to_json(&self) -> Json {
        let mut shown = Map::new();
        for (key, value) in &self.options {
            if AS_WRITTEN.contains(&key.text.as_str()) && option(&key.text).is_some() {
                let value = to_json(value);
                let is_said = matches!(key.text.as_str(), "attach" | "init");
                let is_left_out =
                    (value == json!(false) && !is_said) || value == json!("") || value == json!([]) || value.is_null();
                if !is_left_out {
                    shown.insert(key.text.clone(), value);
                }
            }
        }
        let mut set = |key: &str, value: Json, is_empty: bool| {
            if !is_empty {
                shown.insert(key.into(), value);
            }
        };
        set("command", json!(self.command), false);
        set("entrypoint", json!(self.entrypoint), false);
        set("environment", json!(self.environment), self.environment.is_empty());
        let networks = self.networks.iter().map(|member| {
            let mut options = Map::new();
            if !member.aliases.is_empty() {
                options.insert("aliases".into(), json!(member.aliases));
            }
            if let Some(address) = &member.ipv4 {
                options.insert("ipv4_address".into(), json!(address));
            }
            (member.network.clone(), Json::Object(options))
        });
        set("networks", Json::Object(networks.collect()), self.networks.is_empty());
        let depends = self.depends_on.iter().map(|dependency| {
            let mut options = json!({ "condition": dependency.condition, "required": dependency.required });
            if dependency.restart == Some(true) {
                options["restart"] = json!(true);
            }
            (dependency.service.clone(), options)
        });
        set("depends_on", Json::Object(depends.collect()), self.depends_on.is_empty());
        let ports = self.ports.iter().map(|port| {
            let mut options = json!({ "target": port.target, "protocol": port.protocol });
            if let Some(published) = port.published.as_ref().filter(|p| !p.is_empty()) {
                options["published"] = json!(published);
            }
            if let Some(address) = port.host_ip.as_ref().filter(|a| !a.is_empty()) {
                options["host_ip"] = json!(address);
            }
            options
        });
        set("ports", ports.collect(), self.ports.is_empty());
        let expose: Vec<&String> = self.expose.iter().map(|(port, _)| port).collect();
        set("expose", json!(expose), expose.is_empty());
        let volumes = self.volumes.iter().map(|(volume, _)| {
            let mut options = json!({ "type": volume.kind, "target": volume.target });
            if let Some(source) = &volume.source {
                options["source"] = json!(source);
            }
            if volume.read_only {
                options["read_only"] = json!(true);
            }
            options
        });
        set("volumes", volumes.collect(), self.volumes.is_empty());
        set("replicas", json!(self.scale.unwrap_or(1)), false);
        set("cpus", json!(self.cpus.map(|(cpus, _)| cpus)), self.cpus.is_none());
        set("memory", json!(self.memory.map(|(bytes, _)| bytes)), self.memory.is_none());
        if let Some(check) = &self.healthcheck {
            set("healthcheck", json!({ "test": check.test, "disable": check.disable }), false);
        }
        set("sysctls", json!(self.sysctls), self.sysctls.is_empty());
        let labels = self.options.iter().find(|(key, _)| key.text == "labels");
        let labels: Map<String, Json> = labels.map_or(Map::new(), |(_, value)| {
            let pairs = value.items().iter().filter_map(Value::as_text).map(|item| {
                let (name, value) = item.split_once('=').unwrap_or((item, ""));
                (name.to_owned(), json!(value))
            });
            let entries = value.entries().iter();
            let entries = entries.map(|(key, value)| (key.text.clone(), json!(value.shown().unwrap_or_default())));
            pairs.chain(entries).collect()
        });
        let no_labels = labels.is_empty();
        set("labels", Json::Object(labels), no_labels);
        Json::Object(shown)
    }
}

fn to_json(value: &Value) -> Json {
    match &value.data {
        Data::Null => Json::Null,
        Data::Bool(truth) => json!(truth),
        Data::Int(digits) | Data::Float(digits) => digits.parse::<f64>().map_or(Json::Null, |number| json!(number)),
        Data::Text(text) => json!(text),
        Data::List(items) => items.iter().map(to_json).collect(),
        Data::Map(entries) => entries.iter().map(|(key, value)| (key.text.clone(), to_json(value))).collect(),
    }
}
