//! The short forms of Compose: command lines, ports and volumes that are one text.

use std::net::IpAddr;

/// A command line in words, as Compose splits it, which knows no shell; and the sign at which it stops reading, if
/// there is one that a shell would know.
pub(crate) fn words(line: &str) -> Result<(Vec<String>, Option<char>), String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut is_begun, mut is_escaped, mut quote) = (false, false, None);
    let mut stop = None;
    for c in line.chars() {
        if std::mem::take(&mut is_escaped) {
            word.push(c);
            is_begun = true;
            continue;
        }
        match (c, quote) {
            ('\\', Some('\'')) => word.push(c),
            ('\\', _) => is_escaped = true,
            (' ' | '\t' | '\r' | '\n', None) => {
                if std::mem::take(&mut is_begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            // `$(…)` and `…` in backquotes stay one word.
            (')', Some('(')) | ('`', Some('`')) => {
                word.push(c);
                quote = None;
            }
            (_, Some(open)) if c == open && c != '(' => {
                quote = None;
                is_begun = true;
            }
            (_, Some(_)) => {
                word.push(c);
                is_begun = true;
            }
            ('"' | '\'', None) => quote = Some(c),
            ('`', None) => {
                word.push(c);
                (quote, is_begun) = (Some(c), true);
            }
            ('(', None) if word.ends_with('$') => {
                word.push(c);
                quote = Some(c);
            }
            ('(' | ')', None) => return Err("Compose cannot read a parenthesis here: put it in quotes".into()),
            (';' | '&' | '|' | '<' | '>', None) => {
                if c == '>' && word.starts_with(|c: char| c.is_ascii_digit()) {
                    is_begun = false;
                }
                stop = Some(c);
                break;
            }
            _ => {
                word.push(c);
                is_begun = true;
            }
        }
    }
    if is_escaped || quote.is_some() {
        return Err("a quote or a backslash at its end is not closed".into());
    }
    if is_begun {
        words.push(word);
    }
    Ok((words, stop))
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub target: u16,
    /// The port, or the range, outside.
    pub published: Option<String>,
    pub protocol: String,
    pub host_ip: Option<String>,
}

/// The ports of `[[ADDRESS:]PUBLISHED:]TARGET[/PROTOCOL]`, of which the last two may be ranges.
pub(crate) fn ports(text: &str) -> Result<Vec<Port>, String> {
    let says = "write TARGET, PUBLISHED:TARGET or ADDRESS:PUBLISHED:TARGET, each a port or a range such as 80-89";
    let (rest, target) = text.rsplit_once(':').map_or((None, text), |(rest, target)| (Some(rest), target));
    let (address, published) = match rest {
        None => ("", ""),
        Some(rest) => rest.rsplit_once(':').unwrap_or(("", rest)),
    };
    let (target, protocol) = target.split_once('/').unwrap_or((target, "tcp"));
    let protocol = if protocol.is_empty() { "tcp".into() } else { protocol.to_ascii_lowercase() };
    let plain = address.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(address);
    if !plain.is_empty() && plain.parse::<IpAddr>().is_err() {
        return Err(format!("`{address}` is no address: {says}"));
    }
    if !matches!(protocol.as_str(), "tcp" | "udp" | "sctp") {
        return Err(format!("there is no protocol `{protocol}`: there are tcp, udp and sctp"));
    }
    let range = |text: &str| -> Result<(u16, u16), String> {
        let mut ends = text.split('-').map(str::parse::<u16>);
        match (ends.next(), ends.next()) {
            (Some(Ok(port)), None) => Ok((port, port)),
            (Some(Ok(first)), Some(Ok(last))) if first <= last => Ok((first, last)),
            _ => Err(format!("`{text}` is no port: {says}")),
        }
    };
    let (first, last) = range(target)?;
    let outside = if published.is_empty() { None } else { Some(range(published)?) };
    if let Some((from, to)) = outside
        && to - from != last - first
        && first != last
    {
        return Err(format!("`{published}` and `{target}` are of different length"));
    }
    let port = |offset: u16| Port {
        target: first + offset,
        published: outside.map(|(from, to)| match first == last && from != to {
            true => format!("{from}-{to}"),
            false => (from + offset).to_string(),
        }),
        protocol: protocol.clone(),
        host_ip: (!plain.is_empty()).then(|| plain.to_owned()),
    };
    let mut all: Vec<Port> = (0..=last - first).map(port).collect();
    all.sort_by_key(|port| port.target.to_string());
    Ok(all)
}

/// A volume of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volume {
    /// `bind`, `volume`, `tmpfs`, …
    pub kind: String,
    pub source: Option<String>,
    pub target: String,
    pub read_only: bool,
}

