//! The way to a machine of a harness: whatever gives a byte stream to `diorama site` there. `docs/harness.md` describes
//! the keys.

use std::collections::HashMap;

use model::yaml::{Entry, Problems, shorten};
use schemars::JsonSchema;
use serde::Deserialize;

/// How long the name of a host may be, with the user's.
const LONGEST: usize = 320;

/// A way to a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// `ssh` to this host, or to this user's account there.
    Ssh(String),
    /// A command and its arguments, whose standard input and output `diorama site` has.
    Command(Vec<String>),
}

impl Way {
    /// The command that gives the stream, and its arguments. `ssh` asks nobody for a password, and allocates no
    /// terminal.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Way::Ssh(host) => {
                let options = ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=2"];
                let options = options.iter().flat_map(|option| ["-o", option]);
                let words = ["ssh", "-T"].into_iter().chain(options).chain(["--", host, "diorama site"]);
                words.map(String::from).collect()
            }
            Way::Command(argv) => argv.clone(),
        }
    }
}

/// A pod of a cluster
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kubernetes {
    /// A context of kubectl's configuration
    #[serde(default)]
    #[allow(dead_code, reason = "refused as a whole until pods can be sites")]
    context: Option<String>,
    /// Where the pods are
    #[serde(default)]
    #[allow(dead_code, reason = "as above")]
    namespace: Option<String>,
    /// Labels of the cluster's machines that may be used, such as `role=lab`
    #[serde(default)]
    #[allow(dead_code, reason = "as above")]
    selector: Option<String>,
}

/// The ways that are written at one machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'a> {
    pub(crate) ssh: Option<&'a str>,
    pub(crate) command: Option<&'a [String]>,
    pub(crate) kubernetes: bool,
}

/// Ways that lead to a machine already, and to which: the same one twice would be the same machine twice.
#[derive(Debug, Default)]
pub(crate) struct Ways(HashMap<Way, String>);

impl Ways {
    /// The way that is written at a machine; none also where it is wrong, which is noted.
    pub(crate) fn take<T>(
        &mut self,
        written: Written<'_>,
        entry: &Entry<'_, T>,
        problems: &mut Problems,
    ) -> Option<Way> {
        let keys = [
            ("ssh", written.ssh.is_some()),
            ("command", written.command.is_some()),
            ("kubernetes", written.kubernetes),
        ];
        let given: Vec<&str> = keys.iter().filter(|(_, there)| *there).map(|(key, _)| *key).collect();
        if let [first, .., last] = given[..] {
            let what = format!("a machine has one way in, and here are `{first}` and `{last}`: remove one");
            problems.add(entry.at(last), what);
            return None;
        }
        if written.kubernetes {
            let what = "pods cannot be sites yet: write `ssh: user@host`, or as `command` what gives a stream to \
                        `diorama site` there, such as [kubectl, exec, -i, POD, --, diorama, site]";
            problems.add(entry.at("kubernetes"), what);
            return None;
        }
        let way = match (written.ssh, written.command) {
            (Some(host), _) => {
                if let Some(what) = wrong_host(host) {
                    problems.add(entry.at("ssh"), what);
                    return None;
                }
                Way::Ssh(host.to_owned())
            }
            (None, Some(argv)) => {
                if let Some((at, what)) = wrong_command(argv) {
                    problems.add(at.map_or(entry.at("command"), |i| entry.at_item("command", i)), what);
                    return None;
                }
                Way::Command(argv.to_vec())
            }
            (None, None) => return None,
        };
        if let Some(other) = self.0.get(&way) {
            let what = format!("this is the way to `{}` already: a machine is in a harness once", shorten(other));
            problems.add(entry.at(given[0]), what);
            return None;
        }
        self.0.insert(way.clone(), entry.name().to_owned());
        Some(way)
    }
}

/// The fault of a name of a host, if it has one: ssh must take it for no option, and no shell for anything.
fn wrong_host(host: &str) -> Option<String> {
    let right = |part: &str, more: &[u8]| {
        let known = |b: u8| b.is_ascii_alphanumeric() || more.contains(&b);
        !part.is_empty() && !part.starts_with('-') && part.bytes().all(known)
    };
    let (user, name) = host.rsplit_once('@').map_or((None, host), |(user, name)| (Some(user), name));
    let fine = host.len() <= LONGEST && right(name, b"-_.:%") && user.is_none_or(|user| right(user, b"-_.+@\\"));
    (!fine).then(|| {
        format!(
            "`{}` names no host for ssh: write `host` or `user@host`; ports and keys belong into ssh's own \
             configuration",
            shorten(host)
        )
    })
}

/// The fault of a command, if it has one, and in which of its words.
fn wrong_command(argv: &[String]) -> Option<(Option<usize>, &'static str)> {
    if argv.is_empty() {
        return Some((
            None,
            "a command has a word at least: write it as a list, such as [ssh, host, sudo, diorama, site]",
        ));
    }
    if argv[0].is_empty() {
        return Some((Some(0), "the first word of a command names a program: write its name"));
    }
    let nul = argv.iter().position(|word| word.contains('\0'));
    nul.map(|i| (Some(i), "no word of a command can have a NUL in it: remove it"))
}
