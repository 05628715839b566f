//! Runs as tests, in the XML of JUnit, which continuous integration reads.

use std::time::Duration;

use fidelity::compare::Statistic;
use fidelity::require::Finding;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use record::{RunResult, Status};

/// A run that was made as a test.
#[derive(Clone, Debug)]
pub struct Tested {
    /// Which of several repetitions it is, if there are several.
    pub repetition: Option<usize>,
    /// The run's results and how it stands to what is required, or why it could not be made.
    pub outcome: Result<(RunResult, Vec<Finding>), String>,
}

/// The runs of one experiment: a suite each, with a case for the run itself and one for each requirement.
pub fn junit(experiment: &str, runs: &[Tested]) -> String {
    let mut report = Report::new(experiment);
    report.add_test_suites(runs.iter().map(|run| suite(experiment, run)));
    // Writing to a string does not fail, nor does a name of an experiment.
    report.to_string().unwrap_or_default()
}

fn suite(experiment: &str, tested: &Tested) -> TestSuite {
    let number = tested.repetition.map_or(String::new(), |n| format!(" {n}"));
    let case = |name: &str, status: TestCaseStatus| {
        let mut case = TestCase::new(name, status);
        case.set_classname(experiment);
        case
    };
    let (run, findings) = match &tested.outcome {
        Ok((run, findings)) => (run, findings),
        Err(why) => {
            let mut suite = TestSuite::new(format!("{experiment}{number}"));
            suite.add_test_case(case("run", not_met(NonSuccessKind::Error, why)));
            return suite;
        }
    };
    let mut suite = TestSuite::new(format!("{experiment} {}{number}", run.variant));
    for (name, metric) in &run.metrics {
        for statistic in Statistic::ALL {
            let value = format!("{} {}", statistic.of(&metric.summary), metric.unit);
            suite.add_property(Property::new(format!("{name}.{statistic}"), value));
        }
    }
    let ended = match run.status {
        Status::Ok => TestCaseStatus::success(),
        Status::Failed => not_met(NonSuccessKind::Error, run.why.as_deref().unwrap_or("it failed")),
    };
    let mut made = case("run", ended);
    made.set_time(Duration::try_from_secs_f64(run.real_seconds).unwrap_or_default());
    made.set_system_out(format!("verdict: {} {}", run.fidelity.verdict, run.fidelity.why.join(" ")));
    suite.add_test_case(made);
    suite.add_test_cases(findings.iter().map(|finding| {
        let status = match finding.met {
            true => TestCaseStatus::success(),
            false => not_met(NonSuccessKind::Failure, &finding.says),
        };
        let mut judged = case(&finding.requirement, status);
        judged.set_system_out(finding.says.as_str());
        judged
    }));
    suite
}

fn not_met(kind: NonSuccessKind, why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(why);
    status
}

#[cfg(test)]
mod tests {
    use record::Variant;

    use super::*;
    use crate::testing::{latencies, run};

    #[test]
    fn a_run_is_a_suite_of_itself_and_its_requirements() {
        let finding =
            |requirement: &str, met| Finding { requirement: requirement.into(), met, says: "it is <3 ms".into() };
        let findings = vec![finding("latency.p99<4ms", true), finding("latency<2ms", false)];
        let made = run("x", Variant::Scaled, &latencies(1.0), &[]).result;
        let ok = Tested { repetition: Some(1), outcome: Ok((made, findings)) };
        let lost = Tested { repetition: Some(2), outcome: Err("core 0 is in use".into()) };
        let xml = junit("web", &[ok, lost]);
        let read = Report::deserialize_from_str(&xml).unwrap();
        let counts: Vec<_> = read.test_suites.iter().map(|s| (s.tests, s.failures, s.errors)).collect();
        assert_eq!(counts, [(3, 1, 0), (1, 0, 1)], "{xml}");
        assert!(xml.contains("message=\"it is &lt;3 ms\"") && xml.contains("core 0 is in use"), "{xml}");
    }
}
