//! Words that only one room may use, and how long a line may be.
//!
//! Each rule is a function from the path and the text of a file to its breaches. Tests may say anything but lines that
//! are too long: they look at the kernel and at run directories with their own eyes.

use crate::Breach;
use crate::text::{Line, lines};

/// The longest line, in characters.
const COLUMNS: usize = 120;

/// Where control groups are mounted.
const MOUNTED: &str = "/sys/fs/cgroup";

/// Files of control groups, by what stands before the dot.
const CONTROLLERS: &[&str] =
    &["cgroup", "cpu", "cpuacct", "cpuset", "memory", "pids", "devices", "freezer", "io", "hugetlb"];

/// Names of files in a run directory.
const RECORDED: &[&str] = &[
    "result.json",
    "plan.json",
    "events.jsonl",
    "pipes.csv",
    "ports.csv",
    "speed.csv",
    "report.html",
    "metrics/",
    "captures/",
    "stdout.log",
    "stderr.log",
];

/// Words that only a tracer says.
const TRACING: &[&str] = &["PTRACE_", "SECCOMP_", "SYS_ptrace", "SYS_seccomp", "PR_SET_SECCOMP", "libc::ptrace"];

/// Where the factor's two parts are handed to a program in C, which does its own arithmetic, and why.
const HANDED_OVER: &[(&str, &str)] = &[
    ("crates/tcp/src/cubic.rs", "the BPF program divides the kernel's clock, where no Rust is"),
    ("crates/clock/src/page.rs", "the guest image keeps both parts, to turn time-outs into real ones in C"),
];

/// The lines of Rust that are no tests.
fn code(path: &str, text: &str) -> Vec<(usize, Line)> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let numbered = lines(path, text).into_iter().enumerate().map(|(number, line)| (number + 1, line));
    numbered.filter(|(_, line)| !line.test).collect()
}

/// The only file that names those of control groups.
const NAMES_GROUPS: &str = "crates/host/src/cgroup/files.rs";

/// Only `host` says where control groups are, and what their files are called, and that in one place.
pub fn control_groups(path: &str, text: &str) -> Vec<Breach> {
    if path == NAMES_GROUPS || path.starts_with("crates/rules/") {
        return Vec::new();
    }
    let found = code(path, text).into_iter().filter_map(|(number, line)| {
        let strings = &line.strings;
        let name = CONTROLLERS.iter().find_map(|controller| file_of(strings, controller)).or_else(|| {
            let whole = strings.lines().find(|string| *string == "tasks" || *string == "notify_on_release");
            whole.or_else(|| strings.contains(MOUNTED).then_some(MOUNTED))
        })?;
        let says = format!("names `{name}`, as only {NAMES_GROUPS} does: ask host::cgroup for what this is to do");
        Some(Breach::new(path, number, says))
    });
    found.collect()
}

/// The `controller.file` that a text names.
fn file_of<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    let part_of_word = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    text.match_indices(controller).find_map(|(at, _)| {
        let name = text[at + controller.len()..].strip_prefix('.')?;
        let length = name.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(name.len());
        // `cpu.rs` is a source.
        let is_file = length > 2 && !text[..at].ends_with(part_of_word);
        is_file.then(|| &text[at..at + controller.len() + 1 + length])
    })
}

/// Only programs in C are handed the two parts of a time dilation factor; Rust outside `scale` gets conversions, for
/// the compiler offers it nothing else.
pub fn dilation(path: &str, text: &str) -> Vec<Breach> {
    if path.starts_with("crates/scale/") || HANDED_OVER.iter().any(|(file, _)| *file == path) {
        return Vec::new();
    }
    let found = code(path, text).into_iter().filter(|(_, line)| line.code.contains("parts_for_c"));
    let says = "takes the factor apart; only crates/scale does arithmetic with it: use Tdf::to_real, to_virtual and \
                the like, or add what is missing there";
    found.map(|(number, _)| Breach::new(path, number, says)).collect()
}

/// Only `record` names the files of a run directory.
pub fn run_directories(path: &str, text: &str) -> Vec<Breach> {
    if path.starts_with("crates/record/") || path.starts_with("crates/rules/") {
        return Vec::new();
    }
    let found = code(path, text).into_iter().filter_map(|(number, line)| {
        let name = RECORDED.iter().find(|name| line.strings.contains(**name))?;
        let says = format!("names `{name}` of a run directory, which only crates/record does: use its types and paths");
        Some(Breach::new(path, number, says))
    });
    found.collect()
}

/// Only `clock` traces programs and filters their system calls.
pub fn tracing(path: &str, text: &str) -> Vec<Breach> {
    if path.starts_with("crates/clock/") {
        return Vec::new();
    }
    let found = code(path, text).into_iter().filter_map(|(number, line)| {
        let word = TRACING.iter().find(|word| line.code.contains(**word))?;
        let says = format!("says `{word}`: only crates/clock traces programs and filters system calls; ask it");
        Some(Breach::new(path, number, says))
    });
    found.collect()
}

/// No line is too long for two windows side by side.
pub fn columns(path: &str, text: &str) -> Vec<Breach> {
    let found = text.lines().enumerate().filter_map(|(number, line)| {
        let length = line.chars().count();
        (length > COLUMNS).then(|| {
            Breach::new(path, number + 1, format!("{length} columns, where {COLUMNS} are the most: break the line"))
        })
    });
    found.collect()
}

/// Beginnings of comments that put off saying what a thing is.
const VAGUE: &[&str] = &["What", "The same", "Of the", "Of these", "Of them"];

