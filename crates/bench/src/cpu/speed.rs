//! How fast the cores are: their score, in rounds of the yardstick per microsecond.

use cpu::{Speed, meter};
use scale::RealDuration;
use serde_json::json;

use crate::row::short;
use crate::{Error, Row};

/// Measurements of each core, in turns, and how long each takes.
const WINDOWS: usize = 40;
const WINDOW: RealDuration = RealDuration::from_nanos(50_000_000);

/// The score of every core that this process may use, now: four seconds for two cores. `best` is the best that this
/// machine is known to have had.
///
/// # Errors
///
/// If a core is so busy that its speed cannot be measured.
pub fn measure(best: Option<Speed>) -> Result<Vec<Row>, Error> {
    let cores = host::cores::usable().map_err(Error::machine)?;
    let mut windows = vec![Vec::new(); cores.len()];
    for _ in 0..WINDOWS {
        for (core, windows) in cores.iter().zip(&mut windows) {
            windows.push(meter::measure(*core, WINDOW)?.units_per_us());
        }
    }
    let row = |core, of: &[f64], value| {
        let [slowest, .., fastest] = of else { unreachable!("as many as there are windows") };
        let params = json!({"core": core, "windows": WINDOWS, "slowest": short(*slowest), "fastest": short(*fastest)});
        Row::new("core-speed", params, value, "units/us")
    };
    let rows = cores.iter().zip(windows).map(|(core, mut windows)| {
        windows.sort_by(f64::total_cmp);
        let mean = windows.iter().sum::<f64>() / WINDOWS as f64;
        let row = row(core, &windows, mean);
        best.map_or(row.clone(), |best| row.against(best.units_per_us()))
    });
    Ok(rows.collect())
}
