//! Graceful shutdown: what still runs at the end of a run is asked to end, as the shutdown of a machine does.

use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use site::{Event, Stop};

use crate::{GLANCE, Run};

impl Run<'_> {
    /// Asks what still runs to end, and waits a little: for `grace`, or until an interrupt.
    pub(crate) fn shut_down(&mut self, grace: Duration, interrupts: &Receiver<i32>) {
        let mut running: Vec<_> = (0..self.experiment.nodes.len()).filter(|n| self.schedule.is_running(*n)).collect();
        self.resume_all();
        for node in &running {
            let _ = self.site.stop(*node, Stop::Ask);
        }
        let end = Instant::now() + grace;
        while !running.is_empty() {
            let left = match interrupts.is_empty() {
                true => end.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            match self.events_of_site.recv_timeout(left.min(GLANCE)) {
                Ok(Event::Exited(exited)) => {
                    running.retain(|n| *n != exited.node);
                    self.schedule.stopped(exited.node, Some(exited.exit));
                }
                Ok(Event::CommandEnded(..) | Event::FromOutside { .. }) => {}
                Ok(Event::Lost(_)) => break,
                Err(_) if left.is_zero() => break,
                Err(_) => {}
            }
        }
        for node in running {
            self.schedule.stopped(node, None);
        }
    }
}
