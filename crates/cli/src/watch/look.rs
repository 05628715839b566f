//! Looks at a run: reads what is new in its directory.

use std::path::PathBuf;

use engine::LiveRun;
use record::Following;

use super::picture::{Picture, Stage, shown};
use crate::failure::Failure;

/// A run that is looked at.
pub struct Look {
    following: Following,
    path: PathBuf,
}

impl Look {
    /// At the run in this directory.
    pub fn at(path: PathBuf) -> Result<Look, Failure> {
        Ok(Look { following: Following::of(&path).map_err(Failure::failed)?, path })
    }

    /// Takes in what is new. What cannot be read is said in the picture.
    pub fn look(&mut self, picture: &mut Picture) {
        // Asked before reading, so that what a run wrote last is still read after it ended.
        let live = engine::live_runs().into_iter().find(|run| run.out == self.path);
        picture.trouble = self.read(picture, live.as_ref()).err().map(|e| shown(&e.to_string()));
        picture.bad_lines = self.following.bad_lines();
        if picture.name.is_empty() {
            // It has written no plan yet.
            let named = live.as_ref().map(|run| run.name.as_str());
            picture.name = named.map_or_else(|| shown(&self.path.to_string_lossy()), shown);
            picture.variant = live.as_ref().map_or_else(String::new, |run| shown(&run.variant));
        }
        let is_over = picture.result.is_some() || engine::sees_live_runs();
        picture.stage = match live {
            Some(_) => Stage::Live,
            None if picture.is_suspended => Stage::Suspended,
            None if is_over => Stage::Over,
            None => Stage::Unknown,
        };
    }

    fn read(&mut self, picture: &mut Picture, live: Option<&LiveRun>) -> record::Result<()> {
        let Look { following, .. } = self;
        if !picture.is_planned()
            && let Some(plan) = following.dir().plan()?
        {
            picture.plan(&plan);
        }
        if let Some(progress) = live.and_then(engine::progress) {
            picture.progress = progress;
            picture.progress.step = picture.progress.step.take().map(|step| shown(&step));
        }
        following.nodes(|row| picture.node(row))?;
        following.disks(|row| picture.disk(&row))?;
        following.pipes(|row| picture.pipe(&row))?;
        following.speed(|row| picture.speed(row))?;
        following.events(|event| picture.event(&event))?;
        if picture.result.is_none() && following.dir().has_result() {
            picture.result = Some(following.dir().result()?);
        }
        Ok(())
    }
}
