//! Memory that the kernel takes away from programs which do not use it, whether anybody else needs it or not.
//!
//! DAMON can do that (Documentation/admin-guide/mm/damon): some cloud machines have it page out what has not been used
//! for a minute, to give it back to their host. That minute is one of real time.

use std::fs;
use std::path::{Path, PathBuf};

use scale::RealDuration;

/// Where users tell DAMON what to do.
const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// After how long without being used memory is paged out on this machine, at the soonest; `None` if it is not, or
/// nobody may see it.
pub fn idle_memory_goes_after() -> Option<RealDuration> {
    goes_after(Path::new(DAMON))
}

fn goes_after(damon: &Path) -> Option<RealDuration> {
    let running = folders(damon).into_iter().filter(|kdamond| text(&kdamond.join("state")) == "on");
    let contexts = running.flat_map(|kdamond| folders(&kdamond.join("contexts")));
    contexts.flat_map(|context| folders(&context.join("schemes"))).filter_map(|scheme| age_of(&scheme)).min()
}

/// How old what a scheme pages out is at least: so many intervals of its context.
fn age_of(scheme: &Path) -> Option<RealDuration> {
    if text(&scheme.join("action")) != "pageout" {
        return None;
    }
    let number = |file: PathBuf| text(&file).parse::<u64>().ok();
    let intervals = number(scheme.join("access_pattern/age/min"))?;
    let interval_us = number(scheme.join("../../monitoring_attrs/intervals/aggr_us"))?;
    Some(RealDuration::from_nanos(intervals.saturating_mul(interval_us).saturating_mul(1_000)))
}

/// Those whose names are numbers.
fn folders(of: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(of).into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).map(|entry| entry.path()).collect()
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
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
        set("0/state", "off\n");
        assert_eq!(goes_after(&place), None);
        fs::remove_dir_all(place).unwrap();
    }
}
