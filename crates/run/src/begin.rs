//! The beginning of a run: its site is set up, and its clock starts.

use std::collections::BTreeMap;

use cpu::Exclusive;
use crossbeam_channel::Receiver;
use host::Change;
use record::RunDir;
use scale::RealInstant;
use serde_json::json;
use site::{Conditions, Continues, DiskConditions, Setup, Site, Suspended, Timeline};

use crate::error::{Error, Result};
use crate::links::PipeSums;
use crate::notice::Notice;
use crate::observer::Observer;
use crate::outside_requests::Desk;
use crate::readiness::Readiness;
use crate::{Request, Run, event_at, schedule_of};

impl<'a> Run<'a> {
    /// Sets the site up and starts the clock.
    pub(crate) fn begin(
        site: &'a mut dyn Site,
        request: Request<'a>,
        dir: &'a RunDir,
        desk: &mut Desk,
        asked: RealInstant,
        interrupts: &Receiver<i32>,
        tell: &mut dyn FnMut(&Notice),
    ) -> Result<Run<'a>> {
        let Request { experiment, plan, seed, accuracy, choice, earlier, .. } = request;
        let mut step = |what: String| {
            tell(&Notice::Step(what));
            if interrupts.is_empty() { Ok(()) } else { Err(Error::Interrupted) }
        };
        step(format!("making the network: {} nodes, {} pipes", plan.nodes.len(), plan.pipes.len()))?;
        let continues = earlier.as_ref().map(|earlier| Continues {
            at: earlier.at,
            zero_unix_ns: earlier.zero_unix_ns,
            parts: earlier.parts.clone(),
        });
        site.prepare(Setup { continues, ..plan.setup(experiment, seed) })?;
        step(format!("creating {} containers", plan.nodes.len()))?;
        site.create_nodes()?;
        let events_of_site = site.events()?;
        let cores = if plan.cores.nodes.len() == 1 { "core" } else { "cores" };
        step(format!("calibrating the nodes' {cores} and applying shares"))?;
        let conditions = site.apply_limits()?;
        desk.receive(site.visits()?)?;
        step("starting the nodes".into())?;
        let at = site.now()?;
        let timeline = Timeline::new(site.start_clock(at)?, plan.tdf);

        let mut events = dir.event_log()?;
        let mut event = |event: &str, detail| {
            let _ = events.write(&event_at(timeline, host::now(), event, None, detail));
        };
        event("zero", zero_detail(&conditions, seed));
        if let Some(Suspended { id, out, .. }) = &earlier {
            event("goes-on", json!({ "id": id, "after": out }));
        }
        for refused in &conditions.not_applied {
            event("kernel-setting-refused", json!(refused.to_string()));
        }
        let links = PipeSums::begin(plan.pipes.len(), experiment.measure);
        let mut observer = Observer::begin(&plan, conditions, dir, timeline, links)?;
        observer.add(&plan, site.sample()?)?;
        let (schedule, by_hand) = match &earlier {
            Some(earlier) => (schedule_of(experiment).go_on(earlier.happened, &earlier.nodes), earlier.by_hand.clone()),
            None => (schedule_of(experiment), Vec::new()),
        };
        let mut run = Run {
            experiment,
            plan,
            site,
            events_of_site,
            dir,
            events,
            timeline,
            schedule,
            readiness: Readiness::default(),
            observer,
            accuracy,
            asked,
            cores_lost: false,
            seed,
            choice,
            earlier,
            by_hand,
            partitions: Vec::new(),
        };
        run.restore()?;
        Ok(run)
    }
}

/// The details of the event of virtual zero: of several cores the least that is usable of one, and of each.
fn zero_detail(conditions: &Conditions, seed: u64) -> serde_json::Value {
    let least = conditions.cores.iter().map(|core| core.usable).fold(1.0, f64::min);
    let shared = match &conditions.exclusive {
        Exclusive::Taken { .. } => None,
        Exclusive::Shared { because } => Some(because),
    };
    let exclusive = shared.is_none();
    let mut detail =
        json!({ "usable_fraction_of_core": least, "seed": seed, "exclusive": exclusive, "shared": shared });
    let changed = |Change { setting, before, during }: &Change| {
        let [before, during] = [before, during].map(|time| time.as_secs_f64());
        json!({ "name": setting, "before_s": before, "during_s": during })
    };
    if let Some(change) = &conditions.host_setting {
        detail["host_setting"] = changed(change);
    }
    if conditions.cores.len() > 1 {
        let by_core: BTreeMap<String, f64> =
            conditions.cores.iter().map(|core| (core.core.to_string(), core.usable)).collect();
        detail["usable_fraction_by_core"] = json!(by_core);
    }
    if let Some(DiskConditions { over, because, writeback }) = &conditions.disks {
        let settings: Vec<_> = writeback.iter().flatten().map(changed).collect();
        let other = writeback.as_ref().err().map(|other| &other.because);
        detail["disks"] =
            json!({ "over": over, "because": because, "host_settings": settings, "other_writeback": other });
    }
    match &conditions.idle_memory {
        Ok(none) if none.is_empty() => {}
        Ok(changes) => {
            detail["idle_memory"] = json!({ "host_settings": changes.iter().map(changed).collect::<Vec<_>>() })
        }
        Err(because) => detail["idle_memory"] = json!({ "because": because }),
    }
    detail
}
