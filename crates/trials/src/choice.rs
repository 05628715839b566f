//! Which tests of a suite are run, and which may differ when they are dilated: a list in `conformance/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;

/// The lists, from where make is run.
const LISTS: &str = "crates/trials/conformance";

/// A list of chosen tests. Its lines are `run PATTERN…`, where `*` stands for anything; `leave NAME: WHY` for a test
/// that is not run; `differs NAME: WHY` for one whose difference is documented; and `waits NAME: SECONDS` for one that
/// waits at least so long in its own time, and so must last TDF times as long when it is dilated.
#[derive(Debug, Default, PartialEq)]
pub struct Choice {
    run: Vec<String>,
    pub leave: BTreeMap<String, String>,
    pub differ: BTreeMap<String, String>,
    pub waits: BTreeMap<String, Duration>,
}

impl Choice {
    /// Reads the list of this name.
    pub fn read(name: &str) -> Result<Choice, Failure> {
        let path = Path::new(LISTS).join(name);
        let text = fs::read_to_string(&path)
            .map_err(|e| Failure::input(format!("{}: {e}: run this in Diorama's own directory", path.display())))?;
        Choice::parse(&text).map_err(|why| Failure::failed(format!("{}: {why}", path.display())))
    }

    fn parse(text: &str) -> Result<Choice, String> {
        let mut choice = Choice::default();
        for (number, line) in text.lines().enumerate() {
            let wrong = || format!("line {}: `{line}` is neither `run`, `leave`, `differs` nor `waits`", number + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (word, rest) = line.split_once(' ').ok_or_else(wrong)?;
            let reason =
                || rest.split_once(": ").map(|(name, why)| (name.to_owned(), why.to_owned())).ok_or_else(wrong);
            match word {
                "run" => choice.run.extend(rest.split_whitespace().map(str::to_owned)),
                "leave" => drop(reason().map(|(name, why)| choice.leave.insert(name, why))?),
                "differs" => drop(reason().map(|(name, why)| choice.differ.insert(name, why))?),
                "waits" => {
                    let (name, seconds) = reason()?;
                    let seconds =
                        seconds.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).ok_or_else(wrong)?;
                    choice.waits.insert(name, seconds);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(choice)
    }

    /// Whether a test is to be run.
    pub fn takes(&self, name: &str) -> bool {
        !self.leave.contains_key(name) && self.run.iter().any(|pattern| matches(pattern, name))
    }
}

/// Whether a pattern, in which `*` stands for anything, describes a whole name.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            (0..=name.len()).filter(|&at| name.is_char_boundary(at)).any(|at| matches(rest, &name[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name) in [("clock_*", "clock_gettime01"), ("*poll*", "ppoll01"), ("*poll*", "poll"), ("a", "a")] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("clock_*", "leapsec01"), ("time0*", "timer_create01"), ("epoll_*wait*", "epoll_ctl01")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_list_chooses_and_gives_reasons() {
        let choice = Choice::parse(
            "# list\nrun clock_* time01\n\nleave clock_b: sets the date\ndiffers time01: a limit\nwaits time01: 2.5\n",
        );
        let choice = choice.unwrap();
        assert!(choice.takes("clock_a") && choice.takes("time01") && !choice.takes("clock_b") && !choice.takes("x"));
        assert_eq!(choice.leave["clock_b"], "sets the date");
        assert_eq!(choice.differ["time01"], "a limit");
        assert_eq!(choice.waits["time01"], Duration::from_millis(2500));
        assert!(Choice::parse("waits time01: long").is_err());
        assert!(Choice::parse("run a\nrum b").unwrap_err().starts_with("line 2: `rum b`"));
        assert!(Choice::parse("differs b").is_err(), "a difference needs its reason");
    }

    #[test]
    fn the_lists_of_this_repository_can_be_read() {
        for list in ["ltp.txt", "shadow.txt"] {
            let text = fs::read_to_string(Path::new("conformance").join(list)).unwrap();
            let choice = Choice::parse(&text).unwrap();
            assert!(!choice.run.is_empty(), "{list}");
            for (name, why) in &choice.differ {
                assert!(why.contains("](") && why.contains(".md#"), "{list}: {name}: a known difference says where");
            }
        }
    }
}
