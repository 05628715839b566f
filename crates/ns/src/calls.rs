//! The calls of a script, as the interpreter wrote them down: one JSON array a line.

use std::collections::HashMap;

use crate::error::{Note, Place};

/// A call that the script made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The kind of record: `new`, `call`, `name`, `tb`, `at`, `step`, `proc`, `opt`, `puts`,
    /// `exit`.
    pub kind: String,
    /// Where it stands in the script.
    pub place: Option<Place>,
    /// Its words; what they are depends on the kind.
    pub words: Vec<String>,
}

impl Call {
    /// A word; empty if there are not so many.
    pub fn word(&self, n: usize) -> &str {
        self.words.get(n).map_or("", String::as_str)
    }
}

/// All that an interpreter wrote until it ended or was ended.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// The message of Tcl that ended the script, and its trace.
    pub failed: Option<(String, String)>,
    /// Whether it came to its end, good or bad.
    pub complete: bool,
    /// The line that ran last, as far as that is known.
    pub last: Option<Place>,
}

/// Reads what an interpreter wrote. `shown` says how a path that it knows is called before the user.
pub fn read(output: &str, shown: impl Fn(&str) -> String) -> Record {
    let mut record = Record::default();
    for line in output.lines() {
        let Ok(serde_json::Value::Array(fields)) = serde_json::from_str(line) else { continue };
        let mut fields = fields.into_iter();
        let mut text = || match fields.next() {
            Some(serde_json::Value::String(text)) => Some(text),
            _ => None,
        };
        let (Some(kind), Some(file)) = (text(), text()) else { continue };
        let line = fields.next().and_then(|l| l.as_u64()).unwrap_or(0) as u32;
        let words: Vec<String> = fields.filter_map(|w| w.as_str().map(str::to_owned)).collect();
        let place = (line > 0).then(|| Place { file: shown(&file), line });
        if place.is_some() {
            record.last.clone_from(&place);
        }
        match kind.as_str() {
            "line" => {}
            "end" => record.complete = true,
            "error" => record.failed = words.first().cloned().zip(words.get(1).cloned()),
            _ => record.calls.push(Call { kind, place, words }),
        }
    }
    record
}

/// The error that ended the script, in the user's words: the message of Tcl without its trace, at the line of the
/// script.
pub fn failure(record: &Record, shown: impl Fn(&str) -> String) -> Option<Note> {
    let (message, trace) = record.failed.as_ref()?;
    let mut begins: HashMap<&str, &Place> = HashMap::new();
    for call in record.calls.iter().filter(|c| c.kind == "proc") {
        begins.extend(call.place.as_ref().map(|place| (call.word(0), place)));
    }
    let place = trace.lines().find_map(|line| at(line.trim(), &begins, &shown)).or_else(|| record.last.clone());
    Some(Note { place, what: said(message) })
}

/// The place that a line of a trace names: of a procedure of the script, or of a file.
fn at(line: &str, begins: &HashMap<&str, &Place>, shown: impl Fn(&str) -> String) -> Option<Place> {
    let inner = line.strip_prefix('(')?.strip_suffix(')')?;
    let (what, number) = inner.rsplit_once(" line ")?;
    let number: u32 = number.parse().ok()?;
    if let Some(name) = what.strip_prefix("procedure \"").and_then(|w| w.strip_suffix('"')) {
        let begin = begins.get(name.trim_start_matches(':'))?;
        // The first line of a procedure's body is that of its opening brace.
        return Some(Place { file: begin.file.clone(), line: begin.line + number - 1 });
    }
    let file = what.strip_prefix("file \"")?.strip_suffix('"')?;
    if file.ends_with("/.prelude") {
        return None;
    }
    Some(Place { file: shown(file), line: number })
}

/// Tcl's messages that a user of ns would not understand, in other words.
fn said(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    if first == "time limit exceeded" {
        return "the script does not come to an end: this ran when its time was over; is there a loop that never ends?"
            .into();
    }
    if first.contains("out of memory") {
        return too_large();
    }
    if let Some(name) = first.strip_prefix("there is no command `").and_then(|rest| rest.strip_suffix('`')) {
        let known: Vec<&str> = crate::tb::COMMANDS.iter().map(|c| c.name).chain(TCL.iter().copied()).collect();
        let near = model::nearest(name, &known).map_or(String::new(), |near| format!(": did you mean `{near}`?"));
        return format!("{first}{near}");
    }
    if let Some((_, why)) = BROKEN.iter().find(|(broken, _)| first == *broken) {
        return format!("{first}: {why}");
    }
    if let Some(rest) = first.strip_prefix("can't read \"") {
        let name = rest.split('"').next().unwrap_or_default();
        return format!("there is no variable `{name}` here; set it before it is used");
    }
    first.to_owned()
}

/// Tcl's messages about a text that is no program, and their meaning.
const BROKEN: &[(&str, &str)] = &[
    ("missing close-brace", "a `{` of what begins here has no `}`"),
    ("missing close-bracket", "a `[` of what begins here has no `]`"),
    ("missing \"", "a text in quotes that begins here has no end"),
    ("extra characters after close-brace", "after `}` comes a space or the end of the line"),
    ("extra characters after close-quote", "after a text in quotes comes a space or the end of the line"),
];

/// Commands of Tcl and ns that scripts use most.
const TCL: &[&str] = &[
    "set", "for", "foreach", "while", "proc", "return", "global", "expr", "incr", "lappend", "puts", "source", "new",
    "switch", "array", "string", "format", "lindex", "llength", "append", "concat", "break", "continue", "eval",
    "upvar",
];

/// The message about a script that wants more memory than it may have.
pub fn too_large() -> String {
    "the script wants more memory than the 64 MiB that it may have; is there a list or a text that only grows?".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn records_are_read_and_noise_is_not() {
        let output = "[\"call\",\"/s/a.ns\",3,\"x\",\"h\\u00e9\\n\"]\nnoise\n{}\n[1]\n\
                      [\"line\",\"/s/a.ns\",7]\n[\"end\",\"\",0]\n";
        let record = read(output, shown);
        let place = |line| Some(Place { file: "a.ns".into(), line });
        let call = Call { kind: "call".into(), place: place(3), words: vec!["x".into(), "hé\n".into()] };
        assert_eq!((record.calls, record.complete, record.last), (vec![call], true, place(7)));
    }

    #[test]
    fn a_failure_is_placed_by_the_innermost_procedure_of_the_script() {
        let mut record = read("[\"proc\",\"/s/a.ns\",10,\"hog\"]\n", shown);
        let trace = "bad\n    while executing\n\"x\"\n    (\"while\" body line 1)\n    \
                     (procedure \"source\" line 2)\n    (procedure \"hog\" line 4)\n    \
                     invoked from within\n\"hog\"\n    (file \"/s/a.ns\" line 20)";
        record.failed = Some(("invalid".into(), trace.into()));
        let note = failure(&record, shown).expect("it failed");
        assert_eq!(note.to_string(), "a.ns:13: invalid");
        let unset = "can't read \"a(1)\": no such variable\nmore";
        record.failed = Some((unset.into(), "(file \"/s/b.ns\" line 2)".into()));
        let note = failure(&record, shown).expect("it failed");
        assert_eq!(note.to_string(), "b.ns:2: there is no variable `a(1)` here; set it before it is used");
    }
}
