//! Sequential reads, and the pages that are read ahead of them.

use std::collections::VecDeque;

use scale::VirtualInstant;

use crate::request::Span;

/// So many sequential readers are followed at a time: an estimate.
const READERS: usize = 8;

/// A sequential reader.
#[derive(Debug)]
pub(crate) struct Run {
    /// Where its next read begins.
    next: u64,
    /// Up to where pages were read.
    pub read_to: u64,
    /// Pages that were read and not asked for: where each ends, and when it was with the controller.
    pub pages: VecDeque<(u64, VirtualInstant)>,
}

/// All readers, the one that read least recently first.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    runs: VecDeque<Run>,
}

impl Ahead {
    /// The reader that a read goes on for. If there is none, it may become one; pages are of `page` bytes.
    pub fn follow(&mut self, span: Span, page: u64) -> Option<Run> {
        if let Some(at) = self.runs.iter().position(|run| run.next == span.begin) {
            return self.runs.remove(at);
        }
        if self.runs.len() == READERS {
            self.runs.pop_front();
        }
        // A page that is read in part is not kept yet, but the next part has it read again.
        self.runs.push_back(Run { next: span.end, read_to: span.end / page * page, pages: VecDeque::new() });
        None
    }

    /// Keeps a reader that has read to `end`; when the last of that was with the controller.
    pub fn put_back(&mut self, mut run: Run, end: u64, page: u64) -> VirtualInstant {
        run.next = end;
        let mut ready = VirtualInstant::ZERO;
        while let Some((behind, at)) = run.pages.front().copied().filter(|(behind, _)| behind - page < end) {
            ready = ready.max(at);
            if behind > end {
                // The rest of it will be asked for.
                break;
            }
            run.pages.pop_front();
        }
        self.runs.push_back(run);
        ready
    }

    /// Forgets what was read ahead of a range that is being written.
    pub fn forget(&mut self, span: Span) {
        self.runs.retain(|run| run.read_to <= span.begin || span.end <= run.next);
    }
}
