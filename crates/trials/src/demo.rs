//! `diorama-trials demo`: two experiments, three variants, one table.

use std::fs;
use std::path::Path;
use std::time::Instant;

use record::{RunDir, Variant};

use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::results;
use crate::table::{self, Group};

/// One where requests a second are the answer, one where it is the latency.
const EXPERIMENTS: [&str; 2] = ["web-busy", "web-half"];

/// The quick ones first, so that there is something to see.
const VARIANTS: [Variant; 3] = [Variant::Baseline, Variant::Naive, Variant::Scaled];

/// Runs the demo.
pub fn main() -> Result<(), Failure> {
    let driver = Driver::new()?;
    let folders = EXPERIMENTS.map(results::experiment).into_iter().collect::<Result<Vec<_>, _>>()?;
    let began = Instant::now();
    let out = results::fresh(Path::new("runs"), "demo")?;
    println!("A web server and four clients, three times each:");
    println!("  baseline  as they would run on real machines, for ten seconds");
    println!("  naive     squeezed into a tenth of those machines, as containers on one host would be");
    println!("  scaled    in the same tenth, but with time running ten times slower for them too");
    println!("This takes about five minutes.\n");
    let mut groups = Vec::new();
    for (name, folder) in EXPERIMENTS.into_iter().zip(&folders) {
        let mut runs = Vec::new();
        for variant in VARIANTS {
            let number = groups.len() * VARIANTS.len() + runs.len() + 1;
            eprintln!("[{number} of {}] {name}, {variant}", EXPERIMENTS.len() * VARIANTS.len());
            runs.push(driver.run(folder, variant, &out.join(name).join(variant.as_str()), false)?);
        }
        groups.push(Group { name: name.into(), runs });
    }
    let table = table::render(&groups)?;
    write(&out.join("table.md"), &table)?;
    let pages = EXPERIMENTS.map(|name| page(&out, name)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let took = began.elapsed().as_secs();
    println!("\n{table}");
    println!("In brackets: how far from the baseline. Measured on {}.", Machine::here());
    println!("Why a run is suspect, if one is, stands in {}/EXPERIMENT/VARIANT/{}.", out.display(), RunDir::REPORT);
    println!("The latencies, drawn over one another: {}", pages.join(" and "));
    println!("Took {} min {} s.", took / 60, took % 60);
    Ok(())
}

/// Writes the experiment's comparison as a page, and gives its path.
fn page(out: &Path, name: &str) -> Result<String, Failure> {
    let [base, naive, scaled] = VARIANTS.map(|variant| out.join(name).join(variant.as_str()));
    let compared = report::compare(&base, &[scaled, naive], &[]).map_err(Failure::failed)?;
    let path = out.join(format!("{name}.html"));
    write(&path, &compared.page())?;
    Ok(path.display().to_string())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| Failure::failed(format!("cannot write {}: {e}", path.display())))
}
