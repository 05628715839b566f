//! Steps: programs that events start, and for whose end others wait.

use model::{Action, Experiment};
use site::NodeIndex;

/// The steps of a run, by their places in [`Experiment::steps`].
pub struct Steps(Vec<Step>);

struct Step {
    /// All programs that it starts.
    programs: Vec<(NodeIndex, String)>,
    /// How many of these have still to be started.
    left: usize,
    over: bool,
}

impl Steps {
    /// None of them has begun.
    pub fn new(experiment: &Experiment) -> Steps {
        let of = |step: usize| {
            let programs: Vec<_> = experiment.events.iter().filter(|event| event.step == Some(step)).collect();
            let programs = programs.iter().filter_map(|event| match &event.action {
                Action::Program { node, program, .. } => Some((*node, program.clone())),
                _ => None,
            });
            let programs: Vec<_> = programs.collect();
            Step { left: programs.len(), programs, over: false }
        };
        Steps((0..experiment.steps.len()).map(of).collect())
    }

    /// A program has been started, or need not be, of a step or of none.
    pub fn begin(&mut self, step: Option<usize>) {
        if let Some(step) = step.and_then(|step| self.0.get_mut(step)) {
            step.left = step.left.saturating_sub(1);
        }
    }

    /// Those of which all programs have been started, and that were not over when that was asked last.
    pub fn begun(&self) -> impl Iterator<Item = (usize, &[(NodeIndex, String)])> {
        let begun = |step: &&Step| step.left == 0 && !step.over;
        self.0.iter().enumerate().filter(move |(_, step)| begun(step)).map(|(n, step)| (n, step.programs.as_slice()))
    }

    /// It is over.
    pub fn end(&mut self, step: usize) {
        self.0[step].over = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_begun_when_all_its_programs_have_been_started() {
        let program = |node| (node, "fetch".to_owned());
        let mut steps = Steps(vec![Step { programs: vec![program(0), program(1)], left: 2, over: false }]);
        steps.begin(None);
        steps.begin(Some(0));
        assert_eq!(steps.begun().count(), 0);
        steps.begin(Some(0));
        assert_eq!(steps.begun().next(), Some((0, [program(0), program(1)].as_slice())));
        steps.end(0);
        assert_eq!(steps.begun().count(), 0);
    }
}
