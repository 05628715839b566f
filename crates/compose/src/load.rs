//! From files to one tree: variables are replaced, `include` and `extends` carried out, files laid over one another,
//! and short forms written out, in the order in which Compose does all this.

mod include;
mod paths;

use std::fs;
use std::path::{Path, PathBuf};

use model::yaml::{self, Kind, Problems, Span, did_you_mean};

use crate::canonical::canonical;
use crate::cast;
use crate::dotenv;
use crate::merge::{merge, unique};
use crate::template;
use crate::tree::{self, Data, Over, Value};
use crate::{COMPOSE, Error, Note};

pub(crate) use self::paths::resolve_paths;

/// Values of variables: first those of the environment, then those of files of settings.
#[derive(Clone)]
pub(crate) struct Environment<'a> {
    outside: &'a dyn Fn(&str) -> Option<String>,
    pub settings: Vec<(String, String)>,
}

impl<'a> Environment<'a> {
    pub fn new(outside: &'a dyn Fn(&str) -> Option<String>) -> Environment<'a> {
        Environment { outside, settings: Vec::new() }
    }

    pub fn get(&self, name: &str) -> Option<String> {
        let beside = || self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        (self.outside)(name).or_else(beside)
    }

    /// Takes over the settings of a file, as far as there are none of these names.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let mut settings = Vec::new();
        dotenv::parse(text, &mut settings, &|name| self.get(name))?;
        settings.retain(|(name, _)| self.settings.iter().all(|(known, _)| known != name));
        self.settings.extend(settings);
        Ok(())
    }
}

/// The loader, which reads files and notes faults and differences.
pub(crate) struct Loader {
    /// The folder of the first file. Nothing outside it is read.
    pub folder: PathBuf,
    pub problems: Problems,
    pub notes: Vec<Note>,
    /// The files read so far, as they are called in messages.
    sources: Vec<(PathBuf, String)>,
    /// How much text variables have made so far, in bytes.
    filled: usize,
    /// How many values, and bytes of text, there have been in all documents, with those that others have taken over.
    spent: (usize, usize),
}

/// The most files that a project is made of.
const MOST_FILES: usize = 200;
/// The most text that variables may make of them, in bytes.
const LONGEST: usize = 16 << 20;
/// The most values of all documents, and bytes of text, with those that are taken over again and again.
const MOST: (usize, usize) = (200_000, 12 << 20);
/// Nobody reads more notes.
const MOST_NOTES: usize = 1000;

/// Names and bounds a file of settings, for messages.
const SETTINGS: Kind = Kind {
    the: "the file of settings",
    is: "a file of settings has lines such as NAME=VALUE",
    missing: "a file of settings has lines such as NAME=VALUE",
    longest: 1 << 20,
};

/// The text of a file of settings.
pub(crate) fn text_of_settings(path: &Path) -> Result<String, String> {
    yaml::text(path, &SETTINGS).map_err(|e| e.to_string())
}

impl Loader {
    /// Begins with a file, whose folder all others have to be in.
    pub fn new(file: &Path) -> Result<(Loader, usize), Error> {
        let text = yaml::text(file, &COMPOSE)?;
        let parent = file.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let unreadable = |e: std::io::Error| Error::Unreadable { path: file.to_owned(), why: e.to_string() };
        let folder = fs::canonicalize(parent).map_err(unreadable)?;
        let problems = Problems::new(COMPOSE.the, file, &text);
        let loader = Loader {
            folder,
            problems,
            notes: Vec::new(),
            sources: vec![(file.to_owned(), text)],
            filled: 0,
            spent: (0, 0),
        };
        Ok((loader, 0))
    }

    /// Reads another file that is laid over the first.
    pub fn another(&mut self, file: &Path) -> Result<usize, Error> {
        let text = yaml::text(file, &COMPOSE)?;
        self.sources.push((file.to_owned(), text.clone()));
        Ok(self.problems.source(file.display().to_string(), text))
    }

