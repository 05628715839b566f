//! Live runs as they are looked at: once for all who watch, and not at all while nobody does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{metrics, tell};
use crate::watch::look::Look;
use crate::watch::picture::{Picture, Stage};

/// How old a look may be.
const FRESH: Duration = Duration::from_millis(400);
/// For how long a run is still shown after its end.
const SHOWN_AFTER: Duration = Duration::from_secs(300);
/// The most runs that are looked at; a machine has fewer cores.
const MOST: usize = 64;

/// All that is known of live runs.
#[derive(Default)]
pub struct Lives {
    runs: HashMap<String, Followed>,
    seen: Option<(Instant, Arc<Seen>)>,
}

struct Followed {
    look: Look,
    picture: Picture,
    ended: Option<Instant>,
    events: Arc<Vec<String>>,
    details: Arc<str>,
}

/// Live runs at one moment, as they are told.
pub struct Seen {
    /// In the order of their names.
    pub runs: Vec<SeenRun>,
}

/// A run at that moment.
pub struct SeenRun {
    pub id: String,
    /// In short.
    pub head: Value,
    /// Its nodes, links and checks, as JSON.
    pub details: Arc<str>,
    /// The newest events, and how many there were in all.
    pub events: Arc<Vec<String>>,
    pub events_seen: u64,
}

impl Lives {
    /// Looks at all live runs, unless somebody just has.
    pub fn look(&mut self) -> Arc<Seen> {
        if let Some((at, seen)) = &self.seen
            && at.elapsed() < FRESH
        {
            return seen.clone();
        }
        let live = engine::live_runs();
        for run in &live {
            // One whose directory is not there yet comes with the next look.
            if !self.runs.contains_key(&run.id)
                && self.has_room()
                && let Ok(look) = Look::at(run.out.clone())
            {
                let followed = Followed {
                    look,
                    picture: Picture::default(),
                    ended: None,
                    events: Arc::default(),
                    details: Arc::from("{}"),
                };
                self.runs.insert(run.id.clone(), followed);
            }
        }
        for (id, followed) in &mut self.runs {
            if followed.ended.is_none() {
                followed.look();
                // Its successor in the same directory is another run.
                let is_there = live.iter().any(|run| run.id == *id);
                if !is_there && followed.picture.stage == Stage::Live {
                    followed.picture.stage = Stage::Over;
                }
                followed.ended = (followed.picture.stage != Stage::Live).then(Instant::now);
            }
        }
        self.runs.retain(|_, run| run.ended.is_none_or(|at| at.elapsed() < SHOWN_AFTER));
        let told = self.in_order().into_iter().map(|(id, run)| SeenRun {
            id: id.clone(),
            head: tell::head(id, &run.picture),
            details: run.details.clone(),
            events: run.events.clone(),
            events_seen: run.picture.events_seen,
        });
        let seen = Arc::new(Seen { runs: told.collect() });
        self.seen = Some((Instant::now(), seen.clone()));
        seen
    }

    /// The text of `/metrics`, of a look that is not too old.
    pub fn metrics(&mut self) -> String {
        self.look();
        let going = self.in_order().into_iter().filter(|(_, run)| run.ended.is_none());
        metrics::text(going.map(|(id, run)| (id.as_str(), &run.picture)))
    }

    /// All of them, in the order of their names.
    fn in_order(&self) -> Vec<(&String, &Followed)> {
        let mut all: Vec<_> = self.runs.iter().collect();
        all.sort_by_key(|(id, run)| (&run.picture.name, *id));
        all
    }

    /// Whether one more can be looked at; those that have ended make room, the first that did first.
    fn has_room(&mut self) -> bool {
        if self.runs.len() >= MOST {
            let ended = self.runs.iter().filter_map(|(id, run)| Some((run.ended?, id.clone())));
            if let Some((_, id)) = ended.min() {
                self.runs.remove(&id);
            }
        }
        self.runs.len() < MOST
    }
}

impl Followed {
    fn look(&mut self) {
        let before = self.picture.events_seen;
        self.look.look(&mut self.picture);
        if self.picture.events_seen != before {
            self.events = Arc::new(self.picture.events.iter().cloned().collect());
        }
        let details = tell::details(&self.picture).to_string();
        if details != *self.details {
            self.details = details.into();
        }
    }
}
