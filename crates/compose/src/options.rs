//! Options of a service of a Compose file, as tables: of which form each is, and how it is carried over.

use crate::tree::{Data, Value};

/// Which form an option has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    /// A number, or a text that is one.
    Number,
    /// `true` or `false`.
    Truth,
    /// A list of texts.
    Texts,
    /// A text, or a list of them.
    TextOrList,
    /// A list of `KEY=VALUE`, or a map.
    Pairs,
    List,
    Map,
    MapOrNothing,
    Any,
}

/// The way in which an option is carried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The experiment has it.
    Used,
    /// It changes nothing that is measured.
    Idle,
    /// There is something else in its place.
    Noted(&'static str),
    /// It would make another system of it.
    Refused(&'static str),
}

use Fate::{Idle, Noted, Refused, Used};
use Form::{Any, List, Map, MapOrNothing, Number, Pairs, Text, TextOrList, Texts, Truth};

const SHUT_IN: Fate = Refused("nodes are shut in, all of them: take it out, and see whether the program needs it");
const NO_DEVICES: Fate = Refused("nodes have no devices of the machine: take it out");
const OWN_GROUP: Fate = Refused("control groups are the plan's business: take it out");
const OWN_SHARE: Fate = Noted("a node has its own share: the `speed` of its machine");
const BY_NAME: Fate = Noted("names are in /etc/hosts of each node, and there is no resolver");

/// Options of services.
pub(crate) const OPTIONS: &[(&str, Form, Fate)] = &[
    ("annotations", Pairs, Idle),
    ("attach", Truth, Idle),
    ("blkio_config", Map, Noted("a machine has a disk by `disk`")),
    ("build", Any, Used),
    ("cap_add", Texts, Used),
    ("cap_drop", Texts, Noted("a node's programs have few rights anyhow")),
    ("cgroup", Text, OWN_GROUP),
    ("cgroup_parent", Text, OWN_GROUP),
    ("command", TextOrList, Used),
    ("configs", List, Used),
    ("container_name", Text, Used),
    ("cpu_count", Number, OWN_SHARE),
    ("cpu_percent", Number, OWN_SHARE),
    ("cpu_period", Number, OWN_SHARE),
    ("cpu_quota", Number, OWN_SHARE),
    ("cpu_rt_period", Number, OWN_SHARE),
    ("cpu_rt_runtime", Number, OWN_SHARE),
    ("cpu_shares", Number, OWN_SHARE),
    ("cpus", Number, Used),
    ("cpuset", Text, Noted("nodes are put on cores by the plan")),
    ("credential_spec", Map, Refused("it is for Windows: take it out")),
    ("depends_on", Any, Used),
    ("deploy", MapOrNothing, Used),
    ("develop", MapOrNothing, Idle),
    ("device_cgroup_rules", Texts, NO_DEVICES),
    ("devices", List, NO_DEVICES),
    ("dns", TextOrList, BY_NAME),
    ("dns_opt", Texts, BY_NAME),
    ("dns_search", TextOrList, BY_NAME),
    ("domainname", Text, BY_NAME),
    ("entrypoint", TextOrList, Used),
    ("env_file", Any, Used),
    ("environment", Pairs, Used),
    ("expose", List, Used),
    ("extends", Any, Used),
    ("external_links", Texts, Refused("no network leads out of an experiment")),
    ("extra_hosts", Any, Used),
    ("gpus", Any, NO_DEVICES),
    ("group_add", List, Noted("a node's programs are in the groups of their user")),
    ("healthcheck", Map, Used),
    ("hostname", Text, Used),
    ("image", Text, Used),
    ("init", Truth, Noted("each node has an init that reaps")),
    ("ipc", Text, Refused("each node has memory of its own: take it out")),
    ("isolation", Text, Idle),
    ("label_file", TextOrList, Idle),
    ("labels", Pairs, Idle),
    ("links", Texts, Used),
    ("logging", Map, Idle),
    ("mac_address", Text, Noted("hardware addresses follow from the others")),
    ("mem_limit", Number, Used),
    ("mem_reservation", Number, Noted("`memory` of its machine is its limit")),
    ("mem_swappiness", Number, Noted("there is no swap")),
    ("memswap_limit", Number, Noted("there is no swap")),
    ("models", Any, Refused("no model is run here: take it out")),
    ("network_mode", Text, Used),
    ("networks", Any, Used),
    ("oom_kill_disable", Truth, Noted("memory runs out in the node alone")),
    ("oom_score_adj", Number, Noted("memory runs out in the node alone")),
    ("pid", Text, Refused("each node has processes of its own: take it out")),
    ("pids_limit", Number, Noted("a node may have 16,384 processes")),
    ("platform", Text, Noted("nodes are of this machine's kind")),
    ("ports", List, Used),
    ("post_start", List, Noted("nothing runs beside its program: `traffic` and further nodes can")),
    ("pre_start", List, Noted("nothing runs before its program: write it into the command, by `sh -c`")),
    ("pre_stop", List, Noted("nothing runs at its end")),
    ("privileged", Truth, SHUT_IN),
    ("profiles", Texts, Used),
    ("provider", Map, Refused("nothing outside the experiment can be part of it")),
    ("pull_policy", Text, Idle),
    ("pull_refresh_after", Text, Idle),
    ("read_only", Truth, Noted("what a node writes is its own, and gone afterwards")),
    ("restart", Text, Noted("a node that ends stays so: `events` can start it again")),
    ("runtime", Text, Idle),
    ("scale", Number, Used),
    ("secrets", List, Used),
    ("security_opt", Texts, Noted("nodes are shut in, all of them alike")),
    ("shm_size", Number, Noted("/dev/shm counts to the node's memory, of which it may have half")),
    ("stdin_open", Truth, Idle),
    ("stop_grace_period", Text, Noted("nodes have ten seconds at the end")),
    ("stop_signal", Text, Used),
    ("storage_opt", Map, Noted("a machine has a disk by `disk`")),
    ("sysctls", Pairs, Used),
    ("tmpfs", TextOrList, Noted("all that a node writes is in its own files")),
    ("tty", Truth, Idle),
    ("ulimits", Map, Noted("set them in the command, by `sh -c`")),
    ("umask", Any, Noted("set it in the command, by `sh -c`")),
    ("use_api_socket", Truth, Refused("nothing outside the experiment can be part of it")),
    ("user", Text, Used),
    ("userns_mode", Text, SHUT_IN),
    ("uts", Text, Refused("each node has a name of its own: take it out")),
    ("volumes", List, Used),
    ("volumes_from", Texts, Refused("nodes share no files: give each its own by `files`")),
    ("working_dir", Text, Used),
];

pub(crate) fn option(name: &str) -> Option<(Form, Fate)> {
    OPTIONS.iter().find(|(known, ..)| *known == name).map(|(_, form, fate)| (*form, *fate))
}

impl Form {
    /// The fault of a value that is not of this form.
    pub fn wrong(self, value: &Value) -> Option<String> {
        let is_text = |value: &Value| matches!(value.data, Data::Text(_));
        let first_other =
            |items: &[Value]| items.iter().find(|item| !is_text(item)).map(|item| (item.span, item.kind()));
        let what = match (self, &value.data) {
            (Form::Any, _)
            | (Form::Text, Data::Text(_))
            | (Form::Number, Data::Int(_) | Data::Float(_) | Data::Text(_))
            | (Form::Truth, Data::Bool(_) | Data::Text(_))
            | (Form::TextOrList, Data::Text(_) | Data::Null)
            | (Form::List, Data::List(_))
            | (Form::Map, Data::Map(_))
            | (Form::MapOrNothing, Data::Map(_) | Data::Null) => return None,
            (Form::Texts | Form::TextOrList | Form::Pairs, Data::List(items)) => match first_other(items) {
                None => return None,
                Some((_, kind)) => format!("each item is a text, and one is {kind}: write it in quotes"),
            },
            (Form::Pairs, Data::Map(entries)) => {
                let is_wrong = |value: &Value| matches!(value.data, Data::List(_) | Data::Map(_));
                let wrong = entries.iter().find(|(_, value)| is_wrong(value));
                format!("`{}` is a text, and not {}", wrong?.0.text, wrong?.1.kind())
            }
            (Form::Text, Data::Int(_) | Data::Float(_) | Data::Bool(_)) => {
                format!("this is a text, and {} is none: write it in quotes", value.kind())
            }
            (form, _) => format!("{} belongs here, and this is {}", form.name(), value.kind()),
        };
        Some(what)
    }

    fn name(self) -> &'static str {
        match self {
            Form::Text => "a text",
            Form::Number => "a number",
            Form::Truth => "`true` or `false`",
            Form::Texts | Form::List => "a list",
            Form::TextOrList => "a text or a list",
            Form::Pairs => "a map, or a list of KEY=VALUE",
            Form::Map | Form::MapOrNothing | Form::Any => "a map",
        }
    }
}
