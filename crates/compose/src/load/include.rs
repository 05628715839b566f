//! `include`: other projects as part of this one, each with its own folder and settings.

use std::path::{Path, PathBuf};

use model::yaml::Span;

use super::{Environment, Loader, paths};
use crate::merge::{merge, sequence};
use crate::tree::{Data, Value};

/// Sections taken over from a project that is included.
const RESOURCES: [&str; 6] = ["services", "volumes", "networks", "secrets", "configs", "models"];

impl Loader {
    /// A document with what it includes below what it says itself.
    pub(super) fn included(
        &mut self,
        mut document: Value,
        source: usize,
        base: &Path,
        environment: &Environment<'_>,
        including: &[PathBuf],
    ) -> Value {
        let Some(include) = document.remove("include") else { return document };
        let Data::List(items) = include.data else {
            if !include.is_null() {
                self.wrong(include.span, format!("`include` is a list of files, and not {}", include.kind()));
            }
            return document;
        };
        let mut including = including.to_vec();
        including.push(self.sources[source].0.clone());
        for item in items {
            if let Some(project) = self.other(&item, base, environment, &including) {
                for kind in RESOURCES {
                    self.take_over(&mut document, &project, kind);
                }
            }
        }
        document
    }

    fn other(
        &mut self,
        item: &Value,
        base: &Path,
        environment: &Environment<'_>,
        including: &[PathBuf],
    ) -> Option<Value> {
        let at = item.span;
        let part = |key: &str| item.get(key).map(|value| sequence(value.clone())).unwrap_or_default();
        for (key, _) in item.entries() {
            if !matches!(key.text.as_str(), "path" | "project_directory" | "env_file") {
                let what = format!("`include` has no `{}`: there are path, project_directory and env_file", key.text);
                self.wrong(key.span, what);
            }
        }
        let files = if item.as_text().is_some() { vec![item.clone()] } else { part("path") };
        let files: Vec<PathBuf> =
            files.iter().filter_map(Value::as_text).map(|path| paths::absolute(path, base)).collect();
        let Some(first) = files.first() else {
            self.wrong(at, "write `include: [PATH]`, or `include: [{ path: PATH }]`");
            return None;
        };
        let folder = match item.get("project_directory").and_then(Value::as_text) {
            Some(folder) => paths::absolute(folder, base),
            None => first.parent().unwrap_or(base).to_owned(),
        };
        let mut own = environment.clone();
        let settings = part("env_file");
        if settings.is_empty() && folder.join(".env").is_file() {
            self.settings_of(&folder.join(".env"), at, &mut own);
        }
        for file in settings.iter().filter_map(Value::as_text).filter(|file| *file != "/dev/null") {
            self.settings_of(&paths::absolute(file, base), at, &mut own);
        }
        let sources: Option<Vec<usize>> = files.iter().map(|file| self.open(file, at)).collect();
        let sources = sources?;
        let first = &self.sources[sources[0]].0;
        if including.contains(first) {
            self.wrong(at, format!("`{}` includes itself, through others", first.display()));
            return None;
        }
        let mut project = self.project(&sources, &folder, &own, including);
        values_of_names(&mut project, &own);
        Some(project)
    }

    fn settings_of(&mut self, file: &Path, at: Span, environment: &mut Environment<'_>) {
        let Some(real) = self.inside(file, at) else { return };
        if let Err(what) = super::text_of_settings(&real).and_then(|text| environment.add(&text)) {
            self.wrong(at, format!("{}: {what}", file.display()));
        }
    }

    /// Puts what an included project has below what the document has of the same name.
    fn take_over(&mut self, document: &mut Value, project: &Value, kind: &str) {
        let Some(theirs) = project.get(kind).filter(|theirs| !theirs.entries().is_empty()) else { return };
        if document.get(kind).is_none_or(Value::is_null) {
            document.set(kind, Value::new(theirs.span, Data::Map(Vec::new())));
        }
        let Some(own) = document.get_mut(kind) else { return };
        for (key, value) in theirs.entries() {
            let merged = match own.get(&key.text) {
                Some(conflict) if conflict == value => continue,
                Some(conflict) => {
                    let path = &mut vec![kind.to_owned(), key.text.clone()];
                    match merge(value.clone(), conflict.clone(), path) {
                        Ok(merged) => merged,
                        Err((at, what)) => {
                            self.problems.add(at, what);
                            continue;
                        }
                    }
                }
                None => value.clone(),
            };
            own.set(&key.text, merged);
        }
    }
}

/// Gives variables that are only named the value that they have where the project was included.
fn values_of_names(project: &mut Value, environment: &Environment<'_>) {
    for (_, service) in crate::merge::entries_of(project, "services") {
        let Some(Data::List(items)) = service.get_mut("environment").map(|value| &mut value.data) else { continue };
        for item in items {
            if let Data::Text(text) = &mut item.data
                && !text.contains('=')
                && let Some(value) = environment.get(text)
            {
                *text = format!("{text}={value}");
            }
        }
    }
}
