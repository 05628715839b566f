//! Shows how far a run is: a bar at a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use engine::{Notice, Tick};
use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::say;

/// How often a line is printed where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// The display of one run.
pub struct Progress {
    title: String,
    bar: Option<ProgressBar>,
    printed: Option<Instant>,
}

impl Progress {
    /// A display on standard error.
    pub fn new(title: String) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1000);
            let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}").expect("a constant template");
            bar.set_style(style.progress_chars("=> "));
            bar.set_prefix(title.clone());
            bar
        });
        Progress { title, bar, printed: None }
    }

    /// Shows what the engine tells.
    pub fn show(&mut self, notice: &Notice) {
        match notice {
            Notice::Step(step) => match &self.bar {
                Some(bar) => bar.set_message(step.clone()),
                None => say(format_args!("{}: {step}", self.title)),
            },
            Notice::Tick(tick) => {
                let text = line(tick);
                match &self.bar {
                    Some(bar) => {
                        if let Some((end, _)) = tick.expected_end {
                            let end = end.as_secs_f64().max(1e-9);
                            bar.set_position((1000.0 * tick.virtual_now.as_secs_f64() / end).min(1000.0) as u64);
                        }
                        bar.set_message(text);
                    }
                    None if self.printed.is_none_or(|at| at.elapsed() >= EVERY) => {
                        say(format_args!("{}: {text}", self.title));
                        self.printed = Some(Instant::now());
                    }
                    None => {}
                }
            }
            Notice::Kept => {
                let text = "the results are written; the nodes are kept until Ctrl-C";
                match &self.bar {
                    Some(bar) => bar.println(format!("{}: {text}", self.title)),
                    None => say(format_args!("{}: {text}", self.title)),
                }
            }
        }
    }

    /// Takes the display away.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(tick: &Tick) -> String {
    let (running, of) = tick.running;
    let (now, real) = (tick.virtual_now.as_secs_f64(), tick.real.as_secs_f64());
    match tick.expected_end {
        Some((end, left)) => format!(
            "virtual {now:.1} of {:.0} s, real {real:.0} s, {:.0} s left, {running} of {of} nodes running",
            end.as_secs_f64(),
            left.as_secs_f64(),
        ),
        None => format!("virtual {now:.1} s, real {real:.0} s, {running} of {of} nodes running"),
    }
}
