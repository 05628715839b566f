//! The runs of a directory of results, by names that have been looked for there: no path is ever taken from a request.

use std::path::PathBuf;
use std::time::SystemTime;

use engine::Rights;
use record::{Found, ResultsDir, RunDir, Series, Status, Variant};
use serde_json::{Value, json};

/// A directory of results. Below it everything is read with the rights of who called, unless it is root's own.
#[derive(Clone, Debug)]
pub struct Results {
    path: PathBuf,
}

/// Why something of a run cannot be shown.
#[derive(Debug)]
pub enum Lacking {
    /// There is no such run.
    Run,
    /// It has not what was asked for, and this says why.
    Because(String),
}

impl Results {
    pub fn at(path: PathBuf) -> Results {
        Results { path }
    }

    /// All runs, as the page lists them.
    pub fn list(&self) -> Value {
        let _rights = Rights::of_caller(&self.path);
        match ResultsDir::open(&self.path) {
            Ok(results) => json!({
                "results": self.path,
                "runs": results.runs().iter().map(|found| listed(found, results.run(found))).collect::<Vec<_>>(),
            }),
            // There may be none yet, and one later.
            Err(e) => json!({ "results": self.path, "runs": [], "trouble": engine::visible(&e.to_string()) }),
        }
    }

    /// The report of a run.
    pub fn report(&self, name: &str) -> Result<Vec<u8>, Lacking> {
        let _rights = Rights::of_caller(&self.path);
        let [run] = self.known([name])?;
        run.report().map_err(because)
    }

    /// The page of a comparison.
    pub fn compare(&self, base: &str, other: &str) -> Result<String, Lacking> {
        let _rights = Rights::of_caller(&self.path);
        let [base, other] = self.known([base, other])?;
        let [base, other] = [Series::of(&base).map_err(because)?, Series::of(&other).map_err(because)?];
        report::compare_series(base, vec![other], &[]).and_then(|compared| compared.page()).map_err(because)
    }

    /// Opens the runs of these names, if each is among those that are found.
    fn known<const N: usize>(&self, names: [&str; N]) -> Result<[RunDir; N], Lacking> {
        let results = ResultsDir::open(&self.path).map_err(because)?;
        let all = results.runs();
        let found = names.map(|name| all.iter().find(|found| found.name == name));
        let opened = found.iter().map(|found| results.run(found.ok_or(Lacking::Run)?).map_err(because));
        let opened: Vec<_> = opened.collect::<Result<_, _>>()?;
        opened.try_into().map_err(|_| Lacking::Run)
    }
}

fn because(e: impl std::fmt::Display) -> Lacking {
    Lacking::Because(e.to_string())
}

fn listed(found: &Found, opened: record::Result<RunDir>) -> Value {
    let changed = found.changed.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let changed_s = changed.map(|since| since.as_secs());
    let mut told = json!({ "name": found.name, "changed_s": changed_s });
    if let Some(repetitions) = found.repetitions {
        told["repetitions"] = json!(repetitions);
        return told;
    }
    let result = match opened {
        Ok(dir) => dir.has_result().then(|| dir.result()),
        Err(e) => Some(Err(e)),
    };
    match result {
        Some(Ok(result)) => {
            told["experiment"] = json!(result.experiment);
            told["variant"] = json!(result.variant.as_str());
            told["tdf"] = json!(result.tdf);
            told["virtual_s"] = json!(result.virtual_seconds);
            told["real_s"] = json!(result.real_seconds);
            told["report"] = json!(true);
            told["state"] = match result.status {
                // Nothing is judged that no model has made.
                Status::Ok if result.variant == Variant::Observed => json!("observed"),
                Status::Ok => json!(result.fidelity.verdict.to_string()),
                Status::Failed => json!("failed"),
            };
        }
        Some(Err(e)) => told["state"] = json!(format!("cannot be read: {}", engine::visible(&e.to_string()))),
        None => told["state"] = json!("no result"),
    }
    told
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_is_listed_is_read() {
        let temp = tempfile::tempdir().unwrap();
        let runs = temp.path().join("runs");
        // A run that lies beside the results is none of them, nor is one that a link leads to.
        RunDir::prepare(temp.path().join("secret"), []).unwrap().write_report("secret").unwrap();
        fs::write(temp.path().join("secret").join("result.json"), "{}").unwrap();
        RunDir::prepare(runs.join("web/scaled"), []).unwrap().write_report("report").unwrap();
        fs::write(runs.join("web/scaled/result.json"), "no result\u{1b}").unwrap();
        std::os::unix::fs::symlink("../secret", runs.join("link")).unwrap();
        let results = Results::at(runs.clone());
        assert_eq!(results.report("web/scaled").unwrap(), b"report");
        let absolute = temp.path().join("secret");
        for name in ["../secret", "link", "", "web", "web/../web/scaled", "web/scaled/", absolute.to_str().unwrap()] {
            assert!(matches!(results.report(name), Err(Lacking::Run)), "{name}");
            assert!(matches!(results.compare(name, "web/scaled"), Err(Lacking::Run)), "{name}");
        }
        assert!(matches!(results.compare("web/scaled", "web/scaled"), Err(Lacking::Because(_))));
        let list = results.list();
        assert_eq!(list["runs"].as_array().unwrap().len(), 1);
        let state = list["runs"][0]["state"].as_str().unwrap();
        assert!(state.starts_with("cannot be read: ") && !state.contains('\u{1b}'), "{state}");
        // A run that was known and opened is the one that is read, whatever is put in its place then.
        let [run] = results.known(["web/scaled"]).unwrap();
        fs::rename(runs.join("web"), runs.join("moved")).unwrap();
        fs::create_dir(runs.join("web")).unwrap();
        std::os::unix::fs::symlink(&absolute, runs.join("web/scaled")).unwrap();
        assert_eq!(run.report().unwrap(), b"report");
        assert!(matches!(results.report("web/scaled"), Err(Lacking::Run)));
        let none = Results::at(temp.path().join("absent")).list();
        assert!(none["trouble"].is_string() && none["runs"] == json!([]));
    }
}