/// Comments name their thing first (docs/style.md).
pub fn beginnings(path: &str, text: &str) -> Vec<Breach> {
    let all = lines(path, text);
    let said = |line: &Line| line.comment.trim_start_matches(['/', '!', '*']).trim().to_string();
    let found = all.iter().enumerate().filter_map(|(at, line)| {
        let begins = at == 0 || said(&all[at - 1]).is_empty();
        let comment = said(line);
        let whole = |rest: &str| !rest.starts_with(char::is_alphabetic);
        let vague = |word: &&&str| comment.strip_prefix(**word).is_some_and(whole);
        let word = VAGUE.iter().find(vague).filter(|_| begins)?;
        let says = format!("a comment begins with \"{word}\": name the thing in the first five words (docs/style.md)");
        Some(Breach::new(path, at + 1, says))
    });
    found.collect()
}

/// Comments do not cite papers that are not in the repository.
pub fn citations(path: &str, text: &str) -> Vec<Breach> {
    let cites = |comment: &str| {
        let words: Vec<String> = comment
            .split(|c: char| !c.is_alphanumeric() && c != '-')
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        words.windows(2).any(|two| two[0] == "the" && (two[1] == "design" || two[1] == "contract"))
    };
    let found = lines(path, text).into_iter().enumerate().filter(|(_, line)| cites(&line.comment));
    let says = "cites a paper that is not in the repository: cite a page of docs/, or say it";
    found.map(|(number, _)| Breach::new(path, number + 1, says)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/net/src/x.rs";

    fn at(rule: fn(&str, &str) -> Vec<Breach>, text: &str) -> Vec<usize> {
        rule(FILE, text).iter().map(|b| b.line).collect()
    }

    #[test]
    fn control_groups_are_named_in_one_place() {
        let text = "a(\"/sys/fs/cgroup/cpu\");\nb(\"cpu.shares\");\nc(\"x/cgroup.procs\");\nd(\"tasks\");\n\
                    // cpu.shares\ne(\"cpu.rs\");\nf(\"the tasks\");\ng(\"the cpu. And\");\nh(cpu.shares);\n\
                    i(\"memory.limit_in_bytes\")";
        assert_eq!(at(control_groups, text), [1, 2, 3, 4, 10]);
        assert_eq!(control_groups("crates/host/src/cgroup/files.rs", text), []);
        assert_eq!(control_groups("crates/host/src/cgroup/group.rs", text).len(), 5, "it uses what that names");
        assert_eq!(control_groups("crates/cpu/tests/x.rs", text), []);
        assert_eq!(at(control_groups, "#[cfg(test)]\nmod tests { const A: &str = \"/sys/fs/cgroup\"; }"), []);
    }

    #[test]
    fn the_factor_is_taken_apart_for_programs_in_c_only() {
        let text = "let (num, den) = tdf.parts_for_c();\n// parts_for_c\nlet a = share.ratio();";
        assert_eq!(at(dilation, text), [1]);
        for allowed in ["crates/scale/src/x.rs", "crates/tcp/src/cubic.rs", "crates/net/tests/x.rs"] {
            assert_eq!(dilation(allowed, text), [], "{allowed}");
        }
    }

    #[test]
    fn run_directories_are_known_to_record() {
        let text =
            "a(\"result.json\");\n/// `result.json`\nb(\"metrics/m.csv\");\nc(result.json);\nd(\"plan.json: {e}\")";
        assert_eq!(at(run_directories, text), [1, 3, 5]);
        assert_eq!(run_directories("crates/record/src/x.rs", text), []);
        assert_eq!(run_directories("crates/cli/tests/x.rs", text), []);
    }

    #[test]
    fn only_the_clock_traces() {
        assert_eq!(at(tracing, "libc::ptrace(libc::PTRACE_SEIZE)\n\"PTRACE_\"\n// ptrace\nfn ptrace()"), [1]);
        assert_eq!(tracing("crates/clock/src/x.rs", "PTRACE_SEIZE"), []);
    }

    #[test]
    fn lines_are_counted_in_characters() {
        let line = |n: usize| "ä".repeat(n);
        assert_eq!(at(columns, &format!("{}\n{}\n", line(120), line(121))), [2]);
        assert_eq!(columns("crates/net/tests/x.rs", &line(130)).len(), 1);
    }

    #[test]
    fn papers_that_are_not_there_are_not_cited() {
        let text =
            "// as the design says\n/// The exit code of the contract.\n// by design\n\"the design\"\n// the designer";
        assert_eq!(at(citations, text), [1, 2]);
        assert_eq!(citations("crates/clock/guest/x.c", "/* as the\n * contract says */ int x;"), []);
        assert_eq!(citations("crates/clock/guest/x.c", "/* the contract */").len(), 1);
    }

    #[test]
    fn comments_name_their_thing() {
        let text = "/// What it is.\nx\n// The same, later.\ny\n//! Of the node.\nz\n/// A node,\n/// What follows.\n\
                    /// Whatever.\n///\n/// What else.\n\"// What\"";
        assert_eq!(at(beginnings, text), [1, 3, 5, 11]);
        assert_eq!(beginnings("crates/clock/guest/x.c", "int x; /* What it is */").len(), 1);
    }

    #[test]
    fn a_breach_says_where_and_what_would_be_right() {
        let text = control_groups(FILE, "\n\"tasks\"")[0].to_string();
        assert!(text.starts_with("crates/net/src/x.rs:2: names `tasks`, as only crates/host"), "{text}");
        assert!(text.contains("ask host::cgroup"), "{text}");
    }
}