    /// Reads the file `.env`, if there is one.
    pub fn settings_beside(&mut self, environment: &mut Environment<'_>) {
        let file = self.folder.join(".env");
        if !file.is_file() {
            return;
        }
        let read = self.try_inside(&file).and_then(|real| text_of_settings(&real));
        if let Err(what) = read.and_then(|text| environment.add(&text)) {
            self.wrong(Span::default(), format!("`.env`: {what}"));
        }
    }

    /// The project's name: as the environment says, the last of its files, or its folder.
    pub fn project_name(&mut self, sources: &[usize], environment: &Environment<'_>) -> String {
        let plain = |name: &str| {
            let lower = name.to_lowercase();
            let kept: String = lower.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect();
            kept.trim_start_matches(['_', '-']).to_owned()
        };
        if let Some(name) = environment.get("COMPOSE_PROJECT_NAME").filter(|name| !name.is_empty()) {
            return plain(&name);
        }
        let mut given = String::new();
        for source in sources {
            let documents = tree::parse(&self.sources[*source].1, *source).map(|(documents, _)| documents);
            for name in documents.unwrap_or_default().iter().filter_map(|d| d.get("name")?.as_text()) {
                given = name.to_owned();
            }
        }
        let given = template::fill_in(&given, &|name| environment.get(name)).map(|filled| plain(&filled.text));
        match given.unwrap_or_default() {
            name if !name.is_empty() => name,
            _ => plain(&self.folder.file_name().unwrap_or_default().to_string_lossy()),
        }
    }

    /// Counts a document, or a part of one that is taken over. False, with a note, if that is too much.
    fn may_take(&mut self, value: &Value, at: Span) -> bool {
        self.may_keep(value.size(), value.length(), at)
    }

    /// Likewise, of so many values with so much text.
    pub fn may_keep(&mut self, values: usize, text: usize, at: Span) -> bool {
        self.spent = (self.spent.0.saturating_add(values), self.spent.1.saturating_add(text));
        let may = self.spent.0 <= MOST.0 && self.spent.1 <= MOST.1;
        if !may {
            let (values, text) = (MOST.0, MOST.1 >> 20);
            let what = format!("with this, all files have more than {values} values, or {text} MiB of text");
            self.wrong(at, what + ", each counted as often as it is taken over (`include`, `extends`, `env_file`)");
        }
        may
    }

    pub fn wrong(&mut self, at: Span, what: impl Into<String>) {
        self.problems.add(at, what);
    }

