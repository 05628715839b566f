//! When a service is ready: once it listens on the port at which it would be asked how it does, or a command says so.

use model::yaml::Span;

use crate::Image;
use crate::load::Loader;
use crate::project::{Healthcheck, Service};

/// Programs that ask a server how it does, and the port at which they ask.
const ASKING: &[(&str, u16, &str)] = &[
    ("pg_isready", 5432, "-p"),
    ("psql", 5432, "-p"),
    ("redis-cli", 6379, "-p"),
    ("valkey-cli", 6379, "-p"),
    ("mysqladmin", 3306, "-P"),
    ("mariadb-admin", 3306, "-P"),
    ("mysql", 3306, "-P"),
    ("healthcheck.sh", 3306, "-P"),
    ("mongosh", 27017, "--port"),
    ("mongo", 27017, "--port"),
    ("rabbitmq-diagnostics", 5672, ""),
    ("rabbitmqctl", 5672, ""),
    ("etcdctl", 2379, ""),
    ("cqlsh", 9042, ""),
    ("kafka-topics.sh", 9092, ""),
    ("kafka-topics", 9092, ""),
];

/// When a node is ready.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ready {
    /// When it listens on this port.
    Tcp(u16),
    /// When this command ends with 0, with times as an experiment writes them.
    Run { argv: Vec<String>, every: Option<String>, limit: Option<String> },
}

/// When the node of a service is ready; nothing if it is as soon as it runs.
pub(super) fn ready(loader: &mut Loader, service: &Service, image: Option<&Image>) -> Option<Ready> {
    let node = Some(service.name.as_str());
    if let Some(check) = &service.healthcheck
        && !check.disable
        && check.test.first().is_some_and(|first| first != "NONE")
    {
        let at = check.span;
        if let Some(port) = asked(check) {
            loader.note(at, node, format!("`healthcheck` is not run: the node is ready when it listens on {port}"));
            return Some(Ready::Tcp(port));
        }
        if let Some(argv) = command(check) {
            let says = "`healthcheck` is run until it has succeeded once: then the node is ready, and stays so";
            loader.note(at, node, says);
            let [every, limit] = [&check.interval, &check.timeout].map(|time| time.as_deref().and_then(duration));
            return Some(Ready::Run { argv, every, limit });
        }
    }
    if let Some((port, _)) = listed(service) {
        return Some(Ready::Tcp(port));
    }
    let port = lowest(image?)?;
    loader.note(service.span, node, format!("it is ready when it listens on {port}, which its image exposes"));
    Some(Ready::Tcp(port))
}

/// The words of a health check's command.
fn command(check: &Healthcheck) -> Option<Vec<String>> {
    match check.test.split_first()? {
        (first, [line, ..]) if first == "CMD-SHELL" => Some(["sh", "-c", line].map(str::to_owned).to_vec()),
        (first, words @ [_, ..]) if first == "CMD" => Some(words.to_vec()),
        _ => None,
    }
}

/// A time of Compose's, such as `1m30s`, as an experiment writes it, in whole ms; none for what is none.
fn duration(text: &str) -> Option<String> {
    let (mut ms, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let value: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = &rest[..rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len())];
        ms += value
            * match unit {
                "ns" => 1e-6,
                "us" | "µs" | "μs" => 1e-3,
                "ms" => 1.0,
                "s" => 1e3,
                "m" => 60e3,
                "h" => 3600e3,
                _ => return None,
            };
        rest = &rest[unit.len()..];
    }
    (ms >= 10.0).then(|| format!("{}ms", ms.round()))
}

/// The first port that the service lists.
fn listed(service: &Service) -> Option<(u16, Option<Span>)> {
    let ports = service.ports.iter().filter(|port| port.protocol.eq_ignore_ascii_case("tcp"));
    let exposed = service.expose.iter().filter_map(|(text, span)| Some((tcp(text)?, Some(*span))));
    ports.map(|port| (port.target, None)).chain(exposed).next()
}

/// `80`, `80/tcp`, or the first of `80-89`.
fn tcp(text: &str) -> Option<u16> {
    let (port, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let first = port.split('-').next()?;
    first.parse().ok().filter(|_| protocol == "tcp")
}

/// The lowest of the ports that an image exposes: the one on which it listens whatever it is told.
fn lowest(image: &Image) -> Option<u16> {
    image.ports.iter().filter_map(|port| tcp(port)).min()
}

/// The port at which a health check asks.
fn asked(check: &Healthcheck) -> Option<u16> {
    let line = check.test.get(1..)?.join(" ");
    let words: Vec<&str> = line.split([' ', '\t', '\n', '"', '\'', '|', '&', ';', '(', ')']).collect();
    for here in ["localhost:", "127.0.0.1:", "0.0.0.0:", "[::1]:", "$HOSTNAME:", "${HOSTNAME}:", "$(hostname):"] {
        for (at, _) in line.match_indices(here) {
            let digits: String = line[at + here.len()..].chars().take_while(char::is_ascii_digit).collect();
            if let Ok(port) = digits.parse() {
                return Some(port);
            }
        }
    }
    for (program, port, flag) in ASKING {
        if words.iter().any(|word| word.rsplit('/').next() == Some(program)) {
            let given = words.iter().position(|word| !flag.is_empty() && word == flag);
            let given = given.and_then(|at| words.get(at + 1)?.parse().ok());
            return Some(given.unwrap_or(*port));
        }
    }
    if words.iter().any(|word| matches!(*word, "nc" | "ncat")) {
        return words.iter().rev().find_map(|word| word.parse().ok());
    }
    let is_here = |word: &&&str| {
        let host = word.split("://").nth(1).unwrap_or_default();
        ["localhost", "127.0.0.1"].contains(&host.split('/').next().unwrap_or_default())
    };
    let address = words.iter().find(is_here)?;
    Some(if address.starts_with("https") { 443 } else { 80 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_checks_tell_the_port() {
        for (test, expected) in [
            (&["CMD-SHELL", "pg_isready -U app"][..], Some(5432)),
            (&["CMD", "pg_isready", "-p", "5433"], Some(5433)),
            (&["CMD", "redis-cli", "ping"], Some(6379)),
            (&["CMD", "curl", "-f", "http://localhost:8080/health"], Some(8080)),
            (&["CMD-SHELL", "curl -f http://localhost/ || exit 1"], Some(80)),
            (&["CMD-SHELL", "nc -z localhost 11211"], Some(11211)),
            (&["CMD", "test", "-f", "/tmp/ready"], None),
        ] {
            let test = test.iter().map(|word| (*word).to_owned()).collect();
            let check = Healthcheck { span: Span::default(), test, disable: false, interval: None, timeout: None };
            assert_eq!(asked(&check), expected, "{check:?}");
        }
    }

    #[test]
    fn times_are_as_experiments_write_them() {
        let all = ["1m30s", "1.5s", "500ms", "2h", "0s", "", "5", "5 s", "x"].map(duration);
        let right = [Some("90000ms"), Some("1500ms"), Some("500ms"), Some("7200000ms"), None, None, None, None, None];
        assert_eq!(all, right.map(|time| time.map(str::to_owned)));
    }
}
