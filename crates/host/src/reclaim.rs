//! Memory that the kernel takes away from programs which do not use it, whether anybody else needs it or not.
//!
//! DAMON can do that (Documentation/admin-guide/mm/damon): some cloud machines have it page out what has not been used
//! for a minute, to give it back to their host. That minute is one of real time, and a setting of the whole machine. It
//! does so by schemes that somebody wrote below `/sys/kernel/mm/damon`, or by the one of the module `damon_reclaim`.

use std::fs;
use std::path::Path;

use scale::RealDuration;

use crate::error::{Error, Lack};
use crate::settings::{self, Applied, Change, Held, Holder, Kind, Setting};

/// Where users tell DAMON what to do.
const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// Where they switch on what pages out by itself, which some kernels have built in (Linux 5.16).
const MODULE: &str = "/sys/module/damon_reclaim/parameters";

/// The times of the module are in microseconds.
const MICROSECOND: RealDuration = RealDuration::from_nanos(1_000);

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
        let take = |scheme: Scheme| Held::take(id, Setting::writable_here(&scheme.kind)?, &wanted);
        Ok(Reclaim(running().into_iter().map(take).collect::<Result<_, _>>()?))
    }

    /// As it is.
    pub fn none() -> Reclaim {
        Reclaim(Vec::new())
    }

    /// The change of this machine because of it.
    pub fn changes(&self) -> Vec<Change> {
        self.0.iter().map(|held| held.change().clone()).collect()
    }
}

/// Restores what a run that was killed had changed, unless another still holds it, and says what. Does nothing, and
/// needs no rights, if nothing is noted.
pub fn sweep() -> Result<Vec<Change>, Error> {
    let restored =
        all().into_iter().map(|Scheme { kind, .. }| settings::sweep(&kind, || Setting::writable_here(&kind)));
    restored.filter_map(Result::transpose).collect()
}

/// How memory that nobody uses goes on this machine.
#[derive(Debug)]
pub struct IdleMemory {
    /// After how long without being used, at the soonest.
    pub goes_after: RealDuration,
    /// The runs that have set that, by their ids; none without the rights to see them.
    pub set_by: Vec<String>,
    /// Fails if a run cannot.
    pub settable: Result<(), Error>,
}

/// `None` if it stays, or nobody may see what becomes of it.
pub fn idle_memory() -> Option<IdleMemory> {
    let all = running();
    let goes_after = all.iter().map(|scheme| scheme.age).min()?;
    let mut set_by: Vec<_> = all.iter().flat_map(|scheme| settings::holders(&scheme.kind)).collect();
    set_by.sort();
    set_by.dedup();
    let settable = all.iter().try_for_each(|scheme| Setting::writable_here(&scheme.kind).map(drop));
    Some(IdleMemory { goes_after, set_by, settable })
}

/// How many pages of files the whole machine has read again since it booted that it had in memory not long before;
/// `None` if the kernel does not tell.
pub fn pages_read_again() -> Option<u64> {
    counted(&fs::read_to_string("/proc/vmstat").ok()?, "workingset_refault_file")
}

/// A count of `/proc/vmstat`.
fn counted(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.trim().parse().ok()
}

/// One by which memory is paged out.
struct Scheme {
    /// How old that is at least.
    kind: Kind,
    age: RealDuration,
    /// Whether it is, now.
    running: bool,
}

fn all() -> Vec<Scheme> {
    schemes(Path::new(DAMON)).into_iter().chain(of_module(Path::new(MODULE))).collect()
}

/// Those by which it is now.
fn running() -> Vec<Scheme> {
    all().into_iter().filter(|scheme| scheme.running).collect()
}

/// Those that somebody wrote.
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
    let text = |file: String| said(&damon.join(file));
    if text(format!("{scheme_in}/action")) != "pageout" {
        return None;
    }
    let interval_us: u64 = text(format!("{context_in}/monitoring_attrs/intervals/aggr_us")).parse().ok()?;
    let unit = RealDuration::from_nanos(interval_us.saturating_mul(1_000));
    let name = format!("{scheme_in}/access_pattern/age/min");
    let intervals: u64 = text(name.clone()).parse().ok()?;
    let age = RealDuration::from_nanos(intervals.saturating_mul(unit.as_nanos()));
    // Numbers that are written count once the thread is told; one that does not run looks when it begins.
    let state = format!("{kdamond}/state");
    let running = text(state.clone()) == "on";
    let applied = Some(Applied { where_says: (state.clone(), "on"), written: (state, "commit") });
    let noted_as = format!("idle-memory-{kdamond}-{context}-{number}").into();
    let kind = Kind { name: name.into(), place: DAMON, unit, noted_as, applied, disagreed };
    (unit > RealDuration::ZERO).then_some(Scheme { kind, age, running })
}

