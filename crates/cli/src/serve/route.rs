//! The wish behind a request, by its method and path. Nothing here knows a socket or a file.

use super::door::May;

/// How long the words of an event may be, and the text of an experiment, in bytes.
const LONGEST_EVENT: usize = 4 << 10;
const LONGEST_EXPERIMENT: usize = 1 << 20;

/// A request that there is.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// To be answered at once.
    Once(Wish),
    /// Live runs as they go on, and one in detail, by its identity.
    Live(Option<String>),
}

/// A wish that has one answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// The page itself.
    Page,
    Style,
    Script,
    /// All runs of the directory of results.
    Runs,
    /// The report of one of them, by its name.
    Report(String),
    /// One of them compared with another.
    Compare {
        base: String,
        other: String,
    },
    /// Live runs in numbers.
    Metrics,
    /// The text of an experiment to begin with.
    Experiment,
    /// An event in the live run of this identity.
    Event(String),
    /// Whether a text is an experiment.
    Check,
}

/// Why there is no such wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such thing.
    Unknown,
    /// It is asked for by another method.
    Method(&'static str),
    /// The token only lets its holder look.
    OnlyLook,
}

impl Asked {
    /// The request behind a method, a path without the token, and a query.
    pub fn of(method: &str, path: &str, query: &str, may: May) -> Result<Asked, Refusal> {
        let wanted = |name| value(query, name).ok_or(Refusal::Unknown);
        let asked = match path {
            "" => Asked::Once(Wish::Page),
            "page.css" => Asked::Once(Wish::Style),
            "page.js" => Asked::Once(Wish::Script),
            "runs" => Asked::Once(Wish::Runs),
            "report" => Asked::Once(Wish::Report(wanted("run")?)),
            "compare" => Asked::Once(Wish::Compare { base: wanted("base")?, other: wanted("other")? }),
            "live" => Asked::Live(value(query, "run")),
            "metrics" => Asked::Once(Wish::Metrics),
            "experiment" => Asked::Once(Wish::Experiment),
            "event" => Asked::Once(Wish::Event(wanted("run")?)),
            "check" => Asked::Once(Wish::Check),
            _ => return Err(Refusal::Unknown),
        };
        // A word that changes something, or makes root read paths, comes in no link.
        let (least, right) = match asked {
            Asked::Once(Wish::Event(_) | Wish::Check) => (May::Everything, "POST"),
            Asked::Once(Wish::Experiment) => (May::Everything, "GET"),
            _ => (May::Look, "GET"),
        };
        if may < least {
            return Err(Refusal::OnlyLook);
        }
        if method == right { Ok(asked) } else { Err(Refusal::Method(right)) }
    }
}

impl Wish {
    /// How much may come with it, in bytes.
    pub fn longest_body(&self) -> usize {
        match self {
            Wish::Event(_) => LONGEST_EVENT,
            Wish::Check => LONGEST_EXPERIMENT,
            _ => 0,
        }
    }
}

/// The value of a name in a query; none if it is not there, or no text.
fn value(query: &str, name: &str) -> Option<String> {
    let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    let mut bytes = Vec::new();
    let mut rest = found.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str, query: &str) -> Result<Asked, Refusal> {
        Asked::of("GET", path, query, May::Look)
    }

    #[test]
    fn paths_are_wishes_and_others_are_unknown() {
        assert_eq!(get("", ""), Ok(Asked::Once(Wish::Page)));
        assert_eq!(get("live", ""), Ok(Asked::Live(None)));
        assert_eq!(get("live", "run=7-a"), Ok(Asked::Live(Some("7-a".into()))));
        assert_eq!(get("report", "run=a%2Fb%20%C3%A4"), Ok(Asked::Once(Wish::Report("a/b ä".into()))));
        let pair = Wish::Compare { base: "a/1".into(), other: "b".into() };
        assert_eq!(get("compare", "base=a/1&other=b"), Ok(Asked::Once(pair)));
        for (path, query) in [
            ("..", ""),
            ("../etc/passwd", ""),
            ("runs/", ""),
            ("report", ""),
            ("report", "runs=a"),
            ("report", "run=%ff"),
            ("report", "run=%"),
            ("report", "run=%4"),
            ("report", "run=%zz"),
            ("compare", "base=a"),
        ] {
            assert_eq!(get(path, query), Err(Refusal::Unknown), "{path}?{query}");
        }
    }

    #[test]
    fn who_may_look_changes_nothing() {
        for path in ["event", "check"] {
            let of = |method, may| Asked::of(method, path, "run=7", may);
            assert_eq!(of("POST", May::Look), Err(Refusal::OnlyLook));
            assert_eq!(of("GET", May::Everything), Err(Refusal::Method("POST")), "{path}: by no link");
            let Ok(Asked::Once(wish)) = of("POST", May::Everything) else { panic!("{path}") };
            assert!(wish.longest_body() > 0);
        }
        assert_eq!(get("experiment", ""), Err(Refusal::OnlyLook));
        assert_eq!(Asked::of("POST", "runs", "", May::Everything), Err(Refusal::Method("GET")));
        assert_eq!(Wish::Runs.longest_body(), 0);
    }
}
