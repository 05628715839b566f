//! Types of values that may be written as text, also by a variable: numbers and truths.

use crate::tree::Data;

#[derive(Clone, Copy)]
enum Type {
    Bool,
    Int,
    Float,
}

/// A text as what belongs at this place; what is wrong with it, if it cannot be that.
pub(crate) fn cast(text: &str, path: &[String]) -> Result<Data, String> {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let Some(kind) = type_at(&parts) else { return Ok(Data::Text(text.into())) };
    match kind {
        Type::Bool => match text.to_ascii_lowercase().as_str() {
            "true" | "y" | "yes" | "on" => Ok(Data::Bool(true)),
            "false" | "n" | "no" | "off" => Ok(Data::Bool(false)),
            _ => Err(format!("`{text}` is neither `true` nor `false`")),
        },
        Type::Int => match text.parse::<i64>() {
            Ok(number) => Ok(Data::Int(number.to_string())),
            Err(_) => Err(format!("`{text}` is no whole number")),
        },
        Type::Float => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Data::Float(number.to_string())),
            _ => Err(format!("`{text}` is no number")),
        },
    }
}

fn type_at(path: &[&str]) -> Option<Type> {
    match path {
        ["networks", _, "external" | "internal" | "attachable" | "enable_ipv4" | "enable_ipv6"]
        | ["volumes" | "secrets" | "configs", _, "external"] => Some(Type::Bool),
        ["services", _, option @ ..] => of_service(option),
        _ => None,
    }
}

fn of_service(option: &[&str]) -> Option<Type> {
    match option {
        ["pre_start", _, option @ ..] if option.first() != Some(&"pre_start") => of_service(option),
        ["init" | "oom_kill_disable" | "privileged" | "read_only" | "stdin_open" | "tty"]
        | ["volumes", "[]", "read_only"]
        | ["volumes", "[]", "volume", "nocopy"]
        | ["depends_on", _, "required" | "restart"]
        | ["networks", _, "use_service_name_alias"]
        | ["healthcheck", "disable"] => Some(Type::Bool),
        [
            "cpu_count" | "cpu_period" | "cpu_quota" | "cpu_rt_period" | "cpu_rt_runtime" | "cpu_shares"
            | "oom_score_adj" | "pids_limit" | "scale",
        ]
        | ["ulimits", _]
        | ["ulimits", _, "hard" | "soft"]
        | ["healthcheck", "retries"]
        | ["ports", "[]", "target"]
        | ["deploy", "replicas"]
        | ["deploy", "update_config" | "rollback_config", "parallelism"]
        | ["deploy", "restart_policy", "max_attempts"]
        | ["deploy", "placement", "max_replicas_per_node"] => Some(Type::Int),
        ["cpu_percent" | "cpus"] | ["deploy", "update_config" | "rollback_config", "max_failure_ratio"] => {
            Some(Type::Float)
        }
        _ => None,
    }
}