    pub fn note(&mut self, at: Span, node: Option<&str>, what: impl Into<String>) {
        let (file, text) = &self.sources[at.source];
        if self.notes.len() >= MOST_NOTES {
            return;
        }
        let line = text.chars().take(at.start).filter(|c| *c == '\n').count() + 1;
        let note = Note { file: file.clone(), line, node: node.map(str::to_owned), what: what.into() };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// A file that the Compose file names, if it is in its folder.
    fn inside(&mut self, path: &Path, at: Span) -> Option<PathBuf> {
        match self.try_inside(path) {
            Ok(path) => Some(path),
            Err(what) => {
                self.wrong(at, what);
                None
            }
        }
    }

    /// Checks that a path lies inside the folder; a fault comes without its place.
    pub fn try_inside(&self, path: &Path) -> Result<PathBuf, String> {
        let shown = path.strip_prefix(&self.folder).unwrap_or(path).display();
        let out = || format!("`{shown}` leads out of the folder: put it there");
        if !path.starts_with(&self.folder) {
            return Err(out());
        }
        let real = fs::canonicalize(path).map_err(|e| format!("`{shown}` cannot be read: {e}"))?;
        if real.starts_with(&self.folder) { Ok(real) } else { Err(out()) }
    }

    /// Reads another file of the folder, whose number it gives.
    fn open(&mut self, path: &Path, at: Span) -> Option<usize> {
        if self.sources.len() >= MOST_FILES {
            // Files that include each other twice are read twice as often, level by level.
            if self.sources.len() == MOST_FILES {
                self.wrong(at, format!("more than {MOST_FILES} files are read, some of them again and again"));
                self.sources.push(Default::default());
            }
            return None;
        }
        let real = self.inside(path, at)?;
        match yaml::text(&real, &COMPOSE) {
            Ok(text) if !self.may_keep(0, text.len(), at) => None,
            Ok(text) => {
                let shown = path.strip_prefix(&self.folder).unwrap_or(path).to_owned();
                let shown = self.sources[0].0.parent().map_or(shown.clone(), |folder| folder.join(&shown));
                self.sources.push((shown.clone(), text.clone()));
                Some(self.problems.source(shown.display().to_string(), text))
            }
            Err(e) => {
                self.wrong(at, e.to_string());
                None
            }
        }
    }

    /// The documents of a file with its variables replaced.
    fn documents(&mut self, source: usize, environment: &Environment<'_>) -> Vec<Value> {
        match tree::parse(&self.sources[source].1, source) {
            Ok((documents, faults)) => {
                faults.into_iter().for_each(|(at, what)| self.wrong(at, what));
                if !documents.iter().all(|document| self.may_take(document, document.span)) {
                    return Vec::new();
                }
                documents.into_iter().map(|document| self.filled(document, environment, &mut Vec::new())).collect()
            }
            Err((at, what)) => {
                self.wrong(at, what);
                Vec::new()
            }
        }
    }

    /// A value with its variables replaced, and of the type that belongs there.
    fn filled(&mut self, mut value: Value, environment: &Environment<'_>, path: &mut Vec<String>) -> Value {
        match &mut value.data {
            Data::Text(text) => match template::fill_in(text, &|name| environment.get(name)) {
                Ok(filled) => {
                    self.filled += filled.text.len();
                    if self.filled > LONGEST {
                        // Said once: what else there is to be replaced would only take memory.
                        if self.filled < usize::MAX / 2 {
                            self.wrong(value.span, "variables make more than 16 MiB of text of these files");
                        }
                        self.filled = usize::MAX / 2;
                        return value;
                    }
                    for name in filled.unset {
                        let what = format!("`{name}` is set neither in the environment nor in `.env`: it is empty");
                        self.note(value.span, None, what);
                    }
                    match cast::cast(&filled.text, path) {
                        Ok(data) => value.data = data,
                        Err(what) => self.wrong(value.span, what),
                    }
                }
                Err(what) => self.wrong(value.span, what),
            },
            Data::List(items) => {
                path.push("[]".into());
                let filled = std::mem::take(items).into_iter().map(|item| self.filled(item, environment, path));
                *items = filled.collect();
                path.pop();
            }
            Data::Map(entries) => {
                for (key, entry) in entries {
                    path.push(key.text.clone());
                    let old = std::mem::replace(entry, Value::new(key.span, Data::Null));
                    *entry = self.filled(old, environment, path);
                    path.pop();
                }
            }
            _ => {}
        }
        value
    }

    /// Files laid over one another: canonical, with `include` and `extends` carried out. Paths in them start at `base`.
    pub fn project(
        &mut self,
        sources: &[usize],
        base: &Path,
        environment: &Environment<'_>,
        including: &[PathBuf],
    ) -> Value {
        let span = Span { source: sources.first().copied().unwrap_or(0), start: 0, end: 0 };
        let mut all = Value::new(span, Data::Map(Vec::new()));
        for source in sources {
            for document in self.documents(*source, environment) {
                let document = self.included(document, *source, base, environment, including);
                let document = self.extended_all(document, *source, base, environment);
                all = self.laid_over(all, document);
            }
        }
        let mut all = without_resets(all);
        resolve_paths(&mut all, base);
        all
    }

    /// Lays a document over what there is, canonical.
    fn laid_over(&mut self, below: Value, document: Value) -> Value {
        if !matches!(document.data, Data::Map(_)) {
            self.wrong(document.span, format!("a Compose file is a map, and this is {}", document.kind()));
            return below;
        }
        let merged = match merge(below.clone(), document, &mut Vec::new()) {
            Ok(merged) => merged,
            Err((at, what)) => {
                self.wrong(at, what);
                return below;
            }
        };
        let mut merged = merged;
        unique(&mut merged);
        canonical(&mut merged, &mut self.problems);
        unique(&mut merged);
        merged
    }

    fn extended_all(
        &mut self,
        mut document: Value,
        source: usize,
        base: &Path,
        environment: &Environment<'_>,
    ) -> Value {
        let Some(services) = document.get("services").cloned() else { return document };
        let mut all = services.clone();
        for (key, _) in services.entries() {
            let place = Place { services: &services, source, base };
            if let Some(service) = self.extended(&key.text, &place, environment, &mut Vec::new()) {
                all.set(&key.text, service);
            }
        }
        document.set("services", all);
        document
    }

    /// A service with what it takes over from the one that it extends.
    fn extended(
        &mut self,
        name: &str,
        place: &Place<'_>,
        environment: &Environment<'_>,
        chain: &mut Vec<(PathBuf, String)>,
    ) -> Option<Value> {
        let mut service = place.services.get(name)?.clone();
        let Some(extends) = service.get("extends").filter(|extends| !extends.is_null()).cloned() else {
            return Some(service);
        };
        let file = self.sources[place.source].0.clone();
        if chain.contains(&(file.clone(), name.to_owned())) {
            self.wrong(extends.span, format!("`{name}` extends itself, through others"));
            return None;
        }
        chain.push((file, name.to_owned()));
        let reference = match &extends.data {
            Data::Text(reference) => reference.clone(),
            _ => match extends.get("service").and_then(Value::as_text) {
                Some(reference) => reference.to_owned(),
                None => {
                    self.wrong(
                        extends.span,
                        "write `extends: { service: NAME }`, and `file: PATH` if it is in another",
                    );
                    return None;
                }
            },
        };
        let below = match extends.get("file").and_then(Value::as_text) {
            None => {
                self.is_there(&reference, place.services, extends.span)?;
                self.extended(&reference, place, environment, chain)?
            }
            Some(path) => {
                let path = paths::absolute(path, place.base);
                let source = self.open(&path, extends.span)?;
                let base = path.parent().unwrap_or(&self.folder).to_owned();
                let services = self.services_of(source, &base, environment)?;
                self.is_there(&reference, &services, extends.span)?;
                let place = Place { services: &services, source, base: &base };
                self.extended(&reference, &place, environment, chain)?
            }
        };
        service.remove("extends");
        if below.is_null() {
            return Some(service);
        }
        if !self.may_take(&below, extends.span) {
            return None;
        }
        match merge(below, service, &mut vec!["services".into(), name.into()]) {
            Ok(merged) => Some(merged),
            Err((at, what)) => {
                self.wrong(at, what);
                None
            }
        }
    }

    /// The services of a file that others extend.
    fn services_of(&mut self, source: usize, base: &Path, environment: &Environment<'_>) -> Option<Value> {
        let mut all = Value::new(Span { source, start: 0, end: 0 }, Data::Map(Vec::new()));
        for document in self.documents(source, environment) {
            all = self.laid_over(all, document);
        }
        let mut all = without_resets(all);
        resolve_paths(&mut all, base);
        let services = all.remove("services");
        if services.is_none() {
            self.wrong(all.span, "there are no `services` here that could be extended");
        }
        services
    }

    fn is_there(&mut self, name: &str, services: &Value, at: Span) -> Option<()> {
        if services.get(name).is_some() {
            return Some(());
        }
        let known: Vec<&str> = services.entries().iter().map(|(key, _)| key.text.as_str()).collect();
        self.wrong(at, format!("there is no service `{name}` to extend{}", did_you_mean(name, &known)));
        None
    }
}

/// Where a service that extends another stands.
struct Place<'a> {
    services: &'a Value,
    source: usize,
    base: &'a Path,
}

/// A value without what `!reset` takes away.
fn without_resets(mut value: Value) -> Value {
    match &mut value.data {
        Data::Map(entries) => {
            let kept = std::mem::take(entries).into_iter().filter(|(_, entry)| entry.over != Some(Over::Reset));
            *entries = kept.map(|(key, entry)| (key, without_resets(entry))).collect();
        }
        Data::List(items) => {
            let kept = std::mem::take(items).into_iter().filter(|item| item.over != Some(Over::Reset));
            *items = kept.map(without_resets).collect();
        }
        _ => {}
    }
    value
}
