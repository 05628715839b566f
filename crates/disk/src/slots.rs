//! How many requests a disk has taken at a time; others wait.

use std::collections::VecDeque;

use crate::request::Request;

/// The requests that a disk has taken and not completed, which are as many as its queue is deep at most, and those that
/// it has not taken.
#[derive(Debug)]
pub(crate) struct Slots {
    depth: u32,
    taken: u32,
    waiting: VecDeque<Request>,
}

impl Slots {
    pub fn new(depth: u32) -> Slots {
        Slots { depth, taken: 0, waiting: VecDeque::new() }
    }

    /// A request arrives. Gives it back if the disk is to take it now.
    pub fn arrive(&mut self, request: Request) -> Option<Request> {
        if self.taken < self.depth {
            self.taken += 1;
            return Some(request);
        }
        self.waiting.push_back(request);
        None
    }

    /// One that was taken is complete. The request that the disk takes in its place, if one waits.
    pub fn complete(&mut self) -> Option<Request> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.taken -= 1;
        }
        next
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.taken = 0;
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;

    #[test]
    fn as_many_are_taken_as_the_queue_is_deep_and_the_others_in_their_order() {
        let request = |id| Request { id, op: Op::Flush, offset: 0, length: 0 };
        let mut slots = Slots::new(2);
        let taken: Vec<bool> = (0..4).map(|id| slots.arrive(request(id)).is_some()).collect();
        assert_eq!(taken, [true, true, false, false]);
        let next: Vec<_> = (0..4).map(|_| slots.complete().map(|r| r.id)).collect();
        assert_eq!(next, [Some(2), Some(3), None, None]);
        assert!(slots.arrive(request(4)).is_some() && slots.arrive(request(5)).is_some());
        assert!(slots.arrive(request(6)).is_none());
        slots.clear();
        assert_eq!(slots.arrive(request(7)).map(|r| r.id), Some(7), "nothing is taken, and nothing waits");
    }
}