/// The volume of `[SOURCE:]TARGET[:OPTIONS]`.
pub(crate) fn volume(text: &str) -> Result<Volume, String> {
    let says = "write TARGET, or SOURCE:TARGET, with `:ro` behind it if it is only read";
    if text.is_empty() {
        return Err(format!("this volume is empty: {says}"));
    }
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(':') {
        // `C:` is a drive of Windows.
        match parts.last_mut() {
            Some(last) if text.len() > 2 && last.len() == 1 && last.starts_with(|c: char| c.is_alphabetic()) => {
                *last += ":";
                *last += part;
            }
            _ => parts.push(part.to_owned()),
        }
    }
    if parts.iter().any(String::is_empty) && text.len() > 2 {
        return Err(format!("a part of `{text}` is empty: {says}"));
    }
    let (source, target, options) = match parts.as_slice() {
        _ if text.len() <= 2 => (None, text, ""),
        [target] => (None, target.as_str(), ""),
        [source, target] => (Some(source.clone()), target.as_str(), ""),
        [source, target, options] => (Some(source.clone()), target.as_str(), options.as_str()),
        _ => return Err(format!("`{text}` has too many colons: {says}")),
    };
    let is_path = |source: &str| {
        source.starts_with(['.', '/', '~']) || source.starts_with("\\\\") || source.chars().nth(1) == Some(':')
    };
    Ok(Volume {
        kind: if source.as_deref().is_some_and(is_path) { "bind" } else { "volume" }.into(),
        source,
        target: clean(target),
        read_only: options.split(',').rfind(|o| matches!(*o, "ro" | "rw")) == Some("ro"),
    })
}

/// A path without `.`, `..` and doubled slashes, as far as it can be known without looking.
pub(crate) fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    match (is_absolute, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".into(),
        (false, false) => parts.join("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_split_without_a_shell() {
        let split = |line| words(line).map(|(words, stop)| (words.join("|"), stop));
        for (line, expected, stop) in [
            (r#"sleep 10 "a b" 'c d' \x $HOME"#, "sleep|10|a b|c d|x|$HOME", None),
            (r#"sh -c "echo \"a\" && b""#, "sh|-c|echo \"a\" && b", None),
            ("echo a && b", "echo|a", Some('&')),
            ("a '' \"\" b", "a|||b", None),
            ("run 2>/dev/null", "run", Some('>')),
            ("echo $(a b) c", "echo|$(a b)|c", None),
            ("  ", "", None),
        ] {
            assert_eq!(split(line), Ok((expected.into(), stop)), "{line}");
        }
        assert!(words("a 'b").is_err() && words("a (b)").is_err());
    }

    #[test]
    fn ports_and_volumes_have_all_forms() {
        let shown = |text: &str| {
            let all = ports(text)?;
            let one = |p: &Port| format!("{}:{}/{}", p.published.as_deref().unwrap_or("-"), p.target, p.protocol);
            Ok::<_, String>(all.iter().map(one).collect::<Vec<_>>().join(" "))
        };
        for (text, expected) in [
            ("80", "-:80/tcp"),
            ("8080:80", "8080:80/tcp"),
            ("53:53/udp", "53:53/udp"),
            ("[::1]:5000-5001:6000-6001", "5000:6000/tcp 5001:6001/tcp"),
            ("8000-8010:80", "8000-8010:80/tcp"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["", "a:80", "80/ftp", "1-2:3-5", "999999", "x:1:2"] {
            assert!(ports(text).is_err(), "{text}");
        }
        let bind = volume("./a:/b/../c/:ro").unwrap();
        assert_eq!((bind.kind.as_str(), bind.target.as_str(), bind.read_only), ("bind", "/c", true));
        assert_eq!(volume("data:/d").unwrap().kind, "volume");
        assert_eq!(volume("/only").unwrap().source, None);
        assert!(volume("aa::bb").is_err() && volume("aa:bb:cc:dd").is_err());
    }
}
