//! Answers to wishes: what reads files, and asks runs. All of it may block.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{CoreChoice, Experiment, Rights, Wanted};
use record::Variant;
use serde_json::{Value, json};

use super::door::May;
use super::live::{Lives, Seen};
use super::results::{Lacking, Results};
use super::route::Wish;
use super::{metrics, page};
use crate::failure::Failure;

/// The most of an experiment's file that is shown to begin with.
const LONGEST: u64 = 1 << 20;
/// The file in the folder of an experiment.
const FILE: &str = "experiment.yaml";

/// An answer, before it is sent.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub media: &'static str,
    pub body: Vec<u8>,
    /// Whether it is a document that others may have written: nothing in it runs, and it is of no origin.
    pub is_foreign: bool,
}

impl Answer {
    fn of(media: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status: 200, media, body: body.into(), is_foreign: false }
    }

    fn json(value: &Value) -> Answer {
        Answer::of("application/json", value.to_string())
    }

    fn document(page: impl Into<Vec<u8>>) -> Answer {
        Answer { is_foreign: true, ..Answer::of("text/html; charset=utf-8", page) }
    }

    /// A sentence for a person.
    pub fn says(status: u16, why: &str) -> Answer {
        Answer { status, ..Answer::of("text/plain; charset=utf-8", format!("{}\n", engine::visible(why))) }
    }
}

/// Who answers.
pub struct Answers {
    results: Results,
    experiment: Option<PathBuf>,
    lives: Mutex<Lives>,
}

impl Answers {
    /// Of a directory of results, and an experiment to begin with, which must be there.
    pub fn of(results: PathBuf, experiment: Option<PathBuf>) -> Result<Answers, Failure> {
        let answers = Answers { results: Results::at(results), experiment, lives: Mutex::default() };
        answers.text().map_err(Failure::input)?;
        Ok(answers)
    }

    /// The live runs now.
    pub fn look(&self) -> Arc<Seen> {
        self.lives().look()
    }

    fn lives(&self) -> MutexGuard<'_, Lives> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a wish that comes with a text.
    pub fn answer(&self, wish: &Wish, may: May, said: &str) -> Answer {
        match wish {
            Wish::Page => Answer::of("text/html; charset=utf-8", page::page(may)),
            Wish::Style => Answer::of("text/css; charset=utf-8", page::STYLE),
            Wish::Script => Answer::of("text/javascript; charset=utf-8", page::SCRIPT),
            Wish::Runs => Answer::json(&self.results.list()),
            Wish::Report(name) => self.results.report(name).map_or_else(lacking, Answer::document),
            Wish::Compare { base, other } => self.results.compare(base, other).map_or_else(lacking, Answer::document),
            Wish::Metrics => Answer::of(metrics::MEDIA_TYPE, self.lives().metrics()),
            Wish::Experiment => match self.text() {
                Ok(text) => Answer::of("text/plain; charset=utf-8", text),
                Err(why) => Answer::says(404, &why),
            },
            Wish::Event(id) => event(id, said),
            Wish::Check => Answer::json(&self.check(said)),
        }
    }

    /// The text to begin with; nothing, if there is no experiment.
    fn text(&self) -> Result<String, String> {
        let Some(path) = &self.experiment else { return Ok(String::new()) };
        let _rights = Rights::of_caller(path);
        let file = if path.is_dir() { path.join(FILE) } else { path.clone() };
        let told = |e: std::io::Error| format!("{}: {e}; name the folder of an experiment or its file", file.display());
        let mut text = String::new();
        engine::open_file(&file).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text)).map_err(told)?;
        match text.len() as u64 {
            0..=LONGEST => Ok(text),
            _ => Err(format!("{}: longer than {} KiB", file.display(), LONGEST >> 10)),
        }
    }

    /// The folder in which the files of an experiment lie that somebody writes.
    fn folder(&self) -> PathBuf {
        let Some(path) = &self.experiment else { return ".".into() };
        let _rights = Rights::of_caller(path);
        match path.parent() {
            _ if path.is_dir() => path.clone(),
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => ".".into(),
        }
    }

    /// The words of `diorama check` on a text.
    fn check(&self, text: &str) -> Value {
        match engine::load_text(text, &self.folder()) {
            Ok(experiment) => match plan(&experiment) {
                Ok(plan) => json!({ "plan": plan, "notes": experiment.notes }),
                Err(e) => json!({ "error": engine::visible(&e.message), "places": [] }),
            },
            Err(unfit) => {
                // Where there are places, the text about them is for a terminal.
                let told = if unfit.places.is_empty() { engine::visible(&unfit.told) } else { "".into() };
                json!({ "error": told, "places": unfit.places.iter().map(placed).collect::<Vec<_>>() })
            }
        }
    }
}

fn placed((line, column, what): &(usize, usize, String)) -> Value {
    json!({ "line": line, "column": column, "what": engine::visible(what) })
}

fn plan(experiment: &Experiment) -> Result<String, Failure> {
    let wanted = Wanted { experiment, variant: Variant::Scaled, tdf: None, cores: CoreChoice::default() };
    Ok(wanted.plan()?.to_text(experiment))
}

fn lacking(why: Lacking) -> Answer {
    match why {
        Lacking::Run => Answer::says(404, "there is no such run in the directory of results"),
        Lacking::Because(why) => Answer::says(409, &why),
    }
}

/// Has an event happen in a live run, as `diorama event` does.
fn event(id: &str, said: &str) -> Answer {
    let Some(run) = engine::live_runs().into_iter().find(|run| run.id == id) else {
        return Answer::says(404, "this run is not live any more");
    };
    match engine::event(&run, said.trim()).map_err(Failure::from) {
        Ok(at) => Answer::json(&json!({ "at": at })),
        Err(e) => Answer::says(if e.code == 2 { 400 } else { 409 }, &e.message),
    }
}
