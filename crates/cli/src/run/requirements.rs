//! `--require` and `--junit`: a run as a test.

use std::path::PathBuf;

use engine::Experiment;
use record::RunResult;
use report::{Finding, Requirement, Tested};

use super::Args;
use crate::failure::Failure;
use crate::terminal;

/// Conditions on runs, and what came of those that were made.
pub struct Requirements {
    experiment: String,
    all: Vec<Requirement>,
    junit: Option<PathBuf>,
    repeated: bool,
    made: Vec<Tested>,
    /// Whether errors are to be told in GitHub's own form, too.
    annotates: bool,
}

impl Requirements {
    /// Those of a command; fails for one that this experiment can never meet or miss.
    pub fn of(args: &Args, experiment: &Experiment) -> Result<Requirements, Failure> {
        let metrics = experiment.metrics.iter().map(|metric| (metric.name.as_str(), metric.unit.result.as_str()));
        args.require.iter().try_for_each(|one| one.check(metrics.clone())).map_err(Failure::input)?;
        Ok(Requirements {
            experiment: experiment.name.clone(),
            all: args.require.clone(),
            junit: args.junit.clone(),
            repeated: args.repeat > 1,
            made: Vec::new(),
            annotates: std::env::var_os("GITHUB_ACTIONS").is_some_and(|set| set == "true"),
        })
    }

    /// Judges a run and tells what came of it; whether it meets them all.
    pub fn judge(&mut self, run: RunResult) -> Result<bool, Failure> {
        let findings: Vec<Finding> = self.all.iter().map(|one| one.judge(&run)).collect();
        for Finding { requirement, met, says } in &findings {
            let outcome = if *met { "met" } else { "not met" };
            terminal::print(format!("  required: {requirement}: {outcome}: {says}\n"))?;
            if !met {
                self.annotate(&format!("{requirement}: {says}"))?;
            }
        }
        if let Some(why) = &run.why {
            self.annotate(why)?;
        }
        let met = findings.iter().all(|finding| finding.met);
        self.note(Ok((run, findings)));
        Ok(met)
    }

    /// Notes what became of a run, gives it back if it was made, and writes the file if there is none to follow.
    pub fn attempted<T>(&mut self, run: Result<T, impl Into<Failure>>) -> Result<T, Failure> {
        let failure = match run {
            Ok(outcome) => return Ok(outcome),
            Err(e) => e.into(),
        };
        self.note(Err(failure.message.clone()));
        self.annotate(&failure.message)?;
        self.write()?;
        Err(failure)
    }

    /// Writes the file that was asked for.
    pub fn write(&self) -> Result<(), Failure> {
        let Some(file) = &self.junit else { return Ok(()) };
        let xml = report::junit(&self.experiment, &self.made);
        engine::write_file(file, xml.as_bytes()).map_err(Failure::cannot_write(file))
    }

    fn note(&mut self, outcome: Result<(RunResult, Vec<Finding>), String>) {
        let repetition = self.repeated.then_some(self.made.len() + 1);
        self.made.push(Tested { repetition, outcome });
    }

    fn annotate(&self, what: &str) -> Result<(), Failure> {
        match self.annotates {
            true => terminal::print(annotation(&self.experiment, what)),
            false => Ok(()),
        }
    }
}

/// An error as GitHub's runner reads it from the output.
fn annotation(experiment: &str, what: &str) -> String {
    let message = what.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    format!("::error title=diorama {experiment}::{message}\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_annotation_is_one_line() {
        let told = super::annotation("web", "latency is 5 % off:\n  p90");
        assert_eq!(told, "::error title=diorama web::latency is 5 %25 off:%0A  p90\n");
    }
}