/// That of the module, if the kernel has it.
fn of_module(parameters: &Path) -> Option<Scheme> {
    let (age, enabled) = ("min_age", "enabled");
    let microseconds: u64 = said(&parameters.join(age)).parse().ok()?;
    let running = said(&parameters.join(enabled)) == "Y";
    // It looks at its parameters when it begins, and when it is told to.
    let applied = Some(Applied { where_says: (enabled.into(), "Y"), written: ("commit_inputs".into(), "Y") });
    let noted_as = "idle-memory-module".into();
    let kind = Kind { name: age.into(), place: MODULE, unit: MICROSECOND, noted_as, applied, disagreed };
    let age = RealDuration::from_nanos(microseconds.saturating_mul(MICROSECOND.as_nanos()));
    Some(Scheme { kind, age, running })
}

/// Reads a file of the kernel's; nothing if it cannot be read.
fn said(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
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
    use crate::settings::testing::Scratch;

    /// Has a file of the kernel's say something.
    fn says(kernel: &Scratch, file: &str, value: &str) {
        let file = kernel.0.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, value).unwrap();
    }

    #[test]
    fn what_is_paged_out_is_found_with_its_age() {
        let damon = Scratch::new();
        let running = || -> Vec<_> { schemes(&damon.0).iter().filter(|s| s.running).map(|s| s.age).collect() };
        assert_eq!(running(), [], "there is no DAMON");
        says(&damon, "nr_kdamonds", "1\n");
        says(&damon, "0/state", "on\n");
        says(&damon, "0/contexts/0/monitoring_attrs/intervals/aggr_us", "5000000\n");
        says(&damon, "0/contexts/0/schemes/0/action", "stat\n");
        says(&damon, "0/contexts/0/schemes/0/access_pattern/age/min", "1\n");
        assert_eq!(running(), [], "it only watches");
        says(&damon, "0/contexts/0/schemes/1/action", "pageout\n");
        says(&damon, "0/contexts/0/schemes/1/access_pattern/age/min", "12\n");
        assert_eq!(running(), [RealDuration::from_nanos(60_000_000_000)]);
        let [found] = &schemes(&damon.0)[..] else { panic!("one pages out") };
        assert_eq!(found.kind.name, "0/contexts/0/schemes/1/access_pattern/age/min");
        assert_eq!((found.kind.unit.as_nanos(), &*found.kind.noted_as), (5_000_000_000, "idle-memory-0-0-1"));
        says(&damon, "0/state", "off\n");
        assert_eq!(running(), []);
        says(&damon, "0/contexts/0/monitoring_attrs/intervals/aggr_us", "0\n");
        assert!(schemes(&damon.0).is_empty(), "an age of nothing");
    }

    #[test]
    fn what_the_module_pages_out_is_found_with_its_age() {
        let module = Scratch::new();
        assert!(of_module(&module.0).is_none(), "the kernel has none");
        says(&module, "min_age", "120000000\n");
        says(&module, "enabled", "N\n");
        let found = of_module(&module.0).unwrap();
        assert_eq!((found.age, found.running), (RealDuration::from_nanos(120_000_000_000), false));
        says(&module, "enabled", "Y\n");
        assert!(of_module(&module.0).unwrap().running);
    }

    #[test]
    fn pages_that_were_read_again_are_counted_for_the_whole_machine() {
        let text = "workingset_refault_anon 3\nworkingset_refault_file 812\nworkingset_activate_file 7\n";
        assert_eq!(counted(text, "workingset_refault_file"), Some(812));
        assert_eq!(counted("nr_free_pages 1\n", "workingset_refault_file"), None);
        assert!(pages_read_again().is_some());
    }

    #[test]
    fn who_wants_another_time_is_told_whose_is_set() {
        let s = |s: u64| RealDuration::from_nanos(s * 1_000_000_000);
        let said = disagreed(&Holder { id: "a-1".into(), wants: s(600), process: 7 }, s(120)).to_string();
        assert!(said.contains("a-1, pid 7") && said.contains("600s") && said.contains("same TDF"), "{said}");
    }
}
