//! Memory that the kernel takes away from programs which do not use it, whether anybody else needs it or not.
//!
//! DAMON can do that (Documentation/admin-guide/mm/damon): some cloud machines have it page out what has not been used
//! for a minute, to give it back to their host. That minute is one of real time, and a setting of the whole machine.

use std::fs;
use std::path::Path;

use scale::RealDuration;

use crate::error::{Error, Lack};
use crate::settings::{self, Applied, Change, Held, Holder, Kind, Setting};

/// Where users tell DAMON what to do.
const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// After how long idle memory goes, as a run wants it. Dropping it gives that back.
#[derive(Debug)]
pub struct Reclaim(Vec<Held>);

impl Reclaim {
    /// Has idle memory stay for as long as `wanted` makes of the time after which it goes while no run holds that. Does
    /// nothing where it stays anyhow. `id` is the run's.
    ///
    /// # Errors
    ///
    /// [`Error::Machine`] if that cannot be changed, or if another run wants another time.
    pub fn take(id: &str, wanted: impl Fn(RealDuration) -> RealDuration) -> Result<Reclaim, Error> {
        let all = schemes(Path::new(DAMON)).into_iter().filter(|scheme| scheme.running);
        let take = |scheme: Scheme| Held::take(id, Setting::writable_here(&scheme.kind)?, &wanted);
        Ok(Reclaim(all.map(take).collect::<Result<_, _>>()?))
    }

    /// As it is.
    pub fn none() -> Reclaim {
        Reclaim(Vec::new())
    }

    /// What is different on this machine because of it.
    pub fn changes(&self) -> Vec<Change> {
        self.0.iter().map(|held| held.change().clone()).collect()
    }
}

/// Restores what a run that was killed had changed, unless another still holds it, and says what. Does nothing, and
/// needs no rights, if nothing is noted.
pub fn sweep() -> Result<Vec<Change>, Error> {
    let all = schemes(Path::new(DAMON)).into_iter();
    let restored = all.map(|Scheme { kind, .. }| settings::sweep(&kind, || Setting::writable_here(&kind)));
    restored.filter_map(Result::transpose).collect()
}

/// The runs that hold it now, by their ids; none without the rights to see them.
pub fn holders() -> Vec<String> {
    let mut all: Vec<_> = schemes(Path::new(DAMON)).iter().flat_map(|scheme| settings::holders(&scheme.kind)).collect();
    all.sort();
    all.dedup();
    all
}

/// After how long without being used memory is paged out on this machine, at the soonest; `None` if it is not, or
/// nobody may see it.
pub fn idle_memory_goes_after() -> Option<RealDuration> {
    goes_after(Path::new(DAMON))
}

/// Fails if a run could not have it stay for longer.
pub fn settable() -> Result<(), Error> {
    schemes(Path::new(DAMON)).iter().try_for_each(|scheme| Setting::writable_here(&scheme.kind).map(drop))
}

/// One by which memory is paged out.
struct Scheme {
    /// How old that is at least.
    kind: Kind,
    age: RealDuration,
    /// Whether it is, now.
    running: bool,
}

fn goes_after(damon: &Path) -> Option<RealDuration> {
    schemes(damon).into_iter().filter(|scheme| scheme.running).map(|scheme| scheme.age).min()
}

fn schemes(damon: &Path) -> Vec<Scheme> {
    let mut all = Vec::new();
    for kdamond in numbers(damon) {
        let contexts = damon.join(&kdamond).join("contexts");
        for context in numbers(&contexts) {
            let of_context = numbers(&contexts.join(&context).join("schemes"));
            all.extend(of_context.iter().filter_map(|number| scheme(damon, [&kdamond, &context, number])));
        }
    }
    all
}

/// One, by the numbers of its thread, of its context and of itself, if it pages out. Ages count a context's intervals.
fn scheme(damon: &Path, [kdamond, context, number]: [&str; 3]) -> Option<Scheme> {
    let context_in = format!("{kdamond}/contexts/{context}");
    let scheme_in = format!("{context_in}/schemes/{number}");
    let text = |file: String| fs::read_to_string(damon.join(file)).unwrap_or_default().trim().to_owned();
    if text(format!("{scheme_in}/action")) != "pageout" {
        return None;
    }
    let interval_us: u64 = text(format!("{context_in}/monitoring_attrs/intervals/aggr_us")).parse().ok()?;
    let unit = RealDuration::from_nanos(interval_us.saturating_mul(1_000));
    let name = format!("{scheme_in}/access_pattern/age/min");
    let intervals: u64 = text(name.clone()).parse().ok()?;
    let age = RealDuration::from_nanos(intervals.saturating_mul(unit.as_nanos()));
    // What is written counts once the thread is told; one that does not run looks when it begins.
    let state = format!("{kdamond}/state");
    let running = text(state.clone()) == "on";
    let applied = Some(Applied { file: state, says: "on", word: "commit" });
    let noted_as = format!("idle-memory-{kdamond}-{context}-{number}").into();
    let kind = Kind { name: name.into(), place: DAMON, unit, noted_as, applied, disagreed };
    (unit > RealDuration::ZERO).then_some(Scheme { kind, age, running })
}

/// The names of those that are numbers.
fn numbers(of: &Path) -> Vec<String> {
    let all = fs::read_dir(of).into_iter().flatten().flatten();
    let names = all.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.parse::<u32>().is_ok()).collect()
}

fn disagreed(other: &Holder, wanted: RealDuration) -> Lack {
    settings::other_tdf("idle memory is to be paged out", other, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_paged_out_is_found_with_its_age() {
        let place = std::env::temp_dir().join(format!("diorama-reclaim-{}", std::process::id()));
        let set = |file: &str, value: &str| {
            let file = place.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, value).unwrap();
        };
        assert_eq!(goes_after(&place), None, "there is no DAMON");
        set("nr_kdamonds", "1\n");
        set("0/state", "on\n");
        set("0/contexts/0/monitoring_attrs/intervals/aggr_us", "5000000\n");
        set("0/contexts/0/schemes/0/action", "stat\n");
        set("0/contexts/0/schemes/0/access_pattern/age/min", "1\n");
        assert_eq!(goes_after(&place), None, "it only watches");
        set("0/contexts/0/schemes/1/action", "pageout\n");
        set("0/contexts/0/schemes/1/access_pattern/age/min", "12\n");
        assert_eq!(goes_after(&place), Some(RealDuration::from_nanos(60_000_000_000)));
        let [found] = &schemes(&place)[..] else { panic!("one pages out") };
        assert_eq!(found.kind.name, "0/contexts/0/schemes/1/access_pattern/age/min");
        assert_eq!((found.kind.unit.as_nanos(), &*found.kind.noted_as), (5_000_000_000, "idle-memory-0-0-1"));
        set("0/state", "off\n");
        assert_eq!(goes_after(&place), None);
        set("0/contexts/0/monitoring_attrs/intervals/aggr_us", "0\n");
        assert!(schemes(&place).is_empty(), "an age of nothing");
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn who_wants_another_time_is_told_whose_is_set() {
        let s = |s: u64| RealDuration::from_nanos(s * 1_000_000_000);
        let said = disagreed(&Holder { id: "a-1".into(), wants: s(600), process: 7 }, s(120)).to_string();
        assert!(said.contains("a-1, pid 7") && said.contains("600s") && said.contains("same TDF"), "{said}");
    }
}
