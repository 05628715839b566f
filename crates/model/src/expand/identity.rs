//! Who a node is: to itself, to other nodes, and to its kernel.

use super::Entry;
use crate::error::Problems;
use crate::experiment::Node;
use crate::file;
use crate::tree::shorten;

/// Signals by which programs ask to be ended, and their numbers on x86-64.
const SIGNALS: [(&str, i32); 10] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("TERM", 15),
    ("WINCH", 28),
    ("PWR", 30),
];
/// By systemd, which ends by one of the signals from 34 on: `RTMIN+3`.
const RTMIN: i32 = 34;
const RTMAX: i32 = 64;

/// Reads the keys of a node that say who it is.
pub(super) fn identity(entry: &Entry<'_, file::Node>, read: &file::Node, node: &mut Node, problems: &mut Problems) {
    if let Some(user) = &read.user {
        match numbers(user) {
            Some(user) => node.user = user,
            None => {
                let what = format!("`{}` is no user: write its number, or UID:GID", shorten(user));
                problems.add(entry.at("user"), what);
            }
        }
    }
    if let Some(hostname) = &read.hostname {
        if let Some(what) = wrong(hostname) {
            problems.add(entry.at("hostname"), what);
        }
        node.hostname = Some(hostname.clone());
        // It knows itself by it, and so does everybody else.
        if *hostname != node.name && !read.names.contains(hostname) {
            node.names.push(hostname.clone());
        }
    }
    for (i, name) in read.names.iter().enumerate() {
        if let Some(what) = wrong(name) {
            problems.add(entry.at_item("names", i), what);
        }
        node.names.push(name.clone());
    }
    if let Some(signal) = &read.stop_signal {
        node.stop_signal = number(signal);
        if node.stop_signal.is_none() {
            let known: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
            let what = format!("`{}` ends no program: write one of {}", shorten(signal), known.join(", "));
            problems.add(entry.at("stop-signal"), what);
        }
    }
}

/// `1000` or `1000:1000`. Without a group it is root's, as in containers.
fn numbers(user: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let plain = text.bytes().all(|b| b.is_ascii_digit());
        // The last one means nobody at all to system calls.
        text.parse::<u32>().ok().filter(|n| plain && *n != u32::MAX)
    };
    match user.split_once(':') {
        Some((user, group)) => Some((number(user)?, number(group)?)),
        None => Some((number(user)?, 0)),
    }
}

/// A name that programs can look up: labels of letters, digits, hyphens and underscores.
fn wrong(name: &str) -> Option<String> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_right = name.len() <= 64
        && name.split('.').all(|label| !label.is_empty() && label.len() <= 63 && label.chars().all(inner))
        && name != "localhost";
    (!is_right).then(|| {
        format!("`{}` cannot be the name of a host: write letters, digits, hyphens and dots, at most 64", shorten(name))
    })
}

/// `QUIT`, `SIGQUIT`, `3`, `RTMIN+3`.
fn number(signal: &str) -> Option<i32> {
    let upper = signal.to_ascii_uppercase();
    let plain = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = SIGNALS.iter().find(|(name, _)| *name == plain).map(|(_, number)| *number);
    let counted = || plain.strip_prefix("RTMIN+").and_then(|n| n.parse::<i32>().ok()).map(|n| RTMIN + n);
    let plain_number = || plain.parse::<i32>().ok();
    named.or_else(counted).or_else(plain_number).filter(|number| (1..=RTMAX).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_names_and_signals_are_checked() {
        assert_eq!((numbers("1000"), numbers("70:71")), (Some((1000, 0)), Some((70, 71))));
        for wrong in ["", "redis", "1:", "-1", "4294967295", "+1"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
        assert!(["db", "data_base", "db.local", "DB-1"].iter().all(|name| super::wrong(name).is_none()));
        assert!(["", "a b", "a..b", "localhost", "a\n"].iter().all(|name| super::wrong(name).is_some()));
        assert_eq!(
            (number("SIGQUIT"), number("int"), number("RTMIN+3"), number("3")),
            (Some(3), Some(2), Some(37), Some(3))
        );
        assert_eq!((number("STOPPED"), number("0"), number("65")), (None, None, None));
    }
}
