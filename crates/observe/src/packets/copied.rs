//! Packets that links copied: of those that are alike the first to come is no duplicate, whichever that is.

use std::collections::VecDeque;

/// How many are remembered of each end of a flow: those that may still be on their way.
const MOST: usize = 32;

/// Numbers of packets that were copied, the newest last, and whether one of each has come.
#[derive(Debug, Default)]
pub(super) struct Copied(VecDeque<(u32, bool)>);

impl Copied {
    /// A link copied the packet of this number; perhaps not the first link.
    pub fn add(&mut self, number: u32) {
        if self.0.iter().any(|(known, _)| *known == number) {
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((number, false));
    }

    /// One of this number comes: whether another had come before. Of those that are forgotten it is the copy that comes
    /// later.
    pub fn has_come(&mut self, number: u32, is_copy: bool) -> bool {
        match self.0.iter_mut().find(|(known, _)| *known == number) {
            Some((_, has_come)) => std::mem::replace(has_come, true),
            None => is_copy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_those_that_are_alike_is_none_of_the_duplicates() {
        let mut copied = Copied::default();
        assert!(!copied.has_come(1, false) && copied.has_come(1, true), "nobody said so");
        copied.add(7);
        copied.add(7);
        assert_eq!([true, false, true].map(|is_copy| copied.has_come(7, is_copy)), [false, true, true]);
        (100..100 + MOST as u32).for_each(|number| copied.add(number));
        assert!(copied.has_come(7, true) && !copied.has_come(7, false), "it is forgotten");
        assert!(!copied.has_come(100, true) && copied.has_come(100, false));
        assert_eq!(copied.0.len(), MOST);
    }
}
